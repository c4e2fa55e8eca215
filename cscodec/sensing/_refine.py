"""Kernel of :func:`cscodec.sensing.averages.sparse_average`: code and average a band of patches.

Like all kernels here it adds in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cscodec._jit import (
    Array,
    Float32Matrix,
    Float32Vector,
    Float64,
    Float64Vector,
    Int32Matrix,
    Int32Vector,
    Int64Vector,
    Integer,
    helper,
    kernel,
)
from cscodec.sensing._multiply import multiply
from cscodec.sensing._pursuit import pursue

GROUP = 64  #: patches coded together: their correlations with 256 atoms take 64 KiB


@kernel
def average_band(
    plane: Float32Matrix,
    rows: Int64Vector,
    columns: Int64Vector,
    dictionary: Float32Matrix,
    atoms: Float32Matrix,
    gram: Float32Matrix,
    error: Float64,
    weights: Float32Vector,
    residual: Float32Vector,
    directions: Float32Matrix,
    factor: Float32Matrix,
    coordinates: Float32Vector,
    touched: Int32Vector,
    scores: Float32Vector,
    score_bits: Int32Matrix,
    patches: Float32Matrix,
    correlations: Float32Matrix,
    energies: Float64Vector,
    means: Float32Vector,
    lefts: Int64Vector,
    indices: Int32Matrix,
    values: Float32Matrix,
    counts: Int32Vector,
    sums: Float32Vector,
    first_row: Integer,
    total: Float32Matrix,
    weight: Float32Matrix,
) -> None:
    """Add weighted sparse estimates of the patches at ``rows`` x ``columns`` to ``total``.

    ``total`` and ``weight`` cover the plane from ``first_row`` on. An estimate
    weighs 1 / (1 + number of its atoms). ``atoms`` is the transpose of ``dictionary``. From
    ``weights`` to ``sums``, arguments are room: first that of the pursuit, then GROUP of each.
    """
    for top in rows:
        base = top - first_row
        start = 0
        while start < len(columns):
            size = 0
            while start < len(columns) and size < GROUP:
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
                weights,
                residual,
                directions,
                factor,
                coordinates,
                touched,
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


@helper
def total_of(sums: Array) -> Any:
    """Return the sum of eight values."""
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
