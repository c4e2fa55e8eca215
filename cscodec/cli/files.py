"""Inputs and outputs of a command: which files, read how, and written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import typer

from cscodec.atomic import write_whole
from cscodec.cli.console import OutputExistsError
from cscodec.errors import InvalidInputError

STREAM = "-"  #: standard input or standard output


@dataclass(frozen=True)
class Job:
    """One input and where its output goes."""

    source: str
    target: str


def plan(
    inputs: Sequence[str],
    *,
    input_suffixes: Iterable[str],
    output_suffix: str,
    output: str | None,
    folder: str | None,
    recursive: bool,
    force: bool,
) -> list[Job]:
    """Decide all outputs before any work begins.

    Raises
    ------
    typer.BadParameter
        If the options contradict each other, two inputs would write one output, an output would
        replace an input, or binary data would go to a terminal.
    """
    if "" in (*inputs, output):
        raise typer.BadParameter("'' is not the name of a file")
    if output is not None and (folder is not None or len(inputs) > 1 or recursive):
        raise typer.BadParameter("-o names the output of one input; use -d for several, or for -r")
    if STREAM in inputs and (len(inputs) > 1 or folder is not None):
        raise typer.BadParameter("'-' (standard input) must be the only input, without -d")
    if folder is not None and os.path.exists(folder) and not os.path.isdir(folder):
        raise typer.BadParameter(f"-d {folder}: exists and is not a folder")
    jobs = []
    for source, relative in expand(inputs, input_suffixes, recursive):
        if output is not None:
            target = output
        elif source == STREAM:
            target = STREAM
        else:
            place = Path(folder, relative) if folder is not None else Path(source)
            target = str(place.with_suffix(output_suffix))
        jobs.append(Job(source, target))
    _check_targets(jobs, force)
    return jobs


def expand(
    inputs: Sequence[str], suffixes: Iterable[str], recursive: bool
) -> list[tuple[str, str]]:
    """List the input files, each with its path relative to the folder that it was found in.

    Raises
    ------
    typer.BadParameter
        If an input is a folder and ``recursive`` is not set.
    InvalidInputError
        If a folder holds no file with one of the ``suffixes``.
    """
    from cscodec.images import find_files

    wanted = frozenset(suffixes)
    found = []
    for name in inputs:
        if name == STREAM or not os.path.isdir(name):
            found.append((name, os.path.basename(name)))
        elif not recursive:
            raise typer.BadParameter(f"{name}: is a folder; add -r to take the files in it")
        else:
            files = find_files(name, wanted)
            if not files:
                known = " ".join(sorted(wanted))
                raise InvalidInputError(f"{name}: holds no files to work on ({known})")
            found += [(str(file), str(file.relative_to(name))) for file in files]
    return found


def standard_input() -> IO[bytes]:
    """Return standard input, for bytes.

    Raises
    ------
    InvalidInputError
        If it is closed.
    """
    if sys.stdin is None:
        raise InvalidInputError("standard input is closed")
    return sys.stdin.buffer


def read_bytes(source: str) -> bytes:
    """Read a whole file, or standard input.

    Raises
    ------
    InvalidInputError
        If it cannot be read; the message begins with the name.
    """
    try:
        if source == STREAM:
            return standard_input().read()
        if stat.S_ISCHR(os.stat(source).st_mode):
            raise InvalidInputError(f"{source}: is a device, not a file")
        return Path(source).read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{source}: cannot be read: {error.strerror}") from error


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
    if not force and os.path.lexists(target) and not _is_special(target):
        raise OutputExistsError(f"{target}: exists already; use -f to replace it")


def write_bytes(target: str, data: bytes, force: bool) -> None:
    """Write an output whole or not at all, making the folders above it.

    It is written, flushed to the disk and then given its name; permissions follow the umask, or
    those of the file that is replaced.

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
        elif _is_special(target):  # /dev/null must stay what it is
            Path(target).write_bytes(data)
        else:
            check_target(target, force)
            os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
            write_whole(target, data, replace=force)
    except FileExistsError as error:
        raise OutputExistsError(f"{target}: exists already; use -f to replace it") from error
    except OSError as error:
        name = "standard output" if target == STREAM else target
        raise InvalidInputError(f"{name}: cannot be written: {error.strerror}") from error


def _is_special(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _check_targets(jobs: Sequence[Job], force: bool) -> None:
    sources = {os.path.realpath(job.source) for job in jobs}
    writers: dict[str, str] = {}
    for job in jobs:
        if job.target == STREAM:
            if sys.stdout is not None and sys.stdout.isatty() and not force:
                raise typer.BadParameter(
                    "will not write binary data to a terminal; redirect it, use -o FILE, or -f"
                )
            continue
        if _is_special(job.target):
            continue
        place = os.path.realpath(job.target)
        if place in sources:
            raise typer.BadParameter(f"{job.target}: is an input and an output")
        if place in writers:
            raise typer.BadParameter(
                f"{writers[place]} and {job.source} would both be written to {job.target}; "
                "rename one, or give each its own -o or -d"
            )
        writers[place] = job.source
