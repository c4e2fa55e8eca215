"""Kernel code of networks of two layers of rectified sums, from the first sums on."""

from __future__ import annotations

from typing import Any

from cscodec.kernels.declaration import Integer, helper, inline_here
from cscodec.kernels.intrinsics import multiply_pairs, rectify


@helper
def finish(network: Any, shift: Integer) -> None:
    """Fill in the outputs, ``sums``, of a network whose first sums are there.

    ``network`` is a record with fields as those of :class:`~cscodec.kernels.predictions.Network`;
    the first sums are shifted right by ``shift`` when they are rectified.
    """
    inline_here()
    rectify(network.first, shift, network.first_rectified)
    multiply_pairs(network.first_rectified, network.hidden, network.hidden_offsets, network.second)
    rectify(network.second, 10, network.second_rectified)
    multiply_pairs(network.second_rectified, network.outputs, network.output_offsets, network.sums)
