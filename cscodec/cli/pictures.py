"""Pictures one after the other, for commands that measure; one that fails does not stop them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cscodec.cli import batch, console, files
from cscodec.cli.plan import Inputs, expand
from cscodec.errors import CscodecError

if TYPE_CHECKING:
    from cscodec.arrays import Pixels


def find(inputs: Sequence[str], recursive: bool) -> Inputs:
    """List the pictures that inputs name."""
    from cscodec.images import PICTURE_SUFFIXES

    return expand(inputs, PICTURE_SUFFIXES, recursive)


def for_each(
    found: Inputs, work: Callable[[str, Pixels], None], *, label: str, max_pixels: int
) -> list[console.Exit]:
    """Read each picture and hand it on; return the codes of what failed."""
    from cscodec.images import read_picture

    batch.say_left_out(found.left_out)
    failures = batch.codes(batch.say_refused(found.refused))
    for source, _ in console.with_progress(found.files, len(found.files), label):
        try:
            opened = files.picture_source(source, max_pixels)
            work(source, read_picture(opened, max_pixels=max_pixels).pixels)
        except (CscodecError, OSError, MemoryError) as error:
            console.say(console.reason(error, source))
            failures.append(console.exit_code(error))
    return failures
