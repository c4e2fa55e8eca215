"""Kernel code that predicts the measurements of a patch, linearly, from what is coded already.

Each gets a magnitude and, the first of them, a signed value. Sources are the neighbouring patches
(those coded before with everything, the others with their earlier layers), the patch's own earlier
measurements, and for chroma the other planes.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from cscodec.kernels.decisions import clipped
from cscodec.kernels.declaration import Array, Integer, helper, int16, int32, int64
from cscodec.kernels.intrinsics import add_scaled, lowest_bit
from cscodec.layout import (
    LUMA,
    MEAN_CLIP,
    NEIGHBOURS,
    NUM_CAUSAL,
    NUM_MEASUREMENTS,
    NUM_SOURCES,
    OWN,
    VALUE_CLIP,
)

_NEIGHBOURS = np.array(NEIGHBOURS, np.int64)


class Predictors(NamedTuple):
    """Weights of the predictions of one layer of a plane, and room for what they predict.

    Columns are the predicted measurements, filled up with zeros to a multiple of eight.

    Attributes
    ----------
    sign_weights, magnitude_weights
        By source and its measurement, 64 rows to a source.
    sign_rows, magnitude_rows
        By source: bit j is set where the row of measurement j is not all zeros.
    magnitude_offsets
        Constant part of the magnitudes.
    signs, magnitudes
        Room. No sum reaches 2^31: 11 sources of 64 weights of 16 bits, times 32.
    """

    sign_weights: Annotated[Array, int16[NUM_SOURCES * NUM_MEASUREMENTS, "8 * sign_vectors"]]
    sign_rows: Annotated[Array, int64[NUM_SOURCES]]
    magnitude_weights: Annotated[Array, int16[NUM_SOURCES * NUM_MEASUREMENTS, "8 * size_vectors"]]
    magnitude_rows: Annotated[Array, int64[NUM_SOURCES]]
    magnitude_offsets: Annotated[Array, int16["8 * size_vectors"]]
    signs: Annotated[Array, int32["8 * sign_vectors"].out]
    magnitudes: Annotated[Array, int32["8 * size_vectors"].out]


class Planes(NamedTuple):
    """The plane at hand, and what is known of those coded before it.

    Attributes
    ----------
    number : int
        0 for Y, 1 for Cb, 2 for Cr.
    values
        Quantised measurements in a frame of zeros, filled layer by layer.
    masks
        Bit i is set where measurement i > 0 is not zero; filled likewise.
    luma
        For chroma, mean magnitudes of the luma patches at each place; for luma, not looked at.
    chroma
        For the second chroma plane, the first; for others, not looked at.
    wanted
        What the encoder wants, in 1/256 of a step; a decoder does not look at it.
    """

    number: Integer
    values: Annotated[Array, int16["rows + 2", "columns + 2", NUM_MEASUREMENTS].out]
    masks: Annotated[Array, int64["rows + 2", "columns + 2"].out]
    luma: Annotated[Array, int16["rows + 2", "columns + 2", NUM_MEASUREMENTS]]
    chroma: Annotated[Array, int16["rows + 2", "columns + 2", NUM_MEASUREMENTS]]
    wanted: Annotated[Array, int32["rows", "columns", NUM_MEASUREMENTS]]


@helper
def below(end: Integer) -> Integer:
    """Mask of measurements 1 to end - 1."""
    return ((1 << (end - 1)) - 1) << 1 if end < 64 else -2


@helper
def predict(
    predictors: Predictors,
    planes: Planes,
    r: Integer,
    c: Integer,
    first: Integer,
    last: Integer,
) -> None:
    """Start the predictions of measurements first..last-1 of a patch (1-based row and column)."""
    values, masks = planes.values, planes.masks
    rows = values.shape[0] - 2
    columns = values.shape[1] - 2
    magnitudes, signs = predictors.magnitudes, predictors.signs
    for i in range(magnitudes.size):
        magnitudes[i] = predictors.magnitude_offsets[i]
    for i in range(signs.size):
        signs[i] = 0
    own = values[r, c]
    for source in range(OWN + 1 + planes.number):
        # How many measurements of this source are known.
        end = first if source >= NUM_CAUSAL and source <= OWN else last
        mask: Integer = -1
        if source < OWN:
            row = r + _NEIGHBOURS[source, 0]
            column = c + _NEIGHBOURS[source, 1]
            if row < 1 or row > rows or column < 1 or column > columns:
                continue
            other = values[row, column]
            mask = masks[row, column]
            _add_step(predictors, source, np.int64(other[0]) - np.int64(own[0]))
        elif source == OWN:
            other = own
            mask = masks[r, c]
        elif source == LUMA:
            other = planes.luma[r, c]
        else:
            other = planes.chroma[r, c]
        _add_values(predictors, source, other, mask & below(end))


@helper
def _add_step(predictors: Predictors, source: Integer, difference: Integer) -> None:
    """Add what the difference of means says."""
    step = clipped(difference, MEAN_CLIP)
    row = NUM_MEASUREMENTS * source
    if step != 0 and predictors.magnitude_rows[source] & 1:
        add_scaled(predictors.magnitudes, predictors.magnitude_weights, row, abs(step))
    if step != 0 and predictors.sign_rows[source] & 1:
        add_scaled(predictors.signs, predictors.sign_weights, row, step)


@helper
def _add_values(predictors: Predictors, source: Integer, other: Array, mask: Integer) -> None:
    """Add what those measurements of another patch that are in the mask say."""
    row = NUM_MEASUREMENTS * source
    rest = mask & predictors.magnitude_rows[source]
    while rest != 0:
        j = lowest_bit(rest)
        rest &= rest - 1
        size = min(abs(np.int64(other[j])), VALUE_CLIP)
        if size != 0:
            add_scaled(predictors.magnitudes, predictors.magnitude_weights, row + j, size)
    rest = mask & predictors.sign_rows[source]
    while rest != 0 and source != LUMA:
        j = lowest_bit(rest)
        rest &= rest - 1
        value = clipped(np.int64(other[j]), VALUE_CLIP)
        if value != 0:
            add_scaled(predictors.signs, predictors.sign_weights, row + j, value)
