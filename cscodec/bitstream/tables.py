"""What the entropy coder starts from: the tables that come with a model, or neutral ones."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cscodec.arrays import Array
from cscodec.errors import InvalidModelError
from cscodec.kernels.intrinsics import LANES
from cscodec.kernels.mixing import MAX_INPUTS, WEIGHT_LIMIT, WEIGHT_ONE
from cscodec.kernels.predictions import Predictors
from cscodec.kernels.slots import NUM_SETS, NUM_SLOTS
from cscodec.layout import (
    LAYERS,
    MAGNITUDE_ONE,
    NUM_MEASUREMENTS,
    NUM_PLANES,
    NUM_SOURCES,
    OWN,
    SIGNED,
)
from cscodec.parallel import computed_once

_SHAPES: dict[str, tuple[tuple[int, ...], type[np.integer[Any]]]] = {
    "slots": ((NUM_PLANES, NUM_SLOTS), np.uint16),
    "counts": ((NUM_PLANES, NUM_SLOTS), np.uint8),
    "weights": ((NUM_PLANES, NUM_SETS, MAX_INPUTS), np.int32),
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
        Weights of linear predictions: see :meth:`predictors` and :attr:`mean_weights`.
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
        return Mixer(self._first_slots[plane].copy(), self.weights[plane].copy())

    @computed_once
    def _first_slots(self) -> Array:
        return (self.slots.astype(np.uint32) << 16) | (1 << 15) | self.counts

    @computed_once
    def mean_weights(self) -> Array:
        """Weights that predict the means, (3, 6) int32: see :func:`cscodec.kernels.means`."""
        return self.mean_predictors.astype(np.int32)

    def predictors(self, plane: int, layer: int) -> Predictors:
        """Return the linear predictors of a layer after the means, with room of their own."""
        shared = self._predictors[plane][layer - 1]
        signs, magnitudes = (np.empty_like(room) for room in shared[-2:])
        return shared._replace(signs=signs, magnitudes=magnitudes)

    @computed_once
    def _predictors(self) -> list[list[Predictors]]:
        return [
            [
                self._predictors_of(plane, first, last)
                for first, last in itertools.pairwise(LAYERS[1:])
            ]
            for plane in range(NUM_PLANES)
        ]

    def _predictors_of(self, plane: int, first: int, last: int) -> Predictors:
        sign = _layer_weights(self.sign_predictors[plane], first, min(last, SIGNED))
        magnitude = _layer_weights(self.magnitude_predictors[plane], first, last)
        return Predictors(
            sign_weights=sign,
            sign_rows=_used_rows(sign),
            magnitude_weights=magnitude,
            magnitude_rows=_used_rows(magnitude),
            magnitude_offsets=_padded(self.magnitude_offsets[plane, first:last]),
            signs=np.empty(sign.shape[1], np.int32),
            magnitudes=np.empty(magnitude.shape[1], np.int32),
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
    """Adaptive state of one plane: see :mod:`cscodec.kernels.mixing`."""

    slots: Array  # (num_slots,) uint32: 22 bits of probability, 10 bits of count
    weights: Array  # (num_sets, MAX_INPUTS) int32


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
