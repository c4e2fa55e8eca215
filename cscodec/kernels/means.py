"""Kernel that codes layer 0 of one plane of a tile: the patch means.

A small network of whole numbers looks at the means around, in units of how much they differ, and
says where the mean will be and how surely: the place and the scale of a logistic distribution.
The value is coded as its distance from there: is there any, on which side, is it more than 1, 2,
...; at large scales in coarse units, whose remainder follows as it is.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from cscodec.kernels.decisions import EVEN, clipped, code_escape, half_octaves
from cscodec.kernels.declaration import (
    Array,
    Integer,
    helper,
    inline_here,
    int16,
    int32,
    int64,
    kernel,
    uint8,
)
from cscodec.kernels.intrinsics import LANES, multiply_pairs, rectify
from cscodec.kernels.mixing import LOGIT_LIMIT, MIN_PROBABILITY, SQUASH
from cscodec.kernels.range_coder import (
    FAILED,
    STATE_SIZE,
    Registers,
    code_next,
    loaded,
    store,
)
from cscodec.layout import AROUND_MEAN, MAX_VALUE, MEAN_MIDDLE, NEIGHBOURS

_DOWN, _RIGHT = np.array(AROUND_MEAN, np.int64).T.copy()
_OTHER_DOWN, _OTHER_RIGHT = np.array(NEIGHBOURS, np.int64).T.copy()
NUM_AROUND, NUM_OTHERS = len(AROUND_MEAN), len(NEIGHBOURS)
_BINS = np.arange(24)
#: By how much means around differ, in half octaves: 1/256 of it, and 65536 over it.
SPREAD = np.rint(256 * 2.0 ** ((_BINS - 5) / 2)).astype(np.int64)
PER_SPREAD = np.rint(65536 * 2.0 ** ((5 - _BINS) / 2)).astype(np.int64)
NUM_SCALES, FIRST_SCALE, FINE_SCALES = 96, 32, 37
#: By scale, in eighths of octaves from 1/16: 65536 over it.
PER_SCALE = np.rint(65536 * 2.0 ** ((FIRST_SCALE - np.arange(NUM_SCALES)) / 8)).astype(np.int64)


class MeanNetwork(NamedTuple):
    """Weights of the network for the means of a plane, and room to work in.

    Filled up with zeros: inputs and outputs to multiples of 8, sums to multiples of 32.

    Attributes
    ----------
    inputs, hidden, outputs
        In pairs of what they multiply: what is known of a mean, and the first and the second
        rectified sums. Outputs are the place and the scale.
    input_offsets, hidden_offsets, output_offsets
        What is always added.
    known, first, first_rectified, second, second_rectified, sums
        Room.
    """

    inputs: Annotated[Array, int16["4 * inputs", "32 * first_blocks", 2]]
    input_offsets: Annotated[Array, int32["32 * first_blocks"]]
    hidden: Annotated[Array, int16["16 * first_blocks", "32 * second_blocks", 2]]
    hidden_offsets: Annotated[Array, int32["32 * second_blocks"]]
    outputs: Annotated[Array, int16["16 * second_blocks", LANES, 2]]
    output_offsets: Annotated[Array, int32[LANES]]
    known: Annotated[Array, int16["8 * inputs"].out]
    first: Annotated[Array, int32["32 * first_blocks"].out]
    first_rectified: Annotated[Array, int16["32 * first_blocks"].out]
    second: Annotated[Array, int32["32 * second_blocks"].out]
    second_rectified: Annotated[Array, int16["32 * second_blocks"].out]
    sums: Annotated[Array, int32[LANES].out]


class _Expected(NamedTuple):
    """Where a mean is expected, in the terms of docs/format.md."""

    place: Integer  # in 1/256
    per_scale: Integer
    coarse: Integer  # bits of a value that are no part of the distance


@kernel
def code_means(
    state: Annotated[Array, int64[STATE_SIZE].out],
    data: Annotated[Array, uint8["num_bytes"].out],
    decoding: Integer,
    network: MeanNetwork,
    means: Annotated[Array, int16["rows + 2", "columns + 4"].out],
    luma: Annotated[Array, int32["luma_rows + 2", "luma_columns + 2"]],
    chroma: Annotated[Array, int32["chroma_rows + 2", "chroma_columns + 2"]],
    num_others: Integer,
    wanted: Annotated[Array, int32["rows", "columns"]],
) -> None:
    """Code layer 0, the patch means.

    Parameters
    ----------
    state, data, decoding
        Of the range coder.
    network : MeanNetwork
        With room for ``num_others``.
    means
        Quantised, in a frame of two rows above and two columns on both sides; zeros at first.
    luma, chroma
        Four times the means of the planes coded before, at the same places, in a frame of what is
        next to it. Of the size of ``means``, if ``num_others`` asks for them.
    num_others
        How many of these there are, 0 to 2.
    wanted
        What the encoder wants, in 1/256 of a step.
    """
    rows = means.shape[0] - 2
    columns = means.shape[1] - 4
    fits = len(network.known) >= NUM_AROUND + 4 + (NUM_OTHERS + 1) * num_others
    fits &= num_others < 1 or (luma.shape[0] == rows + 2 and luma.shape[1] == columns + 2)
    fits &= num_others < 2 or (chroma.shape[0] == rows + 2 and chroma.shape[1] == columns + 2)
    if not fits:
        state[FAILED] = 1
        return
    registers = loaded(state)
    for r in range(rows):
        if r > 0:
            _frame_row(means, r)
        for c in range(columns):
            if r == 0:
                _frame_above(means, c)
            spread = _look_around(network.known, means, r, c)
            if num_others > 0:
                _look_at_other(network.known, NUM_AROUND + 4, luma, r, c)
            if num_others > 1:
                _look_at_other(network.known, NUM_AROUND + 5 + NUM_OTHERS, chroma, r, c)
            expected = _expect(network, means, spread, r, c)
            value = (np.int64(wanted[r, c]) + 128) >> 8
            value, registers = _code_mean(state, registers, data, decoding, expected, value)
            if abs(value) > MAX_VALUE:
                state[FAILED] = 1
                return
            means[r + 2, c + 2] = value
    store(registers, state)


@helper
def _frame_row(means: Array, r: Integer) -> None:
    """Fill in what lies beside the row above and left of a row, not the first."""
    inline_here()
    end = means.shape[1] - 2
    for c in range(2):
        means[r + 1, end + c] = means[r + 1, end - 1]
        means[r + 2, c] = means[r + 1, 2]
    if r == 1:  # and above the row above
        means[2, 0] = means[2, 2]
        means[2, 1] = means[2, 2]
        for c in range(end + 2):
            means[1, c] = means[2, c]


@helper
def _frame_above(means: Array, c: Integer) -> None:
    """Let all above a mean of the first row be the one before it."""
    inline_here()
    before = means[2, c + 1]
    if c == 1:
        means[2, 0] = before
        means[2, 1] = before
    for k in range(5):
        means[0, c + k] = before
        means[1, c + k] = before


@helper
def _at(means: Array, row: Integer, column: Integer) -> Integer:
    """Return a mean; places are unsigned, so that none is counted from the end."""
    inline_here()
    return np.int64(means[np.uint64(row), np.uint64(column)])


@helper
def _look_around(known: Array, means: Array, r: Integer, c: Integer) -> Integer:
    """Fill in what is known from the plane's own means; returns how much they differ, a bin."""
    inline_here()
    row, column = r + 2, c + 2
    west, north = _at(means, row, column - 1), _at(means, row - 1, column)
    north_west = _at(means, row - 1, column - 1)
    near = abs(west - north_west) + abs(north - north_west)
    near += abs(north - _at(means, row - 1, column + 1))
    far = abs(west - _at(means, row, column - 2))
    far += abs(north - _at(means, row - 2, column))
    spread = half_octaves(2 * near + far + 3)
    factor = PER_SPREAD[spread]
    for k in range(NUM_AROUND):
        distance = 2 * _at(means, row + _DOWN[k], column + _RIGHT[k]) - west - north
        known[k] = MEAN_MIDDLE + clipped((distance * factor) >> 10, MEAN_MIDDLE - 1)
    known[NUM_AROUND] = MEAN_MIDDLE + 64 * (spread - 12)
    known[NUM_AROUND + 1] = MEAN_MIDDLE + 512 * np.int64(r == 0)
    known[NUM_AROUND + 2] = MEAN_MIDDLE + 512 * np.int64(c == 0)
    known[NUM_AROUND + 3] = MEAN_MIDDLE + 512 * np.int64(column + 3 == means.shape[1])
    return spread


