"""``cscodec encode``: pictures to .csc files."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cscodec.choices import Subsampling
from cscodec.cli import batch, files, options
from cscodec.cli.plan import Job, Outputs, plan
from cscodec.layout import DEFAULT_MAX_PIXELS

SUFFIX = ".csc"


def encode(
    inputs: options.Inputs,
    output: options.Output = None,
    output_folder: options.OutputFolder = None,
    recursive: options.Mirrored = False,
    keep_suffix: options.KeepSuffix = False,
    force: options.Force = False,
    skip_existing: options.SkipExisting = False,
    dry_run: options.DryRun = False,
    quality: Annotated[
        float | None,
        typer.Option("-q", "--quality", min=0, max=100, help="0 to 100; 75 by default."),
    ] = None,
    step: Annotated[
        float | None,
        typer.Option("--step", min=0.25, max=1000, help="Quantisation step, instead of a quality."),
    ] = None,
    tune: options.TuneName = "visual",
    bpp: Annotated[float | None, typer.Option("--bpp", help="Aim at these bits per pixel.")] = None,
    target_size: Annotated[
        str | None, typer.Option("--target-size", metavar="SIZE", help="Aim at bytes: 50k, 1.5M.")
    ] = None,
    target_psnr: Annotated[
        float | None, typer.Option("--target-psnr", metavar="DB", help="Aim at this PSNR.")
    ] = None,
    measurements: options.Measurements = None,
    model: options.ModelName = "photo",
    subsampling: Annotated[
        Subsampling, typer.Option("--subsampling", help="Resolution of the colour planes.")
    ] = "auto",
    effort: options.Effort = 1,
    frame: Annotated[
        int | None,
        typer.Option("--frame", min=0, metavar="N", help="Of an animation or stack, from 0."),
    ] = None,
    to_8bit: Annotated[
        bool, typer.Option("--to-8bit", help="Keep the high 8 bits of deeper samples.")
    ] = False,
    strip: options.Strip = None,
    preserve: options.Preserve = False,
    max_pixels: options.MaxPixels = DEFAULT_MAX_PIXELS,
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Compress pictures to .csc files, beside them or where -o or -d says."""
    rate = _chosen_rate(
        {
            "-q": ("quality", quality),
            "--step": ("step", step),
            "--bpp": ("target_bpp", bpp),
            "--target-size": (
                "target_size",
                None if target_size is None else options.parse_bytes(target_size),
            ),
            "--target-psnr": ("target_psnr", target_psnr),
        }
    )

    from cscodec.images import PICTURE_SUFFIXES
    from cscodec.images.reading import HEIF_SUFFIXES

    if output is not None and output.lower().endswith((*PICTURE_SUFFIXES, *HEIF_SUFFIXES)):
        raise typer.BadParameter(f"-o {output}: encode writes {SUFFIX} files, not pictures")
    outputs = Outputs(SUFFIX, output, output_folder, keep_suffix, force, skip_existing)
    planned = plan(inputs, PICTURE_SUFFIXES, recursive, outputs)
    if as_json and any(job.target == files.STREAM for job in planned.jobs):
        raise typer.BadParameter("--json and the file itself cannot share standard output")

    from cscodec.model import load_model

    settings = {
        **rate,
        "tune": tune,
        "measurements": measurements,
        "model": load_model(model),  # fail before any picture is read
        "subsampling": subsampling,
        "effort": effort,
    }
    reading = {"max_pixels": max_pixels, "frame": frame, "to_8bit": to_8bit}
    batch.run(
        planned,
        Encoder(settings, reading, options.parse_strip(strip), preserve, force),
        batch.Reporting("encoding", _describe, as_json, quiet, verbose),
        workers=workers,
        dry_run=dry_run,
        force=force,
        scheduler=scheduler,
    )


def _chosen_rate(rates: Mapping[str, tuple[str, float | None]]) -> dict[str, Any]:
    """Return the one that is given as an argument of :func:`cscodec.encode`, or nothing."""
    given = [(option, *rate) for option, rate in rates.items() if rate[1] is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"{', '.join(rates)} exclude each other; give one")
    for option, name, value in given:
        if value is None or not math.isfinite(value) or (value <= 0 and name != "quality"):
            raise typer.BadParameter(f"{option} {value}: is not a positive number")
    return {name: value for _, name, value in given}


@dataclass(frozen=True)
class Encoder:
    """What is done for each picture.

    ``settings`` are those of :func:`cscodec.encode`, ``reading`` of ``read_picture``.
    """

    settings: Mapping[str, Any]
    reading: Mapping[str, Any]
    strip: frozenset[str]
    preserve: bool
    force: bool

    def __call__(self, job: Job, workers: int) -> dict[str, Any]:
        import cscodec
        from cscodec.evaluation.metrics import bits_per_pixel
        from cscodec.images import read_picture, stripped

        started = time.perf_counter()
        files.check_target(job.target, self.force)
        if job.source.lower().endswith(SUFFIX):
            raise cscodec.InvalidInputError("is compressed already; 'cscodec decode' restores it")
        source = files.picture_source(job.source, self.reading["max_pixels"])
        picture = stripped(read_picture(source, **self.reading), self.strip)
        data = cscodec.encode(picture, **self.settings, workers=workers)
        height, width = picture.pixels.shape[:2]
        record: dict[str, Any] = {
            "input": job.source,
            "output": job.target,
            "width": width,
            "height": height,
            "source_bytes": files.size(source),
            "num_bytes": len(data),
            "bits_per_pixel": bits_per_pixel(len(data), picture.pixels.shape),
        }
        if "target_psnr" in self.settings:
            from cscodec.codec import restored_psnr_db

            model = self.settings["model"]
            record["psnr_db"] = restored_psnr_db(picture.pixels, data, model, workers)
        files.write_bytes(job.target, data, self.force)
        if self.preserve:
            files.copy_times(job.source, job.target)
        record["warnings"] = [f"left out: {what}" for what in picture.left_out]
        if len(data) > record["source_bytes"]:
            record["warnings"].append(
                f"{len(data):,} bytes are more than the {record['source_bytes']:,} of the "
                "original: keep that, or choose a lower quality"
            )
        return record | {"seconds": time.perf_counter() - started}


def _describe(record: batch.Record) -> str:
    reached = f", {record['psnr_db']:.2f} dB" if "psnr_db" in record else ""
    return (
        f"{record['input']} -> {record['output']}: {record['num_bytes']:,} bytes, "
        f"{record['bits_per_pixel']:.3f} bits per pixel{reached}"
    )
