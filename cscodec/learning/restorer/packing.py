"""From trained weights to those of a file, and back: bytes, with a scale for every channel.

How they lie is described in :mod:`cscodec.sensing.network`. This needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from cscodec.kernels.convolution import LANES

_LARGEST = 127

Array = npt.NDArray[np.generic]
Float32Array = npt.NDArray[np.float32]
Int8Array = npt.NDArray[np.int8]


def quantize(weights: Float32Array) -> tuple[Int8Array, Float32Array]:
    """Round weights, (terms, channels), to bytes times a scale per channel.

    Returns
    -------
    values : ndarray, (terms, channels) int8
        -127..127.
    scales : ndarray, (channels,) float32
    """
    scales = (np.abs(weights).max(axis=0) / _LARGEST).astype(np.float32)
    safe = np.where(scales > 0, scales, np.float32(1))
    return np.rint(weights / safe).astype(np.int8), scales


def dequantize(values: Int8Array, scales: Float32Array) -> Float32Array:
    """Inverse of :func:`quantize`, but for what rounding took."""
    return values.astype(np.float32) * scales


def pack_weights(trained: Mapping[str, Float32Array]) -> dict[str, Array]:
    """Return the arrays of a file, as :func:`cscodec.sensing.network.expected_arrays` has them.

    Parameters
    ----------
    trained : mapping of str to ndarray
        The state of the PyTorch module.
    """
    shipped: dict[str, Array] = {}
    for key, values in sorted(trained.items()):
        name, kind = key.rsplit(".", 1)
        if kind == "places":
            shipped[key] = values
        elif kind == "weight":
            terms = values.transpose(2, 3, 1, 0).reshape(-1, values.shape[0])
            biases = trained.get(f"{name}.bias", np.zeros(values.shape[0], np.float32))
            padding = -values.shape[0] % LANES
            rounded, scales = quantize(np.pad(terms, ((0, 0), (0, padding))))
            # Files take memory as it lies, whatever its order.
            shipped[f"{name}.weights"] = np.ascontiguousarray(rounded)
            shipped[f"{name}.scales"] = scales
            shipped[f"{name}.biases"] = np.pad(biases, (0, padding))
    return shipped


def unpack_weights(
    shipped: Mapping[str, Array], trained: Mapping[str, tuple[int, ...]]
) -> dict[str, Float32Array]:
    """Inverse of :func:`pack_weights`, but for rounding.

    Parameters
    ----------
    shipped : mapping of str to ndarray
    trained : mapping of str to tuple
        Shapes of the module's state, which padding has hidden.
    """
    arrays: dict[str, Float32Array] = {}
    for key, shape in trained.items():
        name, kind = key.rsplit(".", 1)
        if kind == "places":
            arrays[key] = np.asarray(shipped[key], np.float32)
        elif kind == "bias":
            arrays[key] = np.asarray(shipped[f"{name}.biases"][: shape[0]], np.float32)
        else:
            values = np.asarray(shipped[f"{name}.weights"], np.int8)
            scales = np.asarray(shipped[f"{name}.scales"], np.float32)
            made, taken, *taps = shape
            terms = dequantize(values, scales)[:, :made].reshape(*taps, taken, made)
            arrays[key] = np.ascontiguousarray(terms.transpose(3, 2, 0, 1))
    return arrays
