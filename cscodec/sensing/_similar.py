"""Kernels of :func:`cscodec.sensing.averages.similar_average`: find, transform, shrink, average.

Like all kernels here they add in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec._jit import inline_kernel, kernel
from cscodec.sensing._pursuit import multiply

Array = npt.NDArray[Any]

_HALF_ROOT = np.float32(np.sqrt(0.5))
_FAR = np.float32(3e38)


@inline_kernel
def shrink_group(group: Array, size: int, threshold: Any, spare: Array) -> int:
    """Haar-transform along the group, zero what is below the threshold, transform back.

    ``size`` is a power of two. The first number of all, the group's mean, is kept. Returns how many
    numbers were kept.
    """
    width = group.shape[1]
    length = size
    while length > 1:
        half = length // 2
        for n in range(half):
            for i in range(width):
                first, second = group[2 * n, i], group[2 * n + 1, i]
                spare[n, i] = (first + second) * _HALF_ROOT
                spare[half + n, i] = (first - second) * _HALF_ROOT
        for n in range(length):
            for i in range(width):
                group[n, i] = spare[n, i]
        length = half
    mean = group[0, 0]
    kept = 0
    for n in range(size):
        for i in range(width):
            keep = abs(group[n, i]) >= threshold
            kept += keep
            group[n, i] = group[n, i] if keep else np.float32(0)
    group[0, 0] = mean
    length = 2
    while length <= size:
        half = length // 2
        for n in range(half):
            for i in range(width):
                first, second = group[n, i], group[half + n, i]
                spare[2 * n, i] = (first + second) * _HALF_ROOT
                spare[2 * n + 1, i] = (first - second) * _HALF_ROOT
        for n in range(length):
            for i in range(width):
                group[n, i] = spare[n, i]
        length *= 2
    return max(kept, 1)


@kernel
def average_similar_band(
    plane: Array,
    rows: Array,
    columns: Array,
    reach: Array,
    group_size: int,
    threshold: float,
    transform: Array,
    inverse: Array,
    first_row: int,
    total: Array,
    weight: Array,
) -> None:
    """Add the estimates from the groups of the patches at ``rows`` x ``columns`` to ``total``.

    ``reach`` is how far similar patches are looked for: up, down, left, right. ``total`` and
    ``weight`` cover the plane from ``first_row`` on. A group weighs 1 / (numbers it kept).
    """
    distances = np.empty(reach[2] + reach[3] + 1, np.float32)
    nearest = np.empty(group_size, np.float32)
    tops = np.empty(group_size, np.int64)
    lefts = np.empty(group_size, np.int64)
    patches = np.empty((group_size, 64), np.float32)
    spectra = np.empty((group_size, 64), np.float32)
    for top in rows:
        highest, lowest = max(0, top - reach[0]), min(plane.shape[0] - 8, top + reach[1])
        for left in columns:
            start, stop = max(0, left - reach[2]), min(plane.shape[1] - 8, left + reach[3]) + 1
            for n in range(1, group_size):
                nearest[n] = _FAR
            # The patch itself comes first, even where many are equal: so every pixel is covered.
            nearest[0], tops[0], lefts[0] = -1, top, left
            for y in range(highest, lowest + 1):
                width = stop - start
                for j in range(width):
                    distances[j] = 0
                for i in range(8):
                    for k in range(8):
                        value = plane[top + i, left + k]
                        for j in range(width):
                            difference = plane[y + i, start + k + j] - value
                            distances[j] += difference * difference
                if y == top:
                    distances[left - start] = _FAR
                for j in range(width):
                    if distances[j] < nearest[group_size - 1]:
                        n = group_size - 1
                        while n > 0 and nearest[n - 1] > distances[j]:
                            nearest[n] = nearest[n - 1]
                            tops[n], lefts[n] = tops[n - 1], lefts[n - 1]
                            n -= 1
                        nearest[n], tops[n], lefts[n] = distances[j], y, start + j
            size = group_size
            while size > (lowest - highest + 1) * (stop - start):
                size //= 2
            for n in range(size):
                for i in range(64):
                    patches[n, i] = plane[tops[n] + i // 8, lefts[n] + i % 8]
            multiply(patches[:size], transform, spectra)
            kept = shrink_group(spectra, size, np.float32(threshold), patches)
            share = np.float32(1) / np.float32(kept)
            multiply(spectra[:size], inverse, patches)
            for n in range(size):
                y, x = tops[n] - first_row, lefts[n]
                for i in range(8):
                    for j in range(8):
                        total[y + i, x + j] += share * patches[n, 8 * i + j]
                        weight[y + i, x + j] += share
