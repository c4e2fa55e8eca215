"""Kernels of :func:`cscodec.sensing.averages.similar_average`: find, transform, shrink, average.

Like all kernels here they add in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

import numpy as np

from cscodec._jit import (
    Array,
    Float32Matrix,
    Float32Vector,
    Float64,
    Int64Vector,
    Integer,
    helper,
    kernel,
)
from cscodec.sensing._multiply import multiply

_HALF_ROOT = np.float32(np.sqrt(0.5))
_FAR = np.float32(3e38)


@helper
def gather(plane: Array, tops: Array, lefts: Array, size: int, patches: Array) -> None:
    """Copy the first ``size`` patches of a group out of the plane."""
    for n in range(size):
        for i in range(8):
            for j in range(8):
                patches[n, 8 * i + j] = plane[tops[n] + i, lefts[n] + j]


@helper
def add_distances(row: Array, others: Array, distances: Array) -> None:
    """Add the squared distances of eight pixels to those at every offset in ``others``."""
    a, b, c, d = row[0], row[1], row[2], row[3]
    e, f, g, h = row[4], row[5], row[6], row[7]
    for j in range(len(distances)):
        p, q, r, s = others[j] - a, others[j + 1] - b, others[j + 2] - c, others[j + 3] - d
        t, u, v, w = others[j + 4] - e, others[j + 5] - f, others[j + 6] - g, others[j + 7] - h
        distances[j] += ((p * p + q * q) + (r * r + s * s)) + ((t * t + u * u) + (v * v + w * w))


@helper
def transform_group(group: Array, size: int, spare: Array) -> None:
    """Haar transform along the group, in place; ``size`` is a power of two."""
    length = size
    while length > 1:
        half = length // 2
        for n in range(half):
            for i in range(64):
                first, second = group[2 * n, i], group[2 * n + 1, i]
                spare[n, i] = (first + second) * _HALF_ROOT
                spare[half + n, i] = (first - second) * _HALF_ROOT
        for n in range(length):
            for i in range(64):
                group[n, i] = spare[n, i]
        length = half


@helper
def invert_group(group: Array, size: int, spare: Array) -> None:
    """Inverse of :func:`transform_group`."""
    length = 2
    while length <= size:
        half = length // 2
        for n in range(half):
            for i in range(64):
                first, second = group[n, i], group[half + n, i]
                spare[2 * n, i] = (first + second) * _HALF_ROOT
                spare[2 * n + 1, i] = (first - second) * _HALF_ROOT
        for n in range(length):
            for i in range(64):
                group[n, i] = spare[n, i]
        length *= 2


@kernel
def average_similar_band(
    plane: Float32Matrix,
    guide: Float32Matrix,
    is_guided: Integer,
    rows: Int64Vector,
    columns: Int64Vector,
    reach: Int64Vector,
    threshold: Float64,
    transform: Float32Matrix,
    inverse: Float32Matrix,
    distances: Float32Vector,
    nearest: Float32Vector,
    tops: Int64Vector,
    lefts: Int64Vector,
    patches: Float32Matrix,
    spectra: Float32Matrix,
    model: Float32Matrix,
    first_row: Integer,
    total: Float32Matrix,
    weight: Float32Matrix,
) -> None:
    """Add the estimates from the groups of the patches at ``rows`` x ``columns`` to ``total``.

    Similar patches are found in ``guide``, which is ``plane`` itself if not ``is_guided``.
    ``reach`` is how far they are looked for: up, down, left, right. ``total`` and ``weight`` cover
    the plane from ``first_row`` on. A group weighs 1 / Σ(share of each number that was kept)².
    From ``distances`` to ``model``, arguments are room: for one row of the reach, then for a group
    of the size that they have.
    """
    group_size = len(nearest)
    level = np.float32(threshold)
    for top in rows:
        highest, lowest = max(0, top - reach[0]), min(plane.shape[0] - 8, top + reach[1])
        for left in columns:
            start, stop = max(0, left - reach[2]), min(plane.shape[1] - 8, left + reach[3]) + 1
            # Itself, if distances beyond float32 leave a group short of others.
            for n in range(1, group_size):
                nearest[n], tops[n], lefts[n] = _FAR, top, left
            # The patch itself comes first, even where many are equal: so every pixel is covered.
            nearest[0], tops[0], lefts[0] = -1, top, left
            for y in range(highest, lowest + 1):
                width = stop - start
                for j in range(width):
                    distances[j] = 0
                for i in range(8):
                    row = guide[top + i, left : left + 8]
                    add_distances(row, guide[y + i, start:], distances[:width])
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
            gather(plane, tops, lefts, size, patches)
            multiply(patches[:size], transform, spectra)
            transform_group(spectra, size, patches)
            if is_guided:
                gather(guide, tops, lefts, size, patches)
                multiply(patches[:size], transform, model)
                transform_group(model, size, patches)
            mean = spectra[0, 0]
            kept = np.float32(0)
            for n in range(size):
                for i in range(64):
                    if is_guided:
                        energy = model[n, i] * model[n, i]
                        share = energy / (energy + level * level)
                    else:
                        share = np.float32(abs(spectra[n, i]) >= level)
                    spectra[n, i] *= share
                    kept += share * share
            spectra[0, 0] = mean
            invert_group(spectra, size, patches)
            multiply(spectra[:size], inverse, patches)
            share = np.float32(1) / max(kept, np.float32(1))
            for n in range(size):
                y, x = tops[n] - first_row, lefts[n]
                for i in range(8):
                    for j in range(8):
                        total[y + i, x + j] += share * patches[n, 8 * i + j]
                        weight[y + i, x + j] += share
