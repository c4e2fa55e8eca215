"""Colour planes: RGB to luma and chroma (BT.601, full range), chroma at half size, and back.

Element by element in float32, no sums whose order could change: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]

_RED, _GREEN, _BLUE = (np.float32(weight) for weight in (0.299, 0.587, 0.114))
_CB_SCALE, _CR_SCALE = np.float32(1.772), np.float32(1.402)
_HALF = np.float32(0.5)
_QUARTER = np.float32(0.25)


def split_colours(pixels: npt.NDArray[Any]) -> list[Float32Array]:
    """Return the planes of a picture around zero: (H, W) to [Y], (H, W, 3) to [Y, Cb, Cr].

    Y is reduced by 128, so all three lie in about -128..128.
    """
    if pixels.ndim == 2:
        return [pixels.astype(np.float32) - np.float32(128)]
    red, green, blue = (pixels[..., k].astype(np.float32) for k in range(3))
    luma = _RED * red + _GREEN * green + _BLUE * blue
    return [luma - np.float32(128), (blue - luma) / _CB_SCALE, (red - luma) / _CR_SCALE]


def join_colours(planes: list[Float32Array]) -> Pixels:
    """Return 8-bit pixels: inverse of :func:`split_colours`, rounded and clipped."""
    luma = planes[0] + np.float32(128)
    if len(planes) == 1:
        return to_bytes(luma)
    red = luma + _CR_SCALE * planes[2]
    blue = luma + _CB_SCALE * planes[1]
    green = (luma - _RED * red - _BLUE * blue) / _GREEN
    return np.stack([to_bytes(plane) for plane in (red, green, blue)], axis=-1)


def to_bytes(plane: npt.NDArray[Any]) -> Pixels:
    """Round to the nearest of 0..255."""
    pixels: Pixels = np.clip(np.rint(plane), 0, 255).astype(np.uint8)
    return pixels


def halve(plane: Float32Array) -> Float32Array:
    """Average 2x2 samples; an odd edge is repeated. (H, W) to (ceil(H / 2), ceil(W / 2))."""
    height, width = plane.shape
    plane = np.pad(plane, ((0, height % 2), (0, width % 2)), mode="edge")
    rows = plane[::2] + plane[1::2]
    return (rows[:, ::2] + rows[:, 1::2]) * _QUARTER


def double(plane: Float32Array) -> Float32Array:
    """Interpolate to twice the size: (H, W) to (2 H, 2 W).

    New samples lie a quarter of a sample beside the old ones and are 3/4 of the near and 1/4 of
    the far neighbour; outside the plane its edge is repeated.
    """
    return _double_rows(_double_rows(plane).T).T


def _double_rows(plane: Float32Array) -> Float32Array:
    padded = np.pad(plane, ((1, 1), (0, 0)), mode="edge")
    near = (_HALF + _QUARTER) * padded[1:-1]
    doubled = np.empty((2 * plane.shape[0], plane.shape[1]), np.float32)
    doubled[::2] = near + _QUARTER * padded[:-2]
    doubled[1::2] = near + _QUARTER * padded[2:]
    return doubled
