"""Kernel that codes overlapping patches sparsely and averages the results, band by band.

Like all kernels here it adds in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from cscodec.kernels.declaration import (
    Array,
    Float64,
    Integer,
    float32,
    float64,
    helper,
    int64,
    kernel,
)
from cscodec.kernels.multiply import multiply
from cscodec.kernels.pursuit import Codes, PursuitRoom, pursue


class Band(NamedTuple):
    """Sums over what covers each pixel of the plane, from ``first_row`` on, and their weights."""

    first_row: Integer
    total: Annotated[Array, float32["band_height", "width"].out]
    weight: Annotated[Array, float32["band_height", "width"].out]


class Atoms(NamedTuple):
    """A dictionary, its transpose, and the products of its atoms with each other."""

    columns: Annotated[Array, float32[64, "num_atoms"]]
    rows: Annotated[Array, float32["num_atoms", 64]]
    gram: Annotated[Array, float32["num_atoms", "num_atoms"]]


class GroupRoom(NamedTuple):
    """Room for the patches that are coded together."""

    patches: Annotated[Array, float32["n", 64].out]
    correlations: Annotated[Array, float32["n", "num_atoms"].out]
    energies: Annotated[Array, float64["n"].out]
    means: Annotated[Array, float32["n"].out]
    lefts: Annotated[Array, int64["n"].out]
    sums: Annotated[Array, float32[8].out]

    @classmethod
    def of(cls, size: int, num_atoms: int) -> GroupRoom:
        """Make room for so many patches, and their correlations with so many atoms."""
        return cls(
            np.empty((size, 64), np.float32),
            np.empty((size, num_atoms), np.float32),
            np.empty(size, np.float64),
            np.empty(size, np.float32),
            np.empty(size, np.int64),
            np.empty(8, np.float32),
        )


@kernel
def add_sparse_band(
    plane: Annotated[Array, float32["height", "width"]],
    rows: Annotated[Array, int64["num_rows"]],
    columns: Annotated[Array, int64["num_columns"]],
    atoms: Atoms,
    error: Float64,
    pursuit: PursuitRoom,
    codes: Codes,
    group: GroupRoom,
    band: Band,
) -> None:
    """Add weighted sparse estimates of the patches at ``rows`` x ``columns`` to a band.

    All of them lie in the plane and in the band. An estimate weighs 1 / (1 + number of its
    atoms). ``pursuit``, ``codes`` (of GROUP signals) and ``group`` are room.
    """
    for top in rows:
        start = 0
        while start < len(columns):
            size = 0
            while start < len(columns) and size < len(group.lefts):
                left = columns[start]
                start += 1
                _take_patch(plane, top, left, group, size)
                codes.counts[size] = 0
                if group.energies[size] > error:
                    size += 1
                else:  # flat enough: the mean alone will do
                    _add_mean(band, top - band.first_row, left, group.means[size])
            multiply(group.patches[:size], atoms.columns, group.correlations)
            pursue(group.correlations, atoms.gram, group.energies, error, pursuit, codes, size)
            for n in range(size):
                _add_estimate(band, top - band.first_row, atoms.rows, codes, group, n)


@helper
def _take_patch(plane: Array, top: int, left: int, group: GroupRoom, n: int) -> None:
    """Make a patch, less its mean, patch ``n`` of a group."""
    sums = group.sums
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
            group.patches[n, 8 * y + x] = value
            sums[x] += value * value
    group.energies[n] = total_of(sums)
    group.means[n] = mean
    group.lefts[n] = left


@helper
def _add_mean(band: Band, base: int, left: int, mean: float) -> None:
    for y in range(8):
        for x in range(8):
            band.total[base + y, left + x] += mean
            band.weight[base + y, left + x] += 1


@helper
def _add_estimate(
    band: Band, base: int, atoms: Array, codes: Codes, group: GroupRoom, n: int
) -> None:
    """Add what patch ``n`` of a group is by its code; the patch itself is overwritten."""
    estimate = group.patches[n]
    for i in range(64):
        estimate[i] = group.means[n]
    for k in range(codes.counts[n]):
        atom, value = codes.indices[n, k], codes.values[n, k]
        for i in range(64):
            estimate[i] += value * atoms[atom, i]
    share = np.float32(1) / np.float32(1 + codes.counts[n])
    left = group.lefts[n]
    for y in range(8):
        for x in range(8):
            band.total[base + y, left + x] += share * estimate[8 * y + x]
            band.weight[base + y, left + x] += share


@helper
def total_of(sums: Array) -> Any:
    """Return the sum of eight values."""
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
