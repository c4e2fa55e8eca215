"""Planes at a half, a quarter or an eighth of their size, without restoring them first.

The mean of a block of samples is linear in the measurements of its patch, and the first few of
these hold nearly all of it; an eighth of the size is the mean of the patch itself.
"""

from __future__ import annotations

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.bitstream.steps import dequantize
from cscodec.layout import LAYERS, PATCH_PIXELS, PATCH_SIZE
from cscodec.model import System
from cscodec.restore.cells import Quantised
from cscodec.transform.product import multiplied

#: Measurements beside the mean that a reduction looks at: those of the first layers.
MEASUREMENTS_FOR = {8: LAYERS[1] - 1, 4: LAYERS[2] - 1, 2: LAYERS[3] - 1}


def reduced_plane(quantised: Quantised, system: System, reduction: int) -> Float32Array:
    """Return a plane in which each sample is the mean of a block of the restored one.

    Parameters
    ----------
    quantised : Quantised
        (rows, columns, n) values: the first n measurements of the patches, the mean included.
    system : System
    reduction : {2, 4, 8}
        Samples on each side of a block.

    Returns
    -------
    ndarray, (8 rows / reduction, 8 columns / reduction) float32
    """
    rows, columns, used = quantised.values.shape
    side = PATCH_SIZE // reduction
    row, column = np.divmod(np.arange(PATCH_PIXELS), PATCH_SIZE)
    block = row // reduction * side + column // reduction
    averages = (block[:, None] == np.arange(side * side)) * np.float32(1 / reduction**2)
    measured = dequantize(quantised.values, quantised.step).reshape(rows * columns, used)
    blocks = multiplied(measured, multiplied(system.synthesis, averages)[:used])
    plane = blocks.reshape(rows, columns, side, side).swapaxes(1, 2)
    return np.ascontiguousarray(plane.reshape(rows * side, columns * side))
