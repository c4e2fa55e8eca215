"""What the command line says, and the code it exits with."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from cscodec.errors import BitstreamError, CscodecError, InvalidInputError, ModelError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # what terminals take for orders

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")
_screen: Console | None = None  #: where a progress bar is being drawn


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    FAILED = 1
    USAGE = 2
    OUTPUT_EXISTS = 3
    BAD_STREAM = 4
    BAD_MODEL = 5
    INTERRUPTED = 130


#: What they mean, in words.
MEANINGS = {
    Exit.OK: "all is well",
    Exit.FAILED: "an input or an output failed, or several failed for different reasons",
    Exit.USAGE: "the command line makes no sense; nothing was done with what it concerns",
    Exit.OUTPUT_EXISTS: "an output exists; use -f to replace it, or --skip-existing",
    Exit.BAD_STREAM: "a .csc file is damaged, cut short, or of a newer version",
    Exit.BAD_MODEL: "a model is missing, unusable, or not the one that the file was made with",
    Exit.INTERRUPTED: "interrupted (143 by a termination signal)",
}


class OutputExistsError(CscodecError):
    """An output is there already and may not be replaced."""


class CollisionError(CscodecError):
    """An output that would be that of several inputs, or is an input itself."""


def exit_code(error: BaseException) -> Exit:
    """Return the exit code that an error stands for."""
    if isinstance(error, OutputExistsError):
        return Exit.OUTPUT_EXISTS
    if isinstance(error, CollisionError):
        return Exit.USAGE
    if isinstance(error, BitstreamError):
        return Exit.BAD_STREAM
    if isinstance(error, ModelError):
        return Exit.BAD_MODEL
    return Exit.FAILED


def name_of(source: str) -> str:
    """Return what an input is called in messages."""
    return "standard input" if source == "-" else source


def reason(error: BaseException, source: str = "") -> str:
    """Describe an error in one line that begins with the name of ``source``."""
    if isinstance(error, MemoryError) or "start new thread" in str(error):
        text = "not enough memory; use fewer workers (-j 1), or a machine with more"
    elif isinstance(error, CscodecError):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"{error.filename}: {error.strerror or error}" if error.filename else str(error)
    else:
        text = f"internal error ({type(error).__name__}: {error}); please report it"
    name = name_of(source)
    return text if not name or text.startswith(name) else f"{name}: {text}"


def say(text: str) -> None:
    """Print one line to standard error, whatever characters file names hold."""
    if sys.stderr is None:
        return
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if _screen is None:
        print(f"cscodec: {line}", file=sys.stderr, flush=True)
    else:  # above the progress bar, and as long as it is: whoever copies a path gets it whole
        _screen.print(f"cscodec: {line}", soft_wrap=True, markup=False, highlight=False)


def show(text: str) -> None:
    """Print a result to standard output; control characters, and what it cannot show, are escaped.

    Raises
    ------
    InvalidInputError
        If standard output is closed.
    """
    if sys.stdout is None:
        raise InvalidInputError("standard output is closed")
    text = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def discard_stdout() -> None:
    """Send what is still buffered for standard output nowhere, so that closing it cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_progress(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Pass ``items`` on; draw a progress bar if there is a terminal to draw it on."""
    global _screen
    if total < 2 or sys.stderr is None or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    screen = Console(stderr=True)
    columns = Progress.get_default_columns()
    with Progress(*columns, console=screen, transient=True, redirect_stderr=False) as progress:
        _screen = screen
        try:
            yield from progress.track(items, total, description=label)
        finally:
            _screen = None
