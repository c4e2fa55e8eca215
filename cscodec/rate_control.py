"""The step that meets a target: bisection over the steps that a file can store."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from cscodec.bitstream.steps import MIN_STEP, STEP_UNIT
from cscodec.errors import InvalidInputError

FINEST_CODE = round(MIN_STEP * STEP_UNIT)
COARSEST_CODE = round(255 * STEP_UNIT)


@dataclass(frozen=True)
class Target:
    """What a file should reach: exactly one of the fields is set.

    Attributes
    ----------
    bpp : float or None
        Most bits per pixel of the whole file.
    size : int or None
        Most bytes of the whole file.
    psnr_db : float or None
        Least PSNR of the restored picture.
    """

    bpp: float | None = None
    size: int | None = None
    psnr_db: float | None = None

    @classmethod
    def of(cls, bpp: float | None, size: int | None, psnr_db: float | None) -> Target | None:
        """Return the target that is given, or None.

        Raises
        ------
        InvalidInputError
            If there are several, or one is not positive.
        """
        given = [value for value in (bpp, size, psnr_db) if value is not None]
        if not given:
            return None
        if len(given) > 1:
            raise InvalidInputError("give only one of target_bpp, target_size and target_psnr")
        if not 0 < given[0] < float("inf"):
            raise InvalidInputError(f"the target is {given[0]:g}; it must be positive and finite")
        return cls(bpp, size, psnr_db)


def step_for_target(
    target: Target,
    file_at: Callable[[int], bytes],
    psnr_of: Callable[[bytes], float],
    *,
    num_pixels: int,
) -> bytes:
    """Return the file at the step that just meets the target.

    Parameters
    ----------
    target : Target
    file_at : callable
        Step code (1/64 of a sample) to file.
    psnr_of : callable
        File to PSNR in dB.
    num_pixels : int

    Raises
    ------
    InvalidInputError
        If even the last step misses the target; the message names the reachable range.
    """
    files: dict[int, bytes] = {}

    def file(code: int) -> bytes:
        if code not in files:
            files.clear()  # one at a time is enough: bisection never returns to an older one
            files[code] = file_at(code)
        return files[code]

    if target.psnr_db is not None:
        wanted, unit = target.psnr_db, "dB"

        def value(code: int) -> float:
            return psnr_of(file(code))

        def fits(reached: float) -> bool:
            return reached >= wanted
    else:
        per_byte = 8 / num_pixels if target.bpp is not None else 1.0
        wanted = target.bpp if target.bpp is not None else float(target.size or 0)
        unit = "bits per pixel" if target.bpp is not None else "bytes"

        def value(code: int) -> float:
            return len(file(code)) * per_byte

        def fits(reached: float) -> bool:
            return reached <= wanted

    # "Safe" is the end where the target is met most easily.
    safe, far = (
        (FINEST_CODE, COARSEST_CODE) if target.psnr_db is not None else (COARSEST_CODE, FINEST_CODE)
    )
    far_value = value(far)
    if fits(far_value):
        return file(far)
    safe_value = value(safe)
    if not fits(safe_value):
        low, high = sorted((safe_value, far_value))
        raise InvalidInputError(
            f"the target of {wanted:g} {unit} cannot be reached: this picture allows "
            f"{low:.4g} to {high:.4g} {unit} "
            f"(steps {MIN_STEP:g} to {COARSEST_CODE / STEP_UNIT:g})"
        )
    while abs(safe - far) > 1:
        middle = _between(safe, far)
        if fits(value(middle)):
            safe = middle
        else:
            far = middle
    return file(safe)


def _between(a: int, b: int) -> int:
    """Return a code between two that are at least 2 apart, near their geometric mean."""
    low, high = min(a, b), max(a, b)
    return min(max(round(math.sqrt(low * high)), low + 1), high - 1)
