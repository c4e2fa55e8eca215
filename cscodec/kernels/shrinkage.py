"""Kernels that shrink overlapping patches in an orthonormal basis, and average them.

Like all kernels here they add in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from cscodec.kernels.declaration import Array, Float32, Integer, float32, kernel
from cscodec.kernels.estimates import add_estimate, mask_above
from cscodec.kernels.intrinsics import count_bits
from cscodec.kernels.multiply import multiply

GROUP = 64  #: patches transformed together: patches and coefficients take 32 KiB


class Lattice(NamedTuple):
    """Where patches lie: every ``stride`` rows and columns, from ``top`` and ``left`` on."""

    stride: Integer
    top: Integer
    left: Integer


@kernel
def add_shrunk(
    plane: Annotated[Array, float32["height", "width"]],
    analysis: Annotated[Array, float32[64, 64]],
    synthesis: Annotated[Array, float32[64, 64]],
    threshold: Float32,
    lattice: Lattice,
    patches: Annotated[Array, float32[GROUP, 64].out],
    coefficients: Annotated[Array, float32[GROUP, 64].out],
    shares: Annotated[Array, float32["num_rows", "num_columns"].out],
    total: Annotated[Array, float32["height", "width"].out],
) -> None:
    """Add weighted estimates of all patches of a lattice that lie in the plane to ``total``.

    ``analysis`` has the basis in its columns, ``synthesis`` in its rows, the constant first. The
    weights, 1 / (1 + number of coefficients kept beside the mean), are left in ``shares``, one for
    each patch. ``patches`` and ``coefficients`` are room.
    """
    stride, first_top, first_left = lattice
    # As many as lie in the plane, whatever room there is.
    num_rows = min(shares.shape[0], (plane.shape[0] - 8 - first_top) // stride + 1)
    num_columns = min(shares.shape[1], (plane.shape[1] - 8 - first_left) // stride + 1)
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
