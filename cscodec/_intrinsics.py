"""Small functions that kernels call often, as LLVM code: what Numba has no words for.

Each says in Python what its code does; with bounds checks on, that is what is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cscodec._jit import Array, Integer, generated_by
from cscodec._llvm import arrays, splat

LANES = 8  #: numbers that are worked on at once; arrays handed over here are as long, or a multiple


def _generate_lowest_bit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from llvmlite import ir

    return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))


@generated_by(_generate_lowest_bit, "int64")
def lowest_bit(mask: Integer) -> Integer:
    """Return the number of the lowest bit that is set in a mask of 64 bits; one of them must be."""
    number = 0
    while (mask >> number) & 1 == 0:
        number += 1
    return number


def _generate_count_bits(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.ctpop(arguments[0])


@generated_by(_generate_count_bits, "int64")
def count_bits(mask: Integer) -> Integer:
    """Return how many bits are set in a mask of 64 bits."""
    count = 0
    for number in range(64):
        count += (mask >> number) & 1
    return count


def _generate_add_scaled(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    sums, weights = arrays(context, builder, signature, arguments)
    row, factor = arguments[2:]
    integer = ir.IntType(64)
    wide = ir.VectorType(ir.IntType(32), LANES)
    narrow = ir.VectorType(ir.IntType(16), LANES)
    width = builder.extract_value(sums.shape, 0)
    start = builder.mul(row, width)
    factors = splat(builder, builder.trunc(factor, ir.IntType(32)), LANES)
    with cgutils.for_range_slice(builder, integer(0), width, integer(LANES)) as (i, _):
        source = builder.gep(weights.data, [builder.add(start, i)])
        weight = builder.load(builder.bitcast(source, narrow.as_pointer()), align=2)
        target = builder.bitcast(builder.gep(sums.data, [i]), wide.as_pointer())
        product = builder.mul(builder.sext(weight, wide), factors)
        builder.store(builder.add(builder.load(target, align=4), product), target, align=4)
    return context.get_dummy_value()


@generated_by(_generate_add_scaled)
def add_scaled(sums: Array, weights: Array, row: Integer, factor: Integer) -> None:
    """``sums += weights[row] * factor`` for int32 (n,), int16 (rows, n) and n a multiple of 8."""
    for i in range(len(sums)):
        sums[i] += np.int32(weights[row, i]) * np.int32(factor)
