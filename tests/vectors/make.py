"""Write the test vectors that are missing; existing ones are never overwritten.

Files of today must be read tomorrow, so these are kept, not made again: to change one on purpose,
delete it first and say why. In ``valid/`` each ``.csc`` has beside it the pictures that it stands
for, as ``NAME.DECODER.png``. In ``invalid/`` a name begins with the error that a reader must raise.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parents[1])]  # when run as a script

from strategies import START, Pixels, join_chunks, one_chunk, sample, split_chunks  # noqa: E402

import cscodec  # noqa: E402
from cscodec.bitstream.container import HEADER  # noqa: E402

Chunks = list[tuple[bytes, bytes]]
FIELDS = [
    "width",
    "height",
    "channels",
    "flags",
    "coder_id",
    "measurements",
    "step_code",
    "chroma_step_code",
    "zero_cell",
    "model_id",
]
ALL_DECODERS = ("refine", "consistent", "linear", "omp")


def picture(mode: str, height: int = 43, width: int = 61) -> Pixels:
    """A part of a photograph; alpha is a ramp with noise."""
    colours = sample("gates", height, width, 180, 120)
    alpha = np.add.outer(3 * np.arange(height), np.arange(width)) * 7 % 256
    channels = {"gray": colours[..., 1:2], "rgb": colours}[mode.removesuffix("a")]
    if mode.endswith("a"):
        channels = np.dstack([channels, alpha.astype(np.uint8)])
    return channels[..., 0] if mode == "gray" else channels


#: What each valid file is made of.
SOURCES: dict[str, Callable[[], Pixels]] = {
    "gray": partial(picture, "gray"),
    "gray-1x1": partial(picture, "gray", 1, 1),
    "gray-alpha": partial(picture, "graya"),
    "gray-two-tiles": partial(picture, "gray", 20, 530),
    "gray-flat": lambda: np.full((30, 50), 77, np.uint8),
    "rgb-420": partial(picture, "rgb"),
    "rgb-444": partial(picture, "rgb"),
    "rgb-lowest-quality": partial(picture, "rgb"),
    "rgb-finest-step": partial(picture, "rgb", 20, 20),
    "rgb-rounded": partial(picture, "rgb"),
    "rgb-7-measurements": partial(picture, "rgb"),
    "rgb-paper-model": partial(picture, "rgb"),
    "rgb-metadata": partial(picture, "rgb", 16, 16),
    "rgb-unknown-ancillary-chunks": partial(picture, "rgb", 16, 16),
    "rgba": partial(picture, "rgba"),
}

#: How it is made; by default quality 75 and the default model.
OPTIONS: dict[str, dict[str, Any]] = {
    "rgb-420": {"quality": 50, "subsampling": "4:2:0"},
    "rgb-444": {"quality": 90, "subsampling": "4:4:4"},
    "rgb-lowest-quality": {"quality": 0},
    "rgb-finest-step": {"step": 0.25},
    "rgb-rounded": {"effort": 0},
    "rgb-7-measurements": {"measurements": 7},
    "rgb-paper-model": {"model": "paper-m20"},
    "rgb-metadata": {"icc_profile": b"profile" * 30, "exif": b"Exif\0\0", "xmp": b"<x/>"},
}
DECODERS = dict.fromkeys(("gray", "rgb-420", "rgb-444", "rgb-paper-model"), ALL_DECODERS)


def decoders(name: str) -> tuple[str, ...]:
    return DECODERS.get(name, ("refine",))


@lru_cache
def valid(name: str) -> bytes:
    """The file of a valid case."""
    data = cscodec.encode(SOURCES[name](), **OPTIONS.get(name, {}))
    if name == "rgb-unknown-ancillary-chunks":
        chunks = split_chunks(data)
        for at in (1, 3, len(chunks) + 2):
            chunks.insert(at, (b"q", b"from the future"))
        data = join_chunks(data[:START], chunks)
    return data


def expected(name: str, decoder: Any) -> bytes:
    """The picture that a decoder restores, as a PNG file."""
    stream = io.BytesIO()
    Image.fromarray(cscodec.decode(valid(name), decoder=decoder)).save(stream, "PNG")
    return stream.getvalue()


@lru_cache
def base() -> bytes:
    """The file that invalid ones are made of: of two layers, with metadata."""
    return cscodec.encode(picture("rgb", 16, 20), measurements=5, exif=b"exif")


def with_header(**changes: int) -> bytes:
    """Exchange fields of the header; its checksum is right."""
    chunks = split_chunks(base())
    fields = dict(zip(FIELDS, HEADER.unpack(chunks[0][1]), strict=True))
    chunks[0] = (b"H", HEADER.pack(*(fields | changes).values()))
    return join_chunks(base()[:START], chunks)


def with_chunks(change: Callable[[Chunks], Chunks]) -> bytes:
    return join_chunks(base()[:START], change(split_chunks(base())))


def with_byte(position: int, change: int) -> bytes:
    data = bytearray(base())
    data[position] ^= change
    return bytes(data)


def with_long_length() -> bytes:
    """Write the length of the last chunk in one byte more than it takes."""
    chunks = split_chunks(base())
    last = one_chunk(*chunks[-1])
    return join_chunks(base()[:START], chunks[:-1]) + last[:1] + b"\x84\x00" + last[2:]


def with_alpha_of_another_size() -> bytes:
    data, other = (cscodec.encode(picture("graya", side, 16)) for side in (16, 17))
    chunks = split_chunks(data)
    alpha = dict(split_chunks(other))[b"A"]
    return join_chunks(data[:START], [(k, alpha if k == b"A" else p) for k, p in chunks])


INVALID: dict[str, Callable[[], bytes]] = {
    "BadMagicError-empty": lambda: b"",
    "BadMagicError-png": lambda: b"\x89PNG\r\n\x1a\n" + bytes(20),
    "BadMagicError-seven-bits": lambda: with_byte(0, 0x80),
    "BadMagicError-text-mode": lambda: base().replace(b"\r\n", b"\n"),
    "UnsupportedVersionError-version": lambda: with_byte(7, 0x40),
    "UnsupportedVersionError-coder": lambda: with_header(coder_id=200),
    "UnsupportedVersionError-critical-chunk": lambda: with_chunks(
        lambda chunks: [chunks[0], (b"Q", b"new"), *chunks[1:]]
    ),
    "TruncatedError-signature": lambda: base()[:5],
    "TruncatedError-header": lambda: base()[:20],
    "TruncatedError-last-byte": lambda: base()[:-1],
    "TruncatedError-no-segments": lambda: with_chunks(lambda chunks: chunks[:1]),
    "TruncatedError-trailing-byte": lambda: base() + b"\0",
    "ChecksumError-header": lambda: with_byte(13, 0x01),
    "ChecksumError-last-chunk": lambda: with_byte(-1, 0x10),
    "InvalidFieldError-width-0": lambda: with_header(width=0),
    "InvalidFieldError-height-too-large": lambda: with_header(height=1 << 24),
    "InvalidFieldError-channels-5": lambda: with_header(channels=5),
    "InvalidFieldError-reserved-flag": lambda: with_header(flags=0x44),
    "InvalidFieldError-measurements-0": lambda: with_header(measurements=0),
    "InvalidFieldError-measurements-64": lambda: with_header(measurements=64),
    "InvalidFieldError-step-too-fine": lambda: with_header(step_code=15),
    "InvalidFieldError-step-too-coarse": lambda: with_header(step_code=64001),
    "InvalidFieldError-header-second": lambda: with_chunks(
        lambda chunks: [chunks[0], chunks[0], *chunks[1:]]
    ),
    "InvalidFieldError-header-missing": lambda: with_chunks(lambda chunks: chunks[1:]),
    "InvalidFieldError-header-too-long": lambda: with_chunks(
        lambda chunks: [(b"H", chunks[0][1] + b"\0"), *chunks[1:]]
    ),
    "InvalidFieldError-exif-twice": lambda: with_chunks(lambda chunks: [*chunks, chunks[-1]]),
    "InvalidFieldError-exif-without-flag": lambda: with_header(flags=0),
    "InvalidFieldError-length-not-shortest": with_long_length,
    "InvalidFieldError-segment-too-long": lambda: with_chunks(
        lambda chunks: [chunks[0], (b"S", chunks[1][1] + b"\0"), *chunks[2:]]
    ),
    "InvalidFieldError-segment-of-noise": lambda: with_chunks(
        lambda chunks: [*chunks[:2], (b"S", bytes(range(1, 200))), *chunks[3:]]
    ),
    "InvalidFieldError-alpha-of-another-size": with_alpha_of_another_size,
    "LimitExceededError-pixels": lambda: with_header(width=1 << 23, height=1 << 23),
    "LimitExceededError-length-of-6-bytes": lambda: base()[:START] + b"H" + b"\x80" * 5 + b"\1",
    "ModelNotFoundError-unknown-model": lambda: with_chunks(
        lambda chunks: [(b"H", chunks[0][1][:-8] + b"no model"), *chunks[1:]]
    ),
}


def vectors() -> dict[str, Callable[[], bytes]]:
    """Path of every vector, and what makes it."""
    made: dict[str, Callable[[], bytes]] = {}
    for name in SOURCES:
        made[f"valid/{name}.csc"] = partial(valid, name)
        for decoder in decoders(name):
            made[f"valid/{name}.{decoder}.png"] = partial(expected, name, decoder)
    for name, make in INVALID.items():
        made[f"invalid/{name}.csc"] = make
    return made


def write_missing(folder: Path = FOLDER) -> list[str]:
    """Write the vectors that are not there; return their paths."""
    written = []
    for name, make in vectors().items():
        path = folder / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(make())
            written.append(name)
    return written


if __name__ == "__main__":
    print("\n".join(write_missing()) or "all vectors are there already")
