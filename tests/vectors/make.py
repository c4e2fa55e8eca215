"""Write the test vectors that are missing; existing ones are never overwritten.

Files of today must be read tomorrow, so these are kept, not made again. In ``valid/`` each ``.csc``
has beside it what every later version must find in it: a hash of its values, ``NAME.values``, and
the pixels of decoder ``linear``, ``NAME.linear.png``. In ``invalid/`` a name begins with the error
that a reader must raise.

``snapshots.json`` is another thing: hashes of what today's encoder writes and today's decoders
restore. A better encoder or restoration changes them; ``--renew-snapshots`` writes them again.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parents[1])]  # when run as a script

from strategies import EXIF, START, Pixels, join_chunks, one_chunk, sample, split_chunks  # noqa: E402

import cscodec  # noqa: E402
from cscodec.bitstream.container import HEADER, unpack  # noqa: E402
from cscodec.bitstream.tiles import decode_tile  # noqa: E402
from cscodec.choices import DECODERS  # noqa: E402
from cscodec.model import find_model  # noqa: E402

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
    "tilt_code",
    "chroma_tilt_code",
    "zero_cell",
    "model_id",
]


def picture(mode: str, height: int = 43, width: int = 61) -> Pixels:
    """A part of a photograph; alpha is a ramp with noise."""
    colours = sample("gates", height, width, 180, 120)
    alpha = np.add.outer(3 * np.arange(height), np.arange(width)) * 7 % 256
    channels = {"gray": colours[..., 1:2], "rgb": colours}[mode.removesuffix("a")]
    if mode.endswith("a"):
        channels = np.dstack([channels, alpha.astype(np.uint8)])
    return channels[..., 0] if mode == "gray" else channels


def blocks() -> Pixels:
    """40 x 48 pixels that jump at the borders of patches, as files of JPEG do."""
    jumps = np.add.outer(np.arange(5), np.arange(6)) % 2 * 120
    return np.kron(jumps, np.ones((8, 8))).astype(np.uint8)


#: What each valid file is made of.
SOURCES: dict[str, Callable[[], Pixels]] = {
    "gray": partial(picture, "gray"),
    "gray-1x1": partial(picture, "gray", 1, 1),
    "gray-alpha": partial(picture, "graya"),
    "gray-two-tiles": partial(picture, "gray", 20, 530),
    "gray-large-tile": partial(picture, "gray", 20, 530),
    "gray-flat": lambda: np.full((30, 50), 77, np.uint8),
    "gray-unlapped": lambda: blocks() + picture("gray", 40, 48) // 16,
    "rgb-420": partial(picture, "rgb"),
    "rgb-444": partial(picture, "rgb"),
    "rgb-two-rows-of-tiles": lambda: np.tile(picture("rgb", 43, 20), (13, 1, 1))[:530],
    "rgb-two-large-tiles": lambda: np.tile(picture("rgb", 20, 61), (1, 18, 1)),
    "rgb-psnr": partial(picture, "rgb"),
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
    "gray-large-tile": {"quality": 50, "effort": 2},
    "rgb-420": {"quality": 50, "subsampling": "4:2:0"},
    "rgb-444": {"quality": 90, "subsampling": "4:4:4"},
    "rgb-two-rows-of-tiles": {"quality": 40},
    "rgb-two-large-tiles": {"quality": 20, "effort": 2},
    "rgb-psnr": {"quality": 60, "tune": "psnr"},
    "rgb-lowest-quality": {"quality": 0},
    "rgb-finest-step": {"step": 0.25},
    "rgb-rounded": {"effort": 0},
    "rgb-7-measurements": {"measurements": 7},
    "rgb-paper-model": {"model": "paper-m20"},
    "rgb-metadata": {"icc_profile": b"profile" * 30, "exif": EXIF, "xmp": b"<x/>"},
}


@lru_cache
def encoded(name: str, workers: int | None = None) -> bytes:
    """The file of a valid case, as the encoder of today writes it."""
    source, options = SOURCES[name](), OPTIONS.get(name, {})
    data = cscodec.encode(source, **options, workers=workers)
    if name == "rgb-unknown-ancillary-chunks":
        chunks = split_chunks(data)
        for at in (1, 3, len(chunks) + 2):
            chunks.insert(at, (b"q", b"from the future"))
        data = join_chunks(data[:START], chunks)
    return data


def linear_picture(name: str) -> bytes:
    """The pixels of decoder ``linear``, as a PNG file."""
    stream = io.BytesIO()
    Image.fromarray(cscodec.decode(encoded(name), decoder="linear")).save(stream, "PNG")
    return stream.getvalue()


def hash_of_values(data: bytes) -> bytes:
    """SHA-256 of a file's quantised measurements by tile and plane, 16 bits each, little-endian."""
    parts = unpack(data)
    tables = find_model(parts.header.model_id).coder_tables
    digest = hashlib.sha256()
    for tile in range(parts.header.num_tiles):
        segments = [layer[tile] for layer in parts.segments]
        grids = parts.header.patch_grids(tile)
        for plane in decode_tile(segments, grids, tables, measurements=parts.header.measurements):
            digest.update(plane.astype("<i2").tobytes())
    return digest.hexdigest().encode() + b"\n"


def kept(name: str) -> bytes:
    """A valid file as it is kept."""
    return (FOLDER / f"valid/{name}.csc").read_bytes()


def snapshots(
    files: Callable[[str], bytes], workers: int | None = None
) -> dict[str, dict[str, str]]:
    """Hashes of what the encoder writes, and of what decoders make of ``files``."""
    found: dict[str, dict[str, str]] = {}
    for name in SOURCES:
        found[name] = {"file": hashlib.sha256(encoded(name, workers)).hexdigest()[:16]}
        for decoder in DECODERS:
            pixels = cscodec.decode(files(name), decoder=decoder, workers=workers)
            found[name][decoder] = hashlib.sha256(pixels.tobytes()).hexdigest()[:16]
    return found


@lru_cache
def base() -> bytes:
    """The file that invalid ones are made of: of two layers, with metadata."""
    return cscodec.encode(picture("rgb", 16, 20), exif=EXIF, measurements=5)


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
        made[f"valid/{name}.csc"] = partial(encoded, name)
        made[f"valid/{name}.values"] = lambda name=name: hash_of_values(encoded(name))  # type: ignore[misc]
        made[f"valid/{name}.linear.png"] = partial(linear_picture, name)
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


def renew_snapshots() -> None:
    """Write ``snapshots.json`` anew, for the files that are kept."""
    found = snapshots(kept)
    text = json.dumps(found, indent=1) + "\n"
    (FOLDER / "snapshots.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    print("\n".join(write_missing()) or "all vectors are there already")
    if "--renew-snapshots" in sys.argv[1:]:
        renew_snapshots()
