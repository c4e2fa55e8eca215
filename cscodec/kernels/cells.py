"""Kernels between quantised measurements and planes: patches put in place, the way into cells."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from cscodec.kernels.declaration import Array, Float32, Integer, float32, int16, kernel
from cscodec.kernels.estimates import add_estimate, mask_above


@kernel
def fill_plane(
    values: Annotated[Array, int16["rows", "columns", 64]],
    steps: Annotated[Array, float32[64]],
    synthesis: Annotated[Array, float32[64, 64]],
    measured: Annotated[Array, float32[64].out],
    plane: Annotated[Array, float32["8 * rows", "8 * columns"].out],
) -> None:
    """Add patches at the centres of the cells of ``values`` to a plane.

    Measurements times ``synthesis`` are patches; most of them are zero and take no time.
    ``measured`` is room.
    """
    rows, columns = values.shape[:2]
    whole = np.float32(1)
    for r in range(rows):
        for c in range(columns):
            for i in range(64):
                measured[i] = np.float32(values[r, c, i]) * steps[i]
            mask = mask_above(measured, np.float32(0)) & -2
            add_estimate(measured, mask, synthesis, whole, plane, 8 * r, 8 * c)


@kernel
def way_into_cells(
    measured: Annotated[Array, float32["n", 64].out],
    values: Annotated[Array, int16["n", 64]],
    steps: Annotated[Array, float32[64]],
    zero_cell: Float32,
    num_known: Integer,
) -> None:
    """Replace measurements by how far they are from their cells, with sign.

    ``zero_cell`` is half the width of the cell of zero, in steps; the first ``num_known``
    measurements, mean included, have cells.
    """
    for n in range(len(measured)):
        for i in range(64):
            here = measured[n, i]
            centre = np.float32(values[n, i]) * steps[i]
            share = zero_cell if values[n, i] == 0 and i > 0 else np.float32(0.5)
            reach = share * steps[i]
            moved = min(max(here, centre - reach), centre + reach) - here
            # What the measurements do not see stays as it is.
            measured[n, i] = moved if i < num_known else np.float32(0)
