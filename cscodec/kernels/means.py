"""Kernel that codes layer 0 of one plane of a tile: the patch means.

A mean is predicted from those around it; what is coded is the residual: its length in bits, its
sign, and the bits after the first.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from cscodec.kernels import slots
from cscodec.kernels.decisions import (
    Coder,
    bit_length,
    clipped,
    code_plain,
    decide,
    half_octaves,
    sign_class,
)
from cscodec.kernels.declaration import Array, Integer, helper, int16, int32, int64, kernel
from cscodec.kernels.range_coder import FAILED
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
def _predict(
    values: Array, weights: Array, residuals: Array, r: Integer, c: Integer
) -> _Prediction:
    """Predict the mean of the patch in row r and column c, counted from 1."""
    columns = values.shape[1] - 2
    # Missing neighbours take the value of the nearest one that is there.
    north: Integer = 0
    if r > 1:
        north = np.int64(values[r - 1, c, 0])
    elif c > 1:
        north = np.int64(values[r, c - 1, 0])
    west = np.int64(values[r, c - 1, 0]) if c > 1 else north
    north_west = np.int64(values[r - 1, c - 1, 0]) if r > 1 and c > 1 else north
    north_east = np.int64(values[r - 1, c + 1, 0]) if r > 1 and c < columns else north
    west_west = np.int64(values[r, c - 2, 0]) if c > 2 else west
    north_north = np.int64(values[r - 2, c, 0]) if r > 2 else north
    corner = np.int64(values[r - 2, c + 1, 0]) if r > 2 and c < columns else north_east
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
    around = (
        2 * abs(residuals[r, c - 1])
        + 2 * abs(residuals[r - 1, c])
        + abs(residuals[r - 1, c + 1])
        + abs(residuals[r - 1, c - 1])
    )
    # A second opinion: the median of W, N and the plane W + N - NW through them.
    low, high = min(west, north), max(west, north)
    difference = 16 * min(max(west + north - north_west, low), high) - fine
    size = abs(difference)
    level = 0 if size < 6 else 1 if size < 16 else 2 if size < 48 else 3 if size < 128 else 4
    return _Prediction(
        mean,
        fine - 16 * mean,
        min(half_octaves(activity), 15),
        around,
        min(half_octaves(around), 11),
        4 + level if difference > 0 else 4 - level,
        residuals[r, c - 1],
        residuals[r - 1, c],
    )


@helper
def _code_length(coder: Coder, known: _Prediction, length: Integer) -> Integer:
    """Code how many bits the residual has."""
    second = SET_MEAN_BIN + known.activity
    contexts = (
        slot(slots.MEAN_ZERO_A, (known.activity, known.nearby)),
        slot(slots.MEAN_ZERO_B, (known.activity, known.difference, np.int64(known.rounding < 0))),
        slot(slots.MEAN_ZERO_C, (min(known.around, 63),)),
    )
    if not decide(coder, contexts, SET_MEAN, second, np.int64(length > 0)):
        return 0
    reached: Integer = 1
    while reached < _MOST_BITS:
        contexts = (
            slot(slots.MEAN_SIZE_A, (reached - 1, known.activity)),
            slot(slots.MEAN_SIZE_B, (reached - 1, known.nearby)),
            slot(slots.MEAN_SIZE_C, (reached - 1, abs(known.difference - 4))),
        )
        if not decide(coder, contexts, SET_MEAN + reached, second, np.int64(length > reached)):
            break
        reached += 1
    return reached


@helper
def _code_residual(coder: Coder, known: _Prediction, residual: Integer) -> Integer:
    length = _code_length(coder, known, bit_length(abs(residual)))
    if length == 0:
        return 0
    signs = (
        slot(
            slots.MEAN_SIGN_A,
            (known.difference, sign_class(known.west), sign_class(known.north)),
        ),
        slot(slots.MEAN_SIGN_B, ((known.rounding + 8) >> 1, known.difference)),
    )
    negative = decide(coder, signs, SET_MEAN + 16, SET_OTHER, np.int64(residual < 0))
    magnitude = abs(residual)
    size: Integer = 1
    for k in range(length - 1):
        bit = (magnitude >> (length - 2 - k)) & 1
        if k < 2:
            contexts = (
                slot(slots.MEAN_BITS_A, (length - 1, k, size & 1)),
                slot(slots.MEAN_BITS_B, (length - 1, k, known.activity)),
            )
            bit = decide(coder, contexts, SET_MEAN + 17 + k, SET_OTHER, bit)
        else:
            bit = code_plain(coder, bit)
        size = 2 * size + bit
    return -size if negative else size


@kernel
def code_means(
    coder: Coder,
    weights: Annotated[Array, int32[6]],
    values: Annotated[Array, int16["rows + 2", "columns + 2", 64].out],
    wanted: Annotated[Array, int32["rows", "columns", 64]],
    residuals: Annotated[Array, int64["rows + 2", "columns + 2"].out],
) -> None:
    """Code layer 0, the patch means, as residuals of a linear prediction.

    Parameters
    ----------
    coder : Coder
    weights
        Of W, NW, NE, WW, NN and NNE, all less N; 4096 is 1.
    values
        Quantised measurements in a frame of zeros; number 0 of each patch is filled in.
    wanted
        What the encoder wants, in 1/256 of a step.
    residuals
        Zeros, and room.
    """
    rows = values.shape[0] - 2
    columns = values.shape[1] - 2
    for r in range(1, rows + 1):
        for c in range(1, columns + 1):
            known = _predict(values, weights, residuals, r, c)
            residual: Integer = 0
            if not coder.decoding:
                residual = ((np.int64(wanted[r - 1, c - 1, 0]) + 128) >> 8) - known.mean
            residual = _code_residual(coder, known, residual)
            residuals[r, c] = residual
            value = known.mean + residual
            if abs(value) > MAX_VALUE:
                coder.registers[FAILED] = 1
                return
            values[r, c, 0] = value
