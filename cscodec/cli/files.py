"""Inputs and outputs of a command: how they are read, and written whole or not at all."""

from __future__ import annotations

import io
import os
import shutil
import stat
import sys
from contextlib import suppress
from pathlib import Path

import typer

from cscodec.cli import console
from cscodec.cli.console import OutputExistsError
from cscodec.errors import InvalidInputError

STREAM = "-"  #: standard input or standard output
_EXISTS = "exists already; use -f to replace it"


class StandardInput(io.BytesIO):
    """All that came by standard input."""

    name = "standard input"


def opened(source: str) -> str | StandardInput:
    """Return the path of a file as it is, or what came by standard input.

    Raises
    ------
    InvalidInputError
        If standard input is closed, or cannot be read.
    """
    return StandardInput(read_bytes(source)) if source == STREAM else source


def size(source: str | StandardInput) -> int:
    """Bytes of what `opened` returned."""
    return os.path.getsize(source) if isinstance(source, str) else len(source.getbuffer())


def read_bytes(source: str) -> bytes:
    """Read a whole file, or standard input.

    Raises
    ------
    InvalidInputError
        If it cannot be read; the message begins with the name.
    """
    try:
        if source != STREAM:
            check_source(source)
            return Path(source).read_bytes()
        if sys.stdin is None:
            raise InvalidInputError("standard input is closed")
        return sys.stdin.buffer.read()
    except OSError as error:
        name = console.name_of(source)
        raise InvalidInputError(f"{name}: cannot be read: {error.strerror}") from error


def check_source(source: str) -> None:
    """Refuse early what `read_bytes` would refuse.

    Raises
    ------
    InvalidInputError
        If there is no such file, or it is a device.
    """
    if source == STREAM:
        return
    try:
        if stat.S_ISCHR(os.stat(source).st_mode):
            raise InvalidInputError(f"{source}: is a device, not a file")
    except OSError as error:
        raise InvalidInputError(f"{source}: cannot be read: {error.strerror}") from error


def exists(target: str) -> bool:
    """Whether an output is there already, which devices and pipes never are."""
    return target != STREAM and os.path.lexists(target) and not is_special(target)


def is_special(path: str) -> bool:
    """Whether a path is that of a device or a pipe."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


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
    if os.path.isdir(target):
        raise InvalidInputError(f"{target}: is a folder; name a file, or use -d")
    for parent in Path(target).parents:
        if parent.exists():
            if not parent.is_dir():
                raise InvalidInputError(f"{target}: cannot be written: {parent} is not a folder")
            break
    if not force and exists(target):
        raise OutputExistsError(f"{target}: {_EXISTS}")


def write_bytes(target: str, data: bytes, force: bool) -> None:
    """Write an output whole or not at all, making the folders above it.

    A temporary file beside the output is written, flushed to the disk and then given its name.
    Permissions follow the umask, or those of the file that is replaced.

    Raises
    ------
    OutputExistsError
        If the output exists and ``force`` is not set.
    InvalidInputError
        If it cannot be written; nothing is left behind.
    """
    try:
        if target == STREAM:
            if sys.stdout is None:
                raise InvalidInputError("standard output is closed")
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        elif is_special(target):  # /dev/null must stay what it is
            Path(target).write_bytes(data)
        else:
            check_target(target, force)
            _write_atomically(os.path.realpath(target), data, force)
    except OSError as error:
        name = "standard output" if target == STREAM else target
        raise InvalidInputError(f"{name}: cannot be written: {error.strerror}") from error


def copy_times(source: str, target: str) -> None:
    """Give a file that was written the times of another; streams and devices have none."""
    if STREAM in (source, target) or is_special(target):
        return
    times = os.stat(source)
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _write_atomically(target: str, data: bytes, force: bool) -> None:
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".cscodec-{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if force:
            with suppress(FileNotFoundError):
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
        else:
            _publish(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _publish(temporary: str, target: str) -> None:
    # A link fails where a rename would replace a file that appeared since we looked.
    try:
        os.link(temporary, target)
    except FileExistsError as error:
        raise OutputExistsError(f"{target}: {_EXISTS}") from error
    except OSError:  # a file system without hard links
        os.replace(temporary, target)
