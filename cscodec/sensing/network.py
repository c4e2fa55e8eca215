"""The weights of the restorer: what its file holds, checked before any of it is used.

A convolution is kept as bytes, (terms, channels made), with a scale for every channel: its terms
are the taps in raster order and, in a tap, the channels taken. Channels made are filled up with
zeros to a multiple of 16. Kernels take blocks of 16 of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load

from cscodec.arrays import Float32Array
from cscodec.errors import InvalidModelError, ModelNotFoundError
from cscodec.kernels.convolution import LANES, PERIOD
from cscodec.shipped import shipped_folder

NUM_STAGES = 2
FINE_CHANNELS, COARSE_CHANNELS = 64, 96  #: of features at half and at a quarter of a plane's size
FINE_BLOCKS, COARSE_BLOCKS = 3, 1  #: residual blocks at each of these sizes in every stage
PLACE_SIZE = 2  #: pixels on each side of a place of the fine features
PLACE_PIXELS = PLACE_SIZE**2
FEATURE_STEPS = np.float32(512)  #: of a feature that is 1: features are whole numbers
MOST_BYTES = 1 << 20  #: of a file
_LARGEST = 1e6  # magnitude of scales, biases and places
_REMEDY = (
    "take the file that came with cscodec, or make one with 'python -m cscodec.learning.restorer'"
)

Sizes = tuple[int, int]


def _block_layers() -> dict[str, Sizes]:
    counts = {"fine": (FINE_BLOCKS, FINE_CHANNELS), "coarse": (COARSE_BLOCKS, COARSE_CHANNELS)}
    return {
        f"{part}.{number}.{place}": (9 * channels, channels)
        for part, (count, channels) in counts.items()
        for number in range(count)
        for place in ("first", "second")
    }


#: Terms and channels made of the convolutions of a stage.
LAYERS: dict[str, Sizes] = {
    "enter": (9 * PLACE_PIXELS, FINE_CHANNELS),
    **_block_layers(),
    "down": (4 * FINE_CHANNELS, COARSE_CHANNELS),
    "up": (COARSE_CHANNELS, 4 * FINE_CHANNELS),
    "leave": (9 * FINE_CHANNELS, LANES),
}


def expected_arrays() -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of every array of a file, by name."""
    expected: dict[str, tuple[str, tuple[int, ...]]] = {}
    for stage in range(NUM_STAGES):
        for layer, (terms, channels) in LAYERS.items():
            name = f"stages.{stage}.{layer}"
            expected[f"{name}.weights"] = "int8", (terms, channels)
            expected[f"{name}.scales"] = "float32", (channels,)
            expected[f"{name}.biases"] = "float32", (channels,)
        expected[f"stages.{stage}.places"] = "float32", (2, PERIOD, PERIOD, FINE_CHANNELS)
    return expected


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution as kernels take it.

    Attributes
    ----------
    weights : ndarray, (channels made / 16, terms / 2, 16, 2) int16
    scales : ndarray, (channels made / 16, 16) float32
    biases : ndarray, (4, 4, channels made / 16, 16) float32
        In steps of the features, by row and column of a pixel, modulo 4. Of a layer ``up``, all
        have an axis of length 4 before these, for the four places that it makes of one.
    """

    weights: npt.NDArray[np.int16]
    scales: Float32Array
    biases: Float32Array


@dataclass(frozen=True, eq=False)
class Stage:
    """What one stage does: its layers by name, as in ``LAYERS``, and ``places``.

    Attributes
    ----------
    layers : mapping of str to Layer
    places : ndarray, (2, 4, 4, 64) float32
        What the place in a patch adds to the features, in their steps: by itself, and per share
        measured.
    """

    layers: Mapping[str, Layer]
    places: Float32Array

    def entering(self, share: np.float32) -> Layer:
        """Return the layer ``enter`` for a share of a patch's numbers that was measured."""
        layer = self.layers["enter"]
        biases = self.places[0] + share * self.places[1]
        return Layer(layer.weights, layer.scales, biases.reshape(PERIOD, PERIOD, -1, LANES))


