"""Planes from quantised measurements: the decoders of files.

A quantised measurement says in which interval, its *cell*, the true one lies. ``linear`` takes the
middle of the cells, ``omp`` the paper's sparse code. ``consistent`` and ``refine`` use what is
known of pictures and then return to the cells, as far as float32 and pixels of 8 bits go.
"""

from __future__ import annotations

from cscodec.arrays import Float32Array
from cscodec.choices import Decoder
from cscodec.model import System
from cscodec.restore.cells import Quantised, into_cells, middle_of_cells
from cscodec.restore.omp import omp_plane
from cscodec.restore.refine import refined_plane


def restore_plane(
    quantised: Quantised,
    system: System,
    decoder: Decoder,
    *,
    filters: Float32Array | None = None,
    sparsity: int = 4,
    is_chroma: bool = False,
) -> Float32Array:
    """Restore a plane (around zero) from its quantised measurements.

    Parameters
    ----------
    quantised : Quantised
    system : System
    decoder : str
        One of :data:`cscodec.choices.DECODERS`.
    filters : ndarray, (120, taps * 16) float32, optional
        For ``refine``: as :func:`cscodec.restore.filters.filters_for` gives them.
    sparsity : int
        For ``omp`` and ``consistent``: K.
    is_chroma : bool
        For ``refine``: less is done for a plane of chroma.

    Returns
    -------
    ndarray, (8 rows, 8 columns) float32
    """
    if decoder == "linear":
        return middle_of_cells(quantised, system)
    if decoder == "refine":
        return refined_plane(quantised, system, filters, is_chroma=is_chroma)
    plane = omp_plane(quantised, system, sparsity)
    return plane if decoder == "omp" else into_cells(plane, quantised, system)
