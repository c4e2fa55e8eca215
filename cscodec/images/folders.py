"""Which files of a folder are pictures."""

from __future__ import annotations

import os
from pathlib import Path

from cscodec.errors import InvalidInputError
from cscodec.images.reading import PICTURE_SUFFIXES


def find_pictures(folder: str | os.PathLike[str], recursive: bool = True) -> list[Path]:
    """Return the files below ``folder`` whose suffix is a picture's, sorted.

    Hidden files and folders are left out.

    Raises
    ------
    InvalidInputError
        If ``folder`` is not a folder or cannot be read.
    """
    return find_files(folder, PICTURE_SUFFIXES, recursive)


def find_files(
    folder: str | os.PathLike[str], suffixes: frozenset[str], recursive: bool = True
) -> list[Path]:
    """Like :func:`find_pictures`, for any (lower-case) suffixes."""

    def refuse(error: OSError) -> None:
        raise InvalidInputError(f"{error.filename}: cannot be read: {error.strerror}") from error

    found: list[Path] = []
    for parent, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if recursive and not name.startswith(".")]
        found.extend(
            Path(parent, name)
            for name in files
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in suffixes
        )
    return sorted(found)
