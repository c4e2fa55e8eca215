"""Kernel that codes layer 0 of one plane of a tile: the patch means.

A mean is predicted from those around it; what is coded is the residual: its length in bits, its
sign, and the bits after the first.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from cscodec.kernels import slots
from cscodec.kernels.decisions import (
    EVEN,
    Coder,
    bit_length,
    clipped,
    half_octaves,
    learn_from,
    probability_of,
    sign_class,
)
from cscodec.kernels.declaration import (
    Array,
    Integer,
    helper,
    inline_here,
    int16,
    int32,
    int64,
    kernel,
)
from cscodec.kernels.range_coder import FAILED, Registers, code_next, loaded, store
from cscodec.kernels.slots import SET_MEAN, SET_MEAN_BIN, SET_OTHER, slot
from cscodec.layout import MAX_VALUE

_MOST_BITS = 16


class _Prediction(NamedTuple):
    """What is known about a mean before it is coded, in the terms of docs/format.md."""

    mean: Integer
    rounding: Integer  # ρ: of the prediction, in 1/16
    activity: Integer  # α: bin of the differences around
    around: Integer  # residuals around
    nearby: Integer  # ν: its bin
    difference: Integer  # δ: bin of the distance to another predictor
    west: Integer  # residuals W and N
    north: Integer


@helper
def _predict(means: Array, weights: Array, residuals: Array, r: Integer, c: Integer) -> _Prediction:
    """Predict the mean of the patch in row r and column c, counted from 1."""
    inline_here()
    columns = means.shape[1] - 2
    # Missing neighbours take the value of the nearest one that is there.
    north: Integer = 0
    if r > 1:
        north = np.int64(means[r - 1, c])
    elif c > 1:
        north = np.int64(means[r, c - 1])
    west = np.int64(means[r, c - 1]) if c > 1 else north
    north_west = np.int64(means[r - 1, c - 1]) if r > 1 and c > 1 else north
    north_east = np.int64(means[r - 1, c + 1]) if r > 1 and c < columns else north
    west_west = np.int64(means[r, c - 2]) if c > 2 else west
    north_north = np.int64(means[r - 2, c]) if r > 2 else north
    corner = np.int64(means[r - 2, c + 1]) if r > 2 and c < columns else north_east
    offset = (
        weights[0] * (west - north)
        + weights[1] * (north_west - north)
        + weights[2] * (north_east - north)
        + weights[3] * (west_west - north)
        + weights[4] * (north_north - north)
        + weights[5] * (corner - north)
    )
    # In 1/16; clipped, as odd weights must not ask for residuals of more than 16 bits.
    fine = clipped(16 * north + (offset >> 8), 16 * MAX_VALUE)
    mean = (fine + 8) >> 4
    activity = (
        abs(west - north_west)
        + abs(north - north_west)
        + abs(north - north_east)
        + ((abs(west - west_west) + abs(north - north_north)) >> 1)
    )
    here, above = r & 1, (r - 1) & 1
    around = (
        2 * abs(residuals[here, c - 1])
        + 2 * abs(residuals[above, c])
        + abs(residuals[above, c + 1])
        + abs(residuals[above, c - 1])
    )
    # A second opinion: the median of W, N and the plane W + N - NW through them.
    low, high = min(west, north), max(west, north)
    difference = 16 * min(max(west + north - north_west, low), high) - fine
    size = abs(difference)
    level = np.int64(size >= 6) + np.int64(size >= 16) + np.int64(size >= 48)
    level += np.int64(size >= 128)
    return _Prediction(
        mean,
        fine - 16 * mean,
        min(half_octaves(activity), 15),
        around,
        min(half_octaves(around), 11),
        4 + level if difference > 0 else 4 - level,
        residuals[here, c - 1],
        residuals[above, c],
    )


@helper
def _decide(
    coder: Coder,
    registers: Registers,
    contexts: Any,
    first: Integer,
    second: Integer,
    bit: Integer,
) -> tuple[Integer, Registers]:
    """Code a decision."""
    inline_here()
    probability = probability_of(coder, contexts, 0, first, second)
    bit, registers = code_next(registers, coder.data, coder.decoding, probability, bit)
    learn_from(coder, contexts, first, second, probability, bit)
    return bit, registers


@helper
def _code_length(
    coder: Coder, registers: Registers, known: _Prediction, length: Integer
) -> tuple[Integer, Registers]:
    """Code how many bits the residual has."""
    inline_here()
    second = SET_MEAN_BIN + known.activity
    contexts = (
        slot(slots.MEAN_ZERO_A, (known.activity, known.nearby)),
        slot(slots.MEAN_ZERO_B, (known.activity, known.difference, np.int64(known.rounding < 0))),
        slot(slots.MEAN_ZERO_C, (min(known.around, 63),)),
    )
    reached: Integer = 0
    while True:
        first = SET_MEAN + reached
        probability = probability_of(coder, contexts, 0, first, second)
        longer = np.int64(length > reached)
        longer, registers = code_next(registers, coder.data, coder.decoding, probability, longer)
        # Learned where it is known: a processor that foresees the way need not wait for the bit.
        if not longer:
            learn_from(coder, contexts, first, second, probability, 0)
            break
        learn_from(coder, contexts, first, second, probability, 1)
        reached += 1
        if reached == _MOST_BITS:
            break
        contexts = (
            slot(slots.MEAN_SIZE_A, (reached - 1, known.activity)),
            slot(slots.MEAN_SIZE_B, (reached - 1, known.nearby)),
            slot(slots.MEAN_SIZE_C, (reached - 1, abs(known.difference - 4))),
        )
    return reached, registers


@helper
def _code_residual(
    coder: Coder, registers: Registers, known: _Prediction, residual: Integer
) -> tuple[Integer, Registers]:
    inline_here()
    magnitude = abs(residual)
    length, registers = _code_length(coder, registers, known, bit_length(magnitude))
    if length == 0:
        return 0, registers
    signs = (
        slot(
            slots.MEAN_SIGN_A,
            (known.difference, sign_class(known.west), sign_class(known.north)),
        ),
        slot(slots.MEAN_SIGN_B, ((known.rounding + 8) >> 1, known.difference)),
    )
    negative = np.int64(residual < 0)
    negative, registers = _decide(coder, registers, signs, SET_MEAN + 16, SET_OTHER, negative)
    size: Integer = 1
    for k in range(length - 1):
        bit = (magnitude >> (length - 2 - k)) & 1
        if k < 2:
            contexts = (
                slot(slots.MEAN_BITS_A, (length - 1, k, size & 1)),
                slot(slots.MEAN_BITS_B, (length - 1, k, known.activity)),
            )
            bit, registers = _decide(coder, registers, contexts, SET_MEAN + 17 + k, SET_OTHER, bit)
        else:
            bit, registers = code_next(registers, coder.data, coder.decoding, EVEN, bit)
        size = 2 * size + bit
    return (-size if negative else size), registers


@kernel
def code_means(
    coder: Coder,
    weights: Annotated[Array, int32[6]],
    means: Annotated[Array, int16["rows + 2", "columns + 2"].out],
    wanted: Annotated[Array, int32["rows", "columns"]],
    residuals: Annotated[Array, int64[2, "columns + 2"].out],
) -> None:
    """Code layer 0, the patch means, as residuals of a linear prediction.

    Parameters
    ----------
    coder : Coder
    weights
        Of W, NW, NE, WW, NN and NNE, all less N; 4096 is 1.
    means
        Quantised, in a frame of zeros that stays; the others are filled in.
    wanted
        What the encoder wants, in 1/256 of a step.
    residuals
        Zeros: room for those of this row and the last.
    """
    registers = loaded(coder.registers)
    rows = means.shape[0] - 2
    columns = means.shape[1] - 2
    for r in range(1, rows + 1):
        for c in range(1, columns + 1):
            known = _predict(means, weights, residuals, r, c)
            residual: Integer = 0
            if not coder.decoding:
                residual = ((np.int64(wanted[r - 1, c - 1]) + 128) >> 8) - known.mean
            residual, registers = _code_residual(coder, registers, known, residual)
            residuals[r & 1, c] = residual
            value = known.mean + residual
            if abs(value) > MAX_VALUE:
                coder.registers[FAILED] = 1
                return
            means[r, c] = value
    store(registers, coder.registers)
