"""From measurements back to patches and planes: the decoders for unquantised measurements.

``omp`` is the paper's decoder. ``linear`` is the pseudo-inverse of Φ, which sees no sparsity and
yet loses less. ``consistent`` is the former moved to agree with the measurements. They treat every
patch alone; :func:`refine_unquantised` looks at the whole plane: it alternates between what similar
patches say, wherever they lie, and what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.choices import PATCH_DECODERS
from cscodec.errors import InvalidInputError
from cscodec.layout import PATCH_SIZE
from cscodec.sensing.averages import similar_average, sparse_average
from cscodec.sensing.pursuit import omp
from cscodec.transform.patches import assemble_patches, extract_patches, patch_grid, remove_mean
from cscodec.transform.product import multiplied

__all__ = [
    "Refinement",
    "SystemLike",
    "decode_measurements",
    "measure_plane",
    "refine_unquantised",
    "sparse_average",
]

#: Noise that the guided pass assumes, as a share of the threshold of the unguided one.
_GUIDED_SHARE = 0.15
#: How far to go along a round's change: past its end, as the way back to the measurements is long.
_OVERSTEP = 1.3
#: How far to go on first in the direction of the round before: stripes and edges grow slowly.
_MOMENTUM = 0.7
#: Rounds in the end that undo what haste has made of grain, which resembles nothing: the threshold
#: falls again, from so many times the lowest, without momentum.
_SETTLING_ROUNDS = 3
_SETTLING_RISE = 4.0


@dataclass(frozen=True)
class Refinement:
    """How long and how strongly :func:`refine_unquantised` cleans.

    Attributes
    ----------
    rounds : int
        At least 0; with 0, the linear decoder's plane is returned.
    stride : int
        Distance of neighbouring patches that groups are made for, 1..8; in the last three rounds
        one less, if it can be.
    group_size : int
        Patches of a group: 2, 4, 8, 16, 32 or 64.
    highest_threshold, lowest_threshold : float
        Thresholds, > 0, that the rounds but the last three fall from and to. The last three fall
        from four times the latter.

    Raises
    ------
    InvalidInputError
        If rounds or thresholds are out of range.
    """

    rounds: int = 20
    stride: int = 3
    group_size: int = 8
    highest_threshold: float = 200.0
    lowest_threshold: float = 10.0

    def __post_init__(self) -> None:
        if self.rounds < 0 or not (self.highest_threshold > 0 and self.lowest_threshold > 0):
            raise InvalidInputError(
                f"rounds is {self.rounds}, thresholds are {self.highest_threshold} and "
                f"{self.lowest_threshold}; allowed are values >= 0 and > 0"
            )

    def thresholds(self) -> tuple[list[float], list[float]]:
        """Return the falling thresholds of the rounds but the last three, and of these."""
        num_settling = min(self.rounds, _SETTLING_ROUNDS)
        high, low = self.highest_threshold, self.lowest_threshold
        falling = np.geomspace(high, low, self.rounds - num_settling)
        settling = np.geomspace(_SETTLING_RISE * low, low, num_settling)
        return falling.tolist(), settling.tolist()


class SystemLike(Protocol):
    """Anything with a sensing matrix Φ (M, 64) and a dictionary Ψ (64, L)."""

    @property
    def sensing_matrix(self) -> Float32Array: ...

    @property
    def dictionary(self) -> Float32Array: ...


def measure_plane(plane: npt.ArrayLike, system: SystemLike) -> Float32Array:
    """Take the measurements of every 8x8 patch of a plane.

    Parameters
    ----------
    plane : array_like, (H, W)
        Grey levels, 0..255: restorations count errors in them.
    system : SystemLike

    Returns
    -------
    ndarray, (rows, columns, 1 + M) float32
        Per patch its mean, then y = Φx of its zero-mean part x.
    """
    pixels = np.asarray(plane)
    patches, means = remove_mean(extract_patches(pixels))
    measurements = multiplied(patches, np.ascontiguousarray(system.sensing_matrix.T, np.float32))
    rows, columns = patch_grid((pixels.shape[0], pixels.shape[1]))
    return np.column_stack([means, measurements]).reshape(rows, columns, -1)


def _finite(measurements: npt.ArrayLike) -> Float32Array:
    """Return measurements as float32.

    Raises
    ------
    InvalidInputError
        If they are complex, or hold NaN or infinity.
    """
    if np.iscomplexobj(measurements):
        raise InvalidInputError("measurements are complex; allowed are real numbers")
    values = np.asarray(measurements, np.float32)
    if not np.isfinite(values).all():
        raise InvalidInputError("measurements hold NaN or infinity; allowed are finite numbers")
    return values


def checked_measurements(
    measurements: npt.ArrayLike, shape: tuple[int, int], most: int
) -> Float32Array:
    """Return the measurements of a plane of ``shape``, (rows, columns, 1 + m) float32.

    Raises
    ------
    InvalidInputError
        If they have another shape, m is not in 1..``most``, or values are not finite or not real.
    """
    values = _finite(measurements)
    grid = patch_grid(shape)
    num_measurements = values.shape[-1] - 1 if values.ndim else 0
    if values.shape[:-1] != grid or not 1 <= num_measurements <= most:
        raise InvalidInputError(
            f"measurements have shape {values.shape}; a plane of {shape[0]}x{shape[1]} pixels "
            f"needs {(*grid, '1 + m')} with m in 1..{most}"
        )
    return values


def decode_measurements(
    measurements: npt.ArrayLike,
    system: SystemLike,
    decoder: str = "omp",
    sparsity: int = 4,
) -> Float32Array:
    """Restore zero-mean patches from their measurements, each by itself.

    Parameters
    ----------
    measurements : array_like, (n, m), 1 <= m <= M
        y = Φx. With fewer than M, the first rows of Φ are used.
    system : SystemLike
    decoder : {"omp", "linear", "consistent"}
        ``omp``: Ψθ with θ of at most ``sparsity`` atoms fitted to y through ΦΨ (eq. 2).
        ``linear``: Φ⁺y. ``consistent``: x̂ + Φ⁺(y - Φx̂) for the x̂ of ``omp``.
    sparsity : int
        K, at least 1.

    Returns
    -------
    ndarray, (n, 64) float32

    Raises
    ------
    InvalidInputError
        If the decoder is unknown, shapes do not fit or values are not finite.
    """
    if decoder not in PATCH_DECODERS:
        raise InvalidInputError(f"decoder is {decoder!r}; allowed are {', '.join(PATCH_DECODERS)}")
    rows = np.ascontiguousarray(_finite(measurements))
    if rows.ndim != 2 or not 1 <= rows.shape[1] <= len(system.sensing_matrix):
        raise InvalidInputError(
            f"measurements have shape {rows.shape}; allowed is (n, m) with m in "
            f"1..{len(system.sensing_matrix)}"
        )
    phi = np.asarray(system.sensing_matrix, np.float32)[: rows.shape[1]]
    inverse = _pseudo_inverse(phi)
    if decoder == "linear":
        return multiplied(rows, inverse)
    dictionary = np.ascontiguousarray(system.dictionary, np.float32)
    codes = omp(rows, multiplied(np.ascontiguousarray(phi), dictionary), sparsity=sparsity)
    patches = codes.reconstruct(dictionary)
    if decoder == "consistent":
        patches += multiplied(rows - multiplied(patches, np.ascontiguousarray(phi.T)), inverse)
    return patches


def refine_unquantised(
    measurements: npt.ArrayLike,
    system: SystemLike,
    shape: tuple[int, int],
    refinement: Refinement | None = None,
    *,
    workers: int = 1,
) -> Float32Array:
    """Restore a plane from its measurements with what similar patches have in common.

    Starts from the linear decoder. Every round goes on a little as the one before it did; cleans
    the plane with :func:`similar_average`, twice, the second time guided by the first; goes past
    the result; and adds Φ⁺(y - Φx̂) to every patch, so that the measurements hold again exactly.
    The threshold falls geometrically from round to round. In the last three it falls once more,
    from less high, and none of them goes on by itself.

    Parameters
    ----------
    measurements : array_like, (rows, columns, 1 + m), 1 <= m <= M
        As :func:`measure_plane` gives them.
    system : SystemLike
    shape : (int, int)
        Height and width of the plane.
    refinement : Refinement, optional
        Rounds, groups and thresholds.
    workers : int
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray, (H, W) float32
        Neither rounded nor clipped.

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a parameter is out of range.
    """
    values = checked_measurements(measurements, shape, len(system.sensing_matrix))
    grid, num_measurements = patch_grid(shape), values.shape[-1] - 1
    chosen = refinement or Refinement()
    phi = np.ascontiguousarray(system.sensing_matrix[:num_measurements], np.float32)
    sensing = np.ascontiguousarray(phi.T)
    inverse = _pseudo_inverse(phi)
    values = values.reshape(-1, 1 + num_measurements)
    means, target = values[:, :1], np.ascontiguousarray(values[:, 1:])
    padded_shape = (grid[0] * PATCH_SIZE, grid[1] * PATCH_SIZE)
    plane = assemble_patches(multiplied(target, inverse) + means, padded_shape)

    def improved(ahead: Float32Array, threshold: float, stride: int) -> Float32Array:
        guide = similar_average(ahead, threshold, stride, chosen.group_size, workers=workers)
        level = _GUIDED_SHARE * threshold
        estimate = similar_average(ahead, level, stride, chosen.group_size, guide, workers)
        estimate = ahead + _OVERSTEP * (estimate - ahead)
        patches, _ = remove_mean(extract_patches(estimate))
        patches += multiplied(target - multiplied(patches, sensing), inverse)
        return assemble_patches(patches + means, padded_shape)

    falling, settling = chosen.thresholds()
    earlier = plane
    for threshold in falling:
        ahead = plane + _MOMENTUM * (plane - earlier)
        earlier, plane = plane, improved(ahead, threshold, chosen.stride)
    for threshold in settling:
        plane = improved(plane, threshold, max(1, chosen.stride - 1))
    return np.ascontiguousarray(plane[: shape[0], : shape[1]])


def _pseudo_inverse(sensing_matrix: Float32Array) -> Float32Array:
    """Return (Φ⁺)ᵀ, (M, 64): patches are ``measurements @ it``."""
    inverse = np.linalg.pinv(sensing_matrix.astype(np.float64))
    return np.ascontiguousarray(inverse.T, np.float32)
