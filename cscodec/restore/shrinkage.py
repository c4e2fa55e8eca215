"""A plane cleaned by sparse coding of overlapping patches in cosines.

In an orthonormal basis, pursuit down to a residual is thresholding: the coefficients kept are those
above a threshold. Cosines are cheap enough to do that at many offsets, and averages of overlapping
patches show no patch borders.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.errors import InvalidInputError
from cscodec.kernels.shrinkage import Lattice, add_shares, add_shrunk
from cscodec.sensing.averages import cosine_basis

# Rows in the order of a kernel's coefficients: x's frequency, then y's.
_BY_Y = cosine_basis().reshape(8, 8, 64)
_SYNTHESIS = np.ascontiguousarray(_BY_Y.swapaxes(0, 1)).reshape(64, 64)


def shrinkage_average(
    plane: Float32Array,
    threshold: float,
    stride: int = 2,
    starts: Sequence[tuple[int, int]] = ((0, 0),),
) -> Float32Array:
    """Threshold the cosines of overlapping patches and average the results.

    Parameters
    ----------
    plane : ndarray, (H, W) float32, C-contiguous
        H and W are multiples of 8.
    threshold : float
        Coefficients of smaller magnitude become zero; the mean is always kept.
    stride : {1, 2, 4, 8}
        Distance of neighbouring patches on a grid.
    starts : sequence of (int, int)
        Row and column of the first patch of every grid, below the stride; (0, 0) is one of them.

    Returns
    -------
    ndarray, (H, W) float32
        At every pixel the mean of all estimates, weighted by 1 / (number of coefficients kept)^1.5.

    Raises
    ------
    InvalidInputError
        If a size, the stride or a start is not allowed.
    """
    height, width = plane.shape
    if height % 8 or width % 8 or plane.size == 0 or stride not in (1, 2, 4, 8):
        raise InvalidInputError(
            f"plane has shape {plane.shape}, stride is {stride}; allowed are multiples of 8, and "
            "1, 2, 4 or 8"
        )
    if (0, 0) not in starts or not all(0 <= k < stride for start in starts for k in start):
        raise InvalidInputError(
            f"starts are {starts}; allowed are numbers from 0 to {stride - 1}; (0, 0) must be one"
        )
    columns, coefficients = np.empty((width, 8), np.float32), np.empty(64, np.float32)
    total, weight = np.zeros_like(plane), np.zeros_like(plane)
    for top, left in starts:
        # None where a small plane has no room for a patch off its corner.
        sizes = ((height - 8 - top) // stride + 1, (width - 8 - left) // stride + 1)
        shares = np.empty(sizes, np.float32)
        lattice = Lattice(stride, top, left)
        add_shrunk(plane, _SYNTHESIS, threshold, lattice, columns, coefficients, shares, total)
        room = np.empty(sizes[1], np.float32), np.empty(width, np.float32)
        add_shares(shares, lattice, *room, weight)
    total /= weight
    return total
