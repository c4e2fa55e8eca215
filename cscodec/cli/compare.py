"""``cscodec compare``: the same pictures by several codecs, on one page to look at."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cscodec.cli import batch, console, files, options, pictures
from cscodec.errors import InvalidInputError
from cscodec.layout import DEFAULT_MAX_PIXELS

if TYPE_CHECKING:
    from cscodec.arrays import Pixels
    from cscodec.evaluation.codecs import Codec
    from cscodec.evaluation.comparison import Row, Target
    from cscodec.evaluation.comparison_page import Shown

USUAL_CODECS = "cscodec,jpeg,webp,avif,jpegxl"
DEFAULT_QUALITY = 50.0  # about where one begins to see differences
DATA_NAMES = ("comparison.json", "comparison.csv")


def compare(
    context: typer.Context,
    inputs: options.Inputs,
    recursive: options.Recursive = False,
    codecs: Annotated[
        str | None,
        typer.Option(
            "--codecs",
            metavar="NAMES",
            help=f"Of {USUAL_CODECS},jpeg2000; by default all but the last that are installed.",
            show_default=False,
        ),
    ] = None,
    at_quality: Annotated[
        bool | None,
        typer.Option(
            "--at-quality/--at-size",
            help="Files of the same PSNR, or of the same size, which is the default.",
            show_default=False,
        ),
    ] = None,
    quality: Annotated[
        float | None,
        typer.Option(
            "-q", "--quality", min=0, max=100, help="As cscodec has at this quality; default 50."
        ),
    ] = None,
    bpp: Annotated[
        float | None, typer.Option("--bpp", help="At this many bits per pixel instead.")
    ] = None,
    target_size: Annotated[
        str | None, typer.Option("--target-size", metavar="SIZE", help="At this size: 50k, 1.5M.")
    ] = None,
    target_psnr: Annotated[
        float | None, typer.Option("--target-psnr", metavar="DB", help="At this PSNR.")
    ] = None,
    report: Annotated[
        str | None,
        typer.Option("--report", metavar="DIR", help="Write the page there, and the data beside."),
    ] = None,
    curves: Annotated[
        bool,
        typer.Option("--curves/--no-curves", help="On the page, also draw quality against size."),
    ] = True,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME|PATH", help="A shipped model, or a file.")
    ] = "photo",
    tune: options.TuneName = "visual",
    max_pixels: options.MaxPixels = DEFAULT_MAX_PIXELS,
    workers: options.Workers = None,
    force: options.Force = False,
    as_json: options.Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Report as CSV, without means.")] = False,
) -> None:
    """Code pictures by several codecs, all to the same size or quality, and show what comes back.

    Alpha is left out: not every codec has it. The page, DIR/index.html, needs nothing from
    elsewhere; what it says stands in comparison.json and comparison.csv beside it.
    """
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    aim = _aim(at_quality, quality, bpp, target_size, target_psnr)
    if report is not None:
        _check_report(report, force, curves)

    from cscodec.model import load_model
    from cscodec.parallel import available_workers

    names = _installed(codecs)
    found = pictures.find(inputs, recursive)
    run = _Run(
        names,
        {"model": load_model(model), "tune": tune, "max_pixels": max_pixels},
        aim,
        len(found.files),
        curves=curves and report is not None,
        workers=workers or available_workers(),
    )
    _, failures = pictures.for_each(found, run.add, label="comparing", max_pixels=max_pixels)
    if report is not None and run.rows:
        run.write(report, context.obj, force)
    run.report(as_json, as_csv)
    batch.finish(failures)


@dataclass(frozen=True)
class _Aim:
    """What the files of a picture shall have in common."""

    by_quality: bool
    quality: float = DEFAULT_QUALITY
    bits_per_pixel: float | None = None
    num_bytes: int | None = None
    psnr_db: float | None = None

    def target(self, pixels: Pixels, own: Codec) -> Target:
        from cscodec.evaluation.comparison import Target, code, target_of
        from cscodec.evaluation.metrics import bits_per_pixel

        if self.psnr_db is not None:
            return Target(psnr_db=self.psnr_db)
        if self.num_bytes is not None:
            return Target(bits_per_pixel=bits_per_pixel(self.num_bytes, pixels.shape))
        if self.bits_per_pixel is not None:
            return Target(bits_per_pixel=self.bits_per_pixel)
        return target_of(code(pixels, own, self.quality), quality=self.by_quality)


def _aim(
    at_quality: bool | None,
    quality: float | None,
    bpp: float | None,
    target_size: str | None,
    target_psnr: float | None,
) -> _Aim:
    given = [value for value in (quality, bpp, target_size, target_psnr) if value is not None]
    if len(given) > 1:
        raise typer.BadParameter(
            "-q, --bpp, --target-size and --target-psnr exclude each other; give one"
        )
    if at_quality and (bpp is not None or target_size is not None):
        raise typer.BadParameter("--at-quality goes with -q or --target-psnr, not with a size")
    if at_quality is False and target_psnr is not None:
        raise typer.BadParameter("--at-size goes with -q, --bpp or --target-size, not with a PSNR")
    for flag, value in (("--bpp", bpp), ("--target-psnr", target_psnr)):
        if value is not None and not 0 < value < float("inf"):
            raise typer.BadParameter(f"{flag} is {value:g}; allowed are finite numbers above 0")
    return _Aim(
        bool(at_quality) or target_psnr is not None,
        DEFAULT_QUALITY if quality is None else quality,
        bpp,
        None if target_size is None else options.parse_bytes(target_size),
        target_psnr,
    )


def _check_report(folder: str, force: bool, with_curves: bool) -> None:
    from cscodec.evaluation.charts import require_matplotlib
    from cscodec.evaluation.comparison_page import PAGE_NAME

    if os.path.exists(folder) and not os.path.isdir(folder):
        raise typer.BadParameter(f"--report {folder}: exists and is not a folder")
    for name in (PAGE_NAME, *DATA_NAMES):
        files.check_target(os.path.join(folder, name), force)
    if with_curves:
        require_matplotlib()


def _installed(asked: str | None) -> list[str]:
    """Names of the codecs to compare: those asked for, or the usual ones that are there."""
    from cscodec.evaluation.codecs import codec_named

    names = [name.strip() for name in (asked or USUAL_CODECS).split(",")]
    if twice := [name for name in names if names.count(name) > 1]:
        raise typer.BadParameter(f"--codecs: {twice[0]!r} stands there twice")
    found = []
    for name in names:
        try:
            codec_named(name, 3)
            found.append(name)
        except InvalidInputError as error:
            if asked:
                raise typer.BadParameter(f"--codecs: {error}") from None
            console.say(f"{name} is left out: {error}")
    return found


@dataclass
class _Run:
    """What is compared, and what came of it so far."""

    names: Sequence[str]
    own_options: dict[str, Any]
    aim: _Aim
    num_pictures: int
    curves: bool
    workers: int
    rows: list[Row] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def add(self, source: str, pixels: Pixels) -> None:
        """Compare one picture."""
        from cscodec.evaluation.codecs import codec_named
        from cscodec.evaluation.comparison import compare_picture
        from cscodec.evaluation.comparison_page import shown
        from cscodec.transform.colour import without_alpha

        pixels = without_alpha(pixels)
        channels = 1 if pixels.ndim == 2 else 3
        own = codec_named("cscodec", channels, **self.own_options)
        codecs = [own if name == "cscodec" else codec_named(name, channels) for name in self.names]
        self.settings = {codec.name: codec.description for codec in codecs}
        target = self.aim.target(pixels, own)
        steps: Iterable[Codec] = codecs
        if self.num_pictures == 1:  # otherwise progress is counted in pictures
            steps = console.with_progress(codecs, len(codecs), "comparing")
        found = compare_picture(pixels, steps, target, curves=self.curves, workers=self.workers)
        self.rows += [{"input": source, **row} for row in found.rows()]
        self.shown.append(shown(Path(source).name, found, len(self.shown), self.num_pictures))

    def means(self) -> list[Row]:
        """Mean of each codec over the pictures."""
        from cscodec.evaluation.comparison import codec_means

        return [{"input": f"mean of {len(self.shown)}", **row} for row in codec_means(self.rows)]

    def as_dict(self) -> dict[str, Any]:
        """All that was measured, for JSON."""
        from cscodec.evaluation.comparison import quality_row

        curves = [
            {"input": picture.name, "codec": codec, "setting": point.setting, **quality_row(point)}
            for picture in self.shown
            for codec, points in picture.curves.items()
            for point in points
        ]
        return {
            "common": "quality" if self.aim.by_quality else "size",
            "settings": self.settings,
            "pictures": self.rows,
            "means": self.means(),
            "curves": curves,
        }

    def csv(self) -> str:
        """A row for each picture and codec."""
        from cscodec.evaluation.report import csv_table

        return csv_table(list(self.rows[0]), [list(row.values()) for row in self.rows])

    def write(self, folder: str, command: str, force: bool) -> None:
        """Write the page, and the data beside it."""
        from cscodec.evaluation.comparison_page import PAGE_NAME, render_page
        from cscodec.evaluation.report import json_text

        page = render_page(
            self.shown, by_quality=self.aim.by_quality, settings=self.settings, command=command
        )
        texts = (json_text(self.as_dict()), self.csv(), page)
        for name, text in zip((*DATA_NAMES, PAGE_NAME), texts, strict=True):
            # Names of files may hold bytes that are no text.
            data = text.encode("utf-8", "backslashreplace")
            files.write_bytes(os.path.join(folder, name), data, force)
        console.say(f"report: {os.path.join(folder, PAGE_NAME)}")

    def report(self, as_json: bool, as_csv: bool) -> None:
        """Print what was measured."""
        from cscodec.evaluation.metrics import readable_db
        from cscodec.evaluation.report import text_table

        if as_json:
            batch.show_json(self.as_dict())
        elif not self.rows:
            return
        elif as_csv:
            console.show(self.csv().rstrip("\n"))
        else:
            means = self.means() if len(self.shown) > 1 else []
            heads = ["picture", "codec", "bytes", "bpp", "PSNR", "SSIM", "encode s", "decode s", ""]
            table = [
                [
                    row["input"],
                    row["codec"],
                    round(row["num_bytes"]),
                    row["bits_per_pixel"],
                    readable_db(row["psnr_db"]),
                    row["ssim"],
                    row["encode_s"],
                    row["decode_s"],
                    "" if row["met"] else "as near as it gets",
                ]
                for row in (*self.rows, *means)
            ]
            console.show(text_table(heads, table, digits=3))
