"""Which files a command works on and where each output goes, decided before any work begins.

What cannot be worked on (a folder without files, a folder that cannot be read, two inputs with one
output) is set aside with its reason, and stops nothing else.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import typer

from cscodec import locations
from cscodec.cli import files
from cscodec.cli.console import CollisionError
from cscodec.cli.files import STREAM
from cscodec.errors import CscodecError, InvalidInputError
from cscodec.locations import is_url
from cscodec.streams import is_special

#: What cannot be worked on, and why.
Refusal: TypeAlias = tuple[str, CscodecError]


@dataclass(frozen=True)
class Job:
    """One input and where its output goes."""

    source: str
    target: str


@dataclass(frozen=True)
class Inputs:
    """What a command was given to read.

    Attributes
    ----------
    files : list of (str, str)
        Each with its path relative to the folder that it was found in.
    refused : list of (str, CscodecError)
        Folders that hold nothing, or cannot be read.
    left_out : list of str
        Files in the folders that are of other kinds.
    """

    files: list[tuple[str, str]] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outputs:
    """Where outputs go: to one file, below a folder, or beside their inputs.

    Attributes
    ----------
    suffix : str
        Of every output, in place of the input's; after it with ``keep_suffix``.
    """

    suffix: str
    file: str | None = None
    folder: str | None = None
    keep_suffix: bool = False
    force: bool = False
    skip_existing: bool = False

    def of(self, source: str, relative: str) -> str:
        """Return where the output of an input goes."""
        if self.file is not None:
            return self.file
        if source == STREAM:
            return STREAM
        place = source if self.folder is None else locations.join(self.folder, relative)
        place = place if is_url(place) else str(Path(place))
        return (place if self.keep_suffix else os.path.splitext(place)[0]) + self.suffix


@dataclass(frozen=True)
class Plan:
    """What is to be done, what is done already, what cannot be done, and what was left out."""

    jobs: list[Job]
    skipped: list[Job]
    refused: list[Refusal]
    left_out: list[str]


def expand(inputs: Sequence[str], suffixes: Set[str], recursive: bool) -> Inputs:
    """List the input files: those named, and those with one of the ``suffixes`` in the folders.

    Raises
    ------
    typer.BadParameter
        If an input is a folder and ``recursive`` is not set.
    """
    from cscodec.images import list_folder

    found = Inputs()
    for name in inputs:
        is_folder = locations.is_folder if is_url(name) else os.path.isdir
        if name == STREAM or not is_folder(name):
            found.files.append((name, os.path.basename(name)))
            continue
        if not recursive:
            raise typer.BadParameter(f"{name}: is a folder; add -r to take the files in it")
        if is_url(name):
            _expand_url(name, suffixes, found)
            continue
        listing = list_folder(name, suffixes)
        found.files.extend((str(file), str(file.relative_to(name))) for file in listing.wanted)
        found.left_out.extend(map(str, listing.others))
        for error in listing.unreadable:
            reason = InvalidInputError(f"{error.filename}: cannot be read: {error.strerror}")
            found.refused.append((str(error.filename), reason))
        if not listing.wanted and not listing.unreadable:
            found.refused.append((name, _holds_none(name, suffixes)))
    return found


def _expand_url(url: str, suffixes: Set[str], found: Inputs) -> None:
    num_before = len(found.files)
    for relative in locations.list_files(url):
        name = locations.join(url, relative)
        if os.path.splitext(relative)[1].lower() in suffixes:
            found.files.append((name, relative))
        else:
            found.left_out.append(name)
    if len(found.files) == num_before:
        found.refused.append((url, _holds_none(url, suffixes)))


def _holds_none(name: str, suffixes: Set[str]) -> InvalidInputError:
    known = " ".join(sorted(suffixes))
    return InvalidInputError(f"{name}: holds no files to work on ({known})")


def plan(inputs: Sequence[str], suffixes: Set[str], recursive: bool, outputs: Outputs) -> Plan:
    """Decide all outputs.

    Raises
    ------
    typer.BadParameter
        If the options contradict each other, or binary data would go to a terminal.
    """
    _check_options(inputs, recursive, outputs)
    found = expand(inputs, suffixes, recursive)
    jobs = [Job(source, outputs.of(source, relative)) for source, relative in found.files]
    once: dict[tuple[str, str], Job] = {}  # a file that is named twice is worked on once
    for job in jobs:
        once.setdefault((_place(job.source), _place(job.target)), job)
    free, colliding = _without_collisions(list(once.values()), outputs.suffix)
    parts: tuple[list[Job], list[Job]] = [], []
    for job in free:
        if outputs.file is None and not is_url(job.target) and is_special(job.target):
            reason = f"{job.target}: is a device or a pipe; name it with -o if it is meant"
            colliding.append((job.source, InvalidInputError(reason)))
            continue
        parts[outputs.skip_existing and files.exists(job.target)].append(job)
    return Plan(*parts, found.refused + colliding, found.left_out)


def _check_options(inputs: Sequence[str], recursive: bool, outputs: Outputs) -> None:
    file, folder = outputs.file, outputs.folder
    if "" in (*inputs, file):
        raise typer.BadParameter("'' is not the name of a file")
    if file is not None and (folder is not None or len(inputs) > 1 or recursive):
        raise typer.BadParameter("-o names the output of one input; use -d for several, or for -r")
    if file is not None and outputs.keep_suffix:
        raise typer.BadParameter("-o names the output; --keep-suffix has nothing to name")
    if outputs.force and outputs.skip_existing:
        raise typer.BadParameter("-f and --skip-existing exclude each other")
    if STREAM in inputs and (len(inputs) > 1 or folder is not None):
        raise typer.BadParameter("'-' (standard input) must be the only input, without -d")
    if folder is not None and os.path.exists(folder) and not os.path.isdir(folder):
        raise typer.BadParameter(f"-d {folder}: exists and is not a folder")
    if (file or inputs[0]) == STREAM and not outputs.force:
        files.check_no_terminal()


def _place(name: str) -> str:
    return name if name == STREAM or is_url(name) else os.path.realpath(name)


def _without_collisions(jobs: Sequence[Job], suffix: str) -> tuple[list[Job], list[Refusal]]:
    """Set aside inputs that share an output, and outputs that are inputs."""
    sources = {_place(job.source) for job in jobs if job.source != STREAM}
    writers: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        writers[_place(job.target)].append(job)
    free: list[Job] = []
    refused: list[Refusal] = []
    for job in jobs:
        place = _place(job.target)
        if place == _place(job.source) and job.source != STREAM:
            if not is_url(place) and not os.path.lexists(place):
                free.append(job)  # and when it is read, that is what is said
                continue
            reason = f"{job.source}: is a {suffix} file already; name another output"
        elif place in sources:
            reason = f"{job.target}: is an input and an output"
        elif len(writers[place]) > 1 and not is_special(place):
            others = [other.source for other in writers[place] if other is not job]
            every = "both" if len(others) == 1 else "all"
            differ = len({Path(other.source).name for other in writers[place]}) > 1
            reason = (
                f"{' and '.join([job.source, *others])} would {every} be written to {job.target}; "
                + ("add --keep-suffix, or rename one" if differ else "give each its own -d")
            )
        else:
            free.append(job)
            continue
        refused.append((job.source, CollisionError(reason)))
    return free, refused
