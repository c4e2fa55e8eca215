"""Streams of unknown length: which paths are such, and reading up to a limit."""

from __future__ import annotations

import os
from typing import IO

_PIECE = 1 << 20  # read at once


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a device or a pipe."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def read_up_to(stream: IO[bytes], size: int) -> bytes:
    """Return the next bytes of a stream: so many, fewer only if it ends.

    Pipes and sockets may give less than they are asked for.

    Raises
    ------
    TypeError
        If the stream gives something else than bytes.
    """
    data = bytearray()
    while len(data) < size and (piece := memoryview(stream.read(min(_PIECE, size - len(data))))):
        data += piece
    return bytes(data)
