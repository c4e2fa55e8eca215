"""Kernel of :func:`cscodec.sensing.averages.sparse_average`: code and average a band of patches.

Like all kernels here it adds in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec._jit import inline_kernel, kernel
from cscodec.sensing._multiply import multiply
from cscodec.sensing._pursuit import pursue

Array = npt.NDArray[Any]

# Patches coded together: their correlations with 256 atoms take 64 KiB.
_GROUP = 64


@kernel
def average_band(
    plane: Array,
    rows: Array,
    columns: Array,
    dictionary: Array,
    atoms: Array,
    gram: Array,
    error: float,
    max_atoms: int,
    scores: Array,
    score_bits: Array,
    first_row: int,
    total: Array,
    weight: Array,
) -> None:
    """Add weighted sparse estimates of the patches at ``rows`` x ``columns`` to ``total``.

    ``total`` and ``weight`` cover the plane from ``first_row`` on. An estimate
    weighs 1 / (1 + number of its atoms). ``atoms`` is the transpose of ``dictionary``.
    """
    patches = np.empty((_GROUP, 64), np.float32)
    correlations = np.empty((_GROUP, len(gram)), np.float32)
    energies = np.empty(_GROUP, np.float64)
    means = np.empty(_GROUP, np.float32)
    lefts = np.empty(_GROUP, np.int64)
    indices = np.empty((_GROUP, max_atoms), np.int32)
    values = np.empty((_GROUP, max_atoms), np.float32)
    counts = np.empty(_GROUP, np.int32)
    sums = np.empty(8, np.float32)
    for top in rows:
        base = top - first_row
        start = 0
        while start < len(columns):
            size = 0
            while start < len(columns) and size < _GROUP:
                left = columns[start]
                start += 1
                for x in range(8):
                    sums[x] = 0
                for y in range(8):
                    for x in range(8):
                        sums[x] += plane[top + y, left + x]
                mean = total_of(sums) * np.float32(1 / 64)
                for x in range(8):
                    sums[x] = 0
                for y in range(8):
                    for x in range(8):
                        value = plane[top + y, left + x] - mean
                        patches[size, 8 * y + x] = value
                        sums[x] += value * value
                energies[size] = total_of(sums)
                means[size] = mean
                lefts[size] = left
                counts[size] = 0
                if energies[size] > error:
                    size += 1
                else:  # flat enough: the mean alone will do
                    for y in range(8):
                        for x in range(8):
                            total[base + y, left + x] += mean
                            weight[base + y, left + x] += 1
            multiply(patches[:size], dictionary, correlations)
            pursue(
                correlations[:size],
                gram,
                energies,
                error,
                scores,
                score_bits,
                indices[:size],
                values,
                counts,
            )
            for n in range(size):
                estimate = patches[n]
                for i in range(64):
                    estimate[i] = means[n]
                for k in range(counts[n]):
                    atom, value = indices[n, k], values[n, k]
                    for i in range(64):
                        estimate[i] += value * atoms[atom, i]
                share = np.float32(1) / np.float32(1 + counts[n])
                for y in range(8):
                    for x in range(8):
                        total[base + y, lefts[n] + x] += share * estimate[8 * y + x]
                        weight[base + y, lefts[n] + x] += share


@inline_kernel
def total_of(sums: Array) -> Any:
    """Return the sum of eight values."""
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
