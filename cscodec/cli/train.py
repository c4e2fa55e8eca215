"""``cscodec train``: a model from folders of pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cscodec import locations
from cscodec.cli import batch, console, files, options
from cscodec.errors import InvalidInputError
from cscodec.learning.options import (
    METHODS,
    SHARDED,
    STATISTICS,
    UPDATES,
    RunSettings,
    TrainingOptions,
)
from cscodec.signals import last_words

if TYPE_CHECKING:
    from cscodec.learning.trainer import Progress
    from cscodec.learning.validation import Quality
    from cscodec.model import Model

_USUAL = TrainingOptions()
_SETTINGS = RunSettings()
_SUFFIX = ".safetensors"
_PAGE = "index.html"
_MOST_LOST_DB = 1.0  # between validations, of runs that settle


def train(
    context: typer.Context,
    folders: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Folders of pictures, with subfolders.")
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="MODEL", help="The model: NAME.safetensors.")
    ],
    method: Annotated[
        str, typer.Option(metavar="NAME", help=f"{', '.join(METHODS)}.")
    ] = _USUAL.method,
    measurements: Annotated[
        int, typer.Option("-m", "--measurements", metavar="M", help="1..63, beside the mean.")
    ] = _USUAL.measurements,
    atoms: Annotated[int, typer.Option(metavar="L", help="M..4096.")] = _USUAL.atoms,
    sparsity: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Atoms per patch, 1..M; max(1, M // 5) by default.",
            show_default=False,
        ),
    ] = _USUAL.sparsity,
    gamma: Annotated[
        float | None,
        typer.Option(
            help="Weight of the patch's error beside its measurements'; the method's own by "
            "default (1/32; bl: 1/256).",
            show_default=False,
        ),
    ] = _USUAL.gamma,
    rho: Annotated[float, typer.Option(help="Power of the forgetting factor.")] = _USUAL.rho,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help=f"Patches per dictionary iteration; {_USUAL.batch_size}, with shards "
            f"{SHARDED['batch_size']}.",
        ),
    ] = None,
    dictionary_iterations: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help=f"Per sensing matrix; {_USUAL.dictionary_iterations}, with shards "
            f"{SHARDED['dictionary_iterations']}.",
        ),
    ] = None,
    outer_iterations: Annotated[
        int, typer.Option(metavar="N", help="Sensing matrices.")
    ] = _USUAL.outer_iterations,
    statistics: Annotated[
        str,
        typer.Option(
            metavar="|".join(STATISTICS), help="What a new sensing matrix does to A and B."
        ),
    ] = _USUAL.statistics,
    update: Annotated[
        str,
        typer.Option(
            metavar="|".join(UPDATES), help="Of atoms: the minimiser, or the paper's formula."
        ),
    ] = _USUAL.update,
    shards: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Parts of the pictures that are coded apart; 1, with --scheduler "
            f"{SHARDED['shards']}.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of every random choice.")] = _USUAL.seed,
    iterations: Annotated[
        int | None, typer.Option(metavar="N", help="Rounds of a batch method.")
    ] = None,
    patches: Annotated[
        int | None, typer.Option(metavar="N", help="Training set of a batch method.")
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A batch method's own parameter; repeatable."),
    ] = None,
    chroma: Annotated[
        bool, typer.Option("--chroma/--no-chroma", help="Also learn a system for colour planes.")
    ] = _USUAL.chroma,
    codec_tables: Annotated[
        bool | None,
        typer.Option(
            "--codec-tables/--no-codec-tables",
            help="Also learn the entropy coder's tables; on by default with -m 63.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Of the model; that of its file by default.")
    ] = None,
    licence: Annotated[
        str, typer.Option(metavar="TEXT", help="Of the pictures; recorded in the model.")
    ] = _SETTINGS.licence,
    test_folder: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Measure the model on these pictures; recorded in it."),
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write a page of plots and pictures there.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FILE", help="Keep the state of the run there.")
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Dictionary iterations between checkpoints.")
    ] = _SETTINGS.checkpoint_every,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from --checkpoint, if it exists.")
    ] = _SETTINGS.resume,
    validate_every: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Dictionary iterations between validations; 0.382 of --dictionary-iterations by "
            "default.",
            show_default=False,
        ),
    ] = _SETTINGS.validate_every,
    max_pixels: Annotated[
        int, typer.Option(min=1, metavar="N", help="Skip larger pictures.")
    ] = _SETTINGS.max_pixels,
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Train a model on the pictures of folders; the defaults are the paper's, but for --statistics.

    One picture in 16 is held out; what each decoder reaches on those is printed at the end and
    recorded in the model, with the command, the configuration and the licence.
    """
    is_sharded = bool(scheduler) if shards is None else shards > 1
    usual = {**vars(_USUAL), **(SHARDED if is_sharded and method == "online" else {})}
    chosen = TrainingOptions(
        method=method,
        measurements=measurements,
        atoms=atoms,
        sparsity=sparsity,
        gamma=gamma,
        rho=rho,
        batch_size=batch_size or usual["batch_size"],
        dictionary_iterations=dictionary_iterations or usual["dictionary_iterations"],
        outer_iterations=outer_iterations,
        statistics=statistics,
        update=update,
        shards=shards or usual["shards"],
        iterations=iterations,
        patches=patches,
        parameters=dict(map(_parse_parameter, parameter or [])),
        chroma=chroma,
        codec_tables=codec_tables,
        seed=seed,
    )
    settings = RunSettings(
        name=name or Path(output).stem,
        licence=licence,
        test_folder=test_folder,
        validate_every=validate_every,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
        max_pixels=max_pixels,
        scheduler=scheduler,
    )
    try:
        chosen.check()
        settings.check(chosen)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from None
    if Path(output).suffix != _SUFFIX:
        raise typer.BadParameter(f"-o {output}: the name of a model file ends in {_SUFFIX}")
    files.check_target(output, force)
    if checkpoint is not None and not resume:
        files.check_target(checkpoint, force)
    if report is not None:
        files.check_target(locations.join(report, _PAGE), force)
        from cscodec.evaluation.charts import require_matplotlib

        require_matplotlib()  # now, rather than after hours of training

    from cscodec.learning.trainer import train as run

    interrupted = f"interrupted; {_resume_command(chosen, folders, output, report, settings)}"
    try:
        with last_words(f"cscodec: {interrupted}"), _shown_progress(chosen) as progress:
            model = run(folders, chosen, settings, progress=progress, workers=workers)
    except KeyboardInterrupt:
        console.say(interrupted)
        raise typer.Exit(console.Exit.INTERRUPTED) from None
    files.write_bytes(output, model.to_bytes(), force)
    if report is not None:
        _write_report(model, folders, settings, report, force, context.obj)
    _show_results(model, output, as_json)


