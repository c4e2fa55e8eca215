"""Pictures one after the other, or on a cluster, for commands that measure.

One that fails does not stop them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from cscodec.cli import batch, console, files
from cscodec.cli.plan import Inputs, expand
from cscodec.errors import CscodecError
from cscodec.locations import absolute

if TYPE_CHECKING:
    from cscodec.arrays import Pixels

Result = TypeVar("Result")


def find(inputs: Sequence[str], recursive: bool) -> Inputs:
    """List the pictures that inputs name."""
    from cscodec.images import PICTURE_SUFFIXES

    return expand(inputs, PICTURE_SUFFIXES, recursive)


def for_each(
    found: Inputs,
    work: Callable[[str, Pixels], Result],
    *,
    label: str,
    max_pixels: int,
    scheduler: str | None = None,
) -> tuple[list[Result], list[console.Exit]]:
    """Read each picture and hand it on; return what comes of them, and the codes of what failed.

    Parameters
    ----------
    scheduler : str or None
        Where to read and work, as `open_scheduler` takes it, instead of in this process; ``work``
        must be picklable then. Results come in the order of the pictures all the same.
    """
    batch.say_left_out(found.left_out)
    failures = batch.codes(batch.say_refused(found.refused))
    sources = [source for source, _ in found.files]
    outcomes = (
        (_attempt(work, source, max_pixels) for source in sources)
        if scheduler is None
        else _elsewhere(work, sources, max_pixels, scheduler, label)
    )
    results = []
    for outcome in console.with_progress(outcomes, len(sources), label):
        if "error" in outcome:
            console.say(outcome["error"])
            failures += batch.codes([outcome])
        else:
            results.append(outcome["result"])
    return results, failures


def _attempt(
    work: Callable[[str, Pixels], Any], source: str, max_pixels: int, folder: str | None = None
) -> batch.Record:
    """Work on one picture, whose name holds in a folder if one is given."""
    from cscodec.images import read_picture

    place = source if folder is None else absolute(source, folder)
    try:
        opened = files.picture_source(place, max_pixels)
        return {"result": work(source, read_picture(opened, max_pixels=max_pixels).pixels)}
    except (CscodecError, OSError, MemoryError) as error:
        failed = batch.failure(place, error)
        return {**failed, "input": source, "error": failed["error"].replace(place, source)}


def _elsewhere(
    work: Callable[[str, Pixels], Any],
    sources: Sequence[str],
    max_pixels: int,
    address: str,
    label: str,
) -> Iterator[batch.Record]:
    """Work on pictures by the workers of a scheduler, who may be in another folder than we are."""
    from cscodec.scheduler import open_scheduler

    if files.STREAM in sources:
        raise typer.BadParameter("--scheduler: workers have no standard input")
    with open_scheduler(address) as scheduler:
        shared = scheduler.submit(_itself, work, name="settings")  # sent once: it holds the model
        given = (max_pixels, os.getcwd())
        promises = [
            scheduler.submit(_attempt, shared, source, *given, name=label) for source in sources
        ]
        for source, promise in zip(sources, promises, strict=True):
            try:
                outcome = scheduler.result(promise)
            except CscodecError as error:  # of the scheduler
                outcome = batch.failure(source, error)
            yield outcome


def _itself(work: Any) -> Any:
    return work
