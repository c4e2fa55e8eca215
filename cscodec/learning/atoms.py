"""The dictionary's update in Algorithm 2: one pass over the atoms, exact or as it is printed.

The printed update of a column lacks a factor 1/γ (docs/algorithm.md). The exact minimiser is
(b_j - Ψa_j)/A_jj + ψ_j. What is printed is the same plus D Ψa_j/A_jj, where the symmetric
D = (1 - γ)(γI + ΦᵀΦ)⁻¹ΦᵀΦ draws an atom towards where it was, in the directions that Φ measures.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array, Float64Array
from cscodec.kernels import online as kernels
from cscodec.layout import PATCH_PIXELS

#: The damping of the exact update: none.
UNDAMPED: Float32Array = np.empty((0, PATCH_PIXELS), np.float32)


def damping_of_printed_update(
    sensing_matrix: npt.NDArray[np.floating], gamma: float
) -> Float32Array:
    """Return D of a Φ, (M, 64), and a γ: (64, 64) float32."""
    gram = np.asarray(sensing_matrix, np.float64).T @ sensing_matrix
    damping = (1 - gamma) * np.linalg.solve(gamma * np.eye(PATCH_PIXELS) + gram, gram)
    return np.ascontiguousarray((damping + damping.T) / 2, np.float32)


def update_atoms(
    atoms: Float32Array, a: Float64Array, b: Float64Array, damping: Float32Array = UNDAMPED
) -> None:
    """Make one pass of Algorithm 2 in place.

    Parameters
    ----------
    atoms : ndarray, (L, 64) float32
        Ψᵀ.
    a, b : ndarray, (L, L) and (L, 64) float64
        A and Bᵀ.
    damping : ndarray, (64, 64) float32, optional
        D of the printed update; without it the exact one is made.
    """
    num_atoms, num_pixels = atoms.shape
    shares = np.zeros((kernels.BLOCK, num_atoms), np.float32)
    room = np.zeros((2, kernels.BLOCK, num_pixels), np.float32)
    updated, product = np.empty((2, num_pixels), np.float32)
    kernels.update_atoms(atoms, a, b, shares, *room, updated, damping, product)
