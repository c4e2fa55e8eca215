"""The restorer in plain NumPy: slow, and the definition of every bit that kernels are to make.

All is float32 and nothing is fused. A convolution begins with its bias and adds, tap by tap in
raster order and four channels at a time, (a b + c d) + (e f + g h). Outside of a plane is zero.
Features are (H, W, C). Weights are the arrays of the file, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]

PATCH, PLACE = 8, 2
UNIT = np.float32(32)


def restore(linear: Float32Array, projection: Float32Array, arrays: Arrays) -> Float32Array:
    """Restore a plane (H, W) less 128, both sides multiples of 8."""
    start = linear / UNIT
    share = np.float32(np.rint(np.trace(projection)) / PATCH**2)
    plane, fine, coarse = start, np.float32(0), np.float32(0)
    for stage in range(2):
        name = f"stages.{stage}"
        entered = unshuffle(plane)
        places = arrays[f"{name}.places"]
        repeats = (entered.shape[0] // 4, entered.shape[1] // 4, 1)
        biases = np.tile(places[0] + share * places[1], repeats)
        fine = fine + convolve(entered, arrays, f"{name}.enter", biases=biases)
        for block in range(3):
            fine = residual(fine, arrays, f"{name}.fine.{block}")
        coarse = coarse + convolve(fine, arrays, f"{name}.down", taps=2, step=2)
        coarse = residual(coarse, arrays, f"{name}.coarse.0")
        fine = fine + spread(convolve(coarse, arrays, f"{name}.up", taps=1))
        change = spread(convolve(fine, arrays, f"{name}.leave")[..., : PLACE**2])[..., 0]
        plane = put_back(plane + change, start, projection)
    return plane * UNIT


def residual(features: Any, arrays: Arrays, name: str) -> Float32Array:
    inner = convolve(features, arrays, f"{name}.first")
    inner = np.where(inner > 0, inner, np.float32(0))
    changed: Float32Array = features + convolve(inner, arrays, f"{name}.second")
    return changed


def convolve(
    features: Any,
    arrays: Arrays,
    name: str,
    taps: int = 3,
    step: int = 1,
    biases: Float32Array | None = None,
) -> Float32Array:
    """Convolve with ``taps`` x ``taps`` terms at every ``step``-th place."""
    border = (taps - 1) // 2
    padded = np.pad(features, ((border, border), (border, border), (0, 0)))
    height, width, depth = features.shape
    values = arrays[f"{name}.weights"].astype(np.float32) * arrays[f"{name}.scales"]
    terms = values.reshape(taps, taps, depth, -1)
    rows, columns = height // step, width // step
    own = np.tile(arrays[f"{name}.biases"], (rows, columns, 1))
    sums: Float32Array = own if biases is None else biases
    for y in range(taps):
        for x in range(taps):
            tap = padded[y : y + rows * step : step, x : x + columns * step : step]
            for i in range(0, depth, 4):
                a, b, c, d = (tap[..., i + k, None] * terms[y, x, i + k] for k in range(4))
                sums += (a + b) + (c + d)
    return sums


def put_back(plane: Float32Array, linear: Float32Array, projection: Float32Array) -> Float32Array:
    """Give every patch its measurements again, those of ``linear``."""
    missing = cut(linear - plane)
    sums = np.zeros_like(missing)
    for i in range(0, PATCH**2, 4):
        a, b, c, d = (missing[:, i + k, None] * projection[i + k] for k in range(4))
        sums += (a + b) + (c + d)
    height, width = plane.shape
    blocks = sums.reshape(height // PATCH, width // PATCH, PATCH, PATCH).swapaxes(1, 2)
    return plane + blocks.reshape(height, width)


def cut(plane: Float32Array) -> Float32Array:
    """Patches of a plane, (n, 64)."""
    rows, columns = plane.shape[0] // PATCH, plane.shape[1] // PATCH
    return plane.reshape(rows, PATCH, columns, PATCH).swapaxes(1, 2).reshape(-1, PATCH**2)


def unshuffle(plane: Float32Array) -> Float32Array:
    """(H, W) to (H / 2, W / 2, 4): the pixels of a place side by side."""
    height, width = plane.shape
    tiles = plane.reshape(height // PLACE, PLACE, width // PLACE, PLACE).swapaxes(1, 2)
    return tiles.reshape(height // PLACE, width // PLACE, PLACE**2)


def spread(features: Float32Array) -> Float32Array:
    """(H, W, 4 C) to (2 H, 2 W, C)."""
    height, width, channels = features.shape
    tiles = features.reshape(height, width, 2, 2, channels // 4).swapaxes(1, 2)
    return tiles.reshape(2 * height, 2 * width, channels // 4)
