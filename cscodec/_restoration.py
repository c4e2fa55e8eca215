"""Kernels of :mod:`cscodec.restoration`: measurements to a plane, and the way into their cells."""

from __future__ import annotations

import numpy as np

from cscodec._jit import Float32, Float32Matrix, Int16Cube, Int16Matrix, Integer, kernel
from cscodec.sensing._estimates import add_estimate, mask_above


@kernel
def fill_plane(
    values: Int16Cube,
    step: Float32,
    synthesis: Float32Matrix,
    measured: Float32Matrix,
    plane: Float32Matrix,
) -> None:
    """Add patches at the centres of the cells of ``values`` (rows, columns, 64) to a plane.

    Measurements times ``synthesis`` are patches; most of them are zero and take no time.
    ``measured`` (1, 64) is room.
    """
    rows, columns = values.shape[:2]
    whole = np.float32(1)
    for r in range(rows):
        for c in range(columns):
            for i in range(64):
                measured[0, i] = np.float32(values[r, c, i]) * step
            mask = mask_above(measured, 0, np.float32(0)) & -2
            add_estimate(measured, 0, mask, synthesis, whole, plane, 8 * r, 8 * c)


@kernel
def way_into_cells(
    measured: Float32Matrix,
    values: Int16Matrix,
    step: Float32,
    zero_cell: Float32,
    num_known: Integer,
) -> None:
    """Replace measurements (n, 64) by how far they are from their cells, with sign.

    ``zero_cell`` is half the width of the cell of zero, in samples; the first ``num_known``
    measurements, mean included, have cells.
    """
    half = np.float32(0.5) * step
    for n in range(len(measured)):
        for i in range(64):
            here = measured[n, i]
            centre = np.float32(values[n, i]) * step
            reach = zero_cell if values[n, i] == 0 and i > 0 else half
            moved = min(max(here, centre - reach), centre + reach) - here
            # What the measurements do not see stays as it is.
            measured[n, i] = moved if i < num_known else np.float32(0)
