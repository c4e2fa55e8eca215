"""The paper's decoder, for files: patches by Orthogonal Matching Pursuit, each by itself."""

from __future__ import annotations

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.bitstream.steps import dequantize
from cscodec.model import System
from cscodec.restore.cells import Quantised
from cscodec.sensing.pursuit import omp
from cscodec.transform.lapping import unlap
from cscodec.transform.patches import assemble_patches
from cscodec.transform.product import multiplied

_LEAST_SEEN = 1e-3  # share of an atom below which pursuit leaves it out


def omp_plane(quantised: Quantised, system: System, sparsity: int) -> Float32Array:
    """Return the plane that OMP on y = Φx with ΦΨ finds, at most ``sparsity`` atoms per patch.

    Returns
    -------
    ndarray, (8 rows, 8 columns) float32
    """
    rows, columns = quantised.values.shape[:2]
    measured = dequantize(quantised.values, quantised.steps).reshape(rows * columns, -1)
    patches = _pursue(measured, system, quantised.measurements, sparsity)
    patches += measured[:, :1] / np.float32(8)
    plane = assemble_patches(patches, (8 * rows, 8 * columns))
    unlap(plane, system.lapping)
    return plane


def _pursue(
    measured: Float32Array, system: System, measurements: int, sparsity: int
) -> Float32Array:
    """Return zero-mean patches from their measurements in the orthonormal basis."""
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
