"""A plane cleaned by sparse coding of all its patches in an orthonormal basis.

In an orthonormal basis, pursuit down to a residual is thresholding: the coefficients kept are those
above a threshold. That is cheap enough to do at many offsets, and averages of overlapping patches
show no patch borders.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cscodec.errors import InvalidInputError

Float32Array = npt.NDArray[np.float32]


def shrinkage_average(
    plane: Float32Array, basis: Float32Array, threshold: float, stride: int = 2
) -> Float32Array:
    """Threshold overlapping patches in an orthonormal basis and average the results.

    Parameters
    ----------
    plane : ndarray, (H, W) float32, C-contiguous
        H and W are multiples of 8.
    basis : ndarray, (64, 64) float32
        Orthonormal rows (or zeros), the first of them constant.
    threshold : float
        Coefficients of smaller magnitude become zero; the mean is always kept.
    stride : {1, 2, 4, 8}
        Distance of neighbouring patches.

    Returns
    -------
    ndarray, (H, W) float32
        At every pixel the mean of all estimates, weighted by 1 / (number of coefficients kept).

    Raises
    ------
    InvalidInputError
        If a size or the stride is not allowed.
    """
    from cscodec.sensing import _shrinkage

    height, width = plane.shape
    if height % 8 or width % 8 or plane.size == 0 or stride not in (1, 2, 4, 8):
        raise InvalidInputError(
            f"plane has shape {plane.shape}, stride is {stride}; allowed are multiples of 8, and "
            "1, 2, 4 or 8"
        )
    total = np.zeros((height, width), np.float32)
    shares = np.empty(((height - 8) // stride + 1, (width - 8) // stride + 1), np.float32)
    _shrinkage.add_shrunk(
        plane,
        np.ascontiguousarray(basis.T),
        np.ascontiguousarray(basis),
        threshold,
        stride,
        np.empty((_shrinkage.GROUP, 64), np.float32),
        np.empty((_shrinkage.GROUP, 64), np.float32),
        shares,
        total,
    )
    _shrinkage.divide_by_shares(total, shares, stride, np.empty(shares.shape[1], np.float32))
    return total
