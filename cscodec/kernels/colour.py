"""Kernels of colour planes: pixels to planes and back, and chroma at twice its size.

Element by element in float32, no sums whose order could change: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from cscodec.kernels.declaration import Array, Integer, float32, kernel, uint8

_NEAR, _FAR = np.float32(0.75), np.float32(0.25)
_MIDDLE, _WHITE = np.float32(128), np.float32(255)
RED, GREEN, BLUE = (np.float32(weight) for weight in (0.299, 0.587, 0.114))  #: of BT.601
CB_SCALE, CR_SCALE = np.float32(1.772), np.float32(1.402)


@kernel
def from_colours(
    pixels: Annotated[Array, uint8["height", "width", 3]],
    luma: Annotated[Array, float32["height", "width"].out],
    cb: Annotated[Array, float32["height", "width"].out],
    cr: Annotated[Array, float32["height", "width"].out],
) -> None:
    """Write the planes, around zero, of pixels."""
    height, width = luma.shape
    for y in range(height):
        for x in range(width):
            red = np.float32(pixels[y, x, 0])
            green = np.float32(pixels[y, x, 1])
            blue = np.float32(pixels[y, x, 2])
            light = RED * red + GREEN * green + BLUE * blue
            luma[y, x] = light - _MIDDLE
            cb[y, x] = (blue - light) / CB_SCALE
            cr[y, x] = (red - light) / CR_SCALE


@kernel
def double_samples(
    plane: Annotated[Array, float32["height", "width"]],
    row: Annotated[Array, float32["width + 2"].out],
    doubled: Annotated[Array, float32["2 * height", "2 * width"].out],
) -> None:
    """Interpolate to twice the size; ``row`` is room."""
    height, width = plane.shape
    for y in range(2 * height):
        near = y >> 1
        far = min(max(near + 2 * (y & 1) - 1, 0), height - 1)
        for x in range(width):
            row[1 + x] = _NEAR * plane[near, x] + _FAR * plane[far, x]
        row[0], row[1 + width] = row[1], row[width]
        for x in range(width):
            here = _NEAR * row[1 + x]
            doubled[y, 2 * x] = here + _FAR * row[x]
            doubled[y, 2 * x + 1] = here + _FAR * row[2 + x]


class Origins(NamedTuple):
    """Row and column of the first pixel in Y, and in Cb and Cr."""

    top: Integer
    left: Integer
    chroma_top: Integer
    chroma_left: Integer


@kernel
def to_colours(
    luma: Annotated[Array, float32["rows", "columns"]],
    cb: Annotated[Array, float32["chroma_rows", "chroma_columns"]],
    cr: Annotated[Array, float32["chroma_rows", "chroma_columns"]],
    origins: Origins,
    room: Annotated[Array, uint8[3, "width"].out],
    pixels: Annotated[Array, uint8["height", "width", 3].out],
) -> None:
    """Write pixels from planes that hold them all."""
    height, width = pixels.shape[:2]
    red, green, blue = room[0], room[1], room[2]
    top, left, chroma_top, chroma_left = origins
    for y in range(height):
        lights = luma[top + y, left : left + width]
        blues = cb[chroma_top + y, chroma_left : chroma_left + width]
        reds = cr[chroma_top + y, chroma_left : chroma_left + width]
        for x in range(width):
            light = lights[x] + _MIDDLE
            r = light + CR_SCALE * reds[x]
            b = light + CB_SCALE * blues[x]
            g = (light - RED * r - BLUE * b) / GREEN
            red[x] = np.uint8(min(max(np.rint(r), np.float32(0)), _WHITE))
            green[x] = np.uint8(min(max(np.rint(g), np.float32(0)), _WHITE))
            blue[x] = np.uint8(min(max(np.rint(b), np.float32(0)), _WHITE))
        for x in range(width):  # by itself: vectors of bytes
            pixels[y, x, 0] = red[x]
            pixels[y, x, 1] = green[x]
            pixels[y, x, 2] = blue[x]


@kernel
def to_gray(
    luma: Annotated[Array, float32["rows", "columns"]],
    top: Integer,
    left: Integer,
    pixels: Annotated[Array, uint8["height", "width"].out],
) -> None:
    """Write pixels from a plane that holds them all, from a row and a column on."""
    height, width = pixels.shape
    for y in range(height):
        lights = luma[top + y, left : left + width]
        for x in range(width):
            light = np.rint(lights[x] + _MIDDLE)
            pixels[y, x] = np.uint8(min(max(light, np.float32(0)), _WHITE))
