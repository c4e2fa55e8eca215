"""``cscodec eval``: what coding does to pictures, in bits, dB and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cscodec.choices import DECODERS, UNQUANTISED_DECODERS, Decoder, UnquantisedDecoder
from cscodec.cli import batch, console, files, options
from cscodec.cli.encode import DEFAULT_QUALITY
from cscodec.layout import DEFAULT_MAX_PIXELS

if TYPE_CHECKING:
    from cscodec.arrays import Pixels
    from cscodec.model import Model

Row = dict[str, Any]
MEASURED = ("bits_per_pixel", "psnr_db", "psnr_luma_db", "ssim", "encode_s", "decode_s")


def evaluate(
    inputs: options.Inputs,
    recursive: options.Recursive = False,
    quality: Annotated[
        list[float] | None,
        typer.Option("-q", "--quality", min=0, max=100, help="Repeat for several; default 75."),
    ] = None,
    decoder: Annotated[
        list[str] | None,
        typer.Option(
            "--decoder",
            metavar="|".join(UNQUANTISED_DECODERS),
            help="Repeat for several; default refine. learned is for --unquantized only; omp, the "
            "paper's, restores less than linear.",
        ),
    ] = None,
    measurements: options.Measurements = None,
    sparsity: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=63,
            help="Atoms per patch, decoder omp; 4, or max(1, M // 5) with --unquantized.",
        ),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME|PATH", help="A shipped model, or a file.")
    ] = "photo",
    effort: Annotated[
        int, typer.Option("--effort", min=0, max=1, help="0: round; 1: search smaller files.")
    ] = 1,
    unquantized: Annotated[
        bool,
        typer.Option("--unquantized", help="The paper's protocol: luma, measurements in floats."),
    ] = False,
    max_pixels: options.MaxPixels = DEFAULT_MAX_PIXELS,
    workers: options.Workers = None,
    as_json: options.Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Report as CSV.")] = False,
) -> None:
    """Encode and decode pictures and report rate, PSNR, SSIM and seconds, per picture and mean.

    Rates are those of whole files. PSNR is over all colour channels, and over luma; SSIM is of
    luma. Pictures are taken one after the other, so that seconds mean something.
    """
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    if unquantized and quality:
        raise typer.BadParameter("--unquantized measurements have no quality; leave out -q")
    decoders = [
        options.parse_decoder(name, unquantised=unquantized) for name in decoder or DECODERS[:1]
    ]

    from cscodec.errors import CscodecError
    from cscodec.images import PICTURE_SUFFIXES, read_picture
    from cscodec.model import load_model

    loaded = load_model(model)
    sources = [source for source, _ in files.expand(inputs, PICTURE_SUFFIXES, recursive)]

    def measure(pixels: Pixels) -> Iterator[Row]:
        if unquantized:
            yield from _restored(pixels, loaded, decoders, measurements, sparsity)
            return
        for setting in quality or [DEFAULT_QUALITY]:
            options_of_encode = {
                "quality": setting,
                "measurements": measurements,
                "model": model,
                "effort": effort,
            }
            yield from _coded(pixels, decoders, sparsity or 4, workers, options_of_encode)

    rows: list[Row] = []
    failures: list[console.Exit] = []
    for source in console.with_progress(sources, len(sources), "evaluating"):
        try:
            stream = files.standard_input() if source == files.STREAM else source
            pixels = read_picture(stream, max_pixels=max_pixels).pixels
            if not rows:
                list(measure(pixels[:32, :32]))  # loading kernels is not what is to be timed
            rows += [{"input": source, **row} for row in list(measure(pixels))]
        except (CscodecError, OSError, MemoryError) as error:
            console.say(console.reason(error, source))
            failures.append(console.exit_code(error))
    _report(rows, as_json, as_csv)
    batch.finish(failures)


def _coded(
    pixels: Pixels,
    decoders: Sequence[Decoder],
    sparsity: int,
    workers: int | None,
    options_of_encode: Mapping[str, Any],
) -> Iterator[Row]:
    import cscodec

    started = time.perf_counter()
    data = cscodec.encode(pixels, workers=workers, **options_of_encode)
    encode_s = time.perf_counter() - started
    for decoder in decoders:
        started = time.perf_counter()
        restored = cscodec.decode(
            data,
            decoder=decoder,
            sparsity=sparsity,
            model=options_of_encode["model"],
            max_pixels=max(1, pixels.shape[0] * pixels.shape[1]),
            workers=workers,
        )
        yield {
            "quality": options_of_encode["quality"],
            "decoder": decoder,
            "num_bytes": len(data),
            **_likeness(pixels, restored, len(data)),
            "encode_s": encode_s,
            "decode_s": time.perf_counter() - started,
        }


def _restored(
    pixels: Pixels,
    model: Model,
    decoders: Sequence[UnquantisedDecoder],
    measurements: int | None,
    sparsity: int | None,
) -> Iterator[Row]:
    from cscodec.images import luma
    from cscodec.learning.options import default_sparsity
    from cscodec.learning.validation import sense_and_restore
    from cscodec.model import System

    system = model.luma
    if measurements is not None:  # the first rows are the system of fewer measurements
        rows = slice(measurements)
        system = System(system.sensing_matrix[rows], system.dictionary, system.basis[rows])
    sparsity = sparsity or default_sparsity(len(system.sensing_matrix))
    plane = luma(pixels)
    for decoder in decoders:
        started = time.perf_counter()
        restored = sense_and_restore(plane, system, decoder, sparsity=sparsity)
        yield {
            "quality": None,
            "decoder": decoder,
            "num_bytes": None,
            **_likeness(plane, restored, None),
            "encode_s": None,
            "decode_s": time.perf_counter() - started,
        }


def _likeness(pixels: Pixels, restored: Pixels, num_bytes: int | None) -> Row:
    from cscodec.evaluation.metrics import SSIM_WINDOW, bits_per_pixel, psnr_db, ssim
    from cscodec.evaluation.rate_distortion import luma_plane
    from cscodec.transform.colour import without_alpha

    # Alpha is lossless, and would only flatter the mean.
    pixels, restored = without_alpha(pixels), without_alpha(restored)
    planes = luma_plane(pixels), luma_plane(restored)
    return {
        "bits_per_pixel": None if num_bytes is None else bits_per_pixel(num_bytes, pixels.shape),
        "psnr_db": psnr_db(pixels, restored),
        "psnr_luma_db": psnr_db(*planes),
        "ssim": ssim(*planes) if min(planes[0].shape) >= SSIM_WINDOW else None,
    }


def _means(rows: Sequence[Row]) -> list[Row]:
    means = []
    for quality, decoder in dict.fromkeys((row["quality"], row["decoder"]) for row in rows):
        group = [row for row in rows if (row["quality"], row["decoder"]) == (quality, decoder)]
        mean: Row = {"input": f"mean of {len(group)}", "quality": quality, "decoder": decoder}
        for name in ("num_bytes", *MEASURED):
            values = [row[name] for row in group if row[name] is not None]
            mean[name] = sum(values) / len(values) if values else None
        means.append(mean)
    return means


def _report(rows: Sequence[Row], as_json: bool, as_csv: bool) -> None:
    from cscodec.evaluation.report import csv_table, text_table

    means = _means(rows)
    if as_json:
        batch.show_json({"pictures": rows, "means": means})
    elif as_csv and rows:
        table = [list(row.values()) for row in (*rows, *means)]
        console.show(csv_table(list(rows[0]), table).rstrip("\n"))
    elif rows:
        headers = ["picture", "quality", "decoder", "bpp", "PSNR", "PSNR Y", "SSIM"]
        columns = ["input", "quality", "decoder", *MEASURED]
        table = [[row[name] for name in columns] for row in (*rows, *means)]
        console.show(text_table([*headers, "encode s", "decode s"], table, digits=3))
        _compare_omp(means)


def _compare_omp(means: Sequence[Row]) -> None:
    """Say by how much the paper's decoder is behind the plainest one."""
    psnr = {(row["quality"], row["decoder"]): row["psnr_luma_db"] for row in means}
    for (quality, decoder), linear in psnr.items():
        if decoder == "linear" and (omp := psnr.get((quality, "omp"), linear)) < linear:
            at = "" if quality is None else f"at quality {quality:g}, "
            console.show(f"({at}linear restores {linear - omp:.2f} dB more than omp)")
