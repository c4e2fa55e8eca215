"""The networks that predict measurements: their weights, as stored and as kernels use them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cscodec.arrays import Array
from cscodec.kernels.intrinsics import BLOCK, WIDE_BLOCK
from cscodec.kernels.predictions import LOG, NUM_ROWS, Network
from cscodec.layout import (
    CONSTANT_HIDDEN,
    CONSTANT_INPUT,
    LAYERS,
    MAX_HIDDEN,
    NUM_INPUTS,
    NUM_LEVELS,
    NUM_MEASUREMENTS,
    NUM_SOURCES,
    SIGNED,
    VALUE_CLIP,
    WIDTHS,
)

TableKind = tuple[tuple[int, ...], type[np.integer[Any]]]


class NetworkWeights(NamedTuple):
    """Weights of the network of one layer of a plane, or of all planes with an axis in front.

    Attributes
    ----------
    inputs : ndarray, (2 * 11 * last, H1) int8
        In 1/128. By sign of the input (above and below 0), source, and measurement of the source,
        up to the layer's last.
    offsets : ndarray, (H1,) int16
        In 1/1024, always added to these.
    hidden : ndarray, (H1 + 1, H2) int8
        In 1/64; the last row is the constant's.
    outputs : ndarray, (H2 + 1, outputs) int16
        In 1/1024; the last row is the constant's. Outputs are the magnitudes of the layer's
        measurements, then signed values.
    own : ndarray, (measurements, measurements) int16
        In 1/8192. From a magnitude of the layer to the predicted ones of those that follow.
    above : ndarray, (measurements + 7, 2) int16
        Logits of being above level 1, by measurement, and above levels 2 to 8: an offset in 1/256,
        and how many 1/4096 of the logit of not being zero.
    """

    inputs: Array
    offsets: Array
    hidden: Array
    outputs: Array
    own: Array
    above: Array


def num_predicted(layer: int) -> tuple[int, int]:
    """How many magnitudes and how many signed values the network of a layer predicts."""
    first, last = LAYERS[layer : layer + 2]
    return last - first, max(min(last, SIGNED) - first, 0)


def kinds_of(layer: int) -> dict[str, TableKind]:
    """Shapes and types of the weights of a layer, 1 to 3, by name."""
    wide, narrow = WIDTHS[layer - 1]
    sizes, signs = num_predicted(layer)
    return {
        "inputs": ((2 * NUM_SOURCES * LAYERS[layer + 1], wide), np.int8),
        "offsets": ((wide,), np.int16),
        "hidden": ((wide + 1, narrow), np.int8),
        "outputs": ((narrow + 1, sizes + signs), np.int16),
        "own": ((sizes, sizes), np.int16),
        "above": ((sizes + NUM_LEVELS - 1, 2), np.int16),
    }


def largest_sum(weights: NetworkWeights) -> int:
    """Return a number that no sum which makes the network's outputs exceeds.

    Sums of inputs stay below 2**24, those of hidden values below 2**27, as weights are bytes.
    """
    sums = largest_sums(weights.outputs)
    own = int(LOG[VALUE_CLIP]) * np.abs(weights.own.astype(np.int64)).sum(axis=0)
    sums[: own.size] += own
    return int(sums.max())


def largest_sums(weights: Array) -> Array:
    """Return the largest sums, (n,), of hidden values with weights, (H + 1, n)."""
    sizes = np.abs(weights.astype(np.int64))
    sums: Array = MAX_HIDDEN * sizes[:-1].sum(axis=0) + CONSTANT_HIDDEN * sizes[-1]
    return sums


def widened(weights: NetworkWeights, layer: int) -> NetworkWeights:
    """Fill a narrower network of a plane up with sums that nothing looks at."""
    grown = [np.zeros(*kind) for kind in kinds_of(layer).values()]
    for array, found in zip(grown, weights, strict=True):
        array[tuple(map(slice, found.shape))] = found
    whole = NetworkWeights(*grown)
    for array, found in ((whole.hidden, weights.hidden), (whole.outputs, weights.outputs)):
        array[len(found) - 1 :] = 0
        array[-1, : found.shape[1]] = found[-1]  # the constant's
    return whole


def _narrowed(weights: NetworkWeights) -> NetworkWeights:
    """Leave out the last sums of a network, if nothing looks at them."""
    wide, narrow = (
        1 + np.flatnonzero(np.append(True, array[1:-1].any(axis=1)))[-1]  # one at least
        for array in (weights.hidden, weights.outputs)
    )
    return weights._replace(
        inputs=weights.inputs[:, :wide],
        offsets=weights.offsets[:wide],
        hidden=np.delete(weights.hidden, np.s_[wide:-1], axis=0)[:, :narrow],
        outputs=np.delete(weights.outputs, np.s_[narrow:-1], axis=0),
    )


def for_kernel(weights: NetworkWeights, layer: int) -> Network:
    """Lay the weights of a plane out for the kernel."""
    weights = _narrowed(weights)
    sizes, signs = num_predicted(layer)
    by_source = weights.inputs.reshape(2, NUM_SOURCES, LAYERS[layer + 1], -1)
    missing = NUM_MEASUREMENTS - by_source.shape[2]
    by_source = np.pad(by_source, ((0, 0), (0, 0), (0, missing), (0, 0)))
    used = by_source.any(axis=(0, 3))
    own = np.pad(weights.own, ((0, NUM_MEASUREMENTS - sizes), (0, signs)))
    inputs = in_blocks(by_source.reshape(NUM_INPUTS, -1), WIDE_BLOCK)
    offsets = in_blocks(CONSTANT_INPUT * weights.offsets.astype(np.int32), WIDE_BLOCK)
    hidden = in_pairs(in_blocks(weights.hidden), inputs.shape[1])
    outputs = in_pairs(in_blocks(weights.outputs), hidden[1].size)
    return Network(
        inputs=inputs,
        input_offsets=offsets,
        input_rows=np.packbits(used, axis=1, bitorder="little").view(np.int64)[:, 0],
        hidden=hidden[0],
        hidden_offsets=hidden[1],
        outputs=outputs[0],
        output_offsets=outputs[1],
        own=in_blocks(own),
        above=np.concatenate(
            [
                np.pad(weights.above[:sizes], ((0, NUM_MEASUREMENTS - sizes), (0, 0))),
                weights.above[sizes:],
            ]
        ),
        first_sign=sizes,
        **_room(inputs.shape[1], hidden[1].size, outputs[1].size),
    )


def with_room(network: Network) -> Network:
    """Give a network room of its own to work in."""
    return network._replace(**_room(len(network.first), len(network.second), len(network.sums)))


def _room(first: int, second: int, outputs: int) -> dict[str, Array]:
    return room_for_sums(first, second, outputs) | {
        "rows": np.empty(NUM_ROWS, np.int64),
        "factors": np.empty(NUM_ROWS, np.int64),
        "magnitudes": np.empty(NUM_MEASUREMENTS, np.int32),
    }


def room_for_sums(first: int, second: int, outputs: int) -> dict[str, Array]:
    """Return room for the sums of a network of two layers, by the names that kernels have."""
    return {
        "first": np.empty(first, np.int32),
        "second": np.empty(second, np.int32),
        "first_rectified": np.empty(first, np.int16),
        "second_rectified": np.empty(second, np.int16),
        "sums": np.empty(outputs, np.int32),
    }


def neutral_weights(layer: int) -> NetworkWeights:
    """Weights that were not learned: the four neighbours coded before, measurement by measurement.

    Neighbouring measurements share a sum, as there are not enough of these.
    """
    inputs, offsets, hidden, outputs, own, above = (
        np.zeros(*kind) for kind in kinds_of(layer).values()
    )
    first, last = LAYERS[layer : layer + 2]
    sizes, _ = num_predicted(layer)
    by_source = inputs.reshape(2, NUM_SOURCES, last, -1)
    shared = 1 if sizes <= hidden.shape[1] else 2
    for k in range(sizes):
        for source, share in enumerate((77, 77, 32, 32)):
            by_source[:, source, first + k, k // shared] = share // shared
        hidden[k // shared, k // shared] = 64
        outputs[k // shared, k] = 1024
        own[max(k - 3, 0) : k, k] = 2048
    outputs[-1, :sizes] = -1280
    above[:] = -128, 3072
    return NetworkWeights(inputs, offsets, hidden, outputs, own, above)


def in_pairs(weights: Array, num_rows: int) -> tuple[Array, Array]:
    """Return weights (pairs, n, 2) of every two rows, and what the constant's row adds."""
    rows = np.pad(weights[:-1], ((0, num_rows + 1 - len(weights)), (0, 0)))
    pairs = np.ascontiguousarray(rows.reshape(-1, 2, rows.shape[1]).swapaxes(1, 2))
    return pairs, CONSTANT_HIDDEN * weights[-1].astype(np.int32)


def in_blocks(weights: Array, block: int = BLOCK) -> Array:
    """Fill the last axis with zeros up to whole blocks."""
    missing = -weights.shape[-1] % block
    others = [(0, 0)] * (weights.ndim - 1)
    return np.ascontiguousarray(np.pad(weights, [*others, (0, missing)]))
