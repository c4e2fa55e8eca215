"""Decoder ``refine``: sparse codes of overlapping patches, averaged, and a model's filters.

Every step ends in the cells of the quantised measurements.
"""

from __future__ import annotations

from cscodec.arrays import Float32Array
from cscodec.model import System
from cscodec.restore.cells import Quantised, into_cells, middle_of_cells
from cscodec.restore.filters import apply_filters
from cscodec.restore.shrinkage import shrinkage_average
from cscodec.sensing.averages import sparse_average

# Refinement by a model's filters: coefficients below this share of a step are taken for noise.
_THRESHOLD = 0.5
# Patches that are averaged: distance in a lattice, and the first patch of each. In luma those at
# every place; in chroma, which is smoother, at every fourth.
_LUMA_LATTICES = 1, ((0, 0),)
_CHROMA_LATTICES = 4, ((0, 0), (1, 2), (2, 1), (3, 3))
_STRIDE = 2  # without filters
# Without filters: the squared error per patch at which a sparse code is good enough, over that of
# plain rounding, and the most atoms.
_ERROR_SHARE = 0.35
_MAX_ATOMS = 32


def refined_plane(
    quantised: Quantised, system: System, filters: Float32Array | None, *, is_chroma: bool = False
) -> Float32Array:
    """Return a plane restored by averages and, if there are any, filters.

    Parameters
    ----------
    quantised : Quantised
    system : System
    filters : ndarray, (120, taps * 16) float32, optional
        As :func:`cscodec.restore.filters.filters_for` gives them.
    is_chroma : bool
        Whether a quarter of the patches are enough.

    Returns
    -------
    ndarray, (8 rows, 8 columns) float32
    """
    if filters is None:
        plane = middle_of_cells(quantised, system)
        error = _ERROR_SHARE * 64 * quantised.step**2 / 12
        clean = sparse_average(plane, system.dictionary, error, _STRIDE, _MAX_ATOMS)
        return into_cells(clean, quantised, system)
    plane, clean = shrunk_plane(quantised, system, is_chroma=is_chroma)
    filtered = apply_filters(plane, clean, filters, quantised.step)
    return into_cells(filtered, quantised, system)


def shrunk_plane(
    quantised: Quantised, system: System, *, is_chroma: bool = False
) -> tuple[Float32Array, Float32Array]:
    """Return the plane in the middle of its cells, and the same cleaned, as filters want it."""
    plane = middle_of_cells(quantised, system)
    threshold = _THRESHOLD * quantised.step
    lattices = _CHROMA_LATTICES if is_chroma else _LUMA_LATTICES
    clean = shrinkage_average(plane, threshold, *lattices)
    return plane, into_cells(clean, quantised, system)
