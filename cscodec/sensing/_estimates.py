"""Code that kernels share: patches from few coefficients of an orthonormal basis, as LLVM vectors.

Terms are added in the order of the coefficients: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cscodec._jit import Array, Float32, Integer, generated_by
from cscodec._llvm import arrays, splat


def _generate_mask_above(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from llvmlite import ir

    vector, integers = ir.VectorType(ir.FloatType(), 64), ir.VectorType(ir.IntType(32), 64)
    (numbers,) = arrays(context, builder, signature, arguments)
    row, threshold = arguments[1:]
    place = builder.gep(numbers.data, [builder.mul(row, row.type(64))])
    bits = builder.load(builder.bitcast(place, integers.as_pointer()), align=4)
    size = builder.bitcast(builder.and_(bits, integers([0x7FFFFFFF] * 64)), vector)
    above = builder.fcmp_ordered(">", size, splat(builder, threshold, 64))
    return builder.bitcast(above, ir.IntType(64))


@generated_by(_generate_mask_above, "int64")
def mask_above(numbers: Array, row: Integer, threshold: Float32) -> Integer:
    """Return the mask of those of a row of 64 whose magnitude is above a threshold."""
    mask = 0
    for j in range(64):
        if abs(numbers[row, j]) > threshold:
            mask |= 1 << j
    return mask


def _generate_add_estimate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from llvmlite import ir

    int32, int64, number = ir.IntType(32), ir.IntType(64), ir.FloatType()
    patch, line = ir.VectorType(number, 64), ir.VectorType(number, 8)
    coefficients, synthesis, total = arrays(context, builder, signature, arguments)
    row, mask, share, top, left = (arguments[k] for k in (1, 2, 4, 6, 7))
    first = builder.gep(coefficients.data, [builder.mul(row, int64(64))])

    start = splat(builder, builder.fmul(builder.load(first), number(0.125)), 64)
    before, function = builder.block, builder.function
    test, body, done = (function.append_basic_block(name) for name in ("test", "body", "done"))
    builder.branch(test)
    builder.position_at_end(test)
    rest, estimate = builder.phi(int64), builder.phi(patch)
    rest.add_incoming(mask, before)
    estimate.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("!=", rest, int64(0)), body, done)
    builder.position_at_end(body)
    j = builder.cttz(rest, ir.Constant(ir.IntType(1), 1))
    value = builder.load(builder.gep(first, [j]))
    atom = builder.gep(synthesis.data, [builder.mul(j, int64(64))])
    atom = builder.load(builder.bitcast(atom, patch.as_pointer()), align=4)
    longer = builder.fadd(estimate, builder.fmul(splat(builder, value, 64), atom))
    rest.add_incoming(builder.and_(rest, builder.sub(rest, int64(1))), body)
    estimate.add_incoming(longer, body)
    builder.branch(test)
    builder.position_at_end(done)
    pitch = builder.extract_value(total.shape, 1)
    shares = splat(builder, share, 8)
    for y in range(8):
        lanes = ir.Constant(ir.VectorType(int32, 8), list(range(8 * y, 8 * y + 8)))
        part = builder.shuffle_vector(estimate, patch(ir.Undefined), lanes)
        place = builder.add(builder.mul(builder.add(top, int64(y)), pitch), left)
        target = builder.bitcast(builder.gep(total.data, [place]), line.as_pointer())
        sums = builder.fadd(builder.load(target, align=4), builder.fmul(shares, part))
        builder.store(sums, target, align=4)
    return context.get_dummy_value()


@generated_by(_generate_add_estimate)
def add_estimate(
    coefficients: Array,
    row: Integer,
    mask: Integer,
    synthesis: Array,
    share: Float32,
    total: Array,
    top: Integer,
    left: Integer,
) -> None:
    """Add ``share`` times a patch to ``total``: its mean and the coefficients of the mask."""
    for i in range(64):
        value = coefficients[row, 0] * np.float32(0.125)
        for j in range(64):
            if (mask >> j) & 1:
                value += coefficients[row, j] * synthesis[j, i]
        total[top + i // 8, left + i % 8] += share * value
