"""How patches are lapped over each other, learned from pictures.

Found like the basis that measurements are quantised in: by alternating between thresholding what
lapped patches measure and the orthogonal matrix that fits the thresholded planes best (Procrustes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cscodec.arrays import Array, Float32Array
from cscodec.layout import PATCH_SIZE
from cscodec.learning.basis import nearest_orthogonal
from cscodec.model import System
from cscodec.transform.lapping import HALF_PATCH
from cscodec.transform.measure import analyse_plane, synthesise_plane

_THRESHOLD = 20.0  # of measurements: a quantisation step of the middle
_ROUNDS = 40  # a round turns borders a little


def learned_lapping(planes: Sequence[Float32Array], system: System) -> Float32Array:
    """Return the lapping with which planes are sparse in a system's basis.

    Parameters
    ----------
    planes : sequence of ndarray, (H, W) float32
        Sides are multiples of 8.
    system : System

    Returns
    -------
    ndarray, (4, 4) float32
    """
    lapping = np.eye(HALF_PATCH)
    for _ in range(_ROUNDS):
        fit: Array = np.zeros((HALF_PATCH, HALF_PATCH))
        for plane in planes:
            measured = analyse_plane(plane, system.analysis, lapping.astype(np.float32))
            kept = np.where(np.abs(measured) > _THRESHOLD, measured, 0)
            kept[..., 0] = measured[..., 0]
            lapped, aim = (
                synthesise_plane(numbers, system.synthesis) for numbers in (measured, kept)
            )
            fit += _differences(aim).T @ _differences(lapped)
            fit += _differences(aim.T).T @ _differences(lapped.T)
        lapping = nearest_orthogonal(fit) @ lapping
    return lapping.astype(np.float32)


def _differences(plane: Float32Array) -> Array:
    """Differences across borders between columns of patches, those at distance 4 first: (n, 4)."""
    around = plane[:, HALF_PATCH:-HALF_PATCH].reshape(-1, PATCH_SIZE).astype(np.float64)
    return np.asarray(around[:, :HALF_PATCH] - around[:, : HALF_PATCH - 1 : -1])
