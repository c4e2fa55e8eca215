"""What batch methods start from: checked patches, checked sizes, a DCT dictionary, a random Φ.

Batch methods sweep the same array of patches again and again, so whatever could poison a sweep
(NaN, constant or repeated patches) is removed once, here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array, Float64Array
from cscodec.errors import InvalidInputError
from cscodec.layout import MAX_ATOMS, MAX_MEASUREMENTS, PATCH_PIXELS, PATCH_SIZE

CHUNK_PATCHES = 4096  #: patches treated at a time where more would need much memory

# A patch whose pixels all differ from its mean by less than this (in gray levels) is constant.
FLAT_LEVEL = 1e-3


@dataclass(frozen=True)
class Sizes:
    """How large a system is, and how many atoms a patch may have: M, L and K."""

    num_measurements: int = 20
    num_atoms: int = 256
    sparsity: int = 4


def usable_patches(patches: npt.ArrayLike) -> tuple[Float32Array, int]:
    """Drop patches that teach nothing: not finite, constant, or equal to an earlier one.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)
        Patches as rows, without their mean (what is left of it is removed).

    Returns
    -------
    patches : ndarray, (num_usable, 64) float32
        In the order given.
    num_skipped : int

    Raises
    ------
    InvalidInputError
        If the array has another shape or nothing usable remains.
    """
    rows = np.ascontiguousarray(patches, np.float32)
    if rows.ndim != 2 or rows.shape[1] != PATCH_PIXELS:
        raise InvalidInputError(
            f"patches have shape {rows.shape}; training needs (num_patches, {PATCH_PIXELS})"
        )
    usable = rows[np.isfinite(rows).all(axis=1)]
    usable = usable - usable.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
    usable = usable[np.abs(usable).max(axis=1, initial=0.0) > FLAT_LEVEL]
    # Comparing rows as opaque bytes sorts once instead of once per column.
    keys = np.ascontiguousarray(usable).view(f"V{usable.itemsize * PATCH_PIXELS}").ravel()
    first = np.unique(keys, return_index=True)[1]
    usable = usable[np.sort(first)]
    if not len(usable):
        raise InvalidInputError(
            f"none of the {len(rows)} patches is finite and not constant; "
            "train on pictures with some texture"
        )
    return usable, len(rows) - len(usable)


def check_sizes(patches: Float32Array, sizes: Sizes) -> None:
    """Refuse sizes that cannot work, before any training.

    Raises
    ------
    InvalidInputError
        With the name, the value found and the allowed range.
    """
    ranges = {
        "measurements": (sizes.num_measurements, 1, MAX_MEASUREMENTS),
        "atoms": (sizes.num_atoms, sizes.num_measurements, MAX_ATOMS),
        "sparsity": (sizes.sparsity, 1, sizes.num_measurements),
        "number of usable patches": (len(patches), sizes.num_atoms, None),
    }
    for name, (value, low, high) in ranges.items():
        if value < low or (high is not None and value > high):
            allowed = f"{low}..{high}" if high is not None else f"at least {low}"
            raise InvalidInputError(f"{name} is {value}; allowed is {allowed}")
    variances = np.linalg.eigvalsh(scatter_matrix(patches))
    rank = int(np.sum(variances > 1e-10 * variances[-1]))
    if rank < sizes.num_measurements:
        raise InvalidInputError(
            f"the patches span only {rank} dimensions, too few for {sizes.num_measurements} "
            "measurements; train on more varied pictures"
        )


def scatter_matrix(rows: npt.NDArray[np.floating]) -> Float64Array:
    """Return Σ r rᵀ over the rows, (64, 64) float64.

    Summed in float64, which float32 rows are turned into piece by piece: in float32 the weakest
    directions would drown in rounding.
    """
    total: Float64Array = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), CHUNK_PATCHES):
        chunk = rows[start : start + CHUNK_PATCHES].astype(np.float64)
        total += chunk.T @ chunk
    return total


def dct_dictionary(num_atoms: int) -> Float64Array:
    """Overcomplete two-dimensional DCT without its constant atom.

    The frequencies on each axis are spaced closer than the 8-point DCT's where more than 63 atoms
    are asked for; the lowest are kept. Every non-constant factor loses its mean, so all atoms have
    zero mean, like the patches.

    Returns
    -------
    ndarray, (64, num_atoms) float64
        Columns of unit norm, by rising frequency.
    """
    per_axis = max(PATCH_SIZE, math.isqrt(num_atoms) + 1)
    frequencies = np.arange(per_axis) * (PATCH_SIZE / per_axis)
    waves = np.cos(np.pi / PATCH_SIZE * np.outer(np.arange(PATCH_SIZE) + 0.5, frequencies))
    waves[:, 1:] -= waves[:, 1:].mean(axis=0)
    waves /= np.linalg.norm(waves, axis=0)
    order = np.argsort(np.add.outer(frequencies, frequencies).ravel(), kind="stable")
    chosen = order[1 : num_atoms + 1]  # the first is the constant
    dictionary: Float64Array = np.kron(waves, waves).astype(np.float64)[:, chosen]
    return dictionary


def gaussian_sensing_matrix(num_measurements: int, rng: np.random.Generator) -> Float64Array:
    """Draw Φ with independent N(0, 1/M) entries, then take the mean out of every row.

    The mean of a row multiplies the mean of a patch, which is zero: measurements stay the same.

    Returns
    -------
    ndarray, (num_measurements, 64) float64
    """
    draws = rng.standard_normal((num_measurements, PATCH_PIXELS)) / math.sqrt(num_measurements)
    matrix: Float64Array = draws - draws.mean(axis=1, keepdims=True)
    return matrix
