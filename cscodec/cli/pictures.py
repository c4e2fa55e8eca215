"""Pictures one after the other, for commands that measure; one that fails does not stop them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cscodec.cli import console, files
from cscodec.errors import CscodecError

if TYPE_CHECKING:
    from cscodec.arrays import Pixels


def find(inputs: Sequence[str], recursive: bool) -> list[str]:
    """List the pictures that inputs name."""
    from cscodec.images import PICTURE_SUFFIXES

    return [source for source, _ in files.expand(inputs, PICTURE_SUFFIXES, recursive)]


def for_each(
    sources: Sequence[str],
    work: Callable[[str, Pixels], None],
    *,
    label: str,
    max_pixels: int,
) -> list[console.Exit]:
    """Read each picture and hand it on; return the codes of those that failed."""
    from cscodec.images import read_picture

    failures = []
    for source in console.with_progress(sources, len(sources), label):
        try:
            stream = files.standard_input() if source == files.STREAM else source
            work(source, read_picture(stream, max_pixels=max_pixels).pixels)
        except (CscodecError, OSError, MemoryError) as error:
            console.say(console.reason(error, source))
            failures.append(console.exit_code(error))
    return failures
