"""The matrix product that all kernels use: float32, as quick as BLAS, the same bits on every CPU.

BLAS promises neither. LLVM's own vector code keeps sums in memory, at half the speed; so the
innermost piece, whose sums stay in registers, has LLVM code of its own. Every element is the
sum, in order, of (a b + c d) + (e f + g h) over four terms at a time, then of what is left over.
Nothing is fused or reassociated, so how elements are grouped in tiles does not show in them.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from cscodec.kernels.declaration import (
    Array,
    Integer,
    float32,
    helper,
    intrinsic,
    keep_apart,
    kernel,
)

ROWS, COLUMNS = 8, 16  #: of a tile: eight registers of AVX-512, two in place of each with AVX2


@intrinsic
def multiply_tile(left: Array, right: Array, product: Array, row: Integer, column: Integer) -> None:
    """Write a tile of ``product = left @ right``, its first element at (row, column)."""
    depth = left.shape[1]
    for r in range(row, row + ROWS):
        for c in range(column, column + COLUMNS):
            total = np.float32(0)
            for i in range(0, depth - 3, 4):
                total += (left[r, i] * right[i, c] + left[r, i + 1] * right[i + 1, c]) + (
                    left[r, i + 2] * right[i + 2, c] + left[r, i + 3] * right[i + 3, c]
                )
            for i in range(depth - depth % 4, depth):
                total += left[r, i] * right[i, c]
            product[r, c] = total


@helper
def multiply(left: Array, right: Array, product: Array) -> None:
    """``product[:n] = left @ right`` for (n, N) and (N, L)."""
    keep_apart()
    num_rows, depth = left.shape
    width = right.shape[1]
    if num_rows >= ROWS and width >= COLUMNS:
        # The last tiles lie over those before them where sizes are no multiples.
        for row in range(0, num_rows, ROWS):
            for column in range(0, width, COLUMNS):
                multiply_tile(
                    left, right, product, min(row, num_rows - ROWS), min(column, width - COLUMNS)
                )
        return
    for row in range(num_rows):
        for j in range(width):
            product[row, j] = 0
        for i in range(0, depth - 3, 4):
            a, b, c, d = left[row, i], left[row, i + 1], left[row, i + 2], left[row, i + 3]
            for j in range(width):
                product[row, j] += (a * right[i, j] + b * right[i + 1, j]) + (
                    c * right[i + 2, j] + d * right[i + 3, j]
                )
        for i in range(depth - depth % 4, depth):
            a = left[row, i]
            for j in range(width):
                product[row, j] += a * right[i, j]


@kernel
def multiply_matrices(
    left: Annotated[Array, float32["rows", "depth"]],
    right: Annotated[Array, float32["depth", "columns"]],
    product: Annotated[Array, float32["rows", "columns"].out],
) -> None:
    """``product = left @ right``."""
    multiply(left, right, product)
