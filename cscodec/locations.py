"""Files and folders by URL: s3://, gs://, memory://, https:// for reading; through fsspec.

fsspec, an extra, is imported where a URL is met, and asks by name for the package that a scheme
needs besides (s3fs, gcsfs). What is written appears whole, as object stores do it, or not at all.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from cscodec.errors import CscodecError, InvalidInputError

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_NOT_BELOW = re.compile(r"(^|/)(\.|/|$)" + r"|[\\:]" * (os.sep == "\\"))
_MISSING = "needs fsspec, which is not installed: pip install 'cscodec[remote]'"


def is_url(name: object) -> bool:
    """Whether a name is a URL, and no path."""
    return isinstance(name, str) and _URL.match(name) is not None


def absolute(name: str, folder: str | None = None) -> str:
    """Return a name that holds in other folders, and on other machines that see the same."""
    return name if is_url(name) else os.path.abspath(os.path.join(folder or os.getcwd(), name))


def join(folder: str, relative: str) -> str:
    """Return the name of a file below a folder."""
    return posixpath.join(folder, relative) if is_url(folder) else os.path.join(folder, relative)


def is_folder(url: str) -> bool:
    """Whether files lie below a URL.

    Raises
    ------
    InvalidInputError
        If it cannot be looked at.
    """
    with _store(url, "read") as (system, path):
        return bool(system.isdir(path))


def list_files(url: str) -> dict[str, int]:
    """Return the sizes of all files below a URL, by their paths relative to it, sorted.

    Left out are hidden files and folders, and what a store may have but no folder: names with an
    empty part, which would begin at the root, or that lead elsewhere on Windows.

    Raises
    ------
    InvalidInputError
        If it cannot be listed.
    """
    with _store(url, "read") as (system, path):
        root = path.rstrip("/") + "/"
        found = {
            str(name).removeprefix(root): int(about.get("size") or 0)
            for name, about in sorted(system.find(path, detail=True).items())
        }
    return {name: size for name, size in found.items() if not _NOT_BELOW.search(name)}


def exists(url: str) -> bool:
    """Whether there is a file.

    Raises
    ------
    InvalidInputError
        If it cannot be looked at.
    """
    with _store(url, "read") as (system, path):
        return bool(system.exists(path))


@contextmanager
def opened(url: str) -> Iterator[IO[bytes]]:
    """Open a file for reading.

    Raises
    ------
    InvalidInputError
        If it cannot be read.
    """
    with _store(url, "read") as (system, path):
        file = system.open(path, "rb")
    with file:
        yield cast("IO[bytes]", _Reader(file, url))


class _Reader:
    """A store's file, whose errors are said like others of the store."""

    def __init__(self, file: IO[bytes], url: str) -> None:
        self._file, self._url = file, url

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, as many or all."""
        with _errors_said(self._url, "read"):
            return self._file.read(size)


def write_whole(url: str, data: bytes, *, replace: bool) -> None:
    """Write a file at once.

    Raises
    ------
    FileExistsError
        If there is one and ``replace`` is not set.
    InvalidInputError
        If it cannot be written.
    """
    if re.match(r"https?://", url, re.IGNORECASE):
        raise InvalidInputError(f"{url}: cannot be written: http is for reading; write elsewhere")
    with _store(url, "written") as (system, path):
        if not replace and system.exists(path):
            raise FileExistsError(url)
        parent = system._parent(path)
        if system.protocol == "memory" and parent:
            system.makedirs(parent, exist_ok=True)
        system.pipe_file(path, data)


@contextmanager
def _store(url: str, what: str) -> Iterator[tuple[Any, str]]:
    """Yield the store that a URL names, and the path in it."""
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError as error:
        raise InvalidInputError(f"{url}: {_MISSING}") from error
    with _errors_said(url, what):
        system, path = url_to_fs(url, use_listings_cache=False)
        yield system, str(path)


@contextmanager
def _errors_said(url: str, what: str) -> Iterator[None]:
    """Say what a store raises in one line."""
    try:
        yield
    except (CscodecError, FileExistsError):
        raise
    except FileNotFoundError as error:
        raise InvalidInputError(f"{url}: cannot be {what}: no such file or bucket") from error
    except PermissionError as error:
        raise InvalidInputError(
            f"{url}: cannot be {what}: no right to do so; look at your credentials"
        ) from error
    except NotImplementedError as error:
        raise InvalidInputError(f"{url}: cannot be {what} by URLs of this kind") from error
    except Exception as error:  # stores have errors of their own
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInputError(f"{url}: cannot be {what} ({reason})") from error
