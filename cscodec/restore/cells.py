"""Cells, the intervals that quantised measurements stand for: their middles, and the way in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.bitstream.steps import measurement_steps
from cscodec.kernels.cells import fill_plane, way_into_cells
from cscodec.kernels.patches import add_patches
from cscodec.layout import NUM_MEASUREMENTS
from cscodec.model import System
from cscodec.parallel import computed_once
from cscodec.transform.lapping import lap, unlap
from cscodec.transform.patches import extract_patches
from cscodec.transform.product import multiplied


@dataclass(frozen=True)
class Quantised:
    """A plane as a file holds it.

    Attributes
    ----------
    values : ndarray, (rows, columns, 64) int16
    step, tilt : float
        Of :func:`cscodec.bitstream.steps.measurement_steps`.
    zero_cell : float
        Half the width of a cell of zero, in steps.
    measurements : int
        Beside the mean; later ones are unknown rather than zero.
    """

    values: npt.NDArray[np.int16]
    step: float
    tilt: float
    zero_cell: float
    measurements: int

    @computed_once
    def steps(self) -> Float32Array:
        """Step of every measurement, (64,) float32."""
        return measurement_steps(self.step, self.tilt)


def middle_of_cells(quantised: Quantised, system: System) -> Float32Array:
    """Return the plane whose measurements are in the middle of their cells: decoder ``linear``.

    Returns
    -------
    ndarray, (8 rows, 8 columns) float32
    """
    rows, columns = quantised.values.shape[:2]
    plane = np.zeros((8 * rows, 8 * columns), np.float32)
    values = np.ascontiguousarray(quantised.values)
    room = np.empty(NUM_MEASUREMENTS, np.float32)
    fill_plane(values, quantised.steps, system.synthesis, room, plane)
    unlap(plane, system.lapping)
    return plane


def into_cells(plane: Float32Array, quantised: Quantised, system: System) -> Float32Array:
    """Move every patch of a plane, in place, to the nearest whose measurements lie in their cells.

    Returns the plane.
    """
    values = np.ascontiguousarray(quantised.values).reshape(-1, NUM_MEASUREMENTS)
    lap(plane, system.lapping)
    moved = multiplied(extract_patches(plane), system.analysis)
    way_into_cells(
        moved,
        values,
        quantised.steps,
        quantised.zero_cell,
        quantised.measurements + 1,
    )
    add_patches(plane, multiplied(moved, system.synthesis))
    unlap(plane, system.lapping)
    return plane
