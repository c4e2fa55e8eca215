"""From measurements back to patches and planes: the decoders for unquantised measurements.

``omp`` is the paper's decoder. ``linear`` is the pseudo-inverse of Φ, which sees no sparsity and
yet loses less. ``consistent`` is the former moved to agree with the measurements. They treat every
patch alone; :func:`refine_unquantised` looks at the whole plane: it codes patches at all positions,
averages what overlaps, and returns to the measurements, with falling thresholds.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from cscodec.errors import InvalidInputError
from cscodec.parallel import parallel_map
from cscodec.sensing.patches import (
    PATCH_PIXELS,
    PATCH_SIZE,
    assemble_patches,
    extract_patches,
    patch_grid,
    remove_mean,
)
from cscodec.sensing.pursuit import multiplied, omp

Float32Array = npt.NDArray[np.float32]

DECODERS = ("omp", "linear", "consistent")  #: decoders of single patches

#: Patch rows averaged as one piece of work; fixed, as it determines the order of sums.
_BAND = 32


class SystemLike(Protocol):
    """Anything with a sensing matrix Φ (M, 64) and a dictionary Ψ (64, L)."""

    @property
    def sensing_matrix(self) -> Float32Array: ...

    @property
    def dictionary(self) -> Float32Array: ...


def measure_plane(plane: npt.ArrayLike, system: SystemLike) -> Float32Array:
    """Take the measurements of every 8x8 patch of a plane.

    Parameters
    ----------
    plane : array_like, (H, W)
    system : SystemLike

    Returns
    -------
    ndarray, (rows, columns, 1 + M) float32
        Per patch its mean, then y = Φx of its zero-mean part x.
    """
    pixels = np.asarray(plane)
    patches, means = remove_mean(extract_patches(pixels))
    measurements = multiplied(patches, np.ascontiguousarray(system.sensing_matrix.T, np.float32))
    rows, columns = patch_grid((pixels.shape[0], pixels.shape[1]))
    return np.column_stack([means, measurements]).reshape(rows, columns, -1)


def decode_measurements(
    measurements: npt.ArrayLike,
    system: SystemLike,
    decoder: str = "omp",
    sparsity: int = 4,
) -> Float32Array:
    """Restore zero-mean patches from their measurements, each by itself.

    Parameters
    ----------
    measurements : array_like, (n, m), 1 <= m <= M
        y = Φx. With fewer than M, the first rows of Φ are used.
    system : SystemLike
    decoder : {"omp", "linear", "consistent"}
        ``omp``: Ψθ with θ of at most ``sparsity`` atoms fitted to y through ΦΨ (eq. 2).
        ``linear``: Φ⁺y. ``consistent``: x̂ + Φ⁺(y - Φx̂) for the x̂ of ``omp``.
    sparsity : int
        K, at least 1.

    Returns
    -------
    ndarray, (n, 64) float32

    Raises
    ------
    InvalidInputError
        If the decoder is unknown, shapes do not fit or values are not finite.
    """
    if decoder not in DECODERS:
        raise InvalidInputError(f"decoder is {decoder!r}; allowed are {', '.join(DECODERS)}")
    rows = np.ascontiguousarray(measurements, np.float32)
    if rows.ndim != 2 or not 1 <= rows.shape[1] <= len(system.sensing_matrix):
        raise InvalidInputError(
            f"measurements have shape {rows.shape}; allowed is (n, m) with m in "
            f"1..{len(system.sensing_matrix)}"
        )
    phi = np.asarray(system.sensing_matrix, np.float32)[: rows.shape[1]]
    inverse = _pseudo_inverse(phi)
    if decoder == "linear":
        return multiplied(rows, inverse)
    dictionary = np.ascontiguousarray(system.dictionary, np.float32)
    codes = omp(rows, multiplied(np.ascontiguousarray(phi), dictionary), sparsity=sparsity)
    patches = codes.reconstruct(dictionary)
    if decoder == "consistent":
        patches += multiplied(rows - multiplied(patches, np.ascontiguousarray(phi.T)), inverse)
    return patches


def sparse_average(
    plane: npt.ArrayLike,
    dictionary: npt.ArrayLike,
    error: float,
    stride: int = 2,
    max_atoms: int = 16,
    workers: int = 1,
) -> Float32Array:
    """Code overlapping patches of a plane sparsely and average the results: a denoiser.

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
    from cscodec.sensing import _refine

    pixels = _finite_plane(plane)
    height, width = pixels.shape
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
    padding = ((0, max(0, PATCH_SIZE - height)), (0, max(0, PATCH_SIZE - width)))
    padded = np.pad(pixels, padding, mode="edge")
    rows, columns = (_positions(length, stride) for length in padded.shape)
    columns_major = np.ascontiguousarray(atoms.T)
    gram = multiplied(atoms, columns_major)
    total = np.zeros_like(padded)
    weight = np.zeros_like(padded)

    def band(tops: npt.NDArray[np.int64]) -> tuple[slice, Float32Array, Float32Array]:
        covered = slice(int(tops[0]), int(tops[-1]) + PATCH_SIZE)
        part = np.zeros_like(padded[covered])
        share = np.zeros_like(part)
        scores = np.empty(len(atoms), np.float32)
        _refine.average_band(
            padded,
            tops,
            columns,
            columns_major,
            atoms,
            gram,
            float(error),
            int(max_atoms),
            scores,
            scores.view(np.int32),
            part,
            share,
        )
        return covered, part, share

    bands = [rows[first : first + _BAND] for first in range(0, len(rows), _BAND)]
    for covered, part, share in parallel_map(band, bands, workers):
        total[covered] += part
        weight[covered] += share
    return total[:height, :width] / weight[:height, :width]


