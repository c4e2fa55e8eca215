"""Boxes, of which JPEG 2000, AVIF and HEIF files are made: wherever they are."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

_MOST_BOXES = 10_000  #: of a file made to keep a reader busy
_MOST_BYTES = 1 << 26  #: of a box whose content is asked for


class Box(NamedTuple):
    """Kind of a box, and where its content begins and ends."""

    kind: bytes
    start: int
    end: int


def boxes(file: IO[bytes], start: int = 0, end: int | None = None) -> Iterator[Box]:
    """Yield the boxes that lie between two places of a file; stop where there is none."""
    end = file.seek(0, 2) if end is None else end
    for _ in range(_MOST_BOXES):
        file.seek(start)
        header = file.read(16)
        if start + 8 > end or len(header) < 8:
            return
        size, kind = struct.unpack_from(">I4s", header)
        content = start + 8
        if size == 1 and len(header) == 16:
            (size,) = struct.unpack_from(">Q", header, 8)
            content += 8
        last = end if size == 0 else start + size
        if not content <= last <= end:
            return
        yield Box(kind, content, last)
        start = last


def boxes_within(file: IO[bytes], *path: tuple[bytes, int]) -> Iterator[Box]:
    """Yield the boxes within boxes: for each level their kind and what their content begins with.

    The second is the number of bytes before the boxes inside.
    """
    places = [(0, file.seek(0, 2))]
    for kind, skipped in path:
        places = [
            (box.start + skipped, box.end)
            for place in places
            for box in boxes(file, *place)
            if box.kind == kind
        ]
    for place in places:
        yield from boxes(file, *place)


def content(file: IO[bytes], box: Box) -> bytes:
    """Return what is in a box, at most 64 MiB."""
    file.seek(box.start)
    return file.read(min(box.end - box.start, _MOST_BYTES))
