"""Kernel of :func:`cscodec.restoration.into_cells`."""

from __future__ import annotations

import numpy as np

from cscodec._jit import Float32, Float32Matrix, Int16Matrix, Integer, kernel


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
