"""Kernel that averages what similar patches have in common: find, transform, shrink, average.

Like all kernels here they add in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from cscodec.kernels.declaration import (
    Array,
    Float32,
    Integer,
    float32,
    helper,
    int64,
    kernel,
)
from cscodec.kernels.multiply import multiply
from cscodec.kernels.sparse_average import Band

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


class Planes(NamedTuple):
    """A plane, and where similar patches are looked for; which is the plane itself, or a guide."""

    plane: Annotated[Array, float32["height", "width"]]
    guide: Annotated[Array, float32["height", "width"]]
    is_guided: Integer


class Cosines(NamedTuple):
    """The transform of patches: with basis vectors in columns, and in rows."""

    analysis: Annotated[Array, float32[64, 64]]
    synthesis: Annotated[Array, float32[64, 64]]


class SimilarRoom(NamedTuple):
    """Room: distances along one row of the reach; the nearest patches, and a group of them."""

    distances: Annotated[Array, float32["reach_width"].out]
    nearest: Annotated[Array, float32["group_size"].out]
    tops: Annotated[Array, int64["group_size"].out]
    lefts: Annotated[Array, int64["group_size"].out]
    patches: Annotated[Array, float32["group_size", 64].out]
    spectra: Annotated[Array, float32["group_size", 64].out]
    model: Annotated[Array, float32["group_size", 64].out]

    @classmethod
    def of(cls, reach_width: int, group_size: int) -> SimilarRoom:
        """Make room for groups, and for a reach, of these sizes."""
        numbers = np.empty((3, group_size, 64), np.float32)
        return cls(
            np.empty(reach_width, np.float32),
            np.empty(group_size, np.float32),
            np.empty(group_size, np.int64),
            np.empty(group_size, np.int64),
            *numbers,
        )


@kernel
def add_similar_band(
    planes: Planes,
    rows: Annotated[Array, int64["num_rows"]],
    columns: Annotated[Array, int64["num_columns"]],
    reach: Annotated[Array, int64[4]],
    threshold: Float32,
    cosines: Cosines,
    room: SimilarRoom,
    band: Band,
) -> None:
    """Add the estimates from the groups of the patches at ``rows`` x ``columns`` to a band.

    All patches lie in the plane, and all within ``reach`` of ``rows`` in the band. ``reach`` is how
    far similar patches are looked for: up, down, left, right. A group weighs 1 / Σ(share of each
    number that was kept)².
    """
    for top in rows:
        for left in columns:
            size = _find_similar(planes.guide, top, left, reach, room)
            _transform(planes.plane, cosines, room, room.spectra, size)
            if planes.is_guided:
                _transform(planes.guide, cosines, room, room.model, size)
            kept = _shrink(room, size, planes.is_guided, threshold)
            invert_group(room.spectra, size, room.patches)
            multiply(room.spectra[:size], cosines.synthesis, room.patches)
            share = np.float32(1) / max(kept, np.float32(1))
            for n in range(size):
                y, x = room.tops[n] - band.first_row, room.lefts[n]
                for i in range(8):
                    for j in range(8):
                        band.total[y + i, x + j] += share * room.patches[n, 8 * i + j]
                        band.weight[y + i, x + j] += share


@helper
def _find_similar(guide: Array, top: int, left: int, reach: Array, room: SimilarRoom) -> int:
    """Find the patches most similar to one; returns how many there are, a power of two."""
    distances, nearest, tops, lefts = room.distances, room.nearest, room.tops, room.lefts
    group_size = len(nearest)
    highest, lowest = max(0, top - reach[0]), min(guide.shape[0] - 8, top + reach[1])
    start, stop = max(0, left - reach[2]), min(guide.shape[1] - 8, left + reach[3]) + 1
    width = min(stop - start, len(distances))
    # Itself, if distances beyond float32 leave a group short of others.
    for n in range(1, group_size):
        nearest[n], tops[n], lefts[n] = _FAR, top, left
    # The patch itself comes first, even where many are equal: so every pixel is covered.
    nearest[0], tops[0], lefts[0] = -1, top, left
    for y in range(highest, lowest + 1):
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
    while size > (lowest - highest + 1) * width:
        size //= 2
    return size


@helper
def _transform(
    plane: Array, cosines: Cosines, room: SimilarRoom, spectra: Array, size: int
) -> None:
    """Write the spectra of a group of patches of a plane."""
    gather(plane, room.tops, room.lefts, size, room.patches)
    multiply(room.patches[:size], cosines.analysis, spectra)
    transform_group(spectra, size, room.patches)


@helper
def _shrink(room: SimilarRoom, size: int, is_guided: int, level: float) -> Any:
    """Shrink a group's spectra, all but its mean; returns Σ(share that was kept)²."""
    spectra, model = room.spectra, room.model
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
    return kept
