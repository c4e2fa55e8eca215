"""Planes from quantised measurements: the decoders of files.

A quantised measurement says in which interval, its *cell*, the true one lies. ``linear`` takes the
middle of the cells. The others use what the dictionary knows of pictures, and ``consistent`` and
``refine`` return to the cells, so that no restoration contradicts the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cscodec.bitstream.quantize import dequantize
from cscodec.model import System
from cscodec.sensing.patches import assemble_patches, extract_patches
from cscodec.sensing.pursuit import multiplied, omp
from cscodec.sensing.reconstruct import sparse_average

Float32Array = npt.NDArray[np.float32]

DECODERS = ("refine", "consistent", "linear", "omp")

# Error per patch at which the refinement's sparse code is good enough, over that of plain rounding.
_ERROR_SHARE = 0.30
_MAX_ATOMS = 12
_STRIDE = 2


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
    quantised: Quantised, system: System, decoder: str, *, sparsity: int = 4
) -> Float32Array:
    """Restore a plane (around zero), (8 rows, 8 columns) float32, by one of ``DECODERS``."""
    rows, columns = quantised.values.shape[:2]
    shape = (8 * rows, 8 * columns)
    transform = synthesis(system)
    measured = dequantize(quantised.values, quantised.step).reshape(rows * columns, -1)
    if decoder == "linear":
        return assemble_patches(multiplied(measured, transform), shape)
    if decoder == "refine":
        plane = assemble_patches(multiplied(measured, transform), shape)
        error = _ERROR_SHARE * 64 * quantised.step**2 / 12
        smooth = sparse_average(plane, system.dictionary, error, _STRIDE, _MAX_ATOMS)
        return _into_cells(smooth, quantised, transform)
    patches = _pursue(measured, system, quantised.measurements, sparsity)
    patches += measured[:, :1] / np.float32(8)
    plane = assemble_patches(patches, shape)
    return plane if decoder == "omp" else _into_cells(plane, quantised, transform)


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
    basis = np.ascontiguousarray(system.basis[:measurements])
    phi = np.ascontiguousarray(system.sensing_matrix[:measurements])
    seen = np.ascontiguousarray(measured[:, 1 : measurements + 1])
    y = multiplied(seen, multiplied(basis, np.ascontiguousarray(phi.T)))
    codes = omp(y, multiplied(phi, system.dictionary), sparsity=min(sparsity, measurements))
    return codes.reconstruct(system.dictionary)


def _into_cells(plane: Float32Array, quantised: Quantised, transform: Float32Array) -> Float32Array:
    """Move every patch of a plane to the nearest one whose measurements lie in their cells."""
    measured = multiplied(extract_patches(plane), np.ascontiguousarray(transform.T))
    centres = dequantize(quantised.values, quantised.step).reshape(measured.shape)
    half = np.full(centres.shape, 0.5 * quantised.step, np.float32)
    half[centres == 0] = quantised.zero_cell * quantised.step
    half[:, 0] = 0.5 * quantised.step
    half[:, quantised.measurements + 1 :] = np.inf
    moved = np.clip(measured, centres - half, centres + half)
    return assemble_patches(multiplied(moved, transform), plane.shape)
