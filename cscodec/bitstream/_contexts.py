"""Kernel that codes one layer of one plane of a tile: which decisions, and in which contexts.

A measurement is coded as: is it zero, is its magnitude above 1, 2, ..., its sign. What is known
about it is condensed into two predictions, linear in what is already coded: its magnitude and, for
the first measurements, its signed value. Sources are the neighbouring patches (those coded before
with everything, the others with their earlier layers), the patch's own earlier measurements, and
for chroma the other planes. Contexts are these predictions, quantised, and the nearest values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cscodec._intrinsics import add_scaled, count_bits, lowest_bit
from cscodec._jit import (
    Array,
    Int16Cube,
    Int16Matrix,
    Int16Vector,
    Int32Cube,
    Int32Matrix,
    Int32Vector,
    Int64Matrix,
    Int64Vector,
    Integer,
    Uint8Vector,
    Uint32Vector,
    helper,
    inline_here,
    kernel,
)
from cscodec.bitstream._mixing import RECIPROCAL, SQUASH, STRETCH, learn, mix
from cscodec.bitstream._range_coder import FAILED, code_bit
from cscodec.bitstream._search import best_level, worth_coding
from cscodec.bitstream.layout import (
    BANDS,
    LAYERS,
    LUMA,
    MAX_VALUE,
    MEAN_CLIP,
    NEIGHBOURS,
    NUM_BANDS,
    NUM_CAUSAL,
    OWN,
    SIGNED,
    VALUE_CLIP,
)

_BINS = 24  # of a magnitude: half octaves from 1/256
_FINE_BINS = 72  # of a magnitude: eighth octaves from 1/128
_LEVELS = 16  # magnitudes up to here are coded in unary

# Slots: first index of every kind of context.
_ZERO_A = 0  # measurement, magnitude
_ZERO_B = _ZERO_A + 64 * _BINS  # measurement, |signed prediction|, coarse magnitude
_ZERO_C = _ZERO_B + 64 * 64  # measurement, magnitudes W, N, NW + NE
_ZERO_D = _ZERO_C + 64 * 27  # band, previous three of the patch, magnitude
_ZERO_E = _ZERO_D + NUM_BANDS * 27 * 12  # measurement, non-zeros so far, neighbours' next
_ZERO_F = _ZERO_E + 64 * 32  # group of measurements, fine magnitude
_ZERO_G = _ZERO_F + 8 * _FINE_BINS  # measurement, other planes
_ONE_A = _ZERO_G + 64 * 18  # measurement, magnitude
_ONE_B = _ONE_A + 64 * _BINS  # measurement, magnitudes W, N
_ONE_C = _ONE_B + 64 * 16  # band, previous two of the patch, magnitude
_ONE_D = _ONE_C + NUM_BANDS * 4 * _BINS  # measurement, |signed prediction|, coarse magnitude
_ONE_E = _ONE_D + 64 * 32  # measurement, other planes
_MORE_A = _ONE_E + 64 * 18  # level, magnitude
_MORE_B = _MORE_A + _LEVELS * _BINS  # level, measurement
_MORE_C = _MORE_B + _LEVELS * 64  # level, neighbouring magnitudes
_SIGN_A = _MORE_C + _LEVELS * 16  # measurement, signed prediction
_SIGN_B = _SIGN_A + 64 * 33  # measurement, signs W, N
_SIGN_C = _SIGN_B + 64 * 9  # measurement, sign of the other chroma plane, magnitude
_FLAG_A = _SIGN_C + 64 * 9  # band, sum of magnitudes
_FLAG_B = _FLAG_A + NUM_BANDS * _BINS  # band, non-zeros W, N
_FLAG_C = _FLAG_B + NUM_BANDS * 64  # band, non-zeros of the band before, largest magnitude
_FLAG_D = _FLAG_C + NUM_BANDS * 5 * _BINS  # band, other planes, non-zeros so far
_MEAN_ZERO_A = _FLAG_D + NUM_BANDS * 27  # activity, residuals nearby
_MEAN_ZERO_B = _MEAN_ZERO_A + 16 * 12  # activity, difference of predictors, rounding
_MEAN_ZERO_C = _MEAN_ZERO_B + 16 * 18  # residuals nearby
_MEAN_SIGN_A = _MEAN_ZERO_C + 64  # difference of predictors, signs of residuals W, N
_MEAN_SIGN_B = _MEAN_SIGN_A + 81  # rounding, difference of predictors
_MEAN_SIZE_A = _MEAN_SIGN_B + 72  # exponent, activity
_MEAN_SIZE_B = _MEAN_SIZE_A + 16 * 16  # exponent, residuals nearby
_MEAN_SIZE_C = _MEAN_SIZE_B + 16 * 12  # exponent, |difference of predictors|
_MEAN_BITS_A = _MEAN_SIZE_C + 16 * 5  # exponent, bits so far
_MEAN_BITS_B = _MEAN_BITS_A + 16 * 4  # exponent, position, activity
NUM_SLOTS = _MEAN_BITS_B + 16 * 32

# Sets of weights: chosen by what is decided, and again by how large the value may be.
_SET_ZERO = 0
_SET_ONE = 64
_SET_MORE = 128
_SET_SIGN = _SET_MORE + _LEVELS
_SET_FLAG = _SET_SIGN + SIGNED
_SET_MEAN = _SET_FLAG + NUM_BANDS
_SET_ZERO_BIN = _SET_MEAN + 20
_SET_ONE_BIN = _SET_ZERO_BIN + _BINS
_SET_FLAG_BIN = _SET_ONE_BIN + _BINS
_SET_MEAN_BIN = _SET_FLAG_BIN + _BINS
_SET_OTHER = _SET_MEAN_BIN + 16
NUM_SETS = _SET_OTHER + 3

_BAND_STARTS = np.array(BANDS, np.int64)
_NEIGHBOURS = np.array(NEIGHBOURS, np.int64)
_LAYER_STARTS = np.array(LAYERS, np.int64)


def _octave_table(size: int, parts: int) -> Array:
    """Numbers to parts of octaves, a power of two of them: 0 for 0, 1 for 1, 1 + parts for 2 ..."""
    table = np.zeros(size, np.uint8)
    for value in range(1, size):
        exponent = value.bit_length() - 1
        table[value] = parts * exponent + 1 + ((parts * value >> exponent) & (parts - 1))
    return table


# Tables end where the last bin begins.
_HALF_OCTAVES = _octave_table(2049, 2)
_EIGHTH_OCTAVES = _octave_table(449, 8)


@helper
def _half_octaves(value: Integer) -> Integer:
    return np.int64(_HALF_OCTAVES[min(value, 2048)])


@helper
def _bin(magnitude: Integer) -> Integer:
    return np.int64(_HALF_OCTAVES[min(magnitude >> 6, 2048)])


@helper
def _fine_bin(magnitude: Integer) -> Integer:
    return np.int64(_EIGHTH_OCTAVES[min(magnitude >> 7, 448)])


@helper
def _bit_length(value: Integer) -> Integer:
    length = 0
    while value > 0:
        value >>= 1
        length += 1
    return length


@helper
def _clipped(value: Integer, limit: Integer) -> Integer:
    return min(max(value, -limit), limit)


@helper
def _sign_class(value: Integer) -> Integer:
    return 1 if value > 0 else (2 if value < 0 else 0)


@helper
def _probability(
    slots: Array, weights: Array, logits: Array, contexts: Any, first: Integer, second: Integer
) -> Integer:
    """Return the probability (of 65536) that a decision is 1."""
    return np.int64(SQUASH[mix(STRETCH, slots, weights, logits, contexts, first, second) + 2048])


@helper
def _settle(
    state: Array,
    data: Array,
    decoding: Integer,
    slots: Array,
    weights: Array,
    logits: Array,
    contexts: Any,
    first: Integer,
    second: Integer,
    probability: Integer,
    bit: Integer,
) -> Integer:
    """Code a decision of known probability, and learn from it."""
    inline_here()
    bit = code_bit(state, data, decoding, probability, bit)
    learn(RECIPROCAL, slots, weights, logits, contexts, first, second, probability, bit)
    return bit


@helper
def _decide(
    state: Array,
    data: Array,
    decoding: Integer,
    slots: Array,
    weights: Array,
    logits: Array,
    contexts: Any,
    first: Integer,
    second: Integer,
    bit: Integer,
) -> Integer:
    """Code a decision."""
    probability = _probability(slots, weights, logits, contexts, first, second)
    return _settle(
        state, data, decoding, slots, weights, logits, contexts, first, second, probability, bit
    )


@helper
def _predict(
    values: Array,
    masks: Array,
    luma: Array,
    chroma: Array,
    number: Integer,
    sign_weights: Array,
    sign_rows: Array,
    magnitude_weights: Array,
    magnitude_rows: Array,
    magnitude_offsets: Array,
    row: Integer,
    column: Integer,
    first: Integer,
    last: Integer,
    signs: Array,
    magnitudes: Array,
) -> None:
    """Start the predictions of measurements first..last-1 of a patch (1-based row and column)."""
    rows = values.shape[0] - 2
    columns = values.shape[1] - 2
    for i in range(magnitudes.size):
        magnitudes[i] = magnitude_offsets[i]
    for i in range(signs.size):
        signs[i] = 0
    own = values[row, column]
    mean = np.int64(own[0])
    for source in range(OWN + 1 + number):
        # How many measurements of this source are known.
        end = first if source >= NUM_CAUSAL and source <= OWN else last
        mask: Integer = -1
        if source < OWN:
            r = row + _NEIGHBOURS[source, 0]
            c = column + _NEIGHBOURS[source, 1]
            if r < 1 or r > rows or c < 1 or c > columns:
                continue
            other = values[r, c]
            mask = masks[r, c]
            step = _clipped(np.int64(other[0]) - mean, MEAN_CLIP)
            if step != 0 and magnitude_rows[source] & 1:
                add_scaled(magnitudes, magnitude_weights, 64 * source, abs(step))
            if step != 0 and sign_rows[source] & 1:
                add_scaled(signs, sign_weights, 64 * source, step)
        elif source == OWN:
            other = own
            mask = masks[row, column]
        elif source == LUMA:
            other = luma[row, column]
        else:
            other = chroma[row, column]
        mask &= _below(end)
        rest = mask & magnitude_rows[source]
        while rest != 0:
            j = lowest_bit(rest)
            rest &= rest - 1
            value = min(abs(np.int64(other[j])), VALUE_CLIP)
            if value != 0:
                add_scaled(magnitudes, magnitude_weights, 64 * source + j, value)
        rest = mask & sign_rows[source]
        while rest != 0 and source != LUMA:
            j = lowest_bit(rest)
            rest &= rest - 1
            value = _clipped(np.int64(other[j]), VALUE_CLIP)
            if value != 0:
                add_scaled(signs, sign_weights, 64 * source + j, value)


@helper
def _below(end: Integer) -> Integer:
    """Mask of measurements 1 to end - 1."""
    return ((1 << (end - 1)) - 1) << 1 if end < 64 else -2


@helper
def _count_nonzero(values: Array, first: Integer, last: Integer) -> Integer:
    count = 0
    for i in range(first, last):
        if values[i] != 0:
            count += 1
    return count


@kernel
def code_means(
    state: Int64Vector,
    data: Uint8Vector,
    decoding: Integer,
    slots: Uint32Vector,
    weights: Int32Matrix,
    logits: Int32Vector,
    mean_weights: Int32Vector,
    values: Int16Cube,
    wanted: Int32Cube,
    residuals: Int64Matrix,
) -> None:
    """Code layer 0, the patch means, as residuals of a linear prediction.

    Parameters as of :func:`code_layer`; ``mean_weights`` (6,) are those of W, NW, NE, WW, NN and
    NNE, all less N, and 4096 is 1. ``residuals`` (rows + 2, columns + 2) are zeros, and room.
    """
    rows = values.shape[0] - 2
    columns = values.shape[1] - 2
    for r in range(1, rows + 1):
        for c in range(1, columns + 1):
            # Missing neighbours take the value of the nearest one that is there.
            if r > 1:
                north: Integer = np.int64(values[r - 1, c, 0])
            elif c > 1:
                north = np.int64(values[r, c - 1, 0])
            else:
                north = 0
            west = np.int64(values[r, c - 1, 0]) if c > 1 else north
            north_west = np.int64(values[r - 1, c - 1, 0]) if r > 1 and c > 1 else north
            north_east = np.int64(values[r - 1, c + 1, 0]) if r > 1 and c < columns else north
            west_west = np.int64(values[r, c - 2, 0]) if c > 2 else west
            north_north = np.int64(values[r - 2, c, 0]) if r > 2 else north
            corner = np.int64(values[r - 2, c + 1, 0]) if r > 2 and c < columns else north_east
            offset = (
                mean_weights[0] * (west - north)
                + mean_weights[1] * (north_west - north)
                + mean_weights[2] * (north_east - north)
                + mean_weights[3] * (west_west - north)
                + mean_weights[4] * (north_north - north)
                + mean_weights[5] * (corner - north)
            )
            # In 1/16; clipped, as odd weights must not ask for residuals of more than 16 bits.
            fine = _clipped(16 * north + (offset >> 8), 16 * MAX_VALUE)
            prediction = (fine + 8) >> 4
            rounding = fine - 16 * prediction  # -8..7
            activity = (
                abs(west - north_west)
                + abs(north - north_west)
                + abs(north - north_east)
                + ((abs(west - west_west) + abs(north - north_north)) >> 1)
            )
            activity_bin = min(_half_octaves(activity), 15)
            west_residual = residuals[r, c - 1]
            north_residual = residuals[r - 1, c]
            nearby = (
                2 * abs(west_residual)
                + 2 * abs(north_residual)
                + abs(residuals[r - 1, c + 1])
                + abs(residuals[r - 1, c - 1])
            )
            nearby_bin = min(_half_octaves(nearby), 11)
            # A second opinion: the median of W, N and the plane W + N - NW through them.
            low, high = min(west, north), max(west, north)
            median = min(max(west + north - north_west, low), high)
            difference = 16 * median - fine
            size = abs(difference)
            level = (
                0 if size < 6 else 1 if size < 16 else 2 if size < 48 else 3 if size < 128 else 4
            )
            difference_bin = 4 + level if difference > 0 else 4 - level

            residual: Integer = 0
            if not decoding:
                residual = ((np.int64(wanted[r - 1, c - 1, 0]) + 128) >> 8) - prediction
            # Its length in bits, then its sign, then the bits after the first.
            length = _bit_length(abs(residual))
            reached = 0
            while reached < 16:
                if reached == 0:
                    contexts = (
                        _MEAN_ZERO_A + activity_bin * 12 + nearby_bin,
                        _MEAN_ZERO_B
                        + activity_bin * 18
                        + 2 * difference_bin
                        + np.int64(rounding < 0),
                        _MEAN_ZERO_C + min(nearby, 63),
                    )
                else:
                    contexts = (
                        _MEAN_SIZE_A + (reached - 1) * 16 + activity_bin,
                        _MEAN_SIZE_B + (reached - 1) * 12 + nearby_bin,
                        _MEAN_SIZE_C + (reached - 1) * 5 + abs(difference_bin - 4),
                    )
                if not _decide(
                    state, data, decoding, slots, weights, logits, contexts,
                    _SET_MEAN + reached, _SET_MEAN_BIN + activity_bin, np.int64(reached < length),
                ):  # fmt: skip
                    break
                reached += 1
            if reached > 0:
                signs = (
                    _MEAN_SIGN_A
                    + difference_bin * 9
                    + 3 * _sign_class(west_residual)
                    + _sign_class(north_residual),
                    _MEAN_SIGN_B + ((rounding + 8) >> 1) * 9 + difference_bin,
                )
                negative = _decide(
                    state, data, decoding, slots, weights, logits, signs,
                    _SET_MEAN + 16, _SET_OTHER, np.int64(residual < 0),
                )  # fmt: skip
                magnitude = abs(residual)
                size = 1
                for k in range(reached - 1):
                    bit = (magnitude >> (reached - 2 - k)) & 1
                    if k < 2:
                        bits = (
                            _MEAN_BITS_A + (reached - 1) * 4 + (size & 1) + 2 * k,
                            _MEAN_BITS_B + (2 * (reached - 1) + k) * 16 + activity_bin,
                        )
                        bit = _decide(
                            state, data, decoding, slots, weights, logits, bits,
                            _SET_MEAN + 17 + k, _SET_OTHER, bit,
                        )  # fmt: skip
                    else:
                        bit = code_bit(state, data, decoding, 32768, bit)
                    size = 2 * size + bit
                residual = -size if negative else size
            residuals[r, c] = residual
            value = prediction + residual
            if abs(value) > MAX_VALUE:
                state[FAILED] = 1
                return
            values[r, c, 0] = value


@kernel
def code_layer(
    state: Int64Vector,
    data: Uint8Vector,
    decoding: Integer,
    slots: Uint32Vector,
    weights: Int32Matrix,
    logits: Int32Vector,
    sign_weights: Int16Matrix,
    sign_rows: Int64Vector,
    magnitude_weights: Int16Matrix,
    magnitude_rows: Int64Vector,
    magnitude_offsets: Int16Vector,
    values: Int16Cube,
    masks: Int64Matrix,
    wanted: Int32Cube,
    luma: Int16Cube,
    chroma: Int16Cube,
    signs: Int32Vector,
    magnitudes: Int32Vector,
    number: Integer,
    layer: Integer,
    end: Integer,
    rate_weight: Integer,
    dead_zone: Integer,
) -> None:
    """Code a layer after the means of plane ``number``, up to measurement ``end`` - 1.

    Parameters
    ----------
    state, data
        Registers of the range coder, and its bytes.
    slots, weights
        Adaptive state of the plane.
    logits : (8,) int32
        Room for a decision.
    sign_weights, magnitude_weights : (sources * 64, n) int16
        Linear predictors by source and measurement, and the predicted one, of this layer only,
        filled up with zeros to a multiple of eight columns.
    sign_rows, magnitude_rows : (sources,) int64
        Bit j is set where the row of measurement j is not all zeros.
    magnitude_offsets : (n,) int16
    values : (rows + 2, columns + 2, 64) int16
        Quantised measurements in a frame of zeros, filled layer by layer.
    masks : (rows + 2, columns + 2) int64
        Bit i is set where measurement i > 0 is not zero; filled likewise.
    wanted : (rows, columns, 64) int32
        What the encoder wants, in 1/256 of a step.
    luma, chroma
        Like ``values``: for chroma, mean magnitudes of the luma patches at this place; for the
        second chroma plane, the first.
    signs, magnitudes : (n,) int32
        Room for predictions. No sum reaches 2^31: 11 sources of 64 weights of 16 bits, times 32.
    rate_weight : int
        What the encoder pays for 1/256 bit, in 1/65536 of a squared step; 0 for plain rounding.
    dead_zone : int
        Below this, in 1/256 of a step, a value is never kept.
    """
    columns = values.shape[1] - 2
    rows = values.shape[0] - 2
    first = _LAYER_STARTS[layer]
    last = min(_LAYER_STARTS[layer + 1], end)
    band_first = 0
    while _BAND_STARTS[band_first] < first:
        band_first += 1
    for r in range(1, rows + 1):
        for c in range(1, columns + 1):
            _predict(
                values, masks, luma, chroma, number, sign_weights, sign_rows, magnitude_weights,
                magnitude_rows, magnitude_offsets, r, c, first, last, signs, magnitudes,
            )  # fmt: skip
            own, west, north = values[r, c], values[r, c - 1], values[r - 1, c]
            north_west, north_east = values[r - 1, c - 1], values[r - 1, c + 1]
            beneath, beside, goals = luma[0, 0], chroma[0, 0], wanted[0, 0]
            if number > 0:
                beneath = luma[r, c]
            if number > 1:
                beside = chroma[r, c]
            if not decoding:
                goals = wanted[r - 1, c - 1]
            west_mask, north_mask, own_mask = masks[r, c - 1], masks[r - 1, c], masks[r, c]
            nonzero = count_bits(own_mask)
            before: Integer = 0
            if band_first > 0:
                before = count_bits(own_mask & -(1 << _BAND_STARTS[band_first - 1]))
            for band in range(band_first, NUM_BANDS):
                start = _BAND_STARTS[band]
                if start >= last:
                    break
                stop = min(_BAND_STARTS[band + 1], last)
                total: Integer = 0
                largest: Integer = 0
                for i in range(start, stop):
                    size: Integer = max(np.int64(magnitudes[i - first]), 0)
                    total += size
                    largest = max(largest, size)
                inside = _below(stop) & -(1 << start)
                west_count = count_bits(west_mask & inside)
                north_count = count_bits(north_mask & inside)
                others = 0
                if number > 0:
                    others = min(_count_nonzero(beneath, start, stop), 2)
                if number > 1:
                    others = 3 * others + min(_count_nonzero(beside, start, stop), 2)
                total_bin = _bin(total)
                contexts_of_flag = (
                    _FLAG_A + band * _BINS + total_bin,
                    _FLAG_B + band * 64 + min(west_count, 7) * 8 + min(north_count, 7),
                    _FLAG_C + (band * 5 + min(before, 4)) * _BINS + _bin(largest),
                    _FLAG_D + band * 27 + others * 3 + min(nonzero, 2),
                )
                choice, second = _SET_FLAG + band, _SET_FLAG_BIN + total_bin
                probability = _probability(slots, weights, logits, contexts_of_flag, choice, second)
                flag: Integer = 0
                if not decoding:
                    flag = np.int64(
                        worth_coding(
                            goals, magnitudes, first, start, stop, probability, rate_weight,
                            dead_zone,
                        )
                    )  # fmt: skip
                flag = _settle(
                    state, data, decoding, slots, weights, logits, contexts_of_flag, choice,
                    second, probability, flag,
                )  # fmt: skip
                before = 0
                if not flag:
                    continue
                for i in range(start, stop):
                    magnitude: Integer = max(np.int64(magnitudes[i - first]), 0)
                    size_bin = _bin(magnitude)
                    signed: Integer = np.int64(signs[i - first]) if i < SIGNED else 0
                    signed_bin = min((abs(signed) + 1024) >> 11, 7)
                    west_size: Integer = abs(np.int64(west[i]))
                    north_size: Integer = abs(np.int64(north[i]))
                    one_back: Integer = abs(np.int64(own[i - 1])) if i > 1 else 0
                    two_back: Integer = abs(np.int64(own[i - 2])) if i > 2 else 0
                    other: Integer = 0
                    if number > 0:
                        other = min(3 * abs(np.int64(beneath[i])), 15)
                    if number > 1:
                        other += min(abs(np.int64(beside[i])), 2)
                    goal: Integer = 0
                    if not decoding:
                        goal = np.int64(goals[i])
                    level: Integer = 1
                    if i < stop - 1 or before > 0:  # else the flag says that it is not zero
                        three_back: Integer = abs(np.int64(own[i - 3])) if i > 3 else 0
                        diagonal: Integer = abs(np.int64(north_west[i])) + abs(
                            np.int64(north_east[i])
                        )
                        following = np.int64(west_count + north_count > 1)
                        if i + 1 < last:
                            following += (west_mask >> (i + 1)) & 1
                            following += (north_mask >> (i + 1)) & 1
                        contexts_of_zero = (
                            _ZERO_A + i * _BINS + size_bin,
                            _ZERO_B + i * 64 + signed_bin * 8 + size_bin // 3,
                            _ZERO_C
                            + i * 27
                            + (min(west_size, 2) * 9 + min(north_size, 2) * 3 + min(diagonal, 2)),
                            _ZERO_D
                            + (size_bin >> 1)
                            + 12
                            * (
                                27 * band
                                + min(one_back, 2) * 9
                                + min(two_back, 2) * 3
                                + min(three_back, 2)
                            ),
                            _ZERO_E + i * 32 + min(nonzero, 7) * 4 + following,
                            _ZERO_F + (i >> 3) * _FINE_BINS + _fine_bin(magnitude),
                            _ZERO_G + i * 18 + other,
                        )
                        choice, second = _SET_ZERO + i, _SET_ZERO_BIN + size_bin
                        probability = _probability(
                            slots, weights, logits, contexts_of_zero, choice, second
                        )
                        if not decoding:
                            level = best_level(
                                abs(goal), probability, magnitude, rate_weight, dead_zone
                            )
                        bit = _settle(
                            state, data, decoding, slots, weights, logits, contexts_of_zero,
                            choice, second, probability, np.int64(level > 0),
                        )  # fmt: skip
                        if not bit:
                            continue
                    elif not decoding:
                        level = max(1, (abs(goal) + (90 if rate_weight > 0 else 128)) >> 8)
                    before += 1
                    nonzero += 1
                    own_mask |= np.int64(1) << i
                    contexts_of_one = (
                        _ONE_A + i * _BINS + size_bin,
                        _ONE_B + i * 16 + min(west_size, 3) * 4 + min(north_size, 3),
                        _ONE_C + (band * 4 + min(max(one_back, two_back), 3)) * _BINS + size_bin,
                        _ONE_D + i * 32 + signed_bin * 4 + min(size_bin // 6, 3),
                        _ONE_E + i * 18 + other,
                    )
                    reached = 1
                    if _decide(
                        state, data, decoding, slots, weights, logits, contexts_of_one,
                        _SET_ONE + i, _SET_ONE_BIN + size_bin, np.int64(level > 1),
                    ):  # fmt: skip
                        reached = 2
                        nearby = min(west_size + north_size + one_back, 15)
                        while reached < _LEVELS:
                            contexts_of_more = (
                                _MORE_A + (reached - 1) * _BINS + size_bin,
                                _MORE_B + (reached - 1) * 64 + i,
                                _MORE_C + (reached - 1) * 16 + nearby,
                            )
                            if not _decide(
                                state, data, decoding, slots, weights, logits, contexts_of_more,
                                _SET_MORE + reached - 1, _SET_OTHER + 1, np.int64(level > reached),
                            ):  # fmt: skip
                                break
                            reached += 1
                        if reached == _LEVELS:
                            reached += _code_escape(state, data, decoding, level - _LEVELS)
                            if reached > MAX_VALUE:
                                state[FAILED] = 1
                                return
                    level = reached
                    negative: Integer = np.int64(goal < 0)
                    if i < SIGNED:
                        kind = 3 * _sign_class(beside[i]) if number > 1 else 0
                        contexts_of_sign = (
                            _SIGN_A + i * 33 + 16 + _clipped((signed + 512) >> 10, 16),
                            _SIGN_B + i * 9 + 3 * _sign_class(west[i]) + _sign_class(north[i]),
                            _SIGN_C + i * 9 + kind + min(level - 1, 2),
                        )
                        negative = _decide(
                            state, data, decoding, slots, weights, logits, contexts_of_sign,
                            _SET_SIGN + i, _SET_OTHER + 2, negative,
                        )  # fmt: skip
                    else:
                        negative = code_bit(state, data, decoding, 32768, negative)
                    own[i] = -level if negative else level
                    # Also changes predictions of measurements already coded: nobody asks for them.
                    if (magnitude_rows[OWN] >> i) & 1:
                        size = min(level, VALUE_CLIP)
                        add_scaled(magnitudes, magnitude_weights, 64 * OWN + i, size)
            masks[r, c] = own_mask


@helper
def _code_escape(state: Array, data: Array, decoding: Integer, value: Integer) -> Integer:
    """Code a number >= 0 in exponential Golomb form, in bits at even odds."""
    length = _bit_length(value + 1) - 1 if value >= 0 else 0
    reached = 0
    while reached < 16 and code_bit(state, data, decoding, 32768, np.int64(reached < length)):
        reached += 1
    result = 1
    for k in range(reached):
        bit = code_bit(state, data, decoding, 32768, ((value + 1) >> (reached - 1 - k)) & 1)
        result = 2 * result + bit
    return result - 1
