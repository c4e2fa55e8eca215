"""The step that meets a target: bisection over the steps that a file can store.

Size and PSNR nearly always fall as the step grows, but not strictly: the step that is found meets
the target, and the next one does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cscodec.bitstream.steps import MIN_STEP, STEP_UNIT
from cscodec.errors import InvalidInputError

FINEST_CODE = round(MIN_STEP * STEP_UNIT)
COARSEST_CODE = round(255 * STEP_UNIT)


def file_for_target(
    file_at: Callable[[int], bytes],
    value_of: Callable[[bytes], float],
    wanted: float,
    *,
    unit: str,
    at_least: bool = False,
    note: str = "",
) -> bytes:
    """Return a file that meets a target, where the file of the next step does not.

    Parameters
    ----------
    file_at : callable
        Step code (1/64 of a sample) to file.
    value_of : callable
        File to what is aimed at.
    wanted : float
        Most that it may be; the next step is finer. With ``at_least`` the least, as of PSNR, and
        the next step is coarser.
    unit, note : str
        For messages: after numbers, and at the end.

    Raises
    ------
    InvalidInputError
        If no step meets the target; the message names the reachable range.
    """
    # From the step that meets it most easily to the one that does least: bisection for the last
    # that does. An end is tried only when it is reached, as files of the finest steps are dear.
    codes = range(FINEST_CODE, COARSEST_CODE + 1)
    codes = codes if at_least else codes[::-1]
    met, missed = -1, len(codes)
    best = b""
    while missed - met > 1:
        if met < 0 and missed < len(codes):
            at = 0  # whether it can be met at all
        else:
            ends = codes[max(met, 0)], codes[min(missed, len(codes) - 1)]
            at = codes.index(round(math.sqrt(ends[0] * ends[1])))
            at = min(max(at, met + 1), missed - 1)
        data = file_at(codes[at])
        value = value_of(data)
        if value >= wanted if at_least else value <= wanted:
            met, best = at, data
        elif at > 0:
            missed = at
        else:
            low, high = sorted((value, value_of(file_at(codes[-1]))))
            raise InvalidInputError(
                f"the target of {_text(wanted)} {unit} cannot be reached: this picture allows "
                f"{_text(low)} to {_text(high)} {unit} "
                f"(steps {MIN_STEP:g} to {COARSEST_CODE / STEP_UNIT:g}){note}"
            )
    return best


def _text(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"