def refine_unquantised(
    measurements: npt.ArrayLike,
    system: SystemLike,
    shape: tuple[int, int],
    *,
    rounds: int = 7,
    stride: int = 2,
    highest_error: float = 400.0,
    lowest_error: float = 20.0,
    max_atoms: int = 16,
    workers: int = 1,
) -> Float32Array:
    """Restore a plane from its measurements with overlapping sparse patches.

    Starts from the linear decoder. Every round denoises the plane with :func:`sparse_average` and
    adds Φ⁺(y - Φx̂) to every patch, so that the measurements hold again exactly; the thresholds
    fall geometrically from round to round.

    Parameters
    ----------
    measurements : array_like, (rows, columns, 1 + m), 1 <= m <= M
        As :func:`measure_plane` gives them.
    system : SystemLike
    shape : (int, int)
        Height and width of the plane.
    rounds : int
        At least 0; with 0, the linear decoder's plane is returned.
    stride : int
        Distance of neighbouring patches, 1..8.
    highest_error, lowest_error : float
        Squared residual norm per patch of the first and the last round.
    max_atoms : int
        Most atoms of a patch.
    workers : int
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray, (H, W) float32
        Neither rounded nor clipped.

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a parameter is out of range.
    """
    values = np.asarray(measurements, np.float32)
    grid = patch_grid(shape)
    num_measurements = values.shape[-1] - 1
    if values.shape[:-1] != grid or not 1 <= num_measurements <= len(system.sensing_matrix):
        raise InvalidInputError(
            f"measurements have shape {values.shape}; a plane of {shape[0]}x{shape[1]} pixels "
            f"needs {(*grid, '1 + m')} with m in 1..{len(system.sensing_matrix)}"
        )
    phi = np.ascontiguousarray(system.sensing_matrix[:num_measurements], np.float32)
    sensing = np.ascontiguousarray(phi.T)
    inverse = _pseudo_inverse(phi)
    values = values.reshape(-1, 1 + num_measurements)
    means, target = values[:, :1], np.ascontiguousarray(values[:, 1:])
    padded_shape = (grid[0] * PATCH_SIZE, grid[1] * PATCH_SIZE)
    plane = assemble_patches(multiplied(target, inverse) + means, padded_shape)
    for error in np.geomspace(highest_error, lowest_error, rounds):
        estimate = sparse_average(
            plane, system.dictionary, float(error), stride, max_atoms, workers
        )
        patches, _ = remove_mean(extract_patches(estimate))
        patches += multiplied(target - multiplied(patches, sensing), inverse)
        plane = assemble_patches(patches + means, padded_shape)
    return np.ascontiguousarray(plane[: shape[0], : shape[1]])


def _pseudo_inverse(sensing_matrix: Float32Array) -> Float32Array:
    """Return (Φ⁺)ᵀ, (M, 64): patches are ``measurements @ it``."""
    inverse = np.linalg.pinv(sensing_matrix.astype(np.float64))
    return np.ascontiguousarray(inverse.T, np.float32)


def _positions(length: int, stride: int) -> npt.NDArray[np.int64]:
    last = length - PATCH_SIZE
    return np.append(np.arange(0, last, stride), last)


def _finite_plane(plane: npt.ArrayLike) -> Float32Array:
    pixels = np.ascontiguousarray(plane, np.float32)
    if pixels.ndim != 2 or pixels.size == 0 or not np.isfinite(pixels).all():
        raise InvalidInputError(
            f"plane has shape {pixels.shape}; allowed is a finite, non-empty (height, width)"
        )
    return pixels
