"""Kernels of :mod:`cscodec.sensing.filters`: classes of pixels, filtering, normal equations.

No argument is checked here. Planes have a frame of ``RADIUS`` pixels around what is filtered. Sums
have a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec._jit import (
    Array,
    Float32,
    Float32Matrix,
    Float32Vector,
    Float64Cube,
    Float64Matrix,
    Int64Matrix,
    Integer,
    generated_by,
    helper,
    kernel,
)
from cscodec._llvm import arrays

RADIUS = 3  #: reach of the filters, in pixels
_BLOCK = 4  # pixels on each side of a block that shares its activity and direction
NUM_ACTIVITIES = 10
NUM_DIRECTIONS = 3
NUM_PLACES = 16  #: in a quarter of a patch; the other quarters are its mirror images
NUM_CLASSES = NUM_ACTIVITIES * NUM_DIRECTIONS * NUM_PLACES


def _diamond(radius: int) -> npt.NDArray[np.int64]:
    return np.array(
        [
            (y, x)
            for y in range(-radius, radius + 1)
            for x in range(-radius, radius + 1)
            if abs(y) + abs(x) <= radius
        ],
        np.int64,
    )


# Taps on the cleaned plane (less its centre), then taps on what cleaning took away.
CLEAN_TAPS = np.array([tap for tap in _diamond(3) if tap.any()], np.int64)
REMOVED_TAPS = _diamond(2)
NUM_CLEAN = len(CLEAN_TAPS)
NUM_TAPS = NUM_CLEAN + len(REMOVED_TAPS)
# Activity (mean gradient in 1/8 step) at which the next class begins: half octaves.
_ACTIVITY_BOUNDS = np.array([0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0], np.float32)


@kernel
def frame(
    plane: Float32Matrix, clean: Float32Matrix, removed: Float32Matrix, framed: Float32Matrix
) -> None:
    """Write ``plane - clean`` and ``clean`` with a frame of ``RADIUS`` copies of their edges."""
    height, width = clean.shape
    for row in range(height + 2 * RADIUS):
        y = min(max(row - RADIUS, 0), height - 1)
        for x in range(width):
            framed[row, RADIUS + x] = clean[y, x]
            removed[row, RADIUS + x] = plane[y, x] - clean[y, x]
        for array in (framed, removed):
            for x in range(RADIUS):
                array[row, x] = array[row, RADIUS]
                array[row, RADIUS + width + x] = array[row, RADIUS + width - 1]


@kernel
def classify(
    clean: Float32Matrix,
    step: Float32,
    horizontal: Float32Matrix,
    vertical: Float32Matrix,
    classes: Int64Matrix,
) -> None:
    """Write activity and direction of every 4x4 block: its mean gradient over 8x8 pixels.

    ``horizontal`` and ``vertical`` (2 rows + 2, 2 columns + 2) are room: sums over 2x2 pixels.
    """
    rows, columns = classes.shape
    for i in range(horizontal.shape[0]):
        y = 2 * i + RADIUS - 2
        for j in range(horizontal.shape[1]):
            x = 2 * j + RADIUS - 2
            a, b, c = clean[y, x], clean[y, x + 1], clean[y, x + 2]
            d, e, f = clean[y + 1, x], clean[y + 1, x + 1], clean[y + 1, x + 2]
            g, h = clean[y + 2, x], clean[y + 2, x + 1]
            horizontal[i, j] = (abs(b - a) + abs(c - b)) + (abs(e - d) + abs(f - e))
            vertical[i, j] = (abs(d - a) + abs(e - b)) + (abs(g - d) + abs(h - e))
    for r in range(rows):
        for c in range(columns):
            across = np.float32(0)
            down = np.float32(0)
            for i in range(2 * r, 2 * r + 4):
                for j in range(2 * c, 2 * c + 4):
                    across += horizontal[i, j]
                    down += vertical[i, j]
            activity = (across + down) * (np.float32(0.125) / step)
            level = 0
            while level < NUM_ACTIVITIES - 1 and activity >= _ACTIVITY_BOUNDS[level]:
                level += 1
            direction = 1
            if across * np.float32(1.8) < down + step:
                direction = 0
            elif down * np.float32(1.8) < across + step:
                direction = 2
            classes[r, c] = level * NUM_DIRECTIONS + direction


def _generate_filter_block(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    int32, int64, number = ir.IntType(32), ir.IntType(64), ir.FloatType()
    block, line = ir.VectorType(number, 16), ir.VectorType(number, 4)
    removed, clean, weights, offsets, filtered = arrays(context, builder, signature, arguments)
    row, quarter, top, left = arguments[5:]
    pitch = builder.extract_value(clean.shape, 1)
    first = builder.mul(builder.add(top, int64(RADIUS)), pitch)
    first = builder.add(first, builder.add(left, int64(RADIUS)))
    weight_row = builder.mul(row, int64(16 * NUM_TAPS))
    offset_row = builder.mul(quarter, int64(NUM_TAPS))

    def joined(lines: list[Any]) -> Any:
        while len(lines) > 1:
            lanes = ir.VectorType(int32, 2 * lines[0].type.count)
            order = ir.Constant(lanes, list(range(lanes.count)))
            pairs = zip(lines[::2], lines[1::2], strict=True)
            lines = [builder.shuffle_vector(a, b, order) for a, b in pairs]
        return lines[0]

    def four_by_four(array: Any, place: Any) -> Any:
        lines = []
        for y in range(4):
            start = builder.add(place, builder.mul(pitch, int64(y)))
            start = builder.bitcast(builder.gep(array.data, [start]), line.as_pointer())
            lines.append(builder.load(start, align=4))
        return joined(lines)

    def tap(array: Any, k: Any) -> tuple[Any, Any]:
        offset = builder.load(builder.gep(offsets.data, [builder.add(offset_row, k)]))
        place = builder.add(weight_row, builder.mul(k, int64(16)))
        weight = builder.bitcast(builder.gep(weights.data, [place]), block.as_pointer())
        return builder.load(weight, align=4), four_by_four(array, builder.add(first, offset))

    centre = four_by_four(clean, first)
    total = cgutils.alloca_once(builder, block)
    builder.store(block([0.0] * 16), total)
    with cgutils.for_range_slice(builder, int64(0), int64(NUM_CLEAN), int64(1)) as (k, _):
        weight, pixels = tap(clean, k)
        product = builder.fmul(weight, builder.fsub(pixels, centre))
        builder.store(builder.fadd(builder.load(total), product), total)
    with cgutils.for_range_slice(builder, int64(NUM_CLEAN), int64(NUM_TAPS), int64(1)) as (k, _):
        weight, pixels = tap(removed, k)
        builder.store(builder.fadd(builder.load(total), builder.fmul(weight, pixels)), total)
    result = builder.fadd(centre, builder.load(total))
    width = builder.extract_value(filtered.shape, 1)
    for y in range(4):
        part = ir.Constant(ir.VectorType(int32, 4), list(range(4 * y, 4 * y + 4)))
        start = builder.add(builder.mul(builder.add(top, int64(y)), width), left)
        start = builder.bitcast(builder.gep(filtered.data, [start]), line.as_pointer())
        builder.store(builder.shuffle_vector(result, block(ir.Undefined), part), start, align=4)
    return context.get_dummy_value()


@generated_by(_generate_filter_block)
def _filter_block(
    removed: Array,
    clean: Array,
    weights: Array,
    offsets: Array,
    filtered: Array,
    row: Integer,
    quarter: Integer,
    top: Integer,
    left: Integer,
) -> None:
    """Filter 4x4 pixels with a row of weights, 16 for each tap, and a row of offsets."""
    width = clean.shape[1]
    for pixel in range(16):
        y, x = top + pixel // 4, left + pixel % 4
        here = (y + RADIUS) * width + x + RADIUS
        centre = clean[here // width, here % width]
        total = np.float32(0)
        for k in range(NUM_TAPS):
            place = here + offsets[quarter, k]
            if k < NUM_CLEAN:
                value = clean[place // width, place % width] - centre
            else:
                value = removed[place // width, place % width]
            total += weights[row, 16 * k + pixel] * value
        filtered[y, x] = centre + total


@kernel
def apply_filters(
    removed: Float32Matrix,
    clean: Float32Matrix,
    classes: Int64Matrix,
    weights: Float32Matrix,
    offsets: Int64Matrix,
    filtered: Float32Matrix,
) -> None:
    """``filtered`` = clean plus, at every pixel, the correction by its class's filter.

    ``weights`` (kinds of blocks * 4 quarters of a patch, taps * 16 pixels of a block) and, for
    every quarter and tap, ``offsets`` (4, taps) in the framed planes.
    """
    rows, columns = classes.shape
    for r in range(rows):
        for c in range(columns):
            quarter = 2 * (r & 1) + (c & 1)
            row = 4 * classes[r, c] + quarter
            _filter_block(
                removed, clean, weights, offsets, filtered, row, quarter, _BLOCK * r, _BLOCK * c
            )


@helper
def _read(removed: Array, clean: Array, y: int, x: int, inputs: Array) -> int:
    """Collect the taps of the pixel at (y, x), mirrored into its patch's first quarter.

    Returns its place there.
    """
    patch_y = y & 7
    patch_x = x & 7
    down = 1
    right = 1
    if patch_y > 3:
        patch_y = 7 - patch_y
        down = -1
    if patch_x > 3:
        patch_x = 7 - patch_x
        right = -1
    centre = clean[y + RADIUS, x + RADIUS]
    for k in range(NUM_CLEAN):
        inputs[k] = (
            clean[y + RADIUS + down * CLEAN_TAPS[k, 0], x + RADIUS + right * CLEAN_TAPS[k, 1]]
            - centre
        )
    for k in range(NUM_CLEAN, NUM_TAPS):
        inputs[k] = removed[
            y + RADIUS + down * REMOVED_TAPS[k - NUM_CLEAN, 0],
            x + RADIUS + right * REMOVED_TAPS[k - NUM_CLEAN, 1],
        ]
    return 4 * patch_y + patch_x


@kernel
def accumulate(
    removed: Float32Matrix,
    clean: Float32Matrix,
    classes: Int64Matrix,
    target: Float32Matrix,
    inputs: Float32Vector,
    products: Float64Cube,
    sums: Float64Matrix,
) -> None:
    """Add the normal equations of every class for the correction ``target`` - clean."""
    height, width = target.shape
    for y in range(height):
        for x in range(width):
            place = _read(removed, clean, y, x, inputs)
            index = classes[y // _BLOCK, x // _BLOCK] * NUM_PLACES + place
            wanted = target[y, x] - clean[y + RADIUS, x + RADIUS]
            for i in range(NUM_TAPS):
                value = inputs[i]
                sums[index, i] += value * wanted
                for j in range(NUM_TAPS):
                    products[index, i, j] += value * inputs[j]
