"""The convolutions of the restorer: whole numbers, the same bits on every CPU and in any order.

Features are int16, (rows, columns, channels), with a border of zeros, one place wide, which is part
of every array here and is never written to. Weights are bytes kept as int16, in pairs of terms, as
processors multiply and add two at once. The int32 sum of a channel's products (it wraps) becomes
float32, times the channel's scale, plus a bias; that is rounded to the nearest whole number (of two
the even one) and held to int16. As in the product of matrices, the innermost piece has LLVM code of
its own: four pixels of a row by sixteen of the channels made.

A kernel makes all of its target. Threads share work by rows: each is given a slice of the arrays,
borders included, that begins at a multiple of ``PERIOD`` rows.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from cscodec.kernels.declaration import (
    Array,
    Integer,
    float32,
    helper,
    int16,
    intrinsic,
    kernel,
)

LANES = 16  #: channels made at a time: weights are (channels made / 16, pairs of terms, 16, 2)
PIXELS = 4  #: of a tile
PERIOD = 4  #: places on each side of a patch: biases are by place, (4, 4, channels made / 16, 16)
LARGEST = 32767  #: magnitude of features
WRITE, RECTIFY, ADD = range(3)  #: sums as they are, no less than 0, or added to what was there

Place = tuple[Any, Any, Any]  #: row, column, and columns from there to the next pixel's


@intrinsic
def convolve_pixel(
    source: Array,
    weights: Array,
    scales: Array,
    biases: Array,
    target: Array,
    taken: Place,
    made: Place,
    block: Integer,
    taps: Integer,
    ending: Integer,
) -> None:
    """Make a block of 16 channels of the pixel at ``made``; its first tap is at ``taken``."""
    depth = source.shape[2]
    for lane in range(LANES):
        total = np.int64(0)
        for y in range(taps):
            for x in range(taps):
                term = (y * taps + x) * depth
                for i in range(depth):
                    weight = np.int64(weights[block, (term + i) // 2, lane, i % 2])
                    total += weight * source[taken[0] + y, taken[1] + x, i]
        bias = biases[(made[0] - 1) % PERIOD, (made[1] - 1) % PERIOD, block, lane]
        value = np.rint(np.float32(np.int32(total)) * scales[block, lane] + bias)
        channel = LANES * block + lane
        if ending == ADD:
            value += np.float32(target[made[0], made[1], channel])
        least = np.float32(0 if ending == RECTIFY else -LARGEST)
        value = min(max(value, least), np.float32(LARGEST))
        target[made[0], made[1], channel] = np.int16(value)


@intrinsic
def convolve_tile(
    source: Array,
    weights: Array,
    scales: Array,
    biases: Array,
    target: Array,
    taken: Place,
    made: Place,
    block: Integer,
    taps: Integer,
    ending: Integer,
) -> None:
    """Make 16 channels of four pixels of a row, the first of them as :func:`convolve_pixel`."""
    for p in range(PIXELS):
        pixel_taken = (taken[0], taken[1] + p * taken[2], taken[2])
        pixel_made = (made[0], made[1] + p * made[2], made[2])
        convolve_pixel(
            source, weights, scales, biases, target, pixel_taken, pixel_made, block, taps, ending
        )


@helper
def _convolve_row(
    source: Array,
    weights: Array,
    scales: Array,
    biases: Array,
    target: Array,
    taken: Place,
    made: Place,
    columns: Integer,
    taps: Integer,
    ending: Integer,
) -> None:
    """Make all channels of a row of ``columns`` pixels, the first at ``made``."""
    whole = columns - columns % PIXELS
    for block in range(weights.shape[0]):
        for column in range(0, whole, PIXELS):
            first = (taken[0], taken[1] + column * taken[2], taken[2])
            onto = (made[0], made[1] + column * made[2], made[2])
            convolve_tile(source, weights, scales, biases, target, first, onto, block, taps, ending)
        for column in range(whole, columns):
            first = (taken[0], taken[1] + column * taken[2], taken[2])
            onto = (made[0], made[1] + column * made[2], made[2])
            convolve_pixel(
                source, weights, scales, biases, target, first, onto, block, taps, ending
            )


@kernel
def convolve(
    source: Annotated[Array, int16["rows + 2", "columns + 2", "4 * fours"]],
    weights: Annotated[Array, int16["blocks", "18 * fours", LANES, 2]],
    scales: Annotated[Array, float32["blocks", LANES]],
    biases: Annotated[Array, float32[PERIOD, PERIOD, "blocks", LANES]],
    target: Annotated[Array, int16["rows + 2", "columns + 2", f"{LANES} * blocks"].out],
    ending: Integer,
) -> None:
    """Convolve with 3x3 taps. Pixel (row, column) has bias (row % 4, column % 4)."""
    rows, columns = source.shape[0] - 2, source.shape[1] - 2
    for row in range(rows):
        taken, made = (row, 0, 1), (row + 1, 1, 1)
        _convolve_row(source, weights, scales, biases, target, taken, made, columns, 3, ending)


@kernel
def convolve_down(
    source: Annotated[Array, int16["2 * rows + 2", "2 * columns + 2", "4 * fours"]],
    weights: Annotated[Array, int16["blocks", "8 * fours", LANES, 2]],
    scales: Annotated[Array, float32["blocks", LANES]],
    biases: Annotated[Array, float32[PERIOD, PERIOD, "blocks", LANES]],
    target: Annotated[Array, int16["rows + 2", "columns + 2", f"{LANES} * blocks"].out],
    ending: Integer,
) -> None:
    """Convolve with 2x2 taps at every second row and column: half as large on each side."""
    rows, columns = target.shape[0] - 2, target.shape[1] - 2
    for row in range(rows):
        taken, made = (2 * row + 1, 1, 2), (row + 1, 1, 1)
        _convolve_row(source, weights, scales, biases, target, taken, made, columns, 2, ending)


@kernel
def convolve_up(
    source: Annotated[Array, int16["rows + 2", "columns + 2", "4 * fours"]],
    weights: Annotated[Array, int16[4, "blocks", "2 * fours", LANES, 2]],
    scales: Annotated[Array, float32[4, "blocks", LANES]],
    biases: Annotated[Array, float32[4, PERIOD, PERIOD, "blocks", LANES]],
    target: Annotated[Array, int16["2 * rows + 2", "2 * columns + 2", f"{LANES} * blocks"].out],
    ending: Integer,
) -> None:
    """Make of every place the four below it, in raster order, each with weights of its own."""
    rows, columns = source.shape[0] - 2, source.shape[1] - 2
    for row in range(rows):
        for place in range(4):
            taken, made = (row + 1, 1, 1), (2 * row + 1 + place // 2, 1 + place % 2, 2)
            own, scale, begin = weights[place], scales[place], biases[place]
            _convolve_row(source, own, scale, begin, target, taken, made, columns, 1, ending)
