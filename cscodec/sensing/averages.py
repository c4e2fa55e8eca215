"""What pictures usually look like, used to clean a plane: averages over overlapping patches.

Two priors, of the same form: every pixel becomes the weighted mean of what all patches that cover
it say. :func:`sparse_average` codes each patch with few atoms of Ψ. :func:`similar_average` looks
for similar patches nearby and keeps what they have in common (BM3D); it restores textures that no
dictionary holds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.errors import InvalidInputError
from cscodec.kernels.pursuit import Codes, PursuitRoom
from cscodec.kernels.shrinkage import COSINES
from cscodec.kernels.similar_average import Cosines, Planes, SimilarRoom, add_similar_band
from cscodec.kernels.sparse_average import Atoms, Band, GroupRoom, add_sparse_band
from cscodec.layout import PATCH_PIXELS, PATCH_SIZE
from cscodec.parallel import parallel_map
from cscodec.transform.product import multiplied

Positions = npt.NDArray[np.int64]

#: Rows of patches averaged as one piece of work; fixed, as it determines the order of sums.
_BAND = 32
_GROUP = 64  # patches coded together: their correlations with 256 atoms take 64 KiB
#: How far similar patches are looked for: up, down, left, right. 32 columns suit vector units.
_REACH = (10, 10, 16, 15)


def sparse_average(
    plane: npt.ArrayLike,
    dictionary: npt.ArrayLike,
    error: float,
    stride: int = 2,
    max_atoms: int = 16,
    workers: int = 1,
) -> Float32Array:
    """Code overlapping patches of a plane sparsely and average the results.

    Parameters
    ----------
    plane : array_like, (H, W)
        Finite; at least 1x1 (padded to 8x8 with copies of its edge).
    dictionary : array_like, (64, L)
        Ψ, zero-mean columns; every patch's mean is kept as it is.
    error : float
        Squared residual norm at which a patch's code is good enough.
    stride : int
        Distance of neighbouring patches, 1..8; the last row and column are always included.
    max_atoms : int
        Most atoms of a patch, 1..64.
    workers : int
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray, (H, W) float32
        At every pixel the mean of all estimates, weighted by 1 / (1 + number of their atoms).

    Raises
    ------
    InvalidInputError
        If a parameter is out of range or a shape does not fit.
    """
    atoms = np.ascontiguousarray(np.asarray(dictionary, np.float32).T)
    if atoms.ndim != 2 or atoms.shape[1] != PATCH_PIXELS:
        raise InvalidInputError(
            f"dictionary has shape {atoms.T.shape}; allowed is ({PATCH_PIXELS}, L)"
        )
    if not (1 <= stride <= PATCH_SIZE and 1 <= max_atoms <= PATCH_PIXELS and error >= 0):
        raise InvalidInputError(
            f"stride is {stride}, max_atoms {max_atoms}, error {error}; allowed are "
            f"1..{PATCH_SIZE}, 1..{PATCH_PIXELS} and values >= 0"
        )
    columns_of_atoms = np.ascontiguousarray(atoms.T)
    known = Atoms(columns_of_atoms, atoms, multiplied(atoms, columns_of_atoms))

    def average(padded: Float32Array, tops: Positions, lefts: Positions, band: Band) -> None:
        codes = Codes(
            np.empty((_GROUP, max_atoms), np.int32),
            np.empty((_GROUP, max_atoms), np.float32),
            np.empty(_GROUP, np.int32),
        )
        pursuit = PursuitRoom.of(len(atoms), max_atoms)
        group = GroupRoom.of(_GROUP, len(atoms))
        add_sparse_band(padded, tops, lefts, known, error, pursuit, codes, group, band)

    return _banded(plane, stride, (0, 0), average, workers)


def similar_average(
    plane: npt.ArrayLike,
    threshold: float,
    stride: int = 4,
    group_size: int = 16,
    guide: npt.ArrayLike | None = None,
    workers: int = 1,
) -> Float32Array:
    """Group each patch with similar ones, keep what is above a threshold, and average the results.

    Parameters
    ----------
    plane : array_like, (H, W)
        Finite; at least 1x1 (padded to 8x8 with copies of its edge).
    threshold : float
        Coefficients of smaller magnitude in a group's transform (cosines within patches, Haar
        along the group; orthonormal) become zero.
    stride : int
        Distance of neighbouring patches that groups are made for, 1..8.
    group_size : int
        Patches of a group, a power of two, 2..64; fewer where the plane is too small.
    guide : array_like, (H, W), optional
        A cleaner version of the plane. Similar patches are looked for in it, and instead of
        becoming zero or not, every coefficient is multiplied by g² / (g² + threshold²), g being
        the guide's (Wiener's filter, if the threshold is the noise's standard deviation).
    workers : int
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray, (H, W) float32
        At every pixel the mean of all estimates, weighted by 1 / (coefficients kept in their
        group; with a guide, the sum of the squared factors).

    Raises
    ------
    InvalidInputError
        If a parameter is out of range or a shape does not fit.

    Notes
    -----
    After Dabov, Foi, Katkovnik and Egiazarian, "Image denoising by sparse 3-D transform-domain
    collaborative filtering", 2007: its first stage, or the second with a guide.
    """
    if not (1 <= stride <= PATCH_SIZE and threshold >= 0):
        raise InvalidInputError(
            f"stride is {stride}, threshold {threshold}; allowed are 1..{PATCH_SIZE} and "
            "values >= 0"
        )
    if group_size not in (2, 4, 8, 16, 32, 64):
        raise InvalidInputError(f"group_size is {group_size}; allowed are 2, 4, 8, 16, 32, 64")
    clean = None if guide is None else _padded(guide)
    if clean is not None and clean.shape != _padded(plane).shape:
        raise InvalidInputError(f"guide has shape {clean.shape}, unlike the plane")
    basis = cosine_basis()
    cosines = Cosines(np.ascontiguousarray(basis.T), basis)
    reach = np.array(_REACH)

    def average(padded: Float32Array, tops: Positions, lefts: Positions, band: Band) -> None:
        planes = Planes(padded, padded if clean is None else clean, clean is not None)
        room = SimilarRoom.of(_REACH[2] + _REACH[3] + 1, group_size)
        add_similar_band(planes, tops, lefts, reach, threshold, cosines, room, band)

    return _banded(plane, stride, _REACH[:2], average, workers)


def cosine_basis() -> Float32Array:
    """Return the two-dimensional DCT of a patch as an orthonormal (64, 64) matrix, mean first."""
    return np.kron(COSINES.T, COSINES.T)


def _banded(
    plane: npt.ArrayLike,
    stride: int,
    reach: tuple[int, int],
    average: Callable[[Float32Array, Positions, Positions, Band], None],
    workers: int,
) -> Float32Array:
    # Bands of patch rows are summed apart and then added in order: the same sums on any number of
    # threads. ``reach`` is how many rows up and down of its own a band may write to.
    padded = _padded(plane)
    height, width = np.shape(plane)
    rows, columns = (_positions(length, stride) for length in padded.shape)
    total = np.zeros_like(padded)
    weight = np.zeros_like(padded)

    def band(tops: Positions) -> tuple[slice, Float32Array, Float32Array]:
        first_row = max(0, int(tops[0]) - reach[0])
        covered = slice(first_row, int(tops[-1]) + reach[1] + PATCH_SIZE)
        sums = Band(first_row, *(np.zeros_like(padded[covered]) for _ in range(2)))
        average(padded, tops, columns, sums)
        return covered, sums.total, sums.weight

    bands = [rows[first : first + _BAND] for first in range(0, len(rows), _BAND)]
    for covered, part, share in parallel_map(band, bands, workers):
        total[covered] += part
        weight[covered] += share
    return np.ascontiguousarray(total[:height, :width] / weight[:height, :width])


def _padded(plane: npt.ArrayLike) -> Float32Array:
    pixels = np.ascontiguousarray(plane, np.float32)
    if pixels.ndim != 2 or pixels.size == 0 or not np.isfinite(pixels).all():
        raise InvalidInputError(
            f"plane has shape {pixels.shape}; allowed is a finite, non-empty (height, width)"
        )
    height, width = pixels.shape
    padding = ((0, max(0, PATCH_SIZE - height)), (0, max(0, PATCH_SIZE - width)))
    return np.pad(pixels, padding, mode="edge")


def _positions(length: int, stride: int) -> Positions:
    last = length - PATCH_SIZE
    return np.append(np.arange(0, last, stride), last)
