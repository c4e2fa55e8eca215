"""Planes at a half, a quarter or an eighth of their size, without restoring them first.

The mean of a block of samples is linear in the measurements of its patch, and the first few of
these hold nearly all of it; an eighth of the size is the mean of the patch itself. Patches that are
lapped are unlapped at the smaller size, which is nearly the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.bitstream.steps import dequantize
from cscodec.layout import LAYERS, PATCH_PIXELS, PATCH_SIZE
from cscodec.model import System
from cscodec.restore.cells import Quantised
from cscodec.transform.lapping import turn
from cscodec.transform.product import multiplied

#: Measurements beside the mean that a reduction looks at: those of the first layers.
MEASUREMENTS_FOR = {8: LAYERS[1] - 1, 4: LAYERS[2] - 1, 2: LAYERS[3] - 1}


class Blocks(NamedTuple):
    """How the means of a patch's blocks follow from measurements.

    Attributes
    ----------
    synthesis : ndarray, (64, n²) float32
        What measurements are multiplied with to give the n x n blocks, in raster order.
    unlapping : ndarray, (n / 2, n / 2) float32, optional
        What undoes the lapping of such patches, nearly: see :func:`cscodec.transform.lapping.turn`.
    """

    synthesis: Float32Array
    unlapping: Float32Array | None

    @classmethod
    def of(cls, system: System, reduction: int) -> Blocks:
        """Return those of a system, for blocks of 1, 2, 4 or 8 samples each way."""
        side = PATCH_SIZE // reduction
        row, column = np.divmod(np.arange(PATCH_PIXELS), PATCH_SIZE)
        block = row // reduction * side + column // reduction
        averages = (block[:, None] == np.arange(side * side)) * np.float32(1 / reduction**2)
        synthesis = multiplied(system.synthesis, averages)
        if system.lapping is None or side == 1:
            return cls(synthesis, None)
        # As if samples of a block were equal: the means of what becomes of its differences.
        half = side // 2
        turned = system.lapping.T.reshape(half, reduction, half, reduction)
        return cls(synthesis, turned.sum(axis=(1, 3)) / np.float32(reduction))


def reduced_plane(quantised: Quantised, blocks: Blocks) -> Float32Array:
    """Return a plane in which each sample is the mean of a block of the whole one.

    Parameters
    ----------
    quantised : Quantised
        (rows, columns, m) values: the first m measurements of the patches, the mean included.
    blocks : Blocks

    Returns
    -------
    ndarray, (n rows, n columns) float32
    """
    rows, columns, used = quantised.values.shape
    synthesis = blocks.synthesis
    side = math.isqrt(synthesis.shape[1])
    measured = dequantize(quantised.values, quantised.steps).reshape(rows * columns, used)
    # Of means alone, no sums: sooner made by NumPy.
    product = measured * synthesis[:1] if used == 1 else multiplied(measured, synthesis[:used])
    patches = product.reshape(rows, columns, side, side).swapaxes(1, 2)
    plane = np.ascontiguousarray(patches).reshape(rows * side, columns * side)
    if blocks.unlapping is not None:
        turn(plane, blocks.unlapping)
    return plane
