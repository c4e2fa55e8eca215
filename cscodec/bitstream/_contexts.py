"""Kernel that codes one layer of one plane of a tile: which decisions, and in which contexts.

A measurement is coded as: is it zero, is its magnitude above 1, 2, ..., its sign. What is known
about it is condensed into two predictions, linear in what is already coded: its magnitude and, for
the first measurements, its signed value. Sources are the neighbouring patches (those coded before
with everything, the others with their earlier layers), the patch's own earlier measurements, and
for chroma the other planes. Contexts are these predictions, quantised, and the nearest values.
"""

from __future__ import annotations

import numpy as np

from cscodec._jit import (
    Array,
    Int16Cube,
    Int32Cube,
    Int32Matrix,
    Int32Vector,
    Int64Matrix,
    Int64Vector,
    Integer,
    Uint8Vector,
    Uint32Vector,
    helper,
    kernel,
)
from cscodec.bitstream._range_coder import (
    COST,
    FAILED,
    INDEX,
    code_bit,
    predict,
    settle,
)
from cscodec.bitstream.layout import (
    BANDS,
    LAYERS,
    LUMA,
    MAX_VALUE,
    NEIGHBOURS,
    NUM_BANDS,
    NUM_CAUSAL,
    OWN,
    SIGNED,
)

# Fixed-point units of the predictions: 1.0 of a quantised measurement.
SIGN_ONE = 1 << 12
MAGNITUDE_ONE = 1 << 14
_VALUE_CLIP = 32  # larger values predict no more than this
_MEAN_CLIP = 64
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

_CURVE_ZERO = 0
_CURVE_FLAG = 64
_CURVE_ONE = _CURVE_FLAG + NUM_BANDS
_CURVE_MORE = _CURVE_ONE + NUM_BANDS
_CURVE_SIGN = _CURVE_MORE + 1
_CURVE_MEAN = _CURVE_SIGN + 1
NUM_CURVES = _CURVE_MEAN + 4

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
def _add(target: Array, weights: Array, factor: Integer) -> None:
    """``target += weights * factor``, written so that LLVM makes vector code of it."""
    for i in range(target.size):
        target[i] += weights[i] * np.int32(factor)


