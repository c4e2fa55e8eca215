"""The networks that predict patch means: their weights, as stored and as the kernel uses them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cscodec.arrays import Array
from cscodec.bitstream.networks import (
    TableKind,
    in_blocks,
    in_pairs,
    largest_sums,
    room_for_sums,
)
from cscodec.kernels.intrinsics import LANES
from cscodec.kernels.means import MeanNetwork
from cscodec.layout import AROUND_MEAN, MEAN_INPUTS, MEAN_MIDDLE, MEAN_WIDTHS


class MeanWeights(NamedTuple):
    """Weights of the network of a plane, or of all planes with an axis in front, in 1/1024.

    The last row of each is the constant's.

    Attributes
    ----------
    inputs : ndarray, (35, 32) int16
        Of what is known of a mean; luma has 16 rows, Cb 25, and zeros before the last.
    hidden : ndarray, (33, 32) int16
    outputs : ndarray, (33, 2) int16
        The place and the scale of the mean.
    """

    inputs: Array
    hidden: Array
    outputs: Array


_WIDE, _NARROW = MEAN_WIDTHS
MEAN_KINDS: dict[str, TableKind] = {
    "inputs": ((MEAN_INPUTS[-1] + 1, _WIDE), np.int16),
    "hidden": ((_WIDE + 1, _NARROW), np.int16),
    "outputs": ((_NARROW + 1, 2), np.int16),
}


def largest_mean_sum(weights: MeanWeights) -> int:
    """Return a number that no sum which the network makes exceeds."""
    return max(int(largest_sums(matrix).max()) for matrix in weights)


def mean_network(weights: MeanWeights, plane: int) -> MeanNetwork:
    """Lay the weights of a plane out for the kernel, with room to work in."""
    rows = np.concatenate([weights.inputs[: MEAN_INPUTS[plane]], weights.inputs[-1:]])
    rows = in_blocks(rows)
    inputs, offsets = in_pairs(rows, -(-MEAN_INPUTS[plane] // LANES) * LANES)
    offsets -= MEAN_MIDDLE * rows[:-1].sum(axis=0, dtype=np.int32)
    hidden, hidden_offsets = in_pairs(in_blocks(weights.hidden), offsets.size)
    outputs, output_offsets = in_pairs(in_blocks(weights.outputs, LANES), hidden_offsets.size)
    return MeanNetwork(
        inputs=inputs,
        input_offsets=offsets,
        hidden=hidden,
        hidden_offsets=hidden_offsets,
        outputs=outputs,
        output_offsets=output_offsets,
        **_room(len(inputs), offsets.size, hidden_offsets.size, output_offsets.size),
    )


def with_room_for_means(network: MeanNetwork) -> MeanNetwork:
    """Give a network room of its own to work in."""
    sizes = len(network.first), len(network.second), len(network.sums)
    return network._replace(**_room(len(network.inputs), *sizes))


def _room(pairs: int, first: int, second: int, outputs: int) -> dict[str, Array]:
    known = np.zeros(2 * pairs, np.int16)  # what is not known stays zero
    return room_for_sums(first, second, outputs) | {"known": known}


def neutral_mean_weights() -> MeanWeights:
    """Weights that were not learned.

    For them a mean is that of N and W, less half of what NW is above it, plus a quarter of
    what NE is; its scale is a quarter of what these differ by.
    """
    inputs, hidden, outputs = (np.zeros(*kind) for kind in MEAN_KINDS.values())
    inputs[AROUND_MEAN.index((-1, -1)), 0] = -512
    inputs[AROUND_MEAN.index((-1, 1)), 0] = 256
    inputs[-1, 0] = 4096  # 8 more, which stays above zero
    hidden[0, 0] = 1024
    outputs[0, 0] = 1024
    outputs[-1] = -4096, -1024
    return MeanWeights(inputs, hidden, outputs)
