"""Kernels of :mod:`cscodec.sensing.filters`: classes of pixels, filtering, normal equations.

No argument is checked here. Planes have a frame of ``RADIUS`` pixels around what is filtered. Sums
have a fixed order: the same bits on every CPU.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cscodec._jit import (
    Array,
    Float32,
    Float32Matrix,
    Float32Vector,
    Float64Cube,
    Float64Matrix,
    Int64Matrix,
    helper,
    kernel,
)

RADIUS = 3  #: reach of the filters, in pixels
_BLOCK = 4  # pixels on each side of a block that shares its activity and direction
NUM_ACTIVITIES = 10
NUM_DIRECTIONS = 3
NUM_PLACES = 16  #: in a quarter of a patch; the other quarters are its mirror images
NUM_CLASSES = NUM_ACTIVITIES * NUM_DIRECTIONS * NUM_PLACES


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
def classify(clean: Float32Matrix, step: Float32, classes: Int64Matrix) -> None:
    """Write activity and direction of every 4x4 block: its mean gradient over 8x8 pixels."""
    rows, columns = classes.shape
    height, width = clean.shape
    one = np.float32(1)
    for r in range(rows):
        for c in range(columns):
            horizontal = np.float32(0)
            vertical = np.float32(0)
            top = RADIUS + _BLOCK * r - 2
            left = RADIUS + _BLOCK * c - 2
            for y in range(top, top + 8):
                for x in range(left, left + 8):
                    if x + 1 < width and y + 1 < height:
                        here = clean[y, x]
                        horizontal += abs(clean[y, x + 1] - here)
                        vertical += abs(clean[y + 1, x] - here)
            activity = (horizontal + vertical) * (np.float32(0.125) / step)
            level = 0
            while level < NUM_ACTIVITIES - 1 and activity >= _ACTIVITY_BOUNDS[level]:
                level += 1
            direction = 1
            if horizontal * np.float32(1.8) < vertical + step * one:
                direction = 0
            elif vertical * np.float32(1.8) < horizontal + step * one:
                direction = 2
            classes[r, c] = level * NUM_DIRECTIONS + direction


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
def apply_filters(
    removed: Float32Matrix,
    clean: Float32Matrix,
    classes: Int64Matrix,
    weights: Float32Matrix,
    inputs: Float32Vector,
    filtered: Float32Matrix,
) -> None:
    """``filtered`` = clean plus, at every pixel, the correction by its class's filter."""
    height, width = filtered.shape
    for y in range(height):
        for x in range(width):
            place = _read(removed, clean, y, x, inputs)
            taps = weights[classes[y // _BLOCK, x // _BLOCK] * NUM_PLACES + place]
            even = np.float32(0)
            odd = np.float32(0)
            for k in range(0, NUM_TAPS - 1, 2):
                even += taps[k] * inputs[k]
                odd += taps[k + 1] * inputs[k + 1]
            if NUM_TAPS % 2:
                even += taps[NUM_TAPS - 1] * inputs[NUM_TAPS - 1]
            filtered[y, x] = clean[y + RADIUS, x + RADIUS] + (even + odd)


@kernel
def accumulate(
    removed: Float32Matrix,
    clean: Float32Matrix,
    classes: Int64Matrix,
    target: Float32Matrix,
    inputs: Float32Vector,
    products: Float64Cube,
    sums: Float64Matrix,
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
