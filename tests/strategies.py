"""What tests share: pictures, models that need no training, files taken apart and put together.

The models come in two kinds. ``plain_model`` has neither tables nor filters. ``odd_model`` has
random ones: valid, useless, and as extreme as their types allow.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from PIL import Image

from cscodec.bitstream.tables import neutral_tables
from cscodec.model import Model, System
from cscodec.restore.filters import filter_shape
from cscodec.sensing.averages import cosine_basis

ROOT = Path(__file__).resolve().parents[1]
EXIF = b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"  #: without any tag
START = 8  #: bytes of signature and version
#: Random tables of larger numbers than these are no model's: some sum of a network might overflow.
WIDEST = {"weights": 1 << 19, "outputs": 8000, "mean": 12000}

Pixels = npt.NDArray[np.uint8]


def texture(*shape: int, seed: int = 0) -> Pixels:
    """A picture of ``shape`` with what pictures have: gradients, an edge, texture and noise."""
    generator = np.random.default_rng(seed)
    height, width = shape[:2]
    y, x = np.mgrid[:height, :width]
    tilt, wave = generator.uniform(0.3, 1.5, 2)
    plane = 60 + 70 * (y + tilt * x) / (height + tilt * width) + 15 * np.sin(wave * x + 0.4 * y)
    plane += 60 * (x + y > generator.uniform(0.3, 0.8) * (height + width))
    channels = 1 if len(shape) == 2 else shape[2]
    shift = generator.uniform(-30, 30, channels)
    pixels = plane[..., None] + shift + generator.normal(0, 3, (height, width, channels))
    return np.clip(pixels, 0, 255).astype(np.uint8).reshape(shape)


def sample(name: str, height: int, width: int, top: int = 0, left: int = 0) -> Pixels:
    """A part of one of the sample photographs, RGB."""
    with Image.open(ROOT / "samples" / f"{name}.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))[top : top + height, left : left + width]
    assert pixels.shape == (height, width, 3)
    return pixels


@st.composite
def pictures(draw: st.DrawFn, max_side: int = 70) -> Pixels:
    """Pictures of every mode and of 1 x 1 pixels upwards, from flat to noise."""
    height, width = draw(st.integers(1, max_side)), draw(st.integers(1, max_side))
    shape = (height, width, *draw(st.sampled_from([(), (2,), (3,), (4,)])))
    seed = draw(st.integers(0, 99))
    kind = draw(st.sampled_from(["texture", "noise", "flat", "black and white"]))
    generator = np.random.default_rng(seed)
    if kind == "texture":
        return texture(*shape, seed=seed)
    if kind == "noise":
        return generator.integers(0, 256, shape, np.uint8)
    if kind == "flat":
        return np.full(shape, generator.integers(0, 256), np.uint8)
    return (255 * generator.integers(0, 2, shape)).astype(np.uint8)


def complete_system(seed: int = 0) -> System:
    """All 63 measurements, by cosines of different lengths, and a dictionary of 96 atoms."""
    generator = np.random.default_rng(seed)
    cosines = cosine_basis()[1:].astype(np.float64)
    phi = cosines * np.geomspace(1, 0.2, 63)[:, None]
    more = cosines.T @ (generator.normal(size=(63, 33)) / np.arange(1, 64)[:, None])
    psi = np.concatenate([cosines.T, more / np.linalg.norm(more, axis=0)], axis=1)
    return System.from_matrices(phi, psi)


@lru_cache(maxsize=1)
def plain_model() -> Model:
    """Neutral tables, no filters; luma and chroma differ."""
    return Model("plain", complete_system(0), complete_system(1))


@lru_cache(maxsize=1)
def odd_model() -> Model:
    """Random tables, filters and lappings within what their types and :class:`Model` allow."""
    generator = np.random.default_rng(7)
    tables = {}
    for name, array in neutral_tables().as_mapping().items():
        span = np.iinfo(array.dtype)
        most = WIDEST.get(name.partition("_")[0])
        low, high = (-most, most) if most else (span.min, span.max)
        tables[name] = generator.integers(low, high, array.shape, array.dtype, endpoint=True)
    filters = {
        name: generator.integers(-150, 151, filter_shape()).astype(np.int16)
        for name in ("luma", "chroma")
    }
    luma, chroma = (
        complete_system(seed).with_lapping(np.linalg.qr(generator.normal(size=(4, 4)))[0])
        for seed in (2, 3)
    )
    return Model("odd", luma, chroma, tables, filters)


def split_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Kinds and payloads of a valid file's chunks; written again here, to check the codec's own."""
    chunks, position = [], START
    while position < len(data):
        kind, length, shift = data[position : position + 1], 0, 0
        position += 1
        while True:
            byte = data[position]
            position += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        chunks.append((kind, data[position : position + length]))
        position += length + 4
    assert position == len(data)
    return chunks


def join_chunks(start: bytes, chunks: list[tuple[bytes, bytes]]) -> bytes:
    """Inverse of :func:`split_chunks`; ``start`` is signature and version. Checksums are right."""
    return start + b"".join(one_chunk(kind, payload) for kind, payload in chunks)


def one_chunk(kind: bytes, payload: bytes) -> bytes:
    length = len(payload)
    digits = []
    while True:
        digits.append(length & 127 | (128 if length > 127 else 0))
        length >>= 7
        if not length:
            break
    return kind + bytes(digits) + payload + zlib.crc32(kind + payload).to_bytes(4, "big")