def _parse_parameter(text: str) -> tuple[str, int | float | str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(f"--parameter {text}: write NAME=VALUE")
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            continue
    return name, value


@contextmanager
def _shown_progress(chosen: TrainingOptions) -> Iterator[Callable[[Progress], None]]:
    """A bar with the latest validation; a line for each if there is no terminal to draw it on."""
    import sys

    def say_what_follows(state: Progress) -> None:
        is_last = state.channel == ("chroma" if chosen.chroma else "luma")
        if chosen.wants_codec_tables and is_last and state.iteration == state.num_iterations:
            console.say("learning the entropy coder's tables and the filters")

    if sys.stderr is None or not sys.stderr.isatty():

        def say(state: Progress) -> None:
            _say_validation(state)
            say_what_follows(state)

        yield say
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[quality]}"),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def show(state: Progress) -> None:
            if state.channel not in tasks:
                tasks[state.channel] = bar.add_task(
                    state.channel, total=state.num_iterations, quality=""
                )
            task = tasks[state.channel]
            bar.update(task, completed=state.iteration)
            if state.quality:
                bar.update(task, quality=_describe(state.quality))
            say_what_follows(state)

        yield show


def _say_validation(state: Progress) -> None:
    if state.quality:
        done = f"{state.channel} {state.iteration}/{state.num_iterations}"
        console.say(f"{done}: {_describe(state.quality)}")


