"""Kernel code that predicts the measurements of a patch from what is coded already: a network.

Each gets a magnitude and, the first of them, a signed value. Sources are the neighbouring patches
(those coded before with everything, the others with their earlier layers), the patch's own earlier
measurements, and for chroma the other planes. A network for each plane and layer, of whole numbers,
looks at logarithms of these, by two layers of rectified sums. Most of its inputs are zero, so that
the first sums only those rows of weights whose inputs are not.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from cscodec.kernels.decisions import clipped
from cscodec.kernels.declaration import (
    Array,
    Integer,
    helper,
    inline_here,
    int8,
    int16,
    int32,
    int64,
)
from cscodec.kernels.intrinsics import (
    add_rows,
    add_scaled,
    lowest_bit,
    multiply_pairs,
    multiply_sparse,
    rectify,
)
from cscodec.kernels.mixing import LOGIT_LIMIT
from cscodec.layout import (
    LOG_ONE,
    LUMA,
    MAGNITUDE_ONE,
    MEAN_CLIP,
    NEIGHBOURS,
    NUM_CAUSAL,
    NUM_INPUTS,
    NUM_LEVELS,
    NUM_MEASUREMENTS,
    NUM_SOURCES,
    OWN,
    VALUE_CLIP,
)

_NEIGHBOURS = np.array(NEIGHBOURS, np.int64)
NUM_ROWS = NUM_SOURCES * NUM_MEASUREMENTS + 1  #: most that a sum has
#: Logarithms of magnitudes, and magnitudes of logarithms in 1/64.
LOG = np.rint(LOG_ONE * np.log2(1 + np.arange(MEAN_CLIP + 1))).astype(np.int16)
# From -MEAN_CLIP on. Tables, as no processor foresees the way that a sign would lead.
_FACTOR = np.concatenate([LOG[:0:-1], LOG]).astype(np.int64)
_ROW = NUM_SOURCES * NUM_MEASUREMENTS * (np.arange(-MEAN_CLIP, MEAN_CLIP + 1) < 0).astype(np.int64)
_LEAST_LOG, _LARGEST_LOG = -384, 255
EXP = np.rint(MAGNITUDE_ONE * np.exp(np.arange(_LEAST_LOG, _LARGEST_LOG + 1) / 64)).astype(np.int32)


class Network(NamedTuple):
    """Weights of the network of one layer of a plane, and room to work in.

    Columns are filled up with zeros to multiples of 32, those of the inputs to multiples of 64.

    Attributes
    ----------
    inputs
        By sign (of a value above and below 0), source, and measurement of the source.
    input_rows
        By source: bit j is set where the rows of measurement j are not all zeros.
    input_offsets, hidden_offsets, output_offsets
        What is always added.
    hidden, outputs
        Of the first rectified sums, and of the second, in pairs of them. Outputs are magnitudes,
        and from ``first_sign`` on signed values.
    own
        What a patch's own values of the layer add to the outputs, as they come.
    above
        Logit of being above a level where that is reached: an offset in 1/256, and 1/4096 of that
        of not being zero. For level 1 by measurement, then for levels 2 to 8.
    first_sign : int
        Where signed values begin among the outputs.
    rows, factors
        Room for the rows of a sum.
    first, second, first_rectified, second_rectified, sums
        Room for sums, as they are and rectified; the last are the outputs.
    magnitudes
        Room for predicted magnitudes.
    """

    inputs: Annotated[Array, int8[NUM_INPUTS, "64 * first_blocks"]]
    input_offsets: Annotated[Array, int32["64 * first_blocks"]]
    input_rows: Annotated[Array, int64[NUM_SOURCES]]
    hidden: Annotated[Array, int8["32 * first_blocks", "32 * second_blocks", 2]]
    hidden_offsets: Annotated[Array, int32["32 * second_blocks"]]
    outputs: Annotated[Array, int16["16 * second_blocks", "32 * output_blocks", 2]]
    output_offsets: Annotated[Array, int32["32 * output_blocks"]]
    own: Annotated[Array, int16[NUM_MEASUREMENTS, "32 * output_blocks"]]
    above: Annotated[Array, int16[NUM_MEASUREMENTS + NUM_LEVELS - 1, 2]]
    first_sign: Integer
    rows: Annotated[Array, int64[NUM_ROWS].out]
    factors: Annotated[Array, int64[NUM_ROWS].out]
    first_rectified: Annotated[Array, int16["64 * first_blocks"].out]
    second_rectified: Annotated[Array, int16["32 * second_blocks"].out]
    first: Annotated[Array, int32["64 * first_blocks"].out]
    second: Annotated[Array, int32["32 * second_blocks"].out]
    sums: Annotated[Array, int32["32 * output_blocks"].out]
    magnitudes: Annotated[Array, int32[NUM_MEASUREMENTS].out]


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
    luma_masks, chroma_masks
        As ``masks``, of these.
    wanted
        What the encoder wants, in 1/256 of a step; a decoder does not look at it.
    """

    number: Integer
    values: Annotated[Array, int16["rows + 2", "columns + 2", NUM_MEASUREMENTS].out]
    masks: Annotated[Array, int64["rows + 2", "columns + 2"].out]
    luma: Annotated[Array, int16["rows + 2", "columns + 2", NUM_MEASUREMENTS]]
    chroma: Annotated[Array, int16["rows + 2", "columns + 2", NUM_MEASUREMENTS]]
    luma_masks: Annotated[Array, int64["rows + 2", "columns + 2"]]
    chroma_masks: Annotated[Array, int64["rows + 2", "columns + 2"]]
    wanted: Annotated[Array, int32["rows", "columns", NUM_MEASUREMENTS]]


