"""``cscodec eval``: what coding does to pictures, in bits, dB and seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cscodec.choices import DECODERS, DEFAULT_QUALITY, UNQUANTISED_DECODERS, UnquantisedDecoder
from cscodec.cli import batch, console, options, pictures
from cscodec.layout import DEFAULT_MAX_PIXELS

if TYPE_CHECKING:
    from cscodec.arrays import Pixels
    from cscodec.evaluation.codecs import Codec
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
            "paper's, restores photographs less well than linear.",
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
    tune: options.TuneName = "visual",
    effort: options.Effort = 1,
    unquantized: Annotated[
        bool,
        typer.Option("--unquantized", help="The paper's protocol: luma, measurements in floats."),
    ] = False,
    max_pixels: options.MaxPixels = DEFAULT_MAX_PIXELS,
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    as_json: options.Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Report as CSV, without means.")] = False,
) -> None:
    """Encode and decode pictures and report rate, PSNR, SSIM and seconds, per picture and mean.

    Rates are those of whole files. PSNR is over all colour channels, and over luma; SSIM is of
    luma. Pictures are taken one after the other, so that seconds mean something; with --scheduler,
    each by one thread of a worker, and seconds are as good as that machine is idle. In means, a
    picture without error counts as 99 dB.
    """
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    if unquantized and quality:
        raise typer.BadParameter("--unquantized measurements have no quality; leave out -q")
    decoders = [
        options.parse_decoder(name, unquantised=unquantized) for name in decoder or DECODERS[:1]
    ]

    from cscodec.model import load_model

    settings = {
        "model": load_model(model),
        "measurements": measurements,
        "tune": tune,
        "effort": effort,
        "workers": 1 if scheduler else workers,
        "sparsity": sparsity,
        "max_pixels": max_pixels,
    }
    qualities = [] if unquantized else quality or [DEFAULT_QUALITY]
    measured, failures = pictures.for_each(
        pictures.find(inputs, recursive),
        Evaluator(settings, decoders, qualities),
        label="evaluating",
        max_pixels=max_pixels,
        scheduler=scheduler,
    )
    _report([row for rows in measured for row in rows], as_json, as_csv)
    batch.finish(failures)


@dataclass(frozen=True)
class Evaluator:
    """What is measured of each picture.

    ``settings`` are those of ``cscodec_codec``. Without ``qualities``, nothing is quantised.
    """

    settings: Mapping[str, Any]
    decoders: Sequence[UnquantisedDecoder]
    qualities: Sequence[float]

    def __call__(self, source: str, pixels: Pixels) -> list[Row]:
        list(self._measure(pixels[:32, :32]))  # loading kernels is not what is to be timed
        return [{"input": source, **row} for row in self._measure(pixels)]

    def _measure(self, pixels: Pixels) -> Iterator[Row]:
        from cscodec.evaluation.codecs import cscodec_codec

        if not self.qualities:
            chosen = (self.settings[name] for name in ("model", "measurements", "sparsity"))
            yield from _restored(pixels, self.decoders, *chosen)
            return
        settings = {**self.settings, "sparsity": self.settings["sparsity"] or 4}
        codecs = {name: cscodec_codec((), decoder=name, **settings) for name in self.decoders}
        for quality in self.qualities:
            yield from _coded(pixels, codecs, quality)


def _coded(
    pixels: Pixels, codecs: Mapping[UnquantisedDecoder, Codec], quality: float
) -> Iterator[Row]:
    """Encode once, and decode by every decoder."""
    from cscodec.evaluation.comparison import restore, timed

    encode = next(iter(codecs.values())).encode
    file, encode_s = timed(encode, pixels, quality)
    for decoder, codec in codecs.items():
        coded = restore(pixels, codec, quality, file, encode_s)
        yield {"quality": quality, "decoder": decoder, **coded.row()}


def _restored(
    pixels: Pixels,
    decoders: Sequence[UnquantisedDecoder],
    model: Model,
    measurements: int | None,
    sparsity: int | None,
) -> Iterator[Row]:
    from cscodec.evaluation.comparison import quality_row, timed
    from cscodec.evaluation.rate_distortion import measure_decoded
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
    no_file = dict.fromkeys(("num_bytes", "bits_per_pixel", "encode_s"))
    for decoder in decoders:
        restored, decode_s = timed(sense_and_restore, plane, system, decoder, sparsity=sparsity)
        measured = quality_row(measure_decoded(plane, restored, 0)) | no_file
        yield {"quality": None, "decoder": decoder, **measured, "decode_s": decode_s}


def _means(rows: Sequence[Row]) -> list[Row]:
    from cscodec.evaluation.comparison import mean_row

    groups: dict[tuple[Any, Any], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["quality"], row["decoder"]), []).append(row)
    return [
        {"input": f"mean of {len(group)}", "quality": quality, "decoder": decoder} | mean_row(group)
        for (quality, decoder), group in groups.items()
    ]


def _report(rows: Sequence[Row], as_json: bool, as_csv: bool) -> None:
    from cscodec.evaluation.metrics import readable_db
    from cscodec.evaluation.report import csv_table, text_table

    if as_json:
        batch.show_json({"pictures": rows, "means": _means(rows)})
    elif as_csv and rows:
        console.show(csv_table(list(rows[0]), [list(row.values()) for row in rows]).rstrip("\n"))
    elif rows:
        headers = ["picture", "quality", "decoder", "bpp", "PSNR", "PSNR Y", "SSIM"]
        columns = ["input", "quality", "decoder", *MEASURED]
        means = _means(rows)
        readable = [
            row | {name: readable_db(row[name]) for name in ("psnr_db", "psnr_luma_db")}
            for row in (*rows, *means)
        ]
        table = [[row[name] for name in columns] for row in readable]
        console.show(text_table([*headers, "encode s", "decode s"], table, digits=3))
        _compare_omp(means)


def _compare_omp(means: Sequence[Row]) -> None:
    """Say by how much the paper's decoder is behind the plainest one."""
    from cscodec.evaluation.metrics import EXACT_DB

    psnr = {(row["quality"], row["decoder"]): row["psnr_luma_db"] for row in means}
    for (quality, decoder), linear in psnr.items():
        omp = psnr.get((quality, "omp"), linear)
        if decoder == "linear" and omp < linear < EXACT_DB:
            at = "" if quality is None else f"at quality {quality:g}, "
            console.show(f"({at}linear restores {linear - omp:.2f} dB more than omp)")
