"""``cscodec decode``: .csc files to pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cscodec.choices import DECODERS
from cscodec.cli import batch, files, options
from cscodec.cli.encode import SUFFIX
from cscodec.errors import InvalidInputError
from cscodec.layout import DEFAULT_MAX_PIXELS


def decode(
    inputs: options.Inputs,
    output: options.Output = None,
    output_folder: options.OutputFolder = None,
    recursive: options.Recursive = False,
    force: options.Force = False,
    picture_format: Annotated[
        str | None,
        typer.Option("--format", metavar="SUFFIX", help="png (default), jpg, webp, tif, ppm ..."),
    ] = None,
    decoder: Annotated[
        str,
        typer.Option("--decoder", metavar="|".join(DECODERS), help="How pixels are recovered."),
    ] = "refine",
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
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Show what a file that was cut short holds.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME|PATH", help="The model, if it is not shipped."),
    ] = None,
    max_pixels: options.MaxPixels = DEFAULT_MAX_PIXELS,
    workers: options.Workers = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Decompress .csc files to pictures, beside them or where -o or -d says."""
    area = None if region is None else options.parse_region(region)
    known_decoder = options.parse_decoder(decoder)

    suffix = _output_suffix(picture_format, output)
    jobs = files.plan(
        inputs,
        input_suffixes=[SUFFIX],
        output_suffix=suffix,
        output=output,
        folder=output_folder,
        recursive=recursive,
        force=force,
    )
    if as_json and jobs[0].target == files.STREAM:
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
    }
    reading = {"max_pixels": max_pixels, "allow_partial": allow_partial}
    batch.run(
        jobs,
        _Decoder(settings, reading, suffix, force),
        _describe,
        label="decoding",
        workers=workers,
        as_json=as_json,
        quiet=quiet,
    )


def _output_suffix(picture_format: str | None, output: str | None) -> str:
    """Return the suffix that says which kind of picture is written."""
    from cscodec.images import output_suffix

    try:
        if picture_format is not None:
            return output_suffix(picture_format)
        return ".png" if output in (None, files.STREAM) else output_suffix(output or "")
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error


@dataclass(frozen=True)
class _Decoder:
    """What is done for each file; ``settings`` and ``reading`` are of :func:`cscodec.decode`."""

    settings: Mapping[str, Any]
    reading: Mapping[str, Any]
    suffix: str
    force: bool

    def __call__(self, job: files.Job, workers: int) -> dict[str, Any]:
        import cscodec
        from cscodec.bitstream import container
        from cscodec.images import Picture, write_picture

        started = time.perf_counter()
        files.check_target(job.target, self.force)
        data = files.read_bytes(job.source)
        pixels = cscodec.decode(data, **self.settings, **self.reading, workers=workers)
        parts = container.unpack(data, **self.reading)
        picture = Picture(pixels, parts.icc_profile, parts.exif, parts.xmp)
        files.write_bytes(job.target, write_picture(picture, self.suffix), self.force)
        return {
            "input": job.source,
            "output": job.target,
            "width": pixels.shape[1],
            "height": pixels.shape[0],
            "channels": 1 if pixels.ndim == 2 else pixels.shape[2],
            "decoder": self.settings["decoder"],
            "seconds": time.perf_counter() - started,
        }


def _describe(record: batch.Record) -> str:
    size = f"{record['width']} x {record['height']}"
    return f"{record['input']} -> {record['output']}: {size} pixels, decoder {record['decoder']}"
