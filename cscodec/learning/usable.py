"""The patches of a batch that can teach something: varied, finite, and each only once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.errors import InvalidInputError
from cscodec.layout import PATCH_PIXELS
from cscodec.transform.patches import remove_mean

#: Patches that vary more are treated like infinite ones: their squares would swamp all others.
_LARGEST_ENERGY = PATCH_PIXELS * 1e12
_HASH_KEYS = np.random.default_rng(64).integers(0, 2**63, PATCH_PIXELS // 2, np.uint64) * 2 + 1


def usable_patches(patches: npt.ArrayLike) -> Float32Array:
    """Remove the means, and the patches that are constant, repeated, not finite or vary by 1e6.

    Parameters
    ----------
    patches : array_like, (n, 64)

    Returns
    -------
    ndarray, (m, 64) float32, m <= n
        Zero-mean, in their order.

    Raises
    ------
    InvalidInputError
        If ``patches`` does not have shape (n, 64).
    """
    rows = np.ascontiguousarray(patches)  # as whose bits they are compared
    if rows.ndim != 2 or rows.shape[1] != PATCH_PIXELS:
        raise InvalidInputError(f"patches have shape {rows.shape}; allowed is (n, {PATCH_PIXELS})")
    with np.errstate(invalid="ignore", over="ignore"):  # what overflows is removed
        usable, _ = remove_mean(rows)
    varied = vary(usable)
    return distinct_rows(usable if varied.all() else usable[varied])


def vary(patches: Float32Array) -> npt.NDArray[np.bool_]:
    """Say which zero-mean patches, (n, 64), vary at all, and by less than 1e6."""
    with np.errstate(invalid="ignore", over="ignore"):
        energies = np.einsum("ij,ij->i", patches, patches)
    varied: npt.NDArray[np.bool_] = (energies > 0) & (energies < _LARGEST_ENERGY)  # not NaN
    return varied


def distinct_rows(rows: Float32Array) -> Float32Array:
    """Return the rows without repetitions, each where it comes first; an even number of columns."""
    # A sum of a row's bits times fixed odd numbers, modulo 2^64, is equal for equal rows and quick;
    # rows are compared in full only where two sums agree.
    sums = np.sort(rows.view(np.uint64) @ _HASH_KEYS)
    if not np.any(sums[1:] == sums[:-1]):
        return rows
    first = np.unique(rows, axis=0, return_index=True)[1]
    return rows[np.sort(first)]
