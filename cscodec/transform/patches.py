"""Planes cut into 8x8 patches and put together again; patches split from their means.

A patch is one row of 64 numbers, its pixels in raster order. Patches follow one another in raster
order too. A plane whose sides are no multiples of 8 is padded by repeating its last row and column.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.errors import InvalidInputError
from cscodec.kernels.patches import cut_patches, put_patches
from cscodec.layout import PATCH_PIXELS, PATCH_SIZE


def patch_grid(shape: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the patches that cover a plane of ``shape`` (height, width)."""
    height, width = shape
    return -(-height // PATCH_SIZE), -(-width // PATCH_SIZE)


def extract_patches(plane: npt.ArrayLike) -> Float32Array:
    """Cut a plane into non-overlapping patches.

    Parameters
    ----------
    plane : array_like, (H, W), any real type
        At least 1x1; padded at the right and the bottom with copies of its edge.

    Returns
    -------
    ndarray, (num_patches, 64) float32
        In raster order, ``ceil(H / 8) * ceil(W / 8)`` of them.

    Raises
    ------
    InvalidInputError
        If the plane does not have two dimensions or is empty.
    """
    padded = whole_patches(plane)
    rows, columns = patch_grid((padded.shape[0], padded.shape[1]))
    patches = np.empty((rows * columns, PATCH_PIXELS), np.float32)
    cut_patches(padded, patches)
    return patches


def whole_patches(plane: npt.ArrayLike) -> Float32Array:
    """Return a plane whose sides are multiples of 8: padded with copies of its edge, if need be.

    Returns
    -------
    ndarray, (H', W') float32, C-contiguous
        The plane itself if it is like that already.

    Raises
    ------
    InvalidInputError
        If the plane does not have two dimensions or is empty.
    """
    pixels = np.asarray(plane)
    if pixels.ndim != 2 or pixels.size == 0:
        raise InvalidInputError(
            f"plane has shape {pixels.shape}; allowed is a non-empty (height, width)"
        )
    height, width = pixels.shape
    rows, columns = patch_grid((height, width))
    padding = ((0, rows * PATCH_SIZE - height), (0, columns * PATCH_SIZE - width))
    if rows * PATCH_SIZE != height or columns * PATCH_SIZE != width:
        pixels = np.pad(pixels, padding, mode="edge")
    return np.ascontiguousarray(pixels, np.float32)


def assemble_patches(patches: npt.ArrayLike, shape: tuple[int, int]) -> Float32Array:
    """Inverse of :func:`extract_patches`: put patches side by side and crop the padding.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)
        In raster order.
    shape : (int, int)
        Height and width of the plane.

    Returns
    -------
    ndarray, (H, W) float32

    Raises
    ------
    InvalidInputError
        If the number of patches does not fit the shape.
    """
    rows, columns = patch_grid(shape)
    blocks = np.asarray(patches, np.float32)
    if blocks.shape != (rows * columns, PATCH_PIXELS) or rows * columns == 0:
        raise InvalidInputError(
            f"patches have shape {blocks.shape}; a plane of {shape[0]}x{shape[1]} pixels needs "
            f"({rows * columns}, {PATCH_PIXELS})"
        )
    plane = np.empty((rows * PATCH_SIZE, columns * PATCH_SIZE), np.float32)
    put_patches(plane, np.ascontiguousarray(blocks))
    return np.ascontiguousarray(plane[: shape[0], : shape[1]])


def remove_mean(patches: npt.ArrayLike) -> tuple[Float32Array, Float32Array]:
    """Split patches into their zero-mean part, which Φ and Ψ see, and their means.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)

    Returns
    -------
    zero_mean_patches : ndarray, (num_patches, 64) float32
    means : ndarray, (num_patches,) float32
        ``zero_mean_patches + means[:, None]`` gives the patches back.
    """
    blocks = np.asarray(patches, np.float32)
    means = blocks.mean(axis=1, dtype=np.float64).astype(np.float32)
    return blocks - means[:, None], means
