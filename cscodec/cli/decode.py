"""``cscodec decode``: .csc files to pictures."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from cscodec.cli import batch, files, options
from cscodec.cli.encode import SUFFIX
from cscodec.cli.plan import Job, Outputs, plan
from cscodec.errors import InvalidInputError
from cscodec.layout import DEFAULT_MAX_PIXELS
from cscodec.streams import is_special

if TYPE_CHECKING:
    from cscodec.arrays import Pixels
    from cscodec.describe import Info
    from cscodec.images import Picture


def decode(
    inputs: options.Inputs,
    output: options.Output = None,
    output_folder: options.OutputFolder = None,
    recursive: options.Mirrored = False,
    keep_suffix: options.KeepSuffix = False,
    force: options.Force = False,
    skip_existing: options.SkipExisting = False,
    dry_run: options.DryRun = False,
    picture_format: Annotated[
        str | None,
        typer.Option("--format", metavar="SUFFIX", help="png (default), jpg, webp, tif, ppm ..."),
    ] = None,
    decoder: options.DecoderName = "refine",
    measurements: options.Measurements = None,
    sparsity: options.Sparsity = 4,
    preview: Annotated[
        bool, typer.Option("--preview", help="Decode the first layers only: rough and fast.")
    ] = False,
    scale: Annotated[
        str,
        typer.Option("--scale", metavar="1|1/2|1/4|1/8", help="A smaller picture, much faster."),
    ] = "1",
    region: Annotated[
        str | None, typer.Option("--region", metavar="X,Y,W,H", help="Decode this part only.")
    ] = None,
    allow_partial: options.AllowPartial = False,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME|PATH", help="The model, if it is not shipped."),
    ] = None,
    background: Annotated[
        str | None,
        typer.Option("--background", metavar="COLOUR", help="Under alpha, if outputs have none."),
    ] = None,
    strip: options.Strip = None,
    preserve: options.Preserve = False,
    max_pixels: options.MaxPixels = DEFAULT_MAX_PIXELS,
    max_seconds: Annotated[
        float | None,
        typer.Option("--max-seconds", metavar="S", help="Give up on a file that takes longer."),
    ] = None,
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Decompress .csc files to pictures, beside them or where -o or -d says."""
    area = None if region is None else options.parse_region(region)
    known_decoder = options.parse_decoder(decoder)

    suffix = _output_suffix(picture_format, output)
    outputs = Outputs(suffix, output, output_folder, keep_suffix, force, skip_existing)
    planned = plan(inputs, {SUFFIX}, recursive, outputs)
    if as_json and any(job.target == files.STREAM for job in planned.jobs):
        raise typer.BadParameter("--json and the picture itself cannot share standard output")
    if model is not None:
        from cscodec.model import load_model

        load_model(model)  # fail before any file is read
    settings = {
        "decoder": known_decoder,
        "measurements": measurements,
        "sparsity": sparsity,
        "model": model,
        "region": area,
        "preview": preview,
        "scale": options.parse_scale(scale),
        "max_seconds": max_seconds,
    }
    finish = Finish(suffix, _colour(background), options.parse_strip(strip), preserve)
    reading = {"max_pixels": max_pixels, "allow_partial": allow_partial}
    batch.run(
        planned,
        Decoder(settings, reading, finish, force),
        batch.Reporting("decoding", _describe, as_json, quiet, verbose),
        workers=workers,
        dry_run=dry_run,
        force=force,
        scheduler=scheduler,
    )


def _output_suffix(picture_format: str | None, output: str | None) -> str:
    """Return the suffix that says which kind of picture is written."""
    from cscodec.images import output_suffix

    named = None if output in (None, files.STREAM) else output
    try:
        suffixes = [output_suffix(name) for name in (picture_format, named) if name is not None]
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error
    if len(set(suffixes)) > 1:
        raise typer.BadParameter(f"-o {output} is no name for --format {picture_format}; leave one")
    return suffixes[0] if suffixes else ".png"


def _colour(text: str | None) -> tuple[int, int, int] | None:
    from cscodec.images import parse_colour

    try:
        return None if text is None else parse_colour(text)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error


@dataclass(frozen=True)
class Finish:
    """How decoded pixels become a file."""

    suffix: str
    background: tuple[int, int, int] | None
    strip: frozenset[str]
    preserve: bool


@dataclass(frozen=True)
class Decoder:
    """What is done for each file; ``settings`` and ``reading`` are of :func:`cscodec.decode`."""

    settings: Mapping[str, Any]
    reading: Mapping[str, Any]
    finish: Finish
    force: bool

    def __call__(self, job: Job, workers: int) -> dict[str, Any]:
        import cscodec

        started = time.perf_counter()
        files.check_target(job.target, self.force)
        data = files.read_stream(job.source, self.reading["max_pixels"])
        found = files.inspected(data, **self.reading)
        finish = self.finish
        decode = partial(cscodec.decode, data, **self.settings, **self.reading, workers=workers)
        written = self._in_parts(job.target, found, decode)
        picture, num_bytes = written or self._whole(job.target, found, decode)
        if finish.preserve:
            files.copy_times(job.source, job.target)
        height, width, *channels = picture.pixels.shape
        warnings = [f"left out: {what}" for what in picture.left_out]
        if not found.complete:
            warnings.insert(0, f"cut short or damaged; missing: {', '.join(found.missing)}")
        return {
            "input": job.source,
            "output": job.target,
            "width": width,
            "height": height,
            "channels": channels[0] if channels else 1,
            "complete": found.complete,
            "missing": list(found.missing),
            "warnings": warnings,
            "source_bytes": len(data),
            "num_bytes": num_bytes,
            "decoder": self.settings["decoder"],
            "seconds": time.perf_counter() - started,
        }

    def _whole(
        self, target: str, found: Info, decode: Callable[..., Pixels]
    ) -> tuple[Picture, int]:
        """Decode a picture, then write it; return it as it was written, and the bytes."""
        from cscodec.images import write_picture

        picture = self._finished(decode(), found)
        encoded = write_picture(picture, self.finish.suffix)
        files.write_bytes(target, encoded, self.force)
        return picture, len(encoded)

    def _in_parts(
        self, target: str, found: Info, decode: Callable[..., Pixels]
    ) -> tuple[Picture, int] | None:
        """Write a large picture while it is decoded, if its format lets us; else return None."""
        import numpy as np

        from cscodec.codec import decoded_shape
        from cscodec.images.large import can_be_written_in_parts, written_rows

        shape = decoded_shape(found, self.settings["region"], self.settings["scale"])
        is_file = target != files.STREAM and not is_special(target)
        if not can_be_written_in_parts(self.finish.suffix, shape, can_seek=is_file):
            return None
        no_pixels = np.broadcast_to(np.uint8(0), shape)  # which take no memory
        picture = self._finished(no_pixels, found)
        if picture.pixels is not no_pixels:  # they would have to be turned
            return None

        def write(file: IO[bytes]) -> None:
            with written_rows(file, self.finish.suffix, picture) as rows:
                decode(out=rows)

        files.write_with(write, target, self.force)
        return picture, os.path.getsize(target) if is_file else math.prod(shape)

    def _finished(self, pixels: Pixels, found: Info) -> Picture:
        from cscodec.images import Picture, fitted, stripped

        picture = Picture(pixels, found.icc_profile, found.exif, found.xmp)
        return fitted(
            stripped(picture, self.finish.strip), self.finish.suffix, self.finish.background
        )


def _describe(record: batch.Record) -> str:
    size = f"{record['width']} x {record['height']}"
    return f"{record['input']} -> {record['output']}: {size} pixels, decoder {record['decoder']}"
