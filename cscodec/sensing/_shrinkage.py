"""Kernels of :func:`cscodec.sensing.shrinkage.shrinkage_average`: shrink and average patches.

Like all kernels here they add in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

import numpy as np

from cscodec._intrinsics import count_bits
from cscodec._jit import Float32, Float32Matrix, Float32Vector, Integer, kernel
from cscodec.sensing._estimates import add_estimate, mask_above
from cscodec.sensing._multiply import multiply

GROUP = 64  #: patches transformed together: patches and coefficients take 32 KiB


@kernel
def add_shrunk(
    plane: Float32Matrix,
    analysis: Float32Matrix,
    synthesis: Float32Matrix,
    threshold: Float32,
    stride: Integer,
    first_top: Integer,
    first_left: Integer,
    patches: Float32Matrix,
    coefficients: Float32Matrix,
    shares: Float32Matrix,
    total: Float32Matrix,
) -> None:
    """Add weighted estimates of all patches on a grid of ``stride`` to ``total``.

    The grid begins at ``first_top`` and ``first_left``. ``analysis`` has the basis in its columns,
    ``synthesis`` in its rows, the constant first. The weights, 1 / (1 + number of coefficients kept
    beside the mean), are left in ``shares``, one for each patch. ``patches`` and ``coefficients``
    (GROUP, 64) are room.
    """
    num_rows, num_columns = shares.shape
    for r in range(num_rows):
        top = first_top + r * stride
        for first in range(0, num_columns, GROUP):
            size = min(GROUP, num_columns - first)
            for n in range(size):
                left = first_left + (first + n) * stride
                for y in range(8):
                    for x in range(8):
                        patches[n, 8 * y + x] = plane[top + y, left + x]
            multiply(patches[:size], analysis, coefficients)
            for n in range(size):
                mask = mask_above(coefficients, n, threshold) & -2  # the mean is always kept
                share = np.float32(1) / np.float32(1 + count_bits(mask))
                shares[r, first + n] = share
                left = first_left + (first + n) * stride
                add_estimate(coefficients, n, mask, synthesis, share, total, top, left)


@kernel
def add_shares(
    shares: Float32Matrix,
    stride: Integer,
    first_top: Integer,
    first_left: Integer,
    column: Float32Vector,
    line: Float32Vector,
    weight: Float32Matrix,
) -> None:
    """Add to every pixel of ``weight`` the shares of the patches that cover it.

    ``column`` (columns of ``shares``,) and ``line`` (columns of ``weight``,) are room.
    """
    height, width = weight.shape
    num_rows, num_columns = shares.shape
    for x in range(width):
        line[x] = 0
    for top in range(first_top, height, stride):
        # Rows up to the next ``top`` are covered by the same patches.
        last_row = min((top - first_top) // stride, num_rows - 1)
        first_row = max(0, (top - first_top - 8) // stride + 1)
        for c in range(num_columns):
            column[c] = 0
        for r in range(first_row, last_row + 1):
            for c in range(num_columns):
                column[c] += shares[r, c]
        for left in range(first_left, width, stride):
            last = min((left - first_left) // stride, num_columns - 1)
            first = max(0, (left - first_left - 8) // stride + 1)
            share = np.float32(0)
            for c in range(first, last + 1):
                share += column[c]
            for x in range(left, min(left + stride, width)):
                line[x] = share
        for y in range(top, min(top + stride, height)):
            for x in range(width):
                weight[y, x] += line[x]
