"""Planes to measurements in an orthonormal basis, and back.

Measurement 0 of a patch is its mean times 8, so that the basis is orthonormal with the constant
vector in it; the others belong to the basis of a model.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.layout import NUM_MEASUREMENTS, PATCH_PIXELS, PATCH_SIZE
from cscodec.transform.lapping import lap, unlap
from cscodec.transform.patches import (
    assemble_patches,
    extract_patches,
    patch_grid,
    whole_patches,
)
from cscodec.transform.product import multiplied


def synthesis_matrix(basis: Float32Array) -> Float32Array:
    """Return what measurements are multiplied with to give patches.

    Parameters
    ----------
    basis : ndarray, (M, 64) float32
        Orthonormal zero-mean rows.

    Returns
    -------
    ndarray, (64, 64) float32, read-only
        The constant vector, the rows of the basis, and zeros for what it does not measure.
    """
    matrix = np.zeros((NUM_MEASUREMENTS, PATCH_PIXELS), np.float32)
    matrix[0] = 1 / PATCH_SIZE
    matrix[1 : 1 + len(basis)] = basis
    matrix.flags.writeable = False
    return matrix


def analysis_matrix(basis: Float32Array) -> Float32Array:
    """Return what patches are multiplied with to be measured: the transpose of the synthesis."""
    matrix = np.ascontiguousarray(synthesis_matrix(basis).T)
    matrix.flags.writeable = False
    return matrix


def analyse_plane(
    plane: npt.ArrayLike, analysis: Float32Array, lapping: Float32Array | None = None
) -> Float32Array:
    """Take the measurements of a plane.

    Parameters
    ----------
    plane : array_like, (H, W)
    analysis : ndarray, (64, 64) float32
        Of :func:`analysis_matrix`.
    lapping : ndarray, (4, 4) float32, optional
        Of :func:`cscodec.transform.lapping.lap`.

    Returns
    -------
    ndarray, (rows, columns, 64) float32
    """
    whole = whole_patches(plane)
    if lapping is not None:
        whole = whole.copy()  # it may be the caller's
        lap(whole, lapping)
    rows, columns = patch_grid((whole.shape[0], whole.shape[1]))
    return multiplied(extract_patches(whole), analysis).reshape(rows, columns, -1)


def synthesise_plane(
    measurements: Float32Array, synthesis: Float32Array, lapping: Float32Array | None = None
) -> Float32Array:
    """Return a plane: inverse of :func:`analyse_plane`, with (8 rows, 8 columns) samples."""
    rows, columns = measurements.shape[:2]
    patches = multiplied(measurements.reshape(rows * columns, -1), synthesis)
    plane = assemble_patches(patches, (PATCH_SIZE * rows, PATCH_SIZE * columns))
    unlap(plane, lapping)
    return plane
