"""The restorer in plain NumPy: slow, and the definition of every bit that kernels are to make.

Features are whole numbers, 512 of them to one, held to ±32767; a plane's pixels become such
features too. The sum of a convolution's products times its scale, plus a bias, is rounded. What is
done to planes is float32, nothing is fused, and measurements are put back four terms at a time,
(a b + c d) + (e f + g h). Outside of a plane is zero. Features are (H, W, C). Weights are the
arrays of the file, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
Features = npt.NDArray[np.int64]
Arrays = Mapping[str, npt.NDArray[Any]]

PATCH, PLACE = 8, 2
UNIT, STEPS, LARGEST = np.float32(32), np.float32(512), 32767


def restore(linear: Float32Array, projection: Float32Array, arrays: Arrays) -> Float32Array:
    """Restore a plane (H, W) less 128, both sides multiples of 8."""
    start = linear / UNIT
    share = np.float32(np.rint(np.trace(projection)) / PATCH**2)
    plane, fine, coarse = start, np.int64(0), np.int64(0)
    for stage in range(2):
        name = f"stages.{stage}"
        entered = held(np.rint(unshuffle(plane) * STEPS))
        places = arrays[f"{name}.places"]
        repeats = (entered.shape[0] // 4, entered.shape[1] // 4, 1)
        biases = np.tile(places[0] * STEPS + share * (places[1] * STEPS), repeats)
        fine = held(fine + convolve(entered, arrays, f"{name}.enter", biases=biases))
        for block in range(3):
            fine = residual(fine, arrays, f"{name}.fine.{block}")
        coarse = held(coarse + convolve(fine, arrays, f"{name}.down", taps=2, step=2))
        coarse = residual(coarse, arrays, f"{name}.coarse.0")
        fine = held(fine + spread(convolve(coarse, arrays, f"{name}.up", taps=1)))
        leaving = held(convolve(fine, arrays, f"{name}.leave")[..., : PLACE**2])
        change = spread(leaving.astype(np.float32) / STEPS)[..., 0]
        plane = put_back(plane + change, start, projection)
    return plane * UNIT


def residual(features: Any, arrays: Arrays, name: str) -> Features:
    inner = held(np.maximum(convolve(features, arrays, f"{name}.first"), 0))
    return held(features + convolve(inner, arrays, f"{name}.second"))


def held(features: Any) -> Features:
    return np.clip(features, -LARGEST, LARGEST).astype(np.int64)


def convolve(
    features: Any,
    arrays: Arrays,
    name: str,
    taps: int = 3,
    step: int = 1,
    biases: Float32Array | None = None,
) -> Float32Array:
    """Convolve with ``taps`` x ``taps`` terms at every ``step``-th place, and round."""
    border = (taps - 1) // 2
    padded = np.pad(features, ((border, border), (border, border), (0, 0)))
    height, width, depth = features.shape
    terms = arrays[f"{name}.weights"].astype(np.int64).reshape(taps, taps, depth, -1)
    rows, columns = height // step, width // step
    sums = np.zeros((rows, columns, terms.shape[-1]), np.int64)
    for y in range(taps):
        for x in range(taps):
            tap = padded[y : y + rows * step : step, x : x + columns * step : step]
            sums += tap @ terms[y, x]
    assert np.abs(sums).max() < 2**31  # else kernels' sums would wrap
    own = arrays[f"{name}.biases"] * STEPS if biases is None else biases
    rounded: Float32Array = np.rint(sums.astype(np.float32) * arrays[f"{name}.scales"] + own)
    return rounded


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
