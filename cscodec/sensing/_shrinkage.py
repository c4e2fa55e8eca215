"""Kernel of :func:`cscodec.sensing.shrinkage.shrinkage_average`: shrink and average patches.

Like all kernels here it adds in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

import numpy as np

from cscodec._jit import Float32, Float32Matrix, Float32Vector, Integer, kernel
from cscodec.sensing._multiply import multiply

GROUP = 64  #: patches transformed together: patches and coefficients take 32 KiB


@kernel
def average_shrunk(
    plane: Float32Matrix,
    analysis: Float32Matrix,
    synthesis: Float32Matrix,
    threshold: Float32,
    stride: Integer,
    patches: Float32Matrix,
    coefficients: Float32Matrix,
    estimate: Float32Vector,
    total: Float32Matrix,
    weight: Float32Matrix,
) -> None:
    """Add weighted estimates of all patches on a grid of ``stride`` to ``total`` and ``weight``.

    ``analysis`` has the basis in its columns, ``synthesis`` in its rows, the constant first.
    ``patches``, ``coefficients`` (GROUP, 64) and ``estimate`` (64,) are room.
    """
    height, width = plane.shape
    per_row = (width - 8) // stride + 1
    for top in range(0, height - 7, stride):
        for first in range(0, per_row, GROUP):
            size = min(GROUP, per_row - first)
            for n in range(size):
                left = (first + n) * stride
                for y in range(8):
                    for x in range(8):
                        patches[n, 8 * y + x] = plane[top + y, left + x]
            multiply(patches[:size], analysis, coefficients)
            for n in range(size):
                left = (first + n) * stride
                kept = 1
                mean = coefficients[n, 0] * np.float32(0.125)
                for i in range(64):
                    estimate[i] = mean
                for j in range(1, 64):
                    value = coefficients[n, j]
                    if abs(value) > threshold:
                        kept += 1
                        for i in range(64):
                            estimate[i] += value * synthesis[j, i]
                share = np.float32(1) / np.float32(kept)
                for y in range(8):
                    for x in range(8):
                        total[top + y, left + x] += share * estimate[8 * y + x]
                        weight[top + y, left + x] += share
