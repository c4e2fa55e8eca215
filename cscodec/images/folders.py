"""Which files of a folder are pictures."""

from __future__ import annotations

import os
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

from cscodec.errors import InvalidInputError
from cscodec.images.reading import PICTURE_SUFFIXES
from cscodec.streams import is_special


@dataclass
class Listing:
    """What lies in a folder and the folders below it, hidden ones left out.

    Attributes
    ----------
    wanted, others : list of Path
        Files with one of the suffixes that were asked for, and the rest; sorted.
    unreadable : list of OSError
        Of the folders that could not be listed.
    """

    wanted: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    unreadable: list[OSError] = field(default_factory=list)


def list_folder(
    folder: str | os.PathLike[str], suffixes: Set[str], recursive: bool = True
) -> Listing:
    """Tell files with these (lower-case) suffixes from all others."""
    listing = Listing()
    for parent, folders, files in os.walk(folder, onerror=listing.unreadable.append):
        folders[:] = [name for name in folders if recursive and not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                path = Path(parent, name)
                known = os.path.splitext(name)[1].lower() in suffixes and not is_special(path)
                (listing.wanted if known else listing.others).append(path)
    listing.wanted.sort()
    listing.others.sort()
    return listing


def find_pictures(folder: str | os.PathLike[str], recursive: bool = True) -> list[Path]:
    """Return the files below ``folder`` whose suffix is a picture's, sorted.

    Hidden files and folders are left out.

    Raises
    ------
    InvalidInputError
        If ``folder`` is not a folder or cannot be read.
    """
    listing = list_folder(folder, PICTURE_SUFFIXES, recursive)
    for error in listing.unreadable:
        raise InvalidInputError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return listing.wanted
