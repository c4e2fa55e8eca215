"""Learned matrices made a system, whatever the rank of the dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.layout import PATCH_PIXELS
from cscodec.model import System


def make_system(sensing_matrix: npt.NDArray[Any], dictionary: npt.NDArray[Any]) -> System:
    """Make a system of Φ and Ψ, zero rows of Φ replaced by useful ones.

    A dictionary of rank below M (few atoms, or little variety in the pictures) leaves rows of
    Theorem 1's Φ at zero: its case II. Any rows orthogonal to Ψ's range give the same ΦΨ; unit
    rows that are orthogonal to the others, too, and have zero mean let linear decoding and the
    codec use the measurements that they were promised.

    Parameters
    ----------
    sensing_matrix : ndarray, (M, 64)
    dictionary : ndarray, (64, L)

    Raises
    ------
    InvalidModelError
        If the matrices cannot make a system.
    """
    phi = np.array(sensing_matrix, np.float64)
    empty = ~phi.any(axis=1)
    if empty.any():
        taken = np.vstack([np.ones(PATCH_PIXELS), phi[~empty]])
        taken /= np.linalg.norm(taken, axis=1, keepdims=True)
        directions = np.linalg.svd(taken)[2][len(taken) :]
        phi[empty] = directions[: empty.sum()]
    return System.from_matrices(phi, dictionary)
