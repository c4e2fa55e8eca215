"""Code that kernels share: patches from few coefficients of an orthonormal basis.

Terms are added in the order of the coefficients: the same bits on every CPU.
"""

from __future__ import annotations

import numpy as np

from cscodec.kernels.declaration import Array, Float32, Integer, intrinsic


@intrinsic
def mask_above(numbers: Array, threshold: Float32) -> Integer:
    """Return the mask of those of 64 numbers whose magnitude is above a threshold."""
    mask = np.int64(0)
    for j in range(64):
        if abs(numbers[j]) > threshold:
            mask |= np.int64(1) << j
    return mask


@intrinsic
def add_estimate(
    coefficients: Array,
    mask: Integer,
    synthesis: Array,
    share: Float32,
    total: Array,
    top: Integer,
    left: Integer,
) -> None:
    """Add ``share`` times a patch to ``total``: its mean and the coefficients of the mask."""
    for i in range(64):
        value = coefficients[0] * np.float32(0.125)
        for j in range(64):
            if (mask >> j) & 1:
                value += coefficients[j] * synthesis[j, i]
        total[top + i // 8, left + i % 8] += share * value
