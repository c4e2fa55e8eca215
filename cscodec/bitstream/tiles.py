"""Tiles of quantised measurements to entropy-coded segments and back: by context mixing.

A tile is coded in layers, each a segment of its own; what a segment's contexts have learned goes
on to the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Array
from cscodec.bitstream.range_coder import RangeCoder
from cscodec.bitstream.tables import CoderTables
from cscodec.errors import InvalidFieldError
from cscodec.kernels.decisions import Coder
from cscodec.kernels.layers import code_layer
from cscodec.kernels.luma import average_magnitudes
from cscodec.kernels.means import code_means
from cscodec.kernels.mixing import MAX_INPUTS
from cscodec.kernels.predictions import Planes
from cscodec.kernels.search import Search
from cscodec.layout import LAYERS, NUM_MEASUREMENTS, NUM_PLANES, num_layers

Values = npt.NDArray[np.int16]
Wanted = npt.NDArray[np.int32]

ROUNDING = Search(rate_weight=0, dead_zone=0)

# No decision costs more than 12 bits, and no value needs more than 51 of them; a mean takes 85 bits
# at most.
_MOST_BYTES_PER_VALUE = 80
_DEAD_ZONE = 100  # in 1/256 step: a search never keeps values below it
#: Of the weight of rate, by layer: what is in layer 1 also says what to expect of the others.
_RATE_SHARES = (1.0, 0.6, 1.0, 1.0)


class TileState:
    """Planes of one tile and their adaptive states, between one layer and the next.

    Parameters
    ----------
    shapes : sequence of (rows, columns)
        Patches of Y, or of Y, Cb and Cr.
    tables : CoderTables
    measurements : int
        Beside the mean, 1..63.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, int]], tables: CoderTables, measurements: int
    ) -> None:
        self.shapes = list(shapes)
        if len(self.shapes) > NUM_PLANES or len(set(self.shapes[1:])) > 1:
            raise InvalidFieldError(
                f"planes of {self.shapes} patches; allowed are Y, or Y, Cb and Cr of equal size"
            )
        self.measurements = measurements
        self.tables = tables
        self.mixers = [tables.mixer(number) for number in range(len(self.shapes))]
        self.values = [
            np.zeros((rows + 2, columns + 2, NUM_MEASUREMENTS), np.int16)
            for rows, columns in self.shapes
        ]
        self.masks = [np.zeros(values.shape[:2], np.int64) for values in self.values]

    def inner_values(self) -> list[Values]:
        """Quantised measurements of each plane, (rows, columns, 64) int16, without their frame."""
        return [values[1:-1, 1:-1] for values in self.values]

    def code_layer(
        self,
        range_coder: RangeCoder,
        layer: int,
        wanted: Sequence[Wanted],
        search: Search = ROUNDING,
    ) -> None:
        """Run the kernels of one layer over all planes."""
        if layer == 0:
            wanted_means = [np.ascontiguousarray(plane[..., 0]) for plane in wanted]
            means = coded_means(range_coder, self.tables, wanted_means)
            for values, found in zip(self.inner_values(), means, strict=True):
                values[..., 0] = found
            return
        logits = np.zeros(MAX_INPUTS, np.int32)
        luma, luma_masks = self.values[0], self.masks[0]
        for number, values in enumerate(self.values):
            coder = Coder(*range_coder, *self.mixers[number], logits)
            if number == 1:
                luma, luma_masks = magnitudes_at(self.values[0], self.shapes[1])
            planes = Planes(
                number,
                values,
                self.masks[number],
                luma,
                self.values[1] if number == 2 else values,
                luma_masks,
                self.masks[min(number, 1)],
                wanted[number],
            )
            network = self.tables.network(number, layer)
            code_layer(coder, network, planes, search, layer, self.measurements + 1)


def encode_tile(
    wanted: Sequence[Wanted],
    tables: CoderTables,
    *,
    measurements: int = NUM_MEASUREMENTS - 1,
    rate_weight: float = 0.0,
) -> tuple[list[bytes], list[Values]]:
    """Quantise and code the measurements of a tile.

    Parameters
    ----------
    wanted : sequence of ndarray, (rows, columns, 64) int32
        For every plane the measurements in units of 1/256 step.
    measurements : int
        Only the mean and this many measurements are coded.
    rate_weight : float
        λ: squared steps of error that one bit is worth; 0 rounds to the nearest.

    Returns
    -------
    segments : list of bytes
        One per layer.
    values : list of ndarray, (rows, columns, 64) int16
        What a decoder will find.
    """
    state = TileState([plane.shape[:2] for plane in wanted], tables, measurements)
    return encode_with(state, wanted, rate_weight), state.inner_values()


