"""Many jobs: in parallel, each on its own; what failed is said at once and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from cscodec.cli import console
from cscodec.cli.files import Job

Record = Mapping[str, Any]


def run(
    jobs: Sequence[Job],
    work: Callable[[Job, int], Record],
    describe: Callable[[Record], str],
    *,
    label: str,
    workers: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Do all jobs, say how each went, and exit with what that amounts to.

    Parameters
    ----------
    work : callable
        (job, workers) -> what to report of it, JSON-able.
    describe : callable
        A report as one line.
    workers : int or None
        Threads in all: as many jobs at a time, and what is left over for each.

    Raises
    ------
    typer.Exit
        If a job failed: with the code of the failure if all failures have the same, else 1.
    """
    from concurrent.futures import ThreadPoolExecutor

    from cscodec.parallel import available_workers, parallel_map

    workers = available_workers() if workers is None else workers
    at_a_time = max(1, min(len(jobs), workers))
    failures: list[console.Exit] = []
    records: list[Record] = []

    def attempt(job: Job) -> tuple[Job, Record | Exception]:
        try:
            return job, work(job, workers // at_a_time)
        except Exception as error:  # whatever it is, the other files shall not suffer for it
            return job, error

    with ThreadPoolExecutor(at_a_time) as pool:
        results = parallel_map(attempt, jobs, at_a_time, pool if at_a_time > 1 else None)
        for job, result in console.with_progress(results, len(jobs), label):
            if isinstance(result, Exception):
                code = console.exit_code(result)
                failures.append(code)
                text = console.reason(result, job.source)
                console.say(text)
                result = {"input": job.source, "error": text, "exit_code": int(code)}
            elif not (quiet or as_json):
                console.say(describe(result))
            records.append(result)
    if as_json:
        show_json(records)
    if len(jobs) > 1 and failures:
        console.say(f"{len(failures)} of {len(jobs)} files failed")
    finish(failures)


def show_json(value: Any) -> None:
    """Print a value as strict JSON."""
    from cscodec.evaluation.report import json_text

    console.show(json_text(value).rstrip("\n"))


def finish(failures: Sequence[console.Exit]) -> None:
    """Exit with the code that all failures share, or 1 if they differ; return if there are none.

    Raises
    ------
    typer.Exit
        If there are failures.
    """
    if failures:
        raise typer.Exit(failures[0] if len(set(failures)) == 1 else console.Exit.FAILED)
