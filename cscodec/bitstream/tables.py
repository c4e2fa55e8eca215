"""What the entropy coder starts from: the tables that come with a model, or neutral ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from cscodec.arrays import Array
from cscodec.bitstream.mean_networks import (
    MEAN_KINDS,
    MeanWeights,
    largest_mean_sum,
    mean_network,
    neutral_mean_weights,
    with_room_for_means,
)
from cscodec.bitstream.networks import (
    NetworkWeights,
    TableKind,
    for_kernel,
    kinds_of,
    largest_sum,
    neutral_weights,
    with_room,
)
from cscodec.errors import InvalidModelError
from cscodec.kernels.means import MeanNetwork
from cscodec.kernels.mixing import MAX_INPUTS, WEIGHT_LIMIT, WEIGHT_ONE
from cscodec.kernels.predictions import Network
from cscodec.kernels.slots import NUM_SETS, NUM_SLOTS
from cscodec.layout import NUM_LAYERS, NUM_PLANES
from cscodec.parallel import computed_once

Weights = TypeVar("Weights", MeanWeights, NetworkWeights)

_LAYERS = range(1, NUM_LAYERS)  # those after the means
_COMMON: dict[str, TableKind] = {
    "slots": ((NUM_PLANES, NUM_SLOTS), np.uint16),
    "counts": ((NUM_PLANES, NUM_SLOTS), np.uint8),
    "weights": ((NUM_PLANES, NUM_SETS, MAX_INPUTS), np.int32),
}
_MEANS: dict[str, TableKind] = {
    f"mean_{name}": ((NUM_PLANES, *shape), dtype) for name, (shape, dtype) in MEAN_KINDS.items()
}
_KINDS: dict[str, TableKind] = (
    _COMMON
    | _MEANS
    | {
        f"{name}_{layer}": ((NUM_PLANES, *shape), dtype)
        for layer in _LAYERS
        for name, (shape, dtype) in kinds_of(layer).items()
    }
)


@dataclass(frozen=True, eq=False)
class CoderTables:
    """What the entropy coder starts from, for three planes (Y, Cb, Cr).

    Attributes
    ----------
    slots, counts : ndarray, (3, slots) uint16 and uint8
        Probabilities (of 65536) of every context and how firmly they are believed.
    weights : ndarray, (3, sets, 4) int32
        Mixing weights; 65536 is 1. Two sets are added for every decision.
    means : MeanWeights
        Of layer 0, all planes: see :meth:`mean_network`.
    networks : sequence of NetworkWeights
        Of layers 1 to 3, all planes of each: see :meth:`network`.
    """

    slots: Array
    counts: Array
    weights: Array
    means: MeanWeights
    networks: Sequence[NetworkWeights]

    def __post_init__(self) -> None:
        for array in self.as_mapping().values():
            array.flags.writeable = False

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
        if set(tables) != set(_KINDS):
            odd = ", ".join(sorted(set(tables) ^ set(_KINDS)))
            raise InvalidModelError(f"entropy coder tables missing or unknown: {odd}")
        for name, (shape, dtype) in _KINDS.items():
            if tables[name].shape != shape or tables[name].dtype != dtype:
                raise InvalidModelError(
                    f"entropy coder table {name!r} is {tables[name].dtype} {tables[name].shape}, "
                    f"expected {np.dtype(dtype)} {shape}"
                )
        tables = {name: tables[name].copy() for name in _KINDS}  # the caller's stay writable
        if np.abs(tables["weights"].astype(np.int64)).max() > WEIGHT_LIMIT:
            raise InvalidModelError(f"a mixing weight is above {WEIGHT_LIMIT}")
        names = NetworkWeights._fields
        networks = [
            NetworkWeights(*(tables[f"{name}_{layer}"] for name in names)) for layer in _LAYERS
        ]
        for layer, weights in zip(_LAYERS, networks, strict=True):
            for plane in range(NUM_PLANES):
                if largest_sum(_of_plane(weights, plane)) >= 1 << 31:
                    raise InvalidModelError(
                        f"the network of layer {layer} has weights whose sums exceed 32 bits"
                    )
        means = MeanWeights(*(tables[name] for name in _MEANS))
        for plane in range(NUM_PLANES):
            if largest_mean_sum(_of_plane(means, plane)) >= 1 << 31:
                raise InvalidModelError(
                    "the network of means has weights whose sums exceed 32 bits"
                )
        return cls(**{name: tables[name] for name in _COMMON}, means=means, networks=networks)

    def as_mapping(self) -> dict[str, Array]:
        """Inverse of :meth:`from_mapping`."""
        arrays = {name: getattr(self, name) for name in _COMMON}
        arrays |= zip(_MEANS, self.means, strict=True)
        for layer, weights in zip(_LAYERS, self.networks, strict=True):
            arrays |= {f"{name}_{layer}": array for name, array in weights._asdict().items()}
        return arrays

    def mixer(self, plane: int) -> Mixer:
        """Return a fresh adaptive state for one plane."""
        return Mixer(self._first_slots[plane].copy(), self.weights[plane].copy())

    @computed_once
    def _first_slots(self) -> Array:
        return (self.slots.astype(np.uint32) << 16) | (1 << 15) | self.counts

    def mean_network(self, plane: int) -> MeanNetwork:
        """Return the network of a plane's means, with room of its own."""
        return with_room_for_means(self._mean_networks[plane])

    @computed_once
    def _mean_networks(self) -> list[MeanNetwork]:
        return [mean_network(_of_plane(self.means, plane), plane) for plane in range(NUM_PLANES)]

    def network(self, plane: int, layer: int) -> Network:
        """Return the network of a layer after the means, with room of its own."""
        return with_room(self._networks[plane][layer - 1])

    @computed_once
    def _networks(self) -> list[list[Network]]:
        return [
            [
                for_kernel(_of_plane(weights, plane), layer)
                for layer, weights in zip(_LAYERS, self.networks, strict=True)
            ]
            for plane in range(NUM_PLANES)
        ]


def _of_plane(weights: Weights, plane: int) -> Weights:
    return type(weights)(*(array[plane] for array in weights))


class Mixer(NamedTuple):
    """Adaptive state of one plane: see :mod:`cscodec.kernels.mixing`."""

    slots: Array  # (num_slots,) uint32: 22 bits of probability, 10 bits of count
    weights: Array  # (num_sets, MAX_INPUTS) int32


@lru_cache(maxsize=1)
def neutral_tables() -> CoderTables:
    """Return untrained tables: even odds, and predictions from the nearest neighbours."""
    slots, counts, weights = (np.zeros(*kind) for kind in _COMMON.values())
    slots += 32768
    weights += WEIGHT_ONE // 4
    means = _for_all_planes(neutral_mean_weights())
    networks = [_for_all_planes(neutral_weights(layer)) for layer in _LAYERS]
    return CoderTables(slots, counts, weights, means, networks)


def _for_all_planes(weights: Weights) -> Weights:
    return type(weights)(*(np.stack([array] * NUM_PLANES) for array in weights))
