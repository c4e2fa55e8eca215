"""The alpha channel, lossless: a gray PNG stream inside the file.

Of a stranger's stream only what makes pixels is read: its chunks IHDR, IDAT and IEND are put
together to a PNG without anything else, and that is given to Pillow's reader of PNG alone.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from cscodec.arrays import Pixels
from cscodec.errors import InvalidFieldError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER_CHUNK, _DATA_CHUNK, _END_CHUNK = b"IHDR", b"IDAT", b"IEND"
_HEADER = struct.Struct(">II5B")
_PIECE = 1024  # bytes inflated at a time: to 1 MiB at most


def pack_alpha(alpha: npt.NDArray[Any]) -> bytes:
    """Return an (H, W) uint8 plane as a PNG stream."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(alpha)).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def unpack_alpha(data: bytes, width: int, height: int) -> Pixels:
    """Inverse of :func:`pack_alpha`; the size is checked before anything is allocated for it.

    Raises
    ------
    InvalidFieldError
        If the stream is not a gray 8-bit PNG of this size.
    """
    kept = [_SIGNATURE]
    for kind, chunk in _chunks(data):
        if kind in (_DATA_CHUNK, _END_CHUNK) or (kind == _HEADER_CHUNK and len(kept) == 1):
            kept.append(chunk)
        elif kind[:1].isupper():
            raise InvalidFieldError(f"the alpha channel has a chunk {kind!r} out of its place")
    _check_header(kept[1][8:-4], width, height)
    _check_samples((chunk[8:-4] for chunk in kept[2:-1]), height * (1 + width))
    try:
        # Not by Image.open: it refuses and warns by a limit of the whole process.
        with PngImageFile(io.BytesIO(b"".join(kept))) as picture:
            return np.array(picture)
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise InvalidFieldError(f"the alpha channel cannot be decoded: {error}") from error


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kinds and bytes of all chunks; the last must be IEND, and end where the data do."""
    if not data.startswith(_SIGNATURE):
        raise InvalidFieldError("the alpha channel is not a PNG stream")
    position, kind = len(_SIGNATURE), b""
    while kind != _END_CHUNK:
        end = position + 12 + int.from_bytes(data[position : position + 4], "big")
        if end > len(data):
            raise InvalidFieldError("the alpha channel's PNG stream is cut short")
        chunk = data[position:end]
        kind = chunk[4:8]
        if zlib.crc32(chunk[4:-4]) != int.from_bytes(chunk[-4:], "big"):
            raise InvalidFieldError(f"the checksum of the alpha channel's chunk {kind!r} is wrong")
        yield kind, chunk
        position = end
    if position != len(data):
        raise InvalidFieldError("the alpha channel goes on after the end of its PNG stream")


def _check_header(header: bytes, width: int, height: int) -> None:
    if len(header) != _HEADER.size:
        raise InvalidFieldError("the alpha channel's PNG stream has no header")
    columns, rows, depth, colours, *methods = _HEADER.unpack(header)
    if (depth, colours) != (8, 0) or any(methods):
        raise InvalidFieldError(
            f"alpha has {depth} bits, colour type {colours} and methods {methods}; allowed is gray "
            "of 8 bits, not interlaced"
        )
    if (columns, rows) != (width, height):
        raise InvalidFieldError(
            f"alpha is {columns} x {rows} pixels large; the picture is {width} x {height}"
        )


def _check_samples(parts: Iterable[bytes], num_bytes: int) -> None:
    """See that ``parts`` inflate to just so many bytes: to Pillow fewer would do."""
    stream, left = zlib.decompressobj(), num_bytes
    pieces = (part[i : i + _PIECE] for part in parts for i in range(0, len(part), _PIECE))
    try:
        for piece in pieces:
            left -= len(stream.decompress(piece))
            if left < 0 or stream.unused_data:
                break
    except zlib.error as error:
        raise InvalidFieldError(f"the alpha channel cannot be inflated: {error}") from error
    if left or not stream.eof or stream.unused_data:
        raise InvalidFieldError(f"the alpha channel does not inflate to {num_bytes} bytes")
