"""Colour planes: RGB to luma and chroma (BT.601, full range), chroma at half size, and back.

Element by element in float32, no sums whose order could change: the same bits on every CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array, Pixels
from cscodec.errors import InvalidInputError
from cscodec.kernels.colour import Origins, double_samples, from_colours, to_colours, to_gray


def without_alpha(pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the colours of a picture: (H, W) of gray ones, (H, W, 3) of others; no copy."""
    if pixels.ndim == 2:
        return pixels
    return pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., 0]


def split_colours(pixels: npt.NDArray[Any]) -> list[Float32Array]:
    """Return the planes of a picture around zero: (H, W) to [Y], (H, W, 3) to [Y, Cb, Cr].

    Y is reduced by 128, so all three lie in about -128..128.

    Raises
    ------
    InvalidInputError
        If the pixels are of another shape, or of three colours and not uint8.
    """
    if pixels.ndim == 2:
        return [pixels.astype(np.float32) - np.float32(128)]
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise InvalidInputError(
            f"pixels are {pixels.dtype} {pixels.shape}; allowed are (H, W), and uint8 (H, W, 3)"
        )
    planes = [np.empty(pixels.shape[:2], np.float32) for _ in range(3)]
    from_colours(np.ascontiguousarray(pixels), *planes)
    return planes


def join_colours(
    planes: Sequence[Float32Array],
    shape: tuple[int, int],
    origin: tuple[int, int] = (0, 0),
    chroma_origin: tuple[int, int] = (0, 0),
) -> Pixels:
    """Return 8-bit pixels: inverse of :func:`split_colours`, rounded to even and clipped.

    Parameters
    ----------
    planes : sequence of ndarray, (H, W) float32, C-contiguous
        Y, or Y, Cb and Cr.
    shape : (int, int)
        Rows and columns of pixels.
    origin, chroma_origin : (int, int)
        Row and column of the first pixel in Y, and in Cb and Cr.

    Raises
    ------
    InvalidInputError
        If a plane is too small for that.
    """
    height, width = shape
    for plane, (top, left) in zip(planes, (origin, chroma_origin, chroma_origin), strict=False):
        rows, columns = plane.shape
        if min(top, left) < 0 or top + height > rows or left + width > columns:
            raise InvalidInputError(
                f"{height} x {width} pixels at {top}, {left} are not all in a plane of "
                f"{rows} x {columns} samples"
            )
    if len(planes) == 1:
        gray = np.empty(shape, np.uint8)
        to_gray(planes[0], *origin, gray)
        return gray
    pixels = np.empty((height, width, 3), np.uint8)
    origins = Origins(*origin, *chroma_origin)
    to_colours(*planes, origins, np.empty((3, width), np.uint8), pixels)
    return pixels


def to_bytes(plane: npt.NDArray[Any]) -> Pixels:
    """Round to the nearest of 0..255."""
    pixels: Pixels = np.clip(np.rint(plane), 0, 255).astype(np.uint8)
    return pixels


def halve(plane: Float32Array) -> Float32Array:
    """Average 2x2 samples; an odd edge is repeated. (H, W) to (ceil(H / 2), ceil(W / 2))."""
    height, width = plane.shape
    plane = np.pad(plane, ((0, height % 2), (0, width % 2)), mode="edge")
    rows = plane[::2] + plane[1::2]
    return (rows[:, ::2] + rows[:, 1::2]) * np.float32(0.25)


def double(plane: Float32Array) -> Float32Array:
    """Interpolate to twice the size: (H, W) to (2 H, 2 W).

    New samples lie a quarter of a sample beside the old ones and are 3/4 of the near and 1/4 of
    the far neighbour; outside the plane its edge is repeated.
    """
    height, width = plane.shape
    doubled = np.empty((2 * height, 2 * width), np.float32)
    double_samples(np.ascontiguousarray(plane), np.empty(width + 2, np.float32), doubled)
    return doubled
