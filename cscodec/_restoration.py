"""Kernels of :mod:`cscodec.restoration`: measurements to a plane, and a plane into its cells.

Like all kernels here they add in a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

import numpy as np

from cscodec._jit import Float32, Float32Matrix, Int16Cube, Integer, kernel
from cscodec.sensing._multiply import multiply


@kernel
def fill_plane(
    values: Int16Cube,
    step: Float32,
    transform: Float32Matrix,
    measured: Float32Matrix,
    patches: Float32Matrix,
    plane: Float32Matrix,
) -> None:
    """Write the plane (8 rows, 8 columns) at the centres of the cells of (rows, columns, 64).

    Measurements times ``transform`` are patches. ``measured`` and ``patches`` (columns, 64) are
    room.
    """
    rows, columns = values.shape[:2]
    for r in range(rows):
        for c in range(columns):
            for i in range(64):
                measured[c, i] = np.float32(values[r, c, i]) * step
        multiply(measured, transform, patches)
        for c in range(columns):
            for y in range(8):
                for x in range(8):
                    plane[8 * r + y, 8 * c + x] = patches[c, 8 * y + x]


@kernel
def move_into_cells(
    plane: Float32Matrix,
    values: Int16Cube,
    step: Float32,
    zero_cell: Float32,
    num_known: Integer,
    analysis: Float32Matrix,
    synthesis: Float32Matrix,
    measured: Float32Matrix,
    patches: Float32Matrix,
) -> None:
    """Move every patch of a plane to the nearest one whose measurements lie in their cells.

    ``zero_cell`` is half the width of the cell of zero, in samples; the first ``num_known``
    measurements, mean included, have cells. ``analysis`` is the transpose of ``synthesis``.
    ``measured`` and ``patches`` (columns, 64) are room.
    """
    rows, columns = values.shape[:2]
    half = np.float32(0.5) * step
    for r in range(rows):
        for c in range(columns):
            for y in range(8):
                for x in range(8):
                    patches[c, 8 * y + x] = plane[8 * r + y, 8 * c + x]
        multiply(patches, analysis, measured)
        for c in range(columns):
            for i in range(64):
                # What the measurements do not see stays as it is.
                here = measured[c, i]
                value = values[r, c, i]
                centre = np.float32(value) * step
                reach = zero_cell if value == 0 and i > 0 else half
                moved = min(max(here, centre - reach), centre + reach) - here
                measured[c, i] = moved if i < num_known else np.float32(0)
        multiply(measured, synthesis, patches)
        for c in range(columns):
            for y in range(8):
                for x in range(8):
                    plane[8 * r + y, 8 * c + x] += patches[c, 8 * y + x]
