"""Kernels of :func:`cscodec.sensing.shrinkage.shrinkage_average`: shrink and average patches.

Like all kernels here they add in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cscodec._intrinsics import count_bits
from cscodec._jit import (
    Array,
    Float32,
    Float32Matrix,
    Float32Vector,
    Integer,
    generated_by,
    kernel,
)
from cscodec.sensing._multiply import multiply

GROUP = 64  #: patches transformed together: patches and coefficients take 32 KiB


def _generate_mask_above(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from llvmlite import ir

    vector, integers = ir.VectorType(ir.FloatType(), 64), ir.VectorType(ir.IntType(32), 64)
    numbers = context.make_array(signature.args[0])(context, builder, arguments[0])
    row, threshold = arguments[1:]
    place = builder.gep(numbers.data, [builder.mul(row, row.type(64))])
    bits = builder.load(builder.bitcast(place, integers.as_pointer()), align=4)
    size = builder.bitcast(builder.and_(bits, integers([0x7FFFFFFF] * 64)), vector)
    lane = builder.insert_element(vector(ir.Undefined), threshold, ir.IntType(32)(0))
    limits = builder.shuffle_vector(lane, vector(ir.Undefined), integers([0] * 64))
    return builder.bitcast(builder.fcmp_ordered(">", size, limits), ir.IntType(64))


@generated_by(_generate_mask_above, "int64")
def _mask_above(numbers: Array, row: Integer, threshold: Float32) -> Integer:
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
    coefficients, synthesis, total = (
        context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 3, 5)
    )
    row, mask, share, top, left = (arguments[k] for k in (1, 2, 4, 6, 7))
    first = builder.gep(coefficients.data, [builder.mul(row, int64(64))])

    def splat(value: Any, vector: Any) -> Any:
        lane = builder.insert_element(vector(ir.Undefined), value, int32(0))
        zeros = ir.Constant(ir.VectorType(int32, vector.count), [0] * vector.count)
        return builder.shuffle_vector(lane, vector(ir.Undefined), zeros)

    start = splat(builder.fmul(builder.load(first), number(0.125)), patch)
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
    longer = builder.fadd(estimate, builder.fmul(splat(value, patch), atom))
    rest.add_incoming(builder.and_(rest, builder.sub(rest, int64(1))), body)
    estimate.add_incoming(longer, body)
    builder.branch(test)
    builder.position_at_end(done)
    pitch = builder.extract_value(total.shape, 1)
    shares = splat(share, line)
    for y in range(8):
        lanes = ir.Constant(ir.VectorType(int32, 8), list(range(8 * y, 8 * y + 8)))
        part = builder.shuffle_vector(estimate, patch(ir.Undefined), lanes)
        place = builder.add(builder.mul(builder.add(top, int64(y)), pitch), left)
        target = builder.bitcast(builder.gep(total.data, [place]), line.as_pointer())
        sums = builder.fadd(builder.load(target, align=4), builder.fmul(shares, part))
        builder.store(sums, target, align=4)
    return context.get_dummy_value()


@generated_by(_generate_add_estimate)
def _add_estimate(
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


@kernel
def add_shrunk(
    plane: Float32Matrix,
    analysis: Float32Matrix,
    synthesis: Float32Matrix,
    threshold: Float32,
    stride: Integer,
    first_top: Integer,
    first_left: Integer,
    patches: Float32Matrix,
    coefficients: Float32Matrix,
    shares: Float32Matrix,
    total: Float32Matrix,
) -> None:
    """Add weighted estimates of all patches on a grid of ``stride`` to ``total``.

    The grid begins at ``first_top`` and ``first_left``. ``analysis`` has the basis in its columns,
    ``synthesis`` in its rows, the constant first. The weights, 1 / (1 + number of coefficients kept
    beside the mean), are left in ``shares``, one for each patch. ``patches`` and ``coefficients``
    (GROUP, 64) are room.
    """
    num_rows, num_columns = shares.shape
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
                mask = _mask_above(coefficients, n, threshold) & -2  # the mean is always kept
                share = np.float32(1) / np.float32(1 + count_bits(mask))
                shares[r, first + n] = share
                left = first_left + (first + n) * stride
                _add_estimate(coefficients, n, mask, synthesis, share, total, top, left)


@kernel
def add_shares(
    shares: Float32Matrix,
    stride: Integer,
    first_top: Integer,
    first_left: Integer,
    column: Float32Vector,
    line: Float32Vector,
    weight: Float32Matrix,
) -> None:
    """Add to every pixel of ``weight`` the shares of the patches that cover it.

    ``column`` (columns of ``shares``,) and ``line`` (columns of ``weight``,) are room.
    """
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
