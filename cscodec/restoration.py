"""Planes from quantised measurements: the decoders of files.

A quantised measurement says in which interval, its *cell*, the true one lies. ``linear`` takes the
middle of the cells. The others use what the dictionary knows of pictures, and ``consistent`` and
``refine`` return to the cells, so that no restoration contradicts the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cscodec._restoration import fill_plane, way_into_cells
from cscodec.bitstream.layout import NUM_MEASUREMENTS
from cscodec.bitstream.quantize import dequantize
from cscodec.model import System
from cscodec.sensing._patches import add
from cscodec.sensing.averages import sparse_average
from cscodec.sensing.filters import apply_filters
from cscodec.sensing.patches import assemble_patches, extract_patches
from cscodec.sensing.pursuit import multiplied, omp
from cscodec.sensing.shrinkage import shrinkage_average

Float32Array = npt.NDArray[np.float32]

DECODERS = ("refine", "consistent", "linear", "omp")

# Refinement by a model's filters: coefficients below this share of a step are taken for noise.
_THRESHOLD = 0.48
_STRIDE = 2
_STARTS = ((0, 0), (1, 1))  # every other place, like the black squares of a chessboard
# Without filters: the squared error per patch at which a sparse code is good enough, over that of
# plain rounding, and the most atoms.
_ERROR_SHARE = 0.35
_MAX_ATOMS = 32
_LEAST_SEEN = 1e-3  # share of an atom below which pursuit leaves it out


@dataclass(frozen=True)
class Quantised:
    """A plane as a file holds it.

    Attributes
    ----------
    values : ndarray, (rows, columns, 64) int16
    step : float
    zero_cell : float
        Half the width of the cell of zero, in steps.
    measurements : int
        Beside the mean; later ones are unknown rather than zero.
    """

    values: npt.NDArray[np.int16]
    step: float
    zero_cell: float
    measurements: int


def restore_plane(
    quantised: Quantised,
    system: System,
    decoder: str,
    *,
    filters: Float32Array | None = None,
    sparsity: int = 4,
) -> Float32Array:
    """Restore a plane (around zero) from its quantised measurements.

    Parameters
    ----------
    quantised : Quantised
    system : System
    decoder : str
        One of ``DECODERS``.
    filters : ndarray, (120, taps * 16) float32, optional
        For ``refine``: as :func:`cscodec.sensing.filters.filters_for_step` gives them.
    sparsity : int
        For ``omp`` and ``consistent``: K.

    Returns
    -------
    ndarray, (8 rows, 8 columns) float32
    """
    if decoder in ("omp", "consistent"):
        rows, columns = quantised.values.shape[:2]
        measured = dequantize(quantised.values, quantised.step).reshape(rows * columns, -1)
        patches = _pursue(measured, system, quantised.measurements, sparsity)
        patches += measured[:, :1] / np.float32(8)
        plane = assemble_patches(patches, (8 * rows, 8 * columns))
        if decoder == "omp":
            return plane
        return into_cells(plane, quantised, synthesis(system))
    if decoder == "linear":
        return linear_plane(quantised, system)
    plane, clean = clean_plane(quantised, system, by_pursuit=filters is None)
    if filters is not None:
        clean = apply_filters(plane, clean, filters, quantised.step)
        clean = into_cells(clean, quantised, synthesis(system))
    return clean


def linear_plane(quantised: Quantised, system: System) -> Float32Array:
    """Return the plane at the centres of its cells."""
    rows, columns = quantised.values.shape[:2]
    plane = np.zeros((8 * rows, 8 * columns), np.float32)
    values = np.ascontiguousarray(quantised.values)
    fill_plane(values, quantised.step, synthesis(system), np.empty((1, 64), np.float32), plane)
    return plane


def clean_plane(
    quantised: Quantised, system: System, *, by_pursuit: bool
) -> tuple[Float32Array, Float32Array]:
    """Return the plane at the centres of its cells, and the same cleaned by sparse averages."""
    transform = synthesis(system)
    plane = linear_plane(quantised, system)
    if by_pursuit:
        error = _ERROR_SHARE * 64 * quantised.step**2 / 12
        clean = sparse_average(plane, system.dictionary, error, _STRIDE, _MAX_ATOMS)
    else:
        threshold = _THRESHOLD * quantised.step
        clean = shrinkage_average(plane, transform, threshold, _STRIDE, _STARTS)
    return plane, into_cells(clean, quantised, transform)


def synthesis(system: System) -> Float32Array:
    """Return the rows that measurements are multiplied with to give a patch, (64, 64) float32."""
    transform = np.zeros((64, 64), np.float32)
    transform[0] = 1 / 8
    transform[1 : 1 + system.num_measurements] = system.basis
    return transform


def _pursue(
    measured: Float32Array, system: System, measurements: int, sparsity: int
) -> Float32Array:
    """Zero-mean patches by OMP on y = Φx with ΦΨ, from coordinates in the orthonormal basis."""
    if measurements == 0:
        return np.zeros((len(measured), 64), np.float32)
    seen = np.ascontiguousarray(measured[:, 1 : measurements + 1])
    basis = np.ascontiguousarray(system.basis[:measurements])
    equivalent = multiplied(basis, system.dictionary)
    # What these measurements do not see of an atom of unit norm must not be blown up to fit them.
    dictionary = np.where(np.linalg.norm(equivalent, axis=0) > _LEAST_SEEN, system.dictionary, 0)
    dictionary = np.ascontiguousarray(dictionary, np.float32)
    equivalent = multiplied(basis, dictionary)
    if measurements == system.num_measurements:
        # y = Φx itself, which weighs measurements differently.
        change = multiplied(basis, np.ascontiguousarray(system.sensing_matrix.T))
        seen = multiplied(seen, change)
        equivalent = multiplied(np.ascontiguousarray(system.sensing_matrix), dictionary)
    codes = omp(seen, equivalent, sparsity=min(sparsity, measurements))
    return codes.reconstruct(system.dictionary)


def into_cells(plane: Float32Array, quantised: Quantised, transform: Float32Array) -> Float32Array:
    """Move every patch of a plane, in place, to the nearest whose measurements lie in their cells.

    Returns the plane.
    """
    values = np.ascontiguousarray(quantised.values).reshape(-1, NUM_MEASUREMENTS)
    moved = multiplied(extract_patches(plane), np.ascontiguousarray(transform.T))
    way_into_cells(
        moved,
        values,
        quantised.step,
        quantised.zero_cell * quantised.step,
        quantised.measurements + 1,
    )
    add(multiplied(moved, transform), plane)
    return plane