@dataclass(frozen=True, eq=False)
class Network:
    """The restorer's weights, ready for use.

    Attributes
    ----------
    stages : tuple of Stage
    """

    stages: tuple[Stage, ...]

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "restorer") -> Network:
        """Parse and check a file's contents.

        Raises
        ------
        InvalidModelError
            If arrays are missing, too many, of another type or shape, or hold what they may not.
        """
        try:
            if len(data) > MOST_BYTES:
                raise InvalidModelError(f"it has {len(data)} bytes; allowed are {MOST_BYTES}")
            arrays = load(data)
            _check(arrays)
        except (
            SafetensorError, InvalidModelError, KeyError, TypeError, ValueError, OverflowError,
        ) as error:  # fmt: skip
            raise InvalidModelError(
                f"{source}: not usable as the restorer's weights ({error}); {_REMEDY}"
            ) from error
        return cls(tuple(_stage(arrays, f"stages.{number}") for number in range(NUM_STAGES)))


def load_network(path: str | os.PathLike[str] | None = None) -> Network:
    """Load the shipped weights, or those of a file; a file is read once.

    Raises
    ------
    ModelNotFoundError
        If there is no such file.
    InvalidModelError
        If it holds anything else.
    """
    if path is None:
        path = (shipped_folder() or Path("models")) / "networks" / "restorer.safetensors"
    place = Path(path).absolute()  # by which the weights are remembered
    if not place.is_file():
        raise ModelNotFoundError(f"{place}: no such file of the restorer's weights; {_REMEDY}")
    status = place.stat()
    if status.st_size > MOST_BYTES:
        raise InvalidModelError(
            f"{place}: {status.st_size} bytes are more than the {MOST_BYTES} that the restorer's "
            f"weights may have; {_REMEDY}"
        )
    return _load(place, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _load(path: Path, mtime_ns: int, size: int) -> Network:
    return Network.from_bytes(path.read_bytes(), source=str(path))


def _check(arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    expected = expected_arrays()
    for name in arrays.keys() - expected.keys():
        raise InvalidModelError(f"unexpected array {name!r}")
    for name, (dtype, shape) in expected.items():
        if name not in arrays:
            raise InvalidModelError(f"{name} is missing")
        found = arrays[name]
        if found.dtype != dtype or found.shape != shape:
            raise InvalidModelError(
                f"{name} is {found.dtype} {found.shape}; allowed is {dtype} {shape}"
            )
        if dtype == "int8":
            continue
        if not np.all(np.abs(found) <= _LARGEST):  # NaN is not, either
            worst = found[~(np.abs(found) <= _LARGEST)].flat[0]
            raise InvalidModelError(
                f"{name} holds {worst}; allowed are magnitudes up to {_LARGEST:g}"
            )
        if name.endswith(".scales") and found.min() < 0:
            raise InvalidModelError(f"{name} holds {found.min()}; allowed is 0 or more")


def _stage(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Stage:
    return Stage(
        {layer: _layer(arrays, f"{name}.{layer}", layer == "up") for layer in LAYERS},
        np.asarray(arrays[f"{name}.places"], np.float32) * FEATURE_STEPS,
    )


def _layer(arrays: Mapping[str, npt.NDArray[Any]], name: str, is_up: bool) -> Layer:
    places = (4,) if is_up else ()
    values = arrays[f"{name}.weights"]
    pairs = values.reshape(len(values) // 2, 2, -1, LANES).transpose(2, 0, 3, 1).astype(np.int16)
    scales, biases = (
        np.asarray(arrays[f"{name}.{kind}"], np.float32).reshape(*places, -1, LANES)
        for kind in ("scales", "biases")
    )
    biases = np.expand_dims(biases * FEATURE_STEPS, (-4, -3))
    shape = (*places, PERIOD, PERIOD, *biases.shape[-2:])
    return Layer(
        np.ascontiguousarray(pairs).reshape(*places, -1, *pairs.shape[1:]),
        np.ascontiguousarray(scales),
        np.ascontiguousarray(np.broadcast_to(biases, shape)),
    )
