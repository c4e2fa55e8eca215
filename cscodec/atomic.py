"""Files that appear whole or not at all, whatever becomes of the process meanwhile.

Where the system can (Linux), what is written has no name until it is whole, so that not even a
process that is killed leaves anything behind. Elsewhere it has a hidden name beside its place.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

_NAMELESS = getattr(os, "O_TMPFILE", 0) if os.path.isdir("/proc/self/fd") else 0
_hidden: set[str] = set()  #: names of what is being written just now


@contextmanager
def whole_file(path: str | os.PathLike[str], *, replace: bool) -> Iterator[IO[bytes]]:
    """Open a file for writing; at the end it is flushed to the disk and then given its name.

    Its permissions follow the umask, or are those of the file that it replaces. Of two processes
    that write one file, one wins.

    Raises
    ------
    FileExistsError
        At the end, if there is one and ``replace`` is not set.
    OSError
        If it cannot be written; nothing is left behind.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    hidden = os.path.join(folder, f".cscodec-{digest}.partial")
    nameless = _open_nameless(folder)
    if nameless is None:
        hidden += f"-{os.urandom(8).hex()}"
    _hidden.add(hidden)
    try:
        with nameless or open(hidden, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if nameless:
                _name(nameless, target, hidden, replace)
        if not nameless:
            _rename(target, hidden, replace)
    finally:
        if not nameless:
            with suppress(FileNotFoundError):
                os.unlink(hidden)
        _hidden.discard(hidden)


def write_whole(path: str | os.PathLike[str], data: bytes, *, replace: bool) -> None:
    """Write a file at once: see :func:`whole_file`."""
    with whole_file(path, replace=replace) as file:
        file.write(data)


def remove_hidden() -> None:
    """Remove what is being written, in a process that ends at once."""
    for path in tuple(_hidden):
        with suppress(OSError):
            os.unlink(path)


def _open_nameless(folder: str) -> IO[bytes] | None:
    if not _NAMELESS:
        return None
    try:
        return open(os.open(folder, _NAMELESS | os.O_WRONLY, 0o666), "wb")
    except OSError:  # the file system has none; or it will fail in the other way too
        return None


def _name(file: IO[bytes], target: str, hidden: str, replace: bool) -> None:
    if _linked(file, target):
        return
    if not replace:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    _copy_mode(target, file.fileno())
    # Only a rename replaces, so it needs a name first. Always the same one: what a process that was
    # killed just here left of it goes now, and whoever else writes this file replaces it.
    while not _linked(file, hidden):
        with suppress(FileNotFoundError):
            os.unlink(hidden)
    try:
        os.replace(hidden, target)
    except FileNotFoundError:  # another process has just renamed it
        pass
    except OSError:
        os.unlink(hidden)
        raise


def _linked(file: IO[bytes], path: str) -> bool:
    """Give a file a name, if it is free."""
    number = file.fileno()
    try:  # with the descriptor of a folder, which no absolute path needs, Python follows the link
        os.link(f"/proc/self/fd/{number}", path, src_dir_fd=number, follow_symlinks=True)
    except FileExistsError:
        return False
    return True


def _rename(target: str, hidden: str, replace: bool) -> None:
    if not replace:
        try:  # fails where a rename would replace a file that appeared since we looked
            os.link(hidden, target)
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            pass
    with suppress(FileNotFoundError):
        _copy_mode(target, hidden)
    os.replace(hidden, target)


def _copy_mode(source: str, target: str | int) -> None:
    os.chmod(target, stat.S_IMODE(os.stat(source).st_mode))
