"""Patches lapped over each other: what joins them before they are measured.

A patch measured by itself knows nothing of the next, and coarse quantisation shows its borders. So,
before a plane is cut into patches, the four samples before every border and the four after it are
turned: their sums at equal distance from the border stay as they are, their differences are
multiplied with an orthogonal matrix V. A border between smooth patches becomes a jump, which the
patches on both sides need no measurement for; turning back makes of quantised patches a plane that
runs smoothly across them (the time-domain lapped transform of Tran, Liang and Tu, 2003, but with V
learned and orthogonal). All of it is orthonormal: errors stay as large as they were.
"""

from __future__ import annotations

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.kernels.lapping import turn_borders
from cscodec.layout import PATCH_SIZE

HALF_PATCH = PATCH_SIZE // 2  #: samples on each side of a border that are turned


def lap(plane: Float32Array, lapping: Float32Array | None) -> None:
    """Turn the borders of patches, in place; without a lapping, leave the plane as it is.

    Parameters
    ----------
    plane : ndarray, (H, W) float32, C-contiguous
        H and W are multiples of 8.
    lapping : ndarray, (4, 4) float32, optional
        V, orthogonal. It sees differences at distances of 4 to 1 samples from the border.
    """
    if lapping is not None:
        turn(plane, lapping)


def unlap(plane: Float32Array, lapping: Float32Array | None) -> None:
    """Inverse of :func:`lap`."""
    if lapping is not None:
        turn(plane, lapping.T)


def turn(plane: Float32Array, matrix: Float32Array) -> None:
    """Multiply differences across the borders of patches with a matrix, in place.

    Parameters
    ----------
    plane : ndarray, (H, W) float32, C-contiguous
        H and W are multiples of 2n.
    matrix : ndarray, (n, n) float32, n <= 4
        For patches of 2n samples each way.
    """
    # Differences d become d + 2c if c is added before the border and subtracted after it.
    half = len(matrix)
    change = np.zeros((HALF_PATCH, half), np.float32)
    change[:half] = (matrix.T - np.eye(half, dtype=np.float32)) / np.float32(2)
    turn_borders(plane, change, np.zeros((HALF_PATCH, plane.shape[1]), np.float32))