def _describe(quality: Quality) -> str:
    return f"{quality.psnr_db:.2f} dB, SSIM {quality.ssim:.4f} on held-out pictures by omp"


def _resume_command(
    chosen: TrainingOptions,
    folders: list[str],
    output: str,
    report: str | None,
    settings: RunSettings,
) -> str:
    if settings.checkpoint is None:
        return "nothing was kept: with --checkpoint FILE a run can be resumed"
    usual = RunSettings(name=Path(output).stem)
    flags = {
        name: value
        for name, value in vars(replace(settings, resume=False)).items()
        if value != getattr(usual, name)
    }
    command = chosen.command(folders, output, **flags, report=report)
    return f"resume with: {command} --resume"


def _write_report(
    model: Model, folders: list[str], settings: RunSettings, report: str, force: bool, command: str
) -> None:
    """Write the page; what it shows of held-out pictures is read where the pictures are."""
    from cscodec.evaluation.training_report import render_report
    from cscodec.learning.pictures import PictureSet, Reader, consult, forget
    from cscodec.scheduler import open_scheduler

    pictures = PictureSet(settings.places(folders), settings.max_pixels)
    with open_scheduler(settings.scheduler) as scheduler:
        promise = scheduler.submit(consult, pictures, Reader.planes, "luma", name="report")
        planes, _ = scheduler.result(promise)
        scheduler.call_everywhere(forget, pictures.run)
    page = render_report(model, planes, command=command).encode("utf-8", "backslashreplace")
    files.write_bytes(locations.join(report, _PAGE), page, force)
    console.say(f"report: {locations.join(report, _PAGE)}")


def _show_results(model: Model, output: str, as_json: bool) -> None:
    from cscodec.evaluation.metrics import EXACT_DB, readable_db
    from cscodec.evaluation.report import text_table

    data, results = model.metadata["data"], model.metadata["results"]
    for picture, why in sorted(data["skipped_pictures"].items()):
        console.say(f"skipped {picture}: {why}")
    if data["skipped_pictures"]:
        console.say(f"{len(data['skipped_pictures'])} pictures were skipped")
    if as_json:
        batch.show_json({"model": output, "model_id": model.model_id.hex(), **model.metadata})
        return
    measured = {f"held-out {channel}": found for channel, found in results["held_out"].items()}
    if "test" in results:
        measured[results["test"]["folder"]] = results["test"]["luma"]
    rows = [
        [on, decoder, readable_db(quality["psnr_db"]), f"{quality['ssim']:.4f}"]
        for on, decoders in measured.items()
        for decoder, quality in decoders.items()
    ]
    console.show(f"{model.name}, id {model.model_id.hex()}, written to {output}")
    console.show(text_table(["", "decoder", "PSNR (dB)", "SSIM"], rows))
    console.show(f"({results['protocol']})")
    for channel, history in results.get("history", {}).items():
        found = [row["psnr_db"] for row in history if "psnr_db" in row]  # not of every method
        if found and (lost := max(found) - found[-1]) > _MOST_LOST_DB:
            console.say(
                f"warning: {channel}'s dictionary ends {lost:.1f} dB behind its best: it "
                "did not settle; give it more atoms, or fewer outer iterations"
            )
    for channel, decoders in results["held_out"].items():
        linear, omp = (decoders[name]["psnr_db"] for name in ("linear", "omp"))
        if omp < linear < EXACT_DB:
            console.show(
                f"(of {channel}, linear restores {linear - omp:.2f} dB more than the paper's omp)"
            )
