"""Products of matrices that have the same bits on every processor."""

from __future__ import annotations

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.errors import InvalidInputError
from cscodec.kernels.multiply import multiply_matrices


def multiplied(left: Float32Array, right: Float32Array) -> Float32Array:
    """Return ``left @ right`` in float32, the same bits on every CPU (BLAS promises no such thing).

    Parameters
    ----------
    left : ndarray, (n, N) float32, C-contiguous
    right : ndarray, (N, L) float32, C-contiguous

    Raises
    ------
    InvalidInputError
        If the shapes do not fit.
    """
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise InvalidInputError(
            f"matrices of shapes {left.shape} and {right.shape} have no product"
        )
    product = np.empty((len(left), right.shape[1]), np.float32)
    multiply_matrices(left, right, product)
    return product
