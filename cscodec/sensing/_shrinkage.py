"""Kernel of :func:`cscodec.sensing.shrinkage.shrinkage_average`: shrink and average patches.

Like all kernels here it adds in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec._jit import kernel
from cscodec.sensing._multiply import multiply

Array = npt.NDArray[Any]

# Patches transformed together: patches and coefficients take 32 KiB.
_GROUP = 64


@kernel
def average_shrunk(
    plane: Array,
    analysis: Array,
    synthesis: Array,
    threshold: np.float32,
    stride: int,
    total: Array,
    weight: Array,
) -> None:
    """Add weighted estimates of all patches on a grid of ``stride`` to ``total`` and ``weight``.

    ``analysis`` has the basis in its columns, ``synthesis`` in its rows, the constant first.
    """
    height, width = plane.shape
    patches = np.empty((_GROUP, 64), np.float32)
    coefficients = np.empty((_GROUP, 64), np.float32)
    estimate = np.empty(64, np.float32)
    per_row = (width - 8) // stride + 1
    for top in range(0, height - 7, stride):
        for first in range(0, per_row, _GROUP):
            size = min(_GROUP, per_row - first)
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
