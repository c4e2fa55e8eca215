"""Inputs and outputs of a command: how they are read, and written whole or not at all."""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer

from cscodec import locations
from cscodec.atomic import whole_file
from cscodec.cli import console
from cscodec.cli.console import OutputExistsError
from cscodec.errors import CscodecError, InvalidInputError
from cscodec.locations import is_url
from cscodec.streams import is_special

if TYPE_CHECKING:
    from cscodec import Info

STREAM = "-"  #: standard input or standard output
_stopped = threading.Event()  #: after an interruption nothing appears that was not told of
_writers: set[object] = set()
_EXISTS = "exists already; use -f to replace it"


class Fetched(io.BytesIO):
    """All that came by standard input, a pipe, or from a URL."""

    def __init__(self, data: bytes, name: str = "standard input") -> None:
        super().__init__(data)
        self.name = name


@contextmanager
def opened(source: str) -> Iterator[IO[bytes]]:
    """Open a file, or standard input, for reading.

    Raises
    ------
    InvalidInputError
        If it cannot be read; the message begins with the name.
    """
    try:
        if is_url(source):
            with locations.opened(source) as file:
                yield file
        elif source != STREAM:
            check_source(source)
            with open(source, "rb") as file:
                yield file
        elif sys.stdin is None:
            raise InvalidInputError("standard input is closed")
        else:
            yield sys.stdin.buffer
    except OSError as error:
        name = console.name_of(source)
        raise InvalidInputError(f"{name}: cannot be read: {error.strerror or error}") from error


def read_stream(source: str, max_pixels: int) -> bytes:
    """Read a .csc file, no further than its header allows.

    Raises
    ------
    InvalidInputError
        If it cannot be read.
    BitstreamError
        If it is none, or claims more than ``max_pixels``.
    """
    from cscodec.bitstream import container

    with opened(source) as stream:
        return container.read(stream, max_pixels=max_pixels)


def inspected(data: bytes, *, allow_partial: bool, max_pixels: int) -> Info:
    """Return what a .csc file says of itself.

    Raises
    ------
    BitstreamError
        If it is none, or damaged; the message says where a part of it can be shown.
    """
    import cscodec
    from cscodec.errors import ChecksumError, TruncatedError

    try:
        return cscodec.info(data, allow_partial=allow_partial, max_pixels=max_pixels)
    except (TruncatedError, ChecksumError) as error:
        try:
            cscodec.info(data, allow_partial=True, max_pixels=max_pixels)
        except CscodecError:
            raise error from None  # nor would that help
        raise type(error)(f"{error}; --allow-partial takes what there is") from error


def picture_source(source: str, max_pixels: int) -> str | Fetched:
    """Return the path of a picture as it is, or what came by standard input, a pipe or from a URL.

    Raises
    ------
    InvalidInputError
        If that cannot be read.
    """
    from cscodec.images import stream_bytes

    if source != STREAM and not is_url(source) and not is_special(source):
        return source
    with opened(source) as stream:
        return Fetched(stream_bytes(stream, max_pixels), console.name_of(source))


def size(source: str | Fetched) -> int:
    """Bytes of what `picture_source` returned."""
    return os.path.getsize(source) if isinstance(source, str) else len(source.getbuffer())


def check_source(source: str) -> None:
    """Refuse what is no file, as early as one likes.

    Raises
    ------
    InvalidInputError
        If there is no such file, or it is a device.
    """
    if source == STREAM:
        return
    if is_url(source):
        if not locations.exists(source):
            raise InvalidInputError(f"{source}: cannot be read: no such file")
        return
    try:
        if stat.S_ISCHR(os.stat(source).st_mode):
            raise InvalidInputError(f"{source}: is a device, not a file")
    except OSError as error:
        raise InvalidInputError(f"{source}: cannot be read: {error.strerror or error}") from error


def exists(target: str) -> bool:
    """Whether an output is there already, which devices and pipes never are."""
    if is_url(target):
        return locations.exists(target)
    return target != STREAM and os.path.lexists(target) and not is_special(target)


def check_no_terminal() -> None:
    """Refuse to send what is not text to a terminal.

    Raises
    ------
    typer.BadParameter
        If standard output is one.
    """
    if sys.stdout is not None and sys.stdout.isatty():
        raise typer.BadParameter(
            "will not write binary data to a terminal; redirect it, use -o FILE, or -f"
        )


def check_target(target: str, force: bool) -> None:
    """Refuse early what `write_bytes` would refuse after all the work.

    Raises
    ------
    OutputExistsError
        If the output exists, and neither ``force`` is set nor is it a device or a pipe.
    InvalidInputError
        If it is a folder.
    """
    if target == STREAM:
        return
    if is_url(target):
        if not force and exists(target):
            raise OutputExistsError(f"{target}: {_EXISTS}")
        return
    if os.path.isdir(target) or target.endswith(("/", os.sep)):
        raise InvalidInputError(f"{target}: is a folder; name a file, or use -d")
    for parent in Path(target).parents:
        if parent.exists():
            if not parent.is_dir():
                raise InvalidInputError(f"{target}: cannot be written: {parent} is not a folder")
            break
    if not force and exists(target):
        raise OutputExistsError(f"{target}: {_EXISTS}")


def write_bytes(target: str, data: bytes, force: bool) -> None:
    """Write an output at once: see :func:`write_with`."""

    def write(file: IO[bytes]) -> None:
        file.write(data)

    write_with(write, target, force)


def write_with(write: Callable[[IO[bytes]], None], target: str, force: bool) -> None:
    """Have an output written, whole or not at all, making the folders above it.

    It is written, flushed to the disk and then given its name; permissions follow the umask, or
    those of the file that is replaced.

    Raises
    ------
    OutputExistsError
        If the output exists and ``force`` is not set.
    InvalidInputError
        If it cannot be written; nothing is left behind.
    """
    writer = object()
    _writers.add(writer)
    try:
        if _stopped.is_set():
            raise InvalidInputError(f"{target}: was not written before the interruption")
        if target == STREAM:
            if sys.stdout is None:
                raise InvalidInputError("standard output is closed")
            write(sys.stdout.buffer)
            sys.stdout.buffer.flush()
        elif is_url(target):
            whole = io.BytesIO()
            write(whole)
            locations.write_whole(target, whole.getvalue(), replace=force)
        elif is_special(target):  # /dev/null must stay what it is
            with open(target, "wb") as file:
                write(file)
        else:
            check_target(target, force)
            os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
            with whole_file(target, replace=force) as file:
                write(file)
    except FileExistsError as error:
        raise OutputExistsError(f"{target}: {_EXISTS}") from error
    except OSError as error:
        name = "standard output" if target == STREAM else target
        raise InvalidInputError(f"{name}: cannot be written: {error.strerror or error}") from error
    finally:
        _writers.discard(writer)


def allow_writing() -> None:
    """Let files be written, again."""
    _stopped.clear()


def stop_writing(patience_s: float) -> None:
    """Let no further file appear, and wait for those that are being written."""
    _stopped.set()
    deadline = time.monotonic() + patience_s
    while _writers and time.monotonic() < deadline:
        time.sleep(0.002)


def copy_times(source: str, target: str) -> None:
    """Give a file that was written the times of another; streams and devices have none."""
    if STREAM in (source, target) or is_url(source) or is_url(target) or is_special(target):
        return
    times = os.stat(source)
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
