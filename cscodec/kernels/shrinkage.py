"""Kernels that shrink the cosines of overlapping patches, and average them.

A column of samples is transformed once for all patches of a row. Like all kernels here they add in
a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.kernels.declaration import Array, Float32, Integer, float32, intrinsic, kernel
from cscodec.kernels.estimates import add_estimate, mask_above
from cscodec.kernels.intrinsics import count_bits


def _cosines() -> Float32Array:
    """The orthonormal cosine transform of eight samples: by sample, then by frequency."""
    samples, frequencies = np.mgrid[:8, :8]
    cosines = np.cos(np.pi * (2 * samples + 1) * frequencies / 16) * 0.5
    cosines[:, 0] = np.sqrt(0.125)
    # Rounded, as the last bits of cosines differ from system to system.
    rounded: Float32Array = np.round(cosines, 8).astype(np.float32)
    return rounded


COSINES = _cosines()
_KEPT = np.arange(1.0, 65.0)
# Weight of an estimate, by how many coefficients it keeps beside the mean.
_SHARES = (1 / (_KEPT * np.sqrt(_KEPT))).astype(np.float32)


class Lattice(NamedTuple):
    """Where patches lie: every ``stride`` rows and columns, from ``top`` and ``left`` on."""

    stride: Integer
    top: Integer
    left: Integer


@intrinsic
def transform_column(plane: Array, top: Integer, x: Integer, columns: Array) -> None:
    """Write the cosine transform of eight samples, one below the other, to row x of ``columns``."""
    for k in range(8):
        columns[x, k] = (
            (plane[top, x] * COSINES[0, k] + plane[top + 1, x] * COSINES[1, k])
            + (plane[top + 2, x] * COSINES[2, k] + plane[top + 3, x] * COSINES[3, k])
        ) + (
            (plane[top + 4, x] * COSINES[4, k] + plane[top + 5, x] * COSINES[5, k])
            + (plane[top + 6, x] * COSINES[6, k] + plane[top + 7, x] * COSINES[7, k])
        )


@intrinsic
def transform_rows(columns: Array, left: Integer, coefficients: Array) -> None:
    """Write the 64 coefficients of a patch whose columns are transformed."""
    for k in range(8):
        for i in range(8):
            sign = np.float32(-1 if i & 1 else 1)  # odd cosines are made of differences
            a = columns[left, k] + sign * columns[left + 7, k]
            b = columns[left + 1, k] + sign * columns[left + 6, k]
            c = columns[left + 2, k] + sign * columns[left + 5, k]
            d = columns[left + 3, k] + sign * columns[left + 4, k]
            coefficients[8 * i + k] = (a * COSINES[0, i] + b * COSINES[1, i]) + (
                c * COSINES[2, i] + d * COSINES[3, i]
            )


@kernel
def add_shrunk(
    plane: Annotated[Array, float32["height", "width"]],
    synthesis: Annotated[Array, float32[64, 64]],
    threshold: Float32,
    lattice: Lattice,
    columns: Annotated[Array, float32["width", 8].out],
    coefficients: Annotated[Array, float32[64].out],
    shares: Annotated[Array, float32["num_rows", "num_columns"].out],
    total: Annotated[Array, float32["height", "width"].out],
) -> None:
    """Add weighted estimates of all patches of a lattice that lie in the plane to ``total``.

    ``synthesis`` has the cosines of a patch in its rows, that of frequencies y and x in number
    8x + y. The weights, 1 / (1 + number of coefficients kept beside the mean)^1.5, are left in
    ``shares``, one for each patch. ``columns`` and ``coefficients`` are room.
    """
    stride, first_top, first_left = lattice
    # As many as lie in the plane, whatever room there is.
    num_rows = min(shares.shape[0], (plane.shape[0] - 8 - first_top) // stride + 1)
    num_columns = min(shares.shape[1], (plane.shape[1] - 8 - first_left) // stride + 1)
    for r in range(num_rows):
        top = first_top + r * stride
        for x in range(plane.shape[1]):
            transform_column(plane, top, x, columns)
        for n in range(num_columns):
            left = first_left + n * stride
            transform_rows(columns, left, coefficients)
            mask = mask_above(coefficients, threshold) & -2  # the mean is always kept
            share = _SHARES[count_bits(mask)]
            shares[r, n] = share
            add_estimate(coefficients, mask, synthesis, share, total, top, left)


@kernel
def add_shares(
    shares: Annotated[Array, float32["num_rows", "num_columns"]],
    lattice: Lattice,
    column: Annotated[Array, float32["num_columns"].out],
    line: Annotated[Array, float32["width"].out],
    weight: Annotated[Array, float32["height", "width"].out],
) -> None:
    """Add to every pixel of ``weight`` the shares of the patches that cover it.

    ``column`` and ``line`` are room.
    """
    stride, first_top, first_left = lattice
    height, width = weight.shape
    num_rows = shares.shape[0]
    num_columns = min(shares.shape[1], (width - 8 - first_left) // stride + 1)
    for top in range(first_top, height, stride):
        # Rows up to the next ``top`` are covered by the same patches.
        last_row = min((top - first_top) // stride, num_rows - 1)
        first_row = max(0, (top - first_top - 8) // stride + 1)
        for c in range(num_columns):
            column[c] = 0
        for r in range(first_row, last_row + 1):
            for c in range(num_columns):
                column[c] += shares[r, c]
        for x in range(width):
            line[x] = 0
        for k in range(7, -1, -1):  # so that every sum goes from left to right
            for c in range(num_columns):
                line[first_left + c * stride + k] += column[c]
        for y in range(top, min(top + stride, height)):
            for x in range(width):
                weight[y, x] += line[x]
