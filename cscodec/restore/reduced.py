"""Planes at a half, a quarter or an eighth of their size, without restoring them first.

The mean of a block of samples is linear in the measurements of its patch, and the first few of
these hold nearly all of it; an eighth of the size is the mean of the patch itself.
"""

from __future__ import annotations

import math

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.bitstream.steps import dequantize
from cscodec.layout import LAYERS, PATCH_PIXELS, PATCH_SIZE
from cscodec.model import System
from cscodec.restore.cells import Quantised
from cscodec.transform.product import multiplied

#: Measurements beside the mean that a reduction looks at: those of the first layers.
MEASUREMENTS_FOR = {8: LAYERS[1] - 1, 4: LAYERS[2] - 1, 2: LAYERS[3] - 1}


def block_synthesis(system: System, reduction: int) -> Float32Array:
    """Return what measurements are multiplied with to give the means of a patch's blocks.

    Parameters
    ----------
    system : System
    reduction : {1, 2, 4, 8}
        Samples on each side of a block.

    Returns
    -------
    ndarray, (64, n²) float32
        n = 8 / reduction blocks each way, in raster order.
    """
    side = PATCH_SIZE // reduction
    row, column = np.divmod(np.arange(PATCH_PIXELS), PATCH_SIZE)
    block = row // reduction * side + column // reduction
    averages = (block[:, None] == np.arange(side * side)) * np.float32(1 / reduction**2)
    return multiplied(system.synthesis, averages)


def reduced_plane(quantised: Quantised, synthesis: Float32Array) -> Float32Array:
    """Return a plane in which each sample is the mean of a block of the whole one.

    Parameters
    ----------
    quantised : Quantised
        (rows, columns, m) values: the first m measurements of the patches, the mean included.
    synthesis : ndarray, (64, n²) float32
        Of :func:`block_synthesis`.

    Returns
    -------
    ndarray, (n rows, n columns) float32
    """
    rows, columns, used = quantised.values.shape
    side = math.isqrt(synthesis.shape[1])
    measured = dequantize(quantised.values, quantised.steps).reshape(rows * columns, used)
    # Of means alone, no sums: sooner made by NumPy.
    product = measured * synthesis[:1] if used == 1 else multiplied(measured, synthesis[:used])
    blocks = product.reshape(rows, columns, side, side)
    return np.ascontiguousarray(blocks.swapaxes(1, 2)).reshape(rows * side, columns * side)