@helper
def _predict(
    values: Array,
    luma: Array,
    chroma: Array,
    number: Integer,
    sign_weights: Array,
    magnitude_weights: Array,
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
        magnitudes[i] = magnitude_offsets[first + i]
    for i in range(signs.size):
        signs[i] = 0
    own = values[row, column]
    mean = np.int64(own[0])
    for source in range(OWN + 1 + number):
        # How many measurements of this source are known.
        end = first if source >= NUM_CAUSAL and source <= OWN else last
        if source < OWN:
            r = row + _NEIGHBOURS[source, 0]
            c = column + _NEIGHBOURS[source, 1]
            if r < 1 or r > rows or c < 1 or c > columns:
                continue
            other = values[r, c]
            step = _clipped(np.int64(other[0]) - mean, _MEAN_CLIP)
            if step != 0:
                _add(magnitudes, magnitude_weights[source, 0], abs(step))
                if first < SIGNED:
                    _add(signs, sign_weights[source, 0], step)
        elif source == OWN:
            other = own
        elif source == LUMA:
            other = luma[row, column]
        else:
            other = chroma[row, column]
        for j in range(1, end):
            if other[j] != 0:
                value = _clipped(np.int64(other[j]), _VALUE_CLIP)
                _add(magnitudes, magnitude_weights[source, j], abs(value))
                if j < SIGNED and first < SIGNED and source != LUMA:
                    _add(signs, sign_weights[source, j], value)


@helper
def _count_nonzero(values: Array, first: Integer, last: Integer) -> Integer:
    count = 0
    for i in range(first, last):
        if values[i] != 0:
            count += 1
    return count


@helper
def _rate(probability: Integer) -> Integer:
    """Cost in 1/256 bit of a decision of this probability (of 65536)."""
    return np.int64(COST[probability >> 4])


@kernel
def code_means(
    state: Int64Vector,
    data: Uint8Vector,
    decoding: Integer,
    slots: Uint32Vector,
    weights: Int32Matrix,
    curves: Int32Matrix,
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
                    state[INDEX] = _MEAN_ZERO_A + activity_bin * 12 + nearby_bin
                    state[INDEX + 1] = (
                        _MEAN_ZERO_B + activity_bin * 18 + 2 * difference_bin + (rounding < 0)
                    )
                    state[INDEX + 2] = _MEAN_ZERO_C + min(nearby, 63)
                    curve = _CURVE_MEAN
                else:
                    state[INDEX] = _MEAN_SIZE_A + (reached - 1) * 16 + activity_bin
                    state[INDEX + 1] = _MEAN_SIZE_B + (reached - 1) * 12 + nearby_bin
                    state[INDEX + 2] = _MEAN_SIZE_C + (reached - 1) * 5 + abs(difference_bin - 4)
                    curve = _CURVE_MEAN + 1
                first = _SET_MEAN + reached
                predict(
                    state, slots, weights, curves, 3, first, _SET_MEAN_BIN + activity_bin, curve
                )
                if not settle(state, data, decoding, slots, weights, curves, reached < length):
                    break
                reached += 1
            if reached > 0:
                state[INDEX] = (
                    _MEAN_SIGN_A
                    + difference_bin * 9
                    + 3 * _sign_class(west_residual)
                    + _sign_class(north_residual)
                )
                state[INDEX + 1] = _MEAN_SIGN_B + ((rounding + 8) >> 1) * 9 + difference_bin
                predict(
                    state, slots, weights, curves, 2, _SET_MEAN + 16, _SET_OTHER, _CURVE_MEAN + 2
                )
                negative = settle(state, data, decoding, slots, weights, curves, residual < 0)
                magnitude = abs(residual)
                size = 1
                for k in range(reached - 1):
                    bit = (magnitude >> (reached - 2 - k)) & 1
                    if k < 2:
                        state[INDEX] = _MEAN_BITS_A + (reached - 1) * 4 + (size & 1) + 2 * k
                        state[INDEX + 1] = (
                            _MEAN_BITS_B + (2 * (reached - 1) + k) * 16 + activity_bin
                        )
                        first = _SET_MEAN + 17 + k
                        predict(
                            state, slots, weights, curves, 2, first, _SET_OTHER, _CURVE_MEAN + 3
                        )
                        bit = settle(state, data, decoding, slots, weights, curves, bit)
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
    curves: Int32Matrix,
    sign_weights: Int32Cube,
    magnitude_weights: Int32Cube,
    magnitude_offsets: Int32Vector,
    values: Int16Cube,
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
        Registers of the range coder with room for a decision, and its bytes.
    slots, weights, curves
        Adaptive state of the plane.
    sign_weights, magnitude_weights : (sources, 21, n) and (sources, 64, n) int32
        Linear predictors by source, its measurement, and the predicted one, of this layer only.
    magnitude_offsets : (64,) int32
    values : (rows + 2, columns + 2, 64) int16
        Quantised measurements in a frame of zeros, filled layer by layer.
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
                values,
                luma,
                chroma,
                number,
                sign_weights,
                magnitude_weights,
                magnitude_offsets,
                r,
                c,
                first,
                last,
                signs,
                magnitudes,
            )
            own = values[r, c]
            west = values[r, c - 1]
            north = values[r - 1, c]
            nonzero = _count_nonzero(own, 1, first)
            before = 0
            if band_first > 0:
                before = _count_nonzero(own, _BAND_STARTS[band_first - 1], first)
            band = band_first
            while band < NUM_BANDS and _BAND_STARTS[band] < last:
                start = _BAND_STARTS[band]
                stop = min(_BAND_STARTS[band + 1], last)
                total: Integer = 0
                largest: Integer = 0
                for i in range(start, stop):
                    size: Integer = max(np.int64(magnitudes[i - first]), 0)
                    total += size
                    largest = max(largest, size)
                west_count = _count_nonzero(west, start, stop)
                north_count = _count_nonzero(north, start, stop)
                others = 0
                if number > 0:
                    others = min(_count_nonzero(luma[r, c], start, stop), 2)
                if number > 1:
                    others = 3 * others + min(_count_nonzero(chroma[r, c], start, stop), 2)
                total_bin = _bin(total)
                state[INDEX] = _FLAG_A + band * _BINS + total_bin
                state[INDEX + 1] = (
                    _FLAG_B + band * 64 + min(west_count, 7) * 8 + min(north_count, 7)
                )
                state[INDEX + 2] = _FLAG_C + (band * 5 + min(before, 4)) * _BINS + _bin(largest)
                state[INDEX + 3] = _FLAG_D + band * 27 + others * 3 + min(nonzero, 2)
                probability = predict(
                    state,
                    slots,
                    weights,
                    curves,
                    4,
                    _SET_FLAG + band,
                    _SET_FLAG_BIN + total_bin,
                    _CURVE_FLAG + band,
                )
                flag: Integer = False
                if not decoding:
                    flag = _worth_coding(
                        wanted[r - 1, c - 1],
                        magnitudes,
                        first,
                        start,
                        stop,
                        probability,
                        rate_weight,
                        dead_zone,
                    )
                flag = settle(state, data, decoding, slots, weights, curves, flag)
                before = 0
                if not flag:
                    for i in range(start, stop):
                        own[i] = 0
                    band += 1
                    continue
                for i in range(start, stop):
                    magnitude: Integer = max(np.int64(magnitudes[i - first]), 0)
                    size_bin = _bin(magnitude)
                    signed: Integer = np.int64(signs[i - first]) if i < SIGNED else 0
                    signed_bin = min((abs(signed) + 1024) >> 11, 7)
                    west_size: Integer = abs(np.int64(west[i]))
                    north_size: Integer = abs(np.int64(north[i]))
                    diagonal: Integer = abs(np.int64(values[r - 1, c - 1, i])) + abs(
                        np.int64(values[r - 1, c + 1, i])
                    )
                    one_back: Integer = abs(np.int64(own[i - 1])) if i > 1 else 0
                    two_back: Integer = abs(np.int64(own[i - 2])) if i > 2 else 0
                    three_back: Integer = abs(np.int64(own[i - 3])) if i > 3 else 0
                    other: Integer = 0
                    if number > 0:
                        other = min(3 * abs(np.int64(luma[r, c, i])), 15)
                    if number > 1:
                        other += min(abs(np.int64(chroma[r, c, i])), 2)
                    goal: Integer = 0
                    if not decoding:
                        goal = np.int64(wanted[r - 1, c - 1, i])
                    level: Integer = 1
                    if i < stop - 1 or before > 0:  # else the flag says that it is not zero
                        following = 0
                        if i + 1 < last:
                            following = (west[i + 1] != 0) + (north[i + 1] != 0)
                        state[INDEX] = _ZERO_A + i * _BINS + size_bin
                        state[INDEX + 1] = _ZERO_B + i * 64 + signed_bin * 8 + size_bin // 3
                        state[INDEX + 2] = (
                            _ZERO_C
                            + i * 27
                            + (min(west_size, 2) * 9 + min(north_size, 2) * 3 + min(diagonal, 2))
                        )
                        state[INDEX + 3] = (
                            _ZERO_D
                            + (size_bin >> 1)
                            + 12
                            * (
                                27 * band
                                + min(one_back, 2) * 9
                                + min(two_back, 2) * 3
                                + min(three_back, 2)
                            )
                        )
                        state[INDEX + 4] = (
                            _ZERO_E
                            + i * 32
                            + min(nonzero, 7) * 4
                            + min(following + (west_count + north_count > 1), 3)
                        )
                        state[INDEX + 5] = _ZERO_F + (i >> 3) * _FINE_BINS + _fine_bin(magnitude)
                        state[INDEX + 6] = _ZERO_G + i * 18 + other
                        probability = predict(
                            state,
                            slots,
                            weights,
                            curves,
                            7,
                            _SET_ZERO + i,
                            _SET_ZERO_BIN + size_bin,
                            _CURVE_ZERO + i,
                        )
                        if not decoding:
                            level = _best_level(
                                abs(goal), probability, magnitude, rate_weight, dead_zone
                            )
                        bit = settle(state, data, decoding, slots, weights, curves, level > 0)
                        if not bit:
                            own[i] = 0
                            continue
                    elif not decoding:
                        level = max(1, (abs(goal) + (90 if rate_weight > 0 else 128)) >> 8)
                    before += 1
                    nonzero += 1
                    reached = 1
                    while reached < _LEVELS:
                        if reached == 1:
                            state[INDEX] = _ONE_A + i * _BINS + size_bin
                            state[INDEX + 1] = (
                                _ONE_B + i * 16 + min(west_size, 3) * 4 + min(north_size, 3)
                            )
                            state[INDEX + 2] = (
                                _ONE_C
                                + (band * 4 + min(max(one_back, two_back), 3)) * _BINS
                                + size_bin
                            )
                            state[INDEX + 3] = (
                                _ONE_D + i * 32 + signed_bin * 4 + min(size_bin // 6, 3)
                            )
                            state[INDEX + 4] = _ONE_E + i * 18 + other
                            count, choice, curve = 5, _SET_ONE + i, _CURVE_ONE + band
                            second = _SET_ONE_BIN + size_bin
                        else:
                            state[INDEX] = _MORE_A + (reached - 1) * _BINS + size_bin
                            state[INDEX + 1] = _MORE_B + (reached - 1) * 64 + i
                            state[INDEX + 2] = (
                                _MORE_C
                                + (reached - 1) * 16
                                + min(west_size + north_size + one_back, 15)
                            )
                            count, choice, curve = 3, _SET_MORE + reached - 1, _CURVE_MORE
                            second = _SET_OTHER + 1
                        predict(state, slots, weights, curves, count, choice, second, curve)
                        if not settle(
                            state, data, decoding, slots, weights, curves, level > reached
                        ):
                            break
                        reached += 1
                    if reached == _LEVELS:
                        reached += _code_escape(state, data, decoding, level - _LEVELS)
                        if reached > MAX_VALUE:
                            state[FAILED] = 1
                            return
                    level = reached
                    negative: Integer = goal < 0
                    if i < SIGNED:
                        state[INDEX] = _SIGN_A + i * 33 + 16 + _clipped((signed + 512) >> 10, 16)
                        state[INDEX + 1] = (
                            _SIGN_B + i * 9 + 3 * _sign_class(west[i]) + _sign_class(north[i])
                        )
                        state[INDEX + 2] = _SIGN_C + i * 9 + min(level - 1, 2)
                        if number > 1:
                            state[INDEX + 2] += 3 * _sign_class(chroma[r, c, i])
                        predict(
                            state,
                            slots,
                            weights,
                            curves,
                            3,
                            _SET_SIGN + i,
                            _SET_OTHER + 2,
                            _CURVE_SIGN,
                        )
                        negative = settle(state, data, decoding, slots, weights, curves, negative)
                    else:
                        negative = code_bit(state, data, decoding, 32768, negative)
                    own[i] = -level if negative else level
                    # Also changes predictions of measurements already coded: nobody asks for them.
                    _add(magnitudes, magnitude_weights[OWN, i], min(level, _VALUE_CLIP))
                band += 1


@helper
def _code_escape(state: Array, data: Array, decoding: Integer, value: Integer) -> Integer:
    """Code a number >= 0 in exponential Golomb form, in bits at even odds."""
    length = _bit_length(value + 1) - 1 if value >= 0 else 0
    reached = 0
    while reached < 16 and code_bit(state, data, decoding, 32768, reached < length):
        reached += 1
    result = 1
    for k in range(reached):
        bit = code_bit(state, data, decoding, 32768, ((value + 1) >> (reached - 1 - k)) & 1)
        result = 2 * result + bit
    return result - 1


@helper
def _best_level(
    size: Integer,
    probability: Integer,
    magnitude: Integer,
    rate_weight: Integer,
    dead_zone: Integer,
) -> Integer:
    """Choose a magnitude by squared error plus rate; ``probability`` is that of not being zero."""
    level = (size + 128) >> 8
    if rate_weight == 0:
        return level
    if size < dead_zone:
        return 0
    if size < 512:
        rest = size - 256
        best = size * size + rate_weight * _rate(65536 - probability)
        one_rate = _rate(probability) + 256 + 77
        cost = rest * rest + rate_weight * one_rate
        level = 0
        if cost < best:
            level = 1
            best = cost
        if size > 384:
            rest = size - 512
            more = one_rate + 128 + _more_rate(magnitude)
            if rest * rest + rate_weight * more < best:
                level = 2
        return level
    lower = size >> 8
    rest = size - 256 * lower
    over = 256 - rest
    if rest * rest < over * over + rate_weight * _more_rate(magnitude):
        return lower
    return lower + 1


@helper
def _more_rate(magnitude: Integer) -> Integer:
    """Rate of one more in magnitude, 1/256 bit, of a two-sided exponential of this mean."""
    return (256 * 23 * (MAGNITUDE_ONE // 16)) // (magnitude + (11 * MAGNITUDE_ONE) // 16)


@helper
def _worth_coding(
    wanted: Array,
    magnitudes: Array,
    first: Integer,
    start: Integer,
    stop: Integer,
    probability: Integer,
    rate_weight: Integer,
    dead_zone: Integer,
) -> Integer:
    """Say whether a band is better coded than left out, by squared error plus estimated rate."""
    gain: Integer = 0
    rate: Integer = 0
    largest: Integer = 0
    for i in range(start, stop):
        size: Integer = abs(np.int64(wanted[i]))
        largest = max(largest, size)
        magnitude: Integer = max(np.int64(magnitudes[i - first]), 64)
        # Rate of "zero" and "not zero" for an exponential of the predicted mean.
        p = (magnitude << 12) // (magnitude + MAGNITUDE_ONE)
        zero_rate = np.int64(COST[4096 - p])
        if size >= max(dead_zone, 128):
            level = max(1, (size + 128) >> 8)
            rest = size - 256 * level
            more = np.int64(COST[max(p, 1)]) + 256 + 77
            if level > 1:
                more += 128 + (level - 1) * _more_rate(magnitude)
            if size * size + rate_weight * zero_rate > rest * rest + rate_weight * more:
                gain += size * size - rest * rest
                rate += more
                continue
        rate += zero_rate
    if rate_weight == 0:
        return largest >= 128
    if gain == 0:
        return False
    rate += _rate(probability) - _rate(65536 - probability)
    return gain > rate_weight * rate
