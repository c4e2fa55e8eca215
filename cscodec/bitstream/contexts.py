"""Tiles of quantised measurements to entropy-coded segments and back: by context mixing.

A tile is coded in layers, each a segment of its own; what a segment's contexts have learned goes
on to the next. The tables that a tile starts from come with the model, or are neutral.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cscodec._intrinsics import LANES
from cscodec.bitstream import _contexts as kernels
from cscodec.bitstream._mixing import MAX_INPUTS, WEIGHT_LIMIT, WEIGHT_ONE
from cscodec.bitstream._range_coder import FAILED, HIGH, LOW, POSITION, STATE_SIZE, WINDOW
from cscodec.bitstream.layout import (
    LAYERS,
    MAGNITUDE_ONE,
    NUM_MEASUREMENTS,
    NUM_PLANES,
    NUM_SOURCES,
    OWN,
    SIGNED,
    num_layers,
)
from cscodec.errors import InvalidFieldError, InvalidModelError, TruncatedError
from cscodec.model import Model

Values = npt.NDArray[np.int16]
Wanted = npt.NDArray[np.int32]
Array = npt.NDArray[Any]

# No decision costs more than 12 bits, and no value needs more than 51 of them.
_MOST_BYTES_PER_VALUE = 80
_DEAD_ZONE = 100  # in 1/256 step: a search never keeps values below it

_SHAPES: dict[str, tuple[tuple[int, ...], type[np.integer[Any]]]] = {
    "slots": ((NUM_PLANES, kernels.NUM_SLOTS), np.uint16),
    "counts": ((NUM_PLANES, kernels.NUM_SLOTS), np.uint8),
    "weights": ((NUM_PLANES, kernels.NUM_SETS, MAX_INPUTS), np.int32),
    "sign_predictors": ((NUM_PLANES, NUM_SOURCES, SIGNED, SIGNED), np.int16),
    "magnitude_predictors": (
        (NUM_PLANES, NUM_SOURCES, NUM_MEASUREMENTS, NUM_MEASUREMENTS),
        np.int16,
    ),
    "magnitude_offsets": ((NUM_PLANES, NUM_MEASUREMENTS), np.int16),
    "mean_predictors": ((NUM_PLANES, 6), np.int16),
}


@dataclass(frozen=True, eq=False)
class CoderTables:
    """What the entropy coder starts from, for three planes (Y, Cb, Cr).

    Attributes
    ----------
    slots, counts : ndarray, (3, slots) uint16 and uint8
        Probabilities (of 65536) of every context and how firmly they are believed.
    weights : ndarray, (3, sets, 8) int32
        Mixing weights; 65536 is 1. Two sets are added for every decision.
    sign_predictors, magnitude_predictors, magnitude_offsets, mean_predictors : ndarray, int16
        See :class:`Predictors`.
    """

    slots: Array
    counts: Array
    weights: Array
    sign_predictors: Array
    magnitude_predictors: Array
    magnitude_offsets: Array
    mean_predictors: Array

    def __post_init__(self) -> None:
        for name in _SHAPES:
            getattr(self, name).flags.writeable = False

    @classmethod
    def from_mapping(cls, tables: Mapping[str, Array]) -> CoderTables:
        """Take a model's tables; an empty mapping gives the neutral ones.

        Raises
        ------
        InvalidModelError
            If an array is missing, superfluous, or of the wrong shape, type or range.
        """
        if not tables:
            return neutral_tables()
        if set(tables) != set(_SHAPES):
            odd = ", ".join(sorted(set(tables) ^ set(_SHAPES)))
            raise InvalidModelError(f"entropy coder tables missing or unknown: {odd}")
        for name, (shape, dtype) in _SHAPES.items():
            if tables[name].shape != shape or tables[name].dtype != dtype:
                raise InvalidModelError(
                    f"entropy coder table {name!r} is {tables[name].dtype} {tables[name].shape}, "
                    f"expected {np.dtype(dtype)} {shape}"
                )
        if np.abs(tables["weights"].astype(np.int64)).max() > WEIGHT_LIMIT:
            raise InvalidModelError(f"a mixing weight is above {WEIGHT_LIMIT}")
        return cls(**{name: tables[name] for name in _SHAPES})

    def as_mapping(self) -> dict[str, Array]:
        """Inverse of :meth:`from_mapping`."""
        return {name: getattr(self, name) for name in _SHAPES}

    def mixer(self, plane: int) -> Mixer:
        """Return a fresh adaptive state for one plane."""
        counts = self.counts[plane].astype(np.uint32)
        return Mixer(
            slots=(self.slots[plane].astype(np.uint32) << 16) | (1 << 15) | counts,
            weights=self.weights[plane].copy(),
        )

    @cached_property
    def predictors(self) -> list[list[Predictors]]:
        """The linear predictors of each plane, by layer."""
        return [
            [self._predictors(plane, first, last) for first, last in itertools.pairwise(LAYERS)]
            for plane in range(NUM_PLANES)
        ]

    def _predictors(self, plane: int, first: int, last: int) -> Predictors:
        sign = _layer_weights(self.sign_predictors[plane], first, min(last, SIGNED))
        magnitude = _layer_weights(self.magnitude_predictors[plane], first, last)
        return Predictors(
            mean=self.mean_predictors[plane].astype(np.int32),
            sign=sign,
            sign_rows=_used_rows(sign),
            magnitude=magnitude,
            magnitude_rows=_used_rows(magnitude),
            magnitude_offset=_padded(self.magnitude_offsets[plane, first:last]),
        )


def _layer_weights(weights: Array, first: int, last: int) -> Array:
    """Weights (sources, measurements, predicted ones) of what one layer predicts, for kernels.

    A row for each source and measurement, 64 rows to a source.
    """
    missing = NUM_MEASUREMENTS - weights.shape[1]
    rows = np.pad(weights[..., first:last], ((0, 0), (0, missing), (0, 0)))
    return _padded(rows.reshape(len(rows) * NUM_MEASUREMENTS, -1 if rows.size else 0))


def _used_rows(weights: Array) -> Array:
    """For every source, a mask of the measurements whose weights are not all zero."""
    used = weights.any(axis=1).reshape(NUM_SOURCES, NUM_MEASUREMENTS)
    return np.packbits(used, axis=1, bitorder="little").view("<i8")[:, 0].astype(np.int64)


def _padded(numbers: Array) -> Array:
    """Fill the last axis with zeros up to whole vectors."""
    missing = -numbers.shape[-1] % LANES
    return np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, missing)])


class Mixer(NamedTuple):
    """Adaptive state of one plane: see :mod:`cscodec.bitstream._mixing`."""

    slots: Array  # (num_slots,) uint32: 22 bits of probability, 10 bits of count
    weights: Array  # (num_sets, MAX_INPUTS) int32


class Predictors(NamedTuple):
    """Weights of linear predictions: see :func:`cscodec.bitstream._contexts.code_layer`."""

    mean: Array
    sign: Array
    sign_rows: Array
    magnitude: Array
    magnitude_rows: Array
    magnitude_offset: Array


@lru_cache(maxsize=1)
def neutral_tables() -> CoderTables:
    """Return untrained tables: even odds, and the nearest neighbours as predictors."""
    tables = {name: np.zeros(shape, dtype) for name, (shape, dtype) in _SHAPES.items()}
    tables["slots"] += 32768
    tables["weights"] += int(0.175 * WEIGHT_ONE)
    one = MAGNITUDE_ONE
    for i in range(1, NUM_MEASUREMENTS):
        for source, share in enumerate((0.25, 0.25, 0.12, 0.12)):
            tables["magnitude_predictors"][:, source, i, i] = int(share * one)
        for j in range(max(1, i - 3), i):
            tables["magnitude_predictors"][:, OWN, j, i] = one // 12
    tables["magnitude_offsets"] += one // 20
    tables["mean_predictors"][:, 0] = 3 * 4096 // 4
    tables["mean_predictors"][:, 1] = -(4096 // 2)
    tables["mean_predictors"][:, 2] = 4096 // 4
    return CoderTables(**tables)


@lru_cache(maxsize=8)
def tables_of(model: Model) -> CoderTables:
    """Return a model's tables, and keep what is made of them for the next picture.

    Raises
    ------
    InvalidModelError
        As :meth:`CoderTables.from_mapping`.
    """
    return CoderTables.from_mapping(model.tables)


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
        self.mixers = [tables.mixer(number) for number in range(len(self.shapes))]
        self.predictors = tables.predictors
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
        coder: Array,
        data: Array,
        decoding: bool,
        layer: int,
        wanted: Sequence[Wanted],
        rate_weight: int = 0,
        dead_zone: int = 0,
    ) -> None:
        """Run the kernels of one layer over all planes."""
        luma = self.values[0]
        for number, values in enumerate(self.values):
            if number == 1 and layer > 0:
                luma = magnitudes_at(self.values[0], self.shapes[1])
            mixer, predictors = self.mixers[number], self.predictors[number][layer]
            logits = np.zeros(MAX_INPUTS, np.int32)
            if layer == 0:
                residuals = np.zeros(values.shape[:2], np.int64)
                kernels.code_means(
                    coder,
                    data,
                    decoding,
                    *mixer,
                    logits,
                    predictors.mean,
                    values,
                    wanted[number],
                    residuals,
                )
                continue
            kernels.code_layer(
                coder,
                data,
                decoding,
                *mixer,
                logits,
                *predictors[1:],
                values,
                self.masks[number],
                wanted[number],
                luma,
                self.values[1] if number == 2 else values,
                np.empty(predictors.sign.shape[1], np.int32),
                np.empty(predictors.magnitude.shape[1], np.int32),
                number,
                layer,
                self.measurements + 1,
                rate_weight,
                dead_zone,
            )


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
    dead_zone = _DEAD_ZONE if rate_weight > 0 else 0
    for layer in range(num_layers(state.measurements)):
        width = LAYERS[layer + 1] - LAYERS[layer]
        data = np.empty(patches * width * _MOST_BYTES_PER_VALUE + 16, np.uint8)
        coder = _registers()
        state.code_layer(coder, data, False, layer, wanted, round(rate_weight * 256), dead_zone)
        if coder[POSITION] > len(data):
            raise TruncatedError("the entropy coder's buffer was too small")
        segments.append(_finish(coder, data[: coder[POSITION]].tobytes()))
    return segments


def decode_tile(
    segments: Sequence[bytes],
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
    nothing = np.zeros((1, 1, NUM_MEASUREMENTS), np.int32)
    for layer, segment in enumerate(segments):
        data = np.array(bytearray(segment), np.uint8)  # writable: one kernel serves both ways
        coder = _registers()
        coder[WINDOW] = int.from_bytes(segment[:4].ljust(4, b"\0"), "big")
        coder[POSITION] = 4
        state.code_layer(coder, data, True, layer, [nothing] * len(shapes))
        if coder[FAILED]:
            raise InvalidFieldError(f"layer {layer}: a measurement is larger than 16 bits hold")
        coder[POSITION] -= 4
        if segment != _finish(coder, segment):
            raise InvalidFieldError(f"layer {layer}: the segment does not end as encoders end it")
    return state.inner_values()


def _registers() -> Array:
    """Return the range coder's state at the start of a segment."""
    state = np.zeros(STATE_SIZE, np.int64)
    state[HIGH] = 0xFFFFFFFF
    return state


