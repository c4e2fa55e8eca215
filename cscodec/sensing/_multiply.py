"""The matrix product that all kernels use: float32, as quick as BLAS, the same bits on every CPU.

BLAS promises neither. LLVM's own vector code keeps sums in memory, at half the speed; so the
innermost piece, whose sums stay in registers, is spelled out in LLVM's terms. Every element is the
sum, in order, of (a b + c d) + (e f + g h) over four terms at a time, then of what is left over.
Nothing is fused or reassociated, so how elements are grouped in tiles does not show in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cscodec._jit import (
    Array,
    Float32Matrix,
    Integer,
    generated_by,
    helper,
    keep_apart,
    kernel,
)
from cscodec._llvm import arrays, splat

_ROWS, _COLUMNS = 8, 16  # of a tile: eight registers of AVX-512, two in place of each with AVX2


def _generate_tile(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    vector, integer = ir.VectorType(ir.FloatType(), _COLUMNS), ir.IntType(64)
    left, right, product = arrays(context, builder, signature, arguments)
    row, column = arguments[3:]
    depth = builder.extract_value(left.shape, 1)
    width = builder.extract_value(right.shape, 1)

    def at(array: Any, i: Any, stride: Any, j: Any) -> Any:
        return builder.gep(array.data, [builder.add(builder.mul(i, stride), j)])

    def vector_at(address: Any) -> Any:
        return builder.bitcast(address, vector.as_pointer())

    def add_terms(first: Any, count: int) -> None:
        terms = [builder.add(first, integer(k)) for k in range(count)]
        factors = [builder.load(vector_at(at(right, i, width, column)), align=4) for i in terms]
        for k, total in enumerate(totals):
            parts = []
            for i, factor in zip(terms, factors, strict=True):
                scalar = builder.load(at(left, builder.add(row, integer(k)), depth, i))
                parts.append(builder.fmul(splat(builder, scalar, _COLUMNS), factor))
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [builder.fadd(a, b) for a, b in pairs]
            builder.store(builder.fadd(builder.load(total), parts[0]), total)

    zero = vector([0.0] * _COLUMNS)
    totals = [cgutils.alloca_once(builder, vector) for _ in range(_ROWS)]
    for total in totals:
        builder.store(zero, total)
    fours = builder.and_(depth, integer(-4))
    with cgutils.for_range_slice(builder, integer(0), fours, integer(4)) as (i, _):
        add_terms(i, 4)
    with cgutils.for_range_slice(builder, fours, depth, integer(1)) as (i, _):
        add_terms(i, 1)
    for k, total in enumerate(totals):
        target = vector_at(at(product, builder.add(row, integer(k)), width, column))
        builder.store(builder.load(total), target, align=4)
    return context.get_dummy_value()


@generated_by(_generate_tile)
def _multiply_tile(
    left: Array, right: Array, product: Array, row: Integer, column: Integer
) -> None:
    """Write a tile of ``product = left @ right``, its first element at (row, column)."""
    depth = left.shape[1]
    for r in range(row, row + _ROWS):
        for c in range(column, column + _COLUMNS):
            total = np.float32(0)
            for i in range(0, depth - 3, 4):
                total += (left[r, i] * right[i, c] + left[r, i + 1] * right[i + 1, c]) + (
                    left[r, i + 2] * right[i + 2, c] + left[r, i + 3] * right[i + 3, c]
                )
            for i in range(depth - depth % 4, depth):
                total += left[r, i] * right[i, c]
            product[r, c] = total


@helper
def multiply(left: Float32Matrix, right: Float32Matrix, product: Float32Matrix) -> None:
    """``product[:n] = left @ right`` for (n, N) and (N, L)."""
    keep_apart()
    num_rows, depth = left.shape
    width = right.shape[1]
    if num_rows >= _ROWS and width >= _COLUMNS:
        # The last tiles lie over those before them where sizes are no multiples.
        for row in range(0, num_rows, _ROWS):
            for column in range(0, width, _COLUMNS):
                _multiply_tile(
                    left, right, product, min(row, num_rows - _ROWS), min(column, width - _COLUMNS)
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


multiply_kernel = kernel(multiply)
