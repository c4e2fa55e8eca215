"""Kernels of the restoration filters: classes of pixels, filtering, normal equations.

Planes have a frame of ``RADIUS`` pixels around what is filtered. Sums
have a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

from cscodec.kernels.declaration import (
    Array,
    Float32,
    Integer,
    float32,
    float64,
    helper,
    int64,
    intrinsic,
    kernel,
)

RADIUS = 3  #: reach of the filters, in pixels
_BLOCK = 4  # pixels on each side of a block that shares its activity and direction
NUM_ACTIVITIES = 10
NUM_DIRECTIONS = 3
NUM_PLACES = 16  #: in a quarter of a patch; the other quarters are its mirror images
NUM_KINDS = NUM_ACTIVITIES * NUM_DIRECTIONS
NUM_CLASSES = NUM_KINDS * NUM_PLACES


def _diamond(radius: int) -> npt.NDArray[np.int64]:
    return np.array(
        [
            (y, x)
            for y in range(-radius, radius + 1)
            for x in range(-radius, radius + 1)
            if abs(y) + abs(x) <= radius
        ],
        np.int64,
    )


# Taps on the cleaned plane (less its centre), then taps on what cleaning took away.
CLEAN_TAPS = np.array([tap for tap in _diamond(3) if tap.any()], np.int64)
REMOVED_TAPS = _diamond(2)
NUM_CLEAN = len(CLEAN_TAPS)
NUM_TAPS = NUM_CLEAN + len(REMOVED_TAPS)
# Activity (mean gradient in 1/8 step) at which the next class begins: half octaves.
_ACTIVITY_BOUNDS = np.array([0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.7, 8.0], np.float32)


@kernel
def frame_planes(
    plane: Annotated[Array, float32["height", "width"]],
    clean: Annotated[Array, float32["height", "width"]],
    removed: Annotated[Array, float32[f"height + {2 * RADIUS}", f"width + {2 * RADIUS}"].out],
    framed: Annotated[Array, float32[f"height + {2 * RADIUS}", f"width + {2 * RADIUS}"].out],
) -> None:
    """Write ``plane - clean`` and ``clean`` with a frame of ``RADIUS`` copies of their edges."""
    height, width = clean.shape
    for row in range(height + 2 * RADIUS):
        y = min(max(row - RADIUS, 0), height - 1)
        for x in range(width):
            framed[row, RADIUS + x] = clean[y, x]
            removed[row, RADIUS + x] = plane[y, x] - clean[y, x]
        for array in (framed, removed):
            for x in range(RADIUS):
                array[row, x] = array[row, RADIUS]
                array[row, RADIUS + width + x] = array[row, RADIUS + width - 1]


@kernel
def classify_blocks(
    clean: Annotated[Array, float32[f"4 * rows + {2 * RADIUS}", f"4 * columns + {2 * RADIUS}"]],
    step: Float32,
    horizontal: Annotated[Array, float32["2 * rows + 2", "2 * columns + 2"].out],
    vertical: Annotated[Array, float32["2 * rows + 2", "2 * columns + 2"].out],
    classes: Annotated[Array, int64["rows", "columns"].out],
) -> None:
    """Write activity and direction of every 4x4 block: its mean gradient over 8x8 pixels.

    ``horizontal`` and ``vertical`` are room: sums over 2x2 pixels.
    """
    rows, columns = classes.shape
    for i in range(horizontal.shape[0]):
        y = 2 * i + RADIUS - 2
        for j in range(horizontal.shape[1]):
            x = 2 * j + RADIUS - 2
            a, b, c = clean[y, x], clean[y, x + 1], clean[y, x + 2]
            d, e, f = clean[y + 1, x], clean[y + 1, x + 1], clean[y + 1, x + 2]
            g, h = clean[y + 2, x], clean[y + 2, x + 1]
            horizontal[i, j] = (abs(b - a) + abs(c - b)) + (abs(e - d) + abs(f - e))
            vertical[i, j] = (abs(d - a) + abs(e - b)) + (abs(g - d) + abs(h - e))
    for r in range(rows):
        for c in range(columns):
            across = np.float32(0)
            down = np.float32(0)
            for i in range(2 * r, 2 * r + 4):
                for j in range(2 * c, 2 * c + 4):
                    across += horizontal[i, j]
                    down += vertical[i, j]
            activity = (across + down) * (np.float32(0.125) / step)
            level = 0
            while level < NUM_ACTIVITIES - 1 and activity >= _ACTIVITY_BOUNDS[level]:
                level += 1
            direction = 1
            if across * np.float32(1.8) < down + step:
                direction = 0
            elif down * np.float32(1.8) < across + step:
                direction = 2
            classes[r, c] = level * NUM_DIRECTIONS + direction


@intrinsic
def filter_block(
    removed: Array,
    clean: Array,
    weights: Array,
    offsets: Array,
    filtered: Array,
    row: Integer,
    quarter: Integer,
    top: Integer,
    left: Integer,
) -> None:
    """Filter 4x4 pixels with a row of weights, 16 for each tap, and a row of offsets."""
    width = clean.shape[1]
    for pixel in range(16):
        y, x = top + pixel // 4, left + pixel % 4
        here = (y + RADIUS) * width + x + RADIUS
        centre = clean[here // width, here % width]
        total = np.float32(0)
        for k in range(NUM_TAPS):
            place = here + offsets[quarter, k]
            if k < NUM_CLEAN:
                value = clean[place // width, place % width] - centre
            else:
                value = removed[place // width, place % width]
            total += weights[row, 16 * k + pixel] * value
        filtered[y, x] = centre + total


@kernel
def apply_filters(
    removed: Annotated[Array, float32[f"4 * rows + {2 * RADIUS}", f"4 * columns + {2 * RADIUS}"]],
    clean: Annotated[Array, float32[f"4 * rows + {2 * RADIUS}", f"4 * columns + {2 * RADIUS}"]],
    classes: Annotated[Array, int64["rows", "columns"]],
    weights: Annotated[Array, float32[4 * NUM_KINDS, 16 * NUM_TAPS]],
    offsets: Annotated[Array, int64[4, NUM_TAPS]],
    filtered: Annotated[Array, float32["4 * rows", "4 * columns"].out],
) -> None:
    """``filtered`` = clean plus, at every pixel, the correction by its class's filter.

    ``weights`` are those of a kind of block and a quarter of a patch, for each tap those of the 16
    pixels of a block; ``offsets`` lead from a pixel to a quarter's taps in the framed planes.
    """
    rows, columns = classes.shape
    for r in range(rows):
        for c in range(columns):
            quarter = 2 * (r & 1) + (c & 1)
            row = 4 * classes[r, c] + quarter
            filter_block(
                removed, clean, weights, offsets, filtered, row, quarter, _BLOCK * r, _BLOCK * c
            )


@helper
def _read(removed: Array, clean: Array, y: int, x: int, inputs: Array) -> int:
    """Collect the taps of the pixel at (y, x), mirrored into its patch's first quarter.

    Returns its place there.
    """
    patch_y = y & 7
    patch_x = x & 7
    down = 1
    right = 1
    if patch_y > 3:
        patch_y = 7 - patch_y
        down = -1
    if patch_x > 3:
        patch_x = 7 - patch_x
        right = -1
    centre = clean[y + RADIUS, x + RADIUS]
    for k in range(NUM_CLEAN):
        inputs[k] = (
            clean[y + RADIUS + down * CLEAN_TAPS[k, 0], x + RADIUS + right * CLEAN_TAPS[k, 1]]
            - centre
        )
    for k in range(NUM_CLEAN, NUM_TAPS):
        inputs[k] = removed[
            y + RADIUS + down * REMOVED_TAPS[k - NUM_CLEAN, 0],
            x + RADIUS + right * REMOVED_TAPS[k - NUM_CLEAN, 1],
        ]
    return 4 * patch_y + patch_x


@kernel
def add_equations(
    removed: Annotated[Array, float32[f"4 * rows + {2 * RADIUS}", f"4 * columns + {2 * RADIUS}"]],
    clean: Annotated[Array, float32[f"4 * rows + {2 * RADIUS}", f"4 * columns + {2 * RADIUS}"]],
    classes: Annotated[Array, int64["rows", "columns"]],
    target: Annotated[Array, float32["4 * rows", "4 * columns"]],
    inputs: Annotated[Array, float32[NUM_TAPS].out],
    products: Annotated[Array, float64[NUM_CLASSES, NUM_TAPS, NUM_TAPS].out],
    sums: Annotated[Array, float64[NUM_CLASSES, NUM_TAPS].out],
) -> None:
    """Add the normal equations of every class for the correction ``target`` - clean."""
    height, width = target.shape
    for y in range(height):
        for x in range(width):
            place = _read(removed, clean, y, x, inputs)
            index = classes[y // _BLOCK, x // _BLOCK] * NUM_PLACES + place
            wanted = target[y, x] - clean[y + RADIUS, x + RADIUS]
            for i in range(NUM_TAPS):
                value = inputs[i]
                sums[index, i] += value * wanted
                for j in range(NUM_TAPS):
                    products[index, i, j] += value * inputs[j]