@helper
def _look_at_other(known: Array, start: Integer, means: Array, r: Integer, c: Integer) -> None:
    """Fill in what is known from another plane: how the means around differ from the one here."""
    inline_here()
    row, column = r + 1, c + 1
    here = _at(means, row, column)
    total: Integer = 0
    for k in range(NUM_OTHERS):
        total += abs(_at(means, row + _OTHER_DOWN[k], column + _OTHER_RIGHT[k]) - here)
    spread = half_octaves((total >> 3) + 3)
    factor = PER_SPREAD[spread]
    for k in range(NUM_OTHERS):
        distance = _at(means, row + _OTHER_DOWN[k], column + _OTHER_RIGHT[k]) - here
        known[start + k] = MEAN_MIDDLE + clipped((distance * factor) >> 11, MEAN_MIDDLE - 1)
    known[start + NUM_OTHERS] = MEAN_MIDDLE + 64 * (spread - 12)


@helper
def _expect(
    network: MeanNetwork, means: Array, spread: Integer, r: Integer, c: Integer
) -> _Expected:
    """Let the network say where a mean will be."""
    inline_here()
    multiply_pairs(network.known, network.inputs, network.input_offsets, network.first)
    rectify(network.first, 10, network.first_rectified)
    multiply_pairs(network.first_rectified, network.hidden, network.hidden_offsets, network.second)
    rectify(network.second, 10, network.second_rectified)
    multiply_pairs(network.second_rectified, network.outputs, network.output_offsets, network.sums)
    both = _at(means, r + 2, c + 1) + _at(means, r + 1, c + 2)
    place = 128 * both + ((np.int64(network.sums[0]) * SPREAD[spread]) >> 17)
    scale = (np.int64(network.sums[1]) >> 14) + 4 * (spread - 5) + FIRST_SCALE
    scale = min(max(scale, 0), NUM_SCALES - 1)
    return _Expected(
        clipped(place, 256 * MAX_VALUE), PER_SCALE[scale], max(scale - FINE_SCALES, 0) >> 3
    )


