"""Many files: in parallel, each on its own; what becomes of each is said at once, and summed up.

What is done with one file is a picklable callable, and what it reports a record of plain values,
so that any ``concurrent.futures.Executor`` can run it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import typer

from cscodec.cli import console, files
from cscodec.cli.options import format_bytes
from cscodec.cli.plan import Job, Plan, Refusal
from cscodec.errors import CscodecError
from cscodec.locations import absolute

#: What is reported of one file. ``source_bytes`` and ``num_bytes`` are the sizes of input and
#: output, ``warnings`` is a list of lines, and ``error`` and ``exit_code`` are there if it failed.
Record: TypeAlias = Mapping[str, Any]
#: What is done with one file by so many threads. It must be picklable.
Work: TypeAlias = Callable[[Job, int], Record]

_GRACE_S = 0.1  #: how long an interruption waits for files that are nearly done, or being written


@dataclass(frozen=True)
class Reporting:
    """What is said of a batch.

    Attributes
    ----------
    label : str
        Of the progress bar.
    describe : callable
        A record as one line.
    """

    label: str
    describe: Callable[[Record], str]
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False


def run(
    plan: Plan,
    work: Work,
    reporting: Reporting,
    *,
    workers: int | None,
    dry_run: bool,
    force: bool,
    scheduler: str | None = None,
) -> None:
    """Do all jobs, say how each went, and exit with what that amounts to.

    Parameters
    ----------
    workers : int or None
        Threads in all: as many jobs at a time, and what is left over for each.
    dry_run : bool
        Say what would be done instead of doing it.
    force : bool
        Outputs that exist may be replaced.
    scheduler : str or None
        Where to work, as `open_scheduler` takes it, instead of in this process.

    Raises
    ------
    typer.Exit
        If something failed: with the code of the failure if all failures have the same, else 1.
    """
    from cscodec.parallel import available_workers

    report = _Report(plan, reporting)
    workers = available_workers() if workers is None else workers
    at_a_time = max(1, min(len(plan.jobs), workers))
    if dry_run:
        work, at_a_time = _DryRun(force), 1
    report.begin()
    try:
        if scheduler is None or dry_run:
            executor = ThreadPoolExecutor(at_a_time, thread_name_prefix="cscodec-files")
            _run_jobs(plan.jobs, work, workers // at_a_time, executor, report)
        else:
            _run_elsewhere(plan.jobs, work, scheduler, report, force)
    except BaseException as error:
        # Ctrl-C, a termination, or a scheduler that is lost on the way or was never there.
        is_signal = isinstance(error, KeyboardInterrupt | SystemExit)
        report.end(interrupted=is_signal or bool(report.records))
        raise
    report.end()
    finish(report.failures)


def _run_jobs(
    jobs: Sequence[Job], work: Work, workers: int, executor: Executor, report: _Report
) -> None:
    finished: SimpleQueue[Future[Record]] = SimpleQueue()
    futures: dict[Future[Record], Job] = {}
    files.allow_writing()
    try:
        for job in jobs:
            future = executor.submit(attempt, work, job, workers)
            futures[future] = job
            future.add_done_callback(finished.put)
        for _ in console.with_progress(range(len(jobs)), len(jobs), report.words.label):
            future = finished.get()
            report.add(futures[future], _outcome(futures[future], future))
    except BaseException:  # Ctrl-C, or a termination: what was written is told
        executor.shutdown(wait=False, cancel_futures=True)
        wait(futures, _GRACE_S)
        files.stop_writing(_GRACE_S)
        for future in wait(futures, _GRACE_S / 10).done:
            if not future.cancelled():
                report.add(futures[future], future.result())
        raise
    executor.shutdown()


def _outcome(job: Job, future: Future[Record]) -> Record:
    error = future.exception()  # of the scheduler: its own failures are records
    return failure(job.source, error) if isinstance(error, Exception) else future.result()


def _run_elsewhere(
    jobs: Sequence[Job], work: Work, address: str, report: _Report, force: bool
) -> None:
    """Do jobs by the workers of a scheduler.

    Outputs that exist are refused before, so that a worker may replace what another, since lost,
    has written of the same job.
    """
    from cscodec.scheduler import open_scheduler

    free = []
    for job in jobs:
        if files.STREAM in (job.source, job.target):
            raise typer.BadParameter("--scheduler: workers have no standard input and output")
        try:
            files.check_target(job.target, force)
            free.append(job)
        except CscodecError as error:
            report.add(job, failure(job.source, error))
    with open_scheduler(address) as scheduler:
        # It holds the model: workers get it from each other, not with every file.
        shared = scheduler.submit(_Elsewhere, work, os.getcwd(), name="settings")
        _run_jobs(free, shared, 1, scheduler.executor(report.words.label), report)


@dataclass(frozen=True)
class _Elsewhere:
    """What is done for each file by a worker, who may be in another folder than we are."""

    work: Any
    folder: str

    def __call__(self, job: Job, workers: int) -> Record:
        there = Job(*(absolute(name, self.folder) for name in (job.source, job.target)))
        record = replace(self.work, force=True)(there, workers)
        return {**record, "input": job.source, "output": job.target}


def attempt(work: Work, job: Job, workers: int) -> Record:
    """Do one job; whatever goes wrong becomes its record, and no other file suffers for it."""
    try:
        return work(job, workers)
    except Exception as error:
        return failure(job.source, error)


def failure(source: str, error: Exception) -> Record:
    """Return the record of a file that failed."""
    code = console.exit_code(error)
    return {"input": source, "error": console.reason(error, source), "exit_code": int(code)}


@dataclass(frozen=True)
class _DryRun:
    """What is done for each file where nothing is to be done."""

    force: bool

    def __call__(self, job: Job, workers: int) -> Record:
        files.check_source(job.source)
        files.check_target(job.target, self.force)
        return {"input": job.source, "output": job.target, "dry_run": True}


class _Report:
    """What became of the files of a plan, as far as it is known."""

    def __init__(self, plan: Plan, words: Reporting) -> None:
        self.plan = plan
        self.words = words
        self.records: dict[Job, Record] = {}
        self.refused: list[Record] = []
        self.told = not (words.quiet or words.as_json)  # more than what went wrong

    @property
    def failures(self) -> list[console.Exit]:
        """Codes of what failed."""
        return codes([*self.refused, *self.records.values()])

    def begin(self) -> None:
        """Say what was set aside when the work was planned."""
        self.refused = say_refused(self.plan.refused)
        is_only_one = len(self.plan.jobs) + len(self.plan.skipped) == 1  # has no summary
        if self.told and (self.words.verbose or is_only_one):
            for job in self.plan.skipped:
                console.say(f"{job.source}: skipped, {job.target} exists")
        if self.told and self.words.verbose:
            for name in self.plan.left_out:
                console.say(f"{name}: left out, a file of another kind")

    def add(self, job: Job, record: Record) -> None:
        """Say what became of a file, once."""
        if job in self.records:
            return
        self.records[job] = record
        if "error" in record:
            console.say(record["error"])
        elif self.told:
            console.say(self._line(job, record))
        if not self.words.quiet:
            for line in record.get("warnings", ()):
                console.say(f"{job.source}: warning: {line}")

    def _line(self, job: Job, record: Record) -> str:
        if record.get("dry_run"):
            return f"{job.source} -> {job.target}"
        seconds = f", {record['seconds']:.2f} s" if self.words.verbose else ""
        return self.words.describe(record) + seconds

    def end(self, *, interrupted: bool = False) -> None:
        """Sum up."""
        if self.words.as_json:
            skipped = [
                {"input": job.source, "output": job.target, "skipped": True}
                for job in self.plan.skipped
            ]
            done = [self.records[job] for job in self.plan.jobs if job in self.records]
            show_json([*self.refused, *skipped, *done])
        if not self.words.quiet:
            say_left_out(self.plan.left_out)
        for line in self._summary(interrupted):
            console.say(line)

    def _summary(self, interrupted: bool) -> list[str]:
        plan, records = self.plan, self.records.values()
        written = [record for record in records if "num_bytes" in record]
        num_inputs = len(plan.jobs) + len(plan.skipped) + len(plan.refused)
        lines = []
        if self.told and num_inputs > 1:
            if written:
                lines.append(f"{_files(len(written))} written: {_saving(written)}")
            if any(record.get("dry_run") for record in records):
                lines.append(f"{_files(len(records) - len(self.failures))} would be written")
            if plan.skipped:
                lines.append(f"{_files(len(plan.skipped))} skipped: outputs exist")
        if num_inputs > 1 and self.failures:
            lines.append(f"{len(self.failures)} of {_files(num_inputs)} failed")
            if console.Exit.OUTPUT_EXISTS in self.failures:
                lines.append("outputs that exist are kept; --skip-existing passes over them")
        if interrupted and num_inputs > 1:
            lines.append(
                f"interrupted: {len(written)} of {_files(num_inputs)} done; "
                "the same command with --skip-existing goes on"
            )
        return lines


def _files(number: int) -> str:
    return f"{number} file" if number == 1 else f"{number} files"


def _saving(written: Sequence[Record]) -> str:
    before = sum(record["source_bytes"] for record in written)
    after = sum(record["num_bytes"] for record in written)
    saved = f", {int(100 - 100 * after / before)} % saved" if after < before else ""
    return f"{format_bytes(before)} to {format_bytes(after)}{saved}"


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


def say_refused(refused: Sequence[Refusal]) -> list[Record]:
    """Say what cannot be worked on, and return it as records."""
    records = [failure(source, error) for source, error in refused]
    for record in records:
        console.say(record["error"])
    return records


def say_left_out(names: Sequence[str]) -> None:
    """Say how many files of folders were left out, and of which kinds."""
    if names:
        from cscodec.images.reading import HEIF_REMEDY, HEIF_SUFFIXES

        kinds = {Path(name).suffix.lower() or Path(name).name for name in names}
        console.say(f"{_files(len(names))} of other kinds: {' '.join(sorted(kinds))}")
        if kinds & HEIF_SUFFIXES:
            console.say(HEIF_REMEDY)


def codes(records: Sequence[Record]) -> list[console.Exit]:
    """Return the exit codes of those that failed."""
    return [console.Exit(record["exit_code"]) for record in records if "error" in record]