def encode_with(state: TileState, wanted: Sequence[Wanted], rate_weight: float) -> list[bytes]:
    """Code a tile with a state that may have seen others: see :func:`encode_tile`."""
    segments = []
    patches = sum(rows * columns for rows, columns in state.shapes)
    for layer in range(num_layers(state.measurements)):
        weight = round(256 * rate_weight * _RATE_SHARES[layer])
        search = Search(weight, _DEAD_ZONE) if rate_weight > 0 else ROUNDING
        width = LAYERS[layer + 1] - LAYERS[layer]
        coder = RangeCoder.writing(patches * width * _MOST_BYTES_PER_VALUE + 16)
        state.code_layer(coder, layer, wanted, search)
        segments.append(coder.finished())
    return segments


def decode_tile(
    segments: Sequence[bytes | memoryview],
    shapes: Sequence[tuple[int, int]],
    tables: CoderTables,
    *,
    measurements: int = NUM_MEASUREMENTS - 1,
) -> list[Values]:
    """Decode the first ``len(segments)`` layers of a tile: inverse of :func:`encode_tile`.

    Returns
    -------
    list of ndarray, (rows, columns, 64) int16
        Measurements of layers that are not given are zero.

    Raises
    ------
    InvalidFieldError, TruncatedError
        If a segment does not hold what it should.
    """
    state = TileState(shapes, tables, measurements)
    # A decoder wants nothing: memory that is never looked at.
    nothing = [np.empty((*shape, NUM_MEASUREMENTS), np.int32) for shape in shapes]
    for layer, segment in enumerate(segments):
        coder = RangeCoder.reading(segment)
        state.code_layer(coder, layer, nothing)
        _check_end(coder, layer)
    return state.inner_values()


def decode_means(
    segment: bytes | memoryview, shapes: Sequence[tuple[int, int]], tables: CoderTables
) -> list[Values]:
    """Decode the first layer of a tile, and keep nothing for others.

    Returns
    -------
    list of ndarray, (rows, columns, 1) int16

    Raises
    ------
    InvalidFieldError, TruncatedError
        If the segment does not hold what it should.
    """
    range_coder = RangeCoder.reading(segment)
    planes = coded_means(range_coder, tables, [np.empty(shape, np.int32) for shape in shapes])
    _check_end(range_coder, 0)
    return [plane[..., np.newaxis] for plane in planes]


def coded_means(
    range_coder: RangeCoder, tables: CoderTables, wanted: Sequence[Array]
) -> list[Values]:
    """Code the means of all planes of a tile; return them.

    ``wanted`` has, for each plane, (rows, columns) int32, in 1/256 of a step; so have the means,
    int16.
    """
    planes: list[Values] = []
    others: list[Array] = []
    nothing = np.empty((2, 2), np.int32)
    for number, of_plane in enumerate(wanted):
        if planes:
            others.append(fourfold_means(planes[-1], of_plane.shape))
        rows, columns = of_plane.shape
        means = np.zeros((rows + 2, columns + 4), np.int16)
        luma, chroma = (*others, nothing, nothing)[:2]
        network = tables.mean_network(number)
        code_means(*range_coder, network, means, luma, chroma, number, of_plane)
        planes.append(means[2:, 2:-2])
    return planes


def fourfold_means(means: Values, shape: tuple[int, ...]) -> Array:
    """Return four times the means of another plane at the places of one of this shape, (rows + 2,
    columns + 2) int32, in a frame of the nearest of them."""
    framed = np.empty((shape[0] + 2, shape[1] + 2), np.int32)
    inner = framed[1:-1, 1:-1]
    if means.shape == shape:
        np.multiply(means, 4, out=inner, dtype=np.int32)
    else:  # four of them at each place; of those that are not there the nearest
        if means.shape != (2 * shape[0], 2 * shape[1]):
            missing = (2 * here - there for here, there in zip(shape, means.shape, strict=True))
            means = np.pad(means, [(0, more) for more in missing], mode="edge")
        np.add(means[::2, ::2], means[::2, 1::2], out=inner, dtype=np.int32)
        inner += means[1::2, ::2]
        inner += means[1::2, 1::2]
    framed[0], framed[-1] = framed[1], framed[-2]
    framed[:, 0], framed[:, -1] = framed[:, 1], framed[:, -2]
    return framed


def _check_end(coder: RangeCoder, layer: int) -> None:
    """Refuse a segment that was read and is not what an encoder writes."""
    if coder.has_failed:
        raise InvalidFieldError(f"layer {layer}: a measurement is larger than 16 bits hold")
    if not coder.is_whole:
        raise InvalidFieldError(f"layer {layer}: the segment does not end as encoders end it")


def magnitudes_at(luma: Values, shape: tuple[int, int]) -> tuple[Values, Array]:
    """Return rounded mean magnitudes of the luma patches that each chroma patch covers, in a frame,
    and for every patch the mask of those that are not zero."""
    rows, columns = shape
    magnitudes = np.zeros((rows + 2, columns + 2, NUM_MEASUREMENTS), np.int16)
    masks = np.zeros((rows + 2, columns + 2), np.int64)
    average_magnitudes(luma, magnitudes, masks, np.zeros(NUM_MEASUREMENTS, np.int32))
    return magnitudes, masks