@helper
def _below(expected: _Expected, unit: Integer) -> Integer:
    """Return the probability, of 65536, that a value is below a coarse unit."""
    distance = (unit << (8 + expected.coarse)) - 128 - expected.place
    logit = clipped((distance * expected.per_scale) >> 16, LOGIT_LIMIT)
    return np.int64(SQUASH[logit + 2048])


@helper
def _code_mean(
    state: Array,
    registers: Registers,
    data: Array,
    decoding: Integer,
    expected: _Expected,
    value: Integer,
) -> tuple[Integer, Registers]:
    """Code a mean, given where it is expected."""
    inline_here()
    middle = (expected.place + 128) >> (8 + expected.coarse)
    distance = (value >> expected.coarse) - middle
    lower, upper = _below(expected, middle), 65536 - _below(expected, middle + 1)
    other, registers = code_next(
        registers, data, decoding, min(lower + upper, 65535), np.int64(distance != 0)
    )
    if other:
        negative, registers = code_next(
            registers, data, decoding, (lower << 16) // (lower + upper), np.int64(distance < 0)
        )
        left, step = (lower, -1) if negative else (upper, 1)
        size: Integer = 1
        while True:
            # Beyond, on this side: below its first unit, or from the one after it on.
            edge = _below(expected, middle + step * (size + 1) + negative)
            beyond = edge if negative else 65536 - edge
            if beyond <= MIN_PROBABILITY:
                store(registers, state)
                size += code_escape(state, data, decoding, abs(distance) - size)
                registers = loaded(state)
                break
            chance = min((beyond << 16) // left, 65535)
            more, registers = code_next(
                registers, data, decoding, chance, np.int64(abs(distance) > size)
            )
            if not more:
                break
            left = beyond
            size += 1
        distance = step * size
    else:
        distance = np.int64(0)
    result = middle + distance
    for k in range(expected.coarse):
        bit = (value >> (expected.coarse - 1 - k)) & 1
        bit, registers = code_next(registers, data, decoding, EVEN, bit)
        result = 2 * result + bit
    return result, registers