@helper
def below(end: Integer) -> Integer:
    """Mask of measurements 1 to end - 1."""
    return ((1 << (end - 1)) - 1) << 1 if end < 64 else -2


@helper
def has_room(network: Network, predicted: Integer, signed: Integer) -> bool:
    """Say whether a network has all that a layer of so many measurements asks it for."""
    end = network.first_sign + max(signed, 0)
    return bool(predicted <= network.first_sign and end <= len(network.sums))


@helper
def predict(
    network: Network,
    planes: Planes,
    r: Integer,
    c: Integer,
    first: Integer,
    last: Integer,
) -> None:
    """Start the predictions of measurements first..last-1 of a patch (1-based row and column)."""
    count = _gather(network, planes, r, c, first, last)
    network.rows[count], network.factors[count] = 0, 0  # makes their number even
    add_rows(
        network.first,
        network.inputs,
        network.input_offsets,
        network.rows,
        network.factors,
        (count + 1) & -2,
    )
    rectify(network.first, 4, network.first_rectified)
    multiply_sparse(network.first_rectified, network.hidden, network.hidden_offsets, network.second)
    rectify(network.second, 6, network.second_rectified)
    multiply_pairs(network.second_rectified, network.outputs, network.output_offsets, network.sums)


@helper
def _gather(
    network: Network, planes: Planes, r: Integer, c: Integer, first: Integer, last: Integer
) -> Integer:
    """List the rows of all inputs that are not zero; returns how many there are."""
    inline_here()
    values, masks = planes.values, planes.masks
    rows = values.shape[0] - 2
    columns = values.shape[1] - 2
    own = values[r, c]
    count: Integer = 0
    for source in range(OWN + 1 + planes.number):
        # How many measurements of this source are known.
        end = first if source >= NUM_CAUSAL and source <= OWN else last
        if source < OWN:
            row = r + _NEIGHBOURS[source, 0]
            column = c + _NEIGHBOURS[source, 1]
            if row < 1 or row > rows or column < 1 or column > columns:
                continue
            other, mask = values[row, column], masks[row, column]
            step = np.int64(other[0]) - np.int64(own[0])
            if step != 0:
                count = _add(network, count, source, 0, clipped(step, MEAN_CLIP))
        elif source == OWN:
            other, mask = own, masks[r, c]
        elif source == LUMA:
            other, mask = planes.luma[r, c], planes.luma_masks[r, c]
        else:
            other, mask = planes.chroma[r, c], planes.chroma_masks[r, c]
        rest = mask & below(end) & network.input_rows[source]
        while rest != 0:
            j = lowest_bit(rest)
            rest &= rest - 1
            count = _add(network, count, source, j, clipped(np.int64(other[j]), VALUE_CLIP))
    return count


@helper
def _add(
    network: Network, count: Integer, source: Integer, measurement: Integer, value: Integer
) -> Integer:
    inline_here()
    place, k = np.uint64(count), np.uint64(value + MEAN_CLIP)  # unsigned: not counted from the end
    network.rows[place] = NUM_MEASUREMENTS * source + measurement + _ROW[k]
    network.factors[place] = _FACTOR[k]
    return count + 1


@helper
def log_odds_at(network: Network, k: Integer) -> Integer:
    """Return the predicted logit, in 1/256, of measurement k of a layer not being zero."""
    return np.int64(network.sums[k]) >> 9


@helper
def above_at(network: Network, k: Integer, level: Integer, log_odds: Integer) -> Integer:
    """Return the predicted logit of a measurement that reaches ``level`` being above it."""
    row = k if level == 1 else NUM_MEASUREMENTS + min(level, NUM_LEVELS) - 2
    slope = (np.int64(network.above[row, 1]) * log_odds) >> 12
    return clipped(np.int64(network.above[row, 0]) + slope, LOGIT_LIMIT)


@helper
def magnitude_at(network: Network, k: Integer) -> Integer:
    """Return the magnitude that is predicted of measurement k of a layer."""
    log: Integer = min(max(np.int64(network.sums[k]) >> 11, _LEAST_LOG), _LARGEST_LOG)
    return np.int64(EXP[log - _LEAST_LOG])


@helper
def signed_at(network: Network, k: Integer) -> Integer:
    """Return the signed value that is predicted of measurement k of a layer."""
    return np.int64(network.sums[network.first_sign + k]) >> 5


@helper
def add_own(network: Network, k: Integer, size: Integer) -> None:
    """Let predictions know the magnitude of measurement k of the layer."""
    add_scaled(network.sums, network.own, k, np.int64(LOG[min(size, VALUE_CLIP)]))
