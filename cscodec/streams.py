"""Streams of unknown length, read up to a limit."""

from __future__ import annotations

from typing import IO

_PIECE = 1 << 20  # read at once


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