def _finish(coder: Array, written: bytes) -> bytes:
    """End a segment with the fewest bytes that, followed by zeros, lie in the last interval."""
    low, high, position = (int(coder[place]) for place in (LOW, HIGH, POSITION))
    tail = b""
    for num_bytes in range(5):
        unit = 1 << (8 * (4 - num_bytes))
        value = -(-low // unit) * unit
        if value <= high:
            tail = value.to_bytes(4, "big")[:num_bytes]
            break
    return (written[:position].ljust(position, b"\0") + tail).rstrip(b"\0")


def magnitudes_at(luma: Values, shape: tuple[int, int]) -> Values:
    """Rounded mean magnitudes of the luma patches that each chroma patch covers, framed."""
    rows, columns = shape
    inner = np.abs(luma[1:-1, 1:-1].astype(np.int32))
    if inner.shape[:2] != shape:  # 4:2:0
        pad = ((0, 2 * rows - inner.shape[0]), (0, 2 * columns - inner.shape[1]), (0, 0))
        inner = np.pad(inner, pad)
        inner = (inner[::2, ::2] + inner[1::2, ::2] + inner[::2, 1::2] + inner[1::2, 1::2] + 2) >> 2
    framed = np.zeros((rows + 2, columns + 2, NUM_MEASUREMENTS), np.int16)
    framed[1:-1, 1:-1] = inner
    return framed
