"""docs/rate-distortion.md from the record of rate_distortion.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from measures import GRAY_MEASURES, MEASURES

from cscodec.evaluation import report


class Goal(NamedTuple):
    """A BD-rate that is wanted: of a codec of ours, by a measure, against another."""

    set_name: str
    codec: str
    measure: str
    against: str
    wanted: float  # per cent, at most


# Of files for PSNR, by either effort; of files for the eye.
_PSNR = (
    ("kodak12", "psnr_y_db", "AVIF psnr", 0),
    ("kodak12", "psnr_rgb_db", "AVIF psnr", 0),
    ("kodak12", "ms_ssim", "AVIF psnr", 0),
    ("kodak12", "psnr_y_db", "HEIC", 3),
    ("kodak12", "psnr_y_db", "WebP", -26),
    ("kodak12", "psnr_y_db", "JPEG 2000", -26),
    ("kodak12", "psnr_y_db", "JPEG XL", -34),
    ("table2", "psnr_y_db", "AVIF psnr", 3),
)
GOALS = (
    *(
        Goal(pictures, codec, measure, against, wanted)
        for codec in ("cscodec psnr", "cscodec psnr effort 2")
        for pictures, measure, against, wanted in _PSNR
    ),
    Goal("kodak12", "cscodec", "ms_ssim", "AVIF iq", 10),
    Goal("kodak12", "cscodec", "ssimulacra2", "AVIF iq", 15),
    Goal("kodak12", "cscodec", "ssimulacra2", "JPEG XL", -5),
    Goal("kodak12", "cscodec", "psnr_y_db", "cscodec psnr", 4),
)
LABELS = {"kodak12": MEASURES, "table2": GRAY_MEASURES, "held-out": MEASURES}
CHARTED = {"kodak12", "table2"}


def rates_of(summary: Mapping[str, Any], goal: Goal) -> dict[str, float]:
    """BD-rates by picture, the mean first; empty if they were not measured."""
    table = summary.get(goal.set_name, {}).get(goal.codec, {}).get(goal.measure, {})
    return {picture: row[goal.against] for picture, row in table.items() if goal.against in row}


def measured_goals(summary: Mapping[str, Any]) -> list[list[report.Cell]]:
    """Rows of the goals that were measured."""
    rows: list[list[report.Cell]] = []
    for goal in GOALS:
        if rates := rates_of(summary, goal):
            label = LABELS[goal.set_name][goal.measure]
            cells = goal.set_name, goal.codec, label, goal.against
            rows.append([*cells, f"{goal.wanted:+.0f}", rates["mean"]])
    return rows


def page(record: Mapping[str, Any]) -> str:
    """Return docs/rate-distortion.md."""
    summary = record["bd_rate_percent"]
    sections = [
        _section(f"{name}, {TITLES[set_name]}", _means(by_measure, set_name))
        for set_name in LABELS
        for name, by_measure in summary.get(set_name, {}).items()
    ]
    machine = record["machine"]
    return PAGE_TEXT.format(
        goals=_signed_table(
            ["pictures", "file", "measure", "against", "wanted", "measured"],
            measured_goals(summary),
        ),
        means="\n\n".join(sections),
        pictures=_by_picture(summary),
        charts="\n\n".join(
            f"![{label} over bits per pixel, {TITLES[set_name]}]"
            f"(rate-distortion-{set_name}-{measure.replace('_', '-')}.svg)"
            for set_name, labels in LABELS.items()
            for measure, label in labels.items()
            if set_name in CHARTED & summary.keys()
        ),
        codecs="\n".join(
            f"- **{name}**: {description}"
            for name, description in [*record["ours"].items(), *record["anchors"].items()]
        ),
        low=record["range_bpp"][0],
        high=record["range_bpp"][1],
        machine=f"{machine['cpu']}, {machine['cpus']} CPUs",
    )


TITLES = {
    "kodak12": "twelve colour pictures",
    "table2": "ten gray pictures",
    "held-out": "seven colour pictures that nothing was tuned on",
}


def _section(title: str, table: str) -> str:
    return f"### {title}\n\n{table}"


def _means(by_measure: Mapping[str, Any], set_name: str) -> str:
    means = {measure: table["mean"] for measure, table in by_measure.items()}
    rows: list[list[report.Cell]] = [
        [LABELS[set_name][measure], *row.values()] for measure, row in means.items()
    ]
    return _signed_table(["", *next(iter(means.values()))], rows)


def _by_picture(summary: Mapping[str, Any]) -> str:
    """A column for each goal, a row for each picture; one table for each set."""
    tables = []
    for set_name in LABELS:
        columns = {
            f"{goal.codec}, {LABELS[set_name][goal.measure]}, {goal.against}": rates
            for goal in GOALS
            if goal.set_name == set_name and (rates := rates_of(summary, goal))
        }
        if columns:
            names = next(iter(columns.values()))
            rows: list[list[report.Cell]] = [
                [name, *(rates[name] for rates in columns.values())] for name in names
            ]
            tables.append(_signed_table(["", *columns], rows))
    return "\n\n".join(tables)


def _signed_table(headers: list[str], rows: list[list[report.Cell]]) -> str:
    signed = [[f"{cell:+.1f}" if isinstance(cell, float) else cell for cell in row] for row in rows]
    return report.markdown_table(headers, signed)


PAGE_TEXT = """# Rate and distortion

Written by `python benchmarks/rate_distortion.py`; do not edit. All numbers, by picture, are in
[rate_distortion.json](../benchmarks/results/rate_distortion.json), all points in the CSV beside it.

Numbers are BD-rates in per cent: how many more bytes our whole files take than another codec's to
reach the same quality, between {low} and {high} bits per pixel, mean over pictures. Negative: ours
are smaller. SSIM and MS-SSIM are compared in dB, -10 log10(1 - s). How curves are compared is
[decision 10](decisions/0010-comparing-curves.md).

## What was aimed at

{goals}

## Against every anchor

Steps, tilts and weights of the encoder were chosen on the first twelve pictures of Kodak and the
ten gray ones; tables and filters were learned from other photographs. From the seven held-out ones,
which are of the kind that was learned from, nothing was learned, and no such choice was made on
them.

{means}

## To look at

kodim03, 04 and 07 beside AVIF iq and WebP at 0.1, 0.2 and 0.35 bits per pixel
(`benchmarks/side_by_side.py`, the default tune), in crops of 300 x 300 pixels. At 0.2 and 0.35 ours
and AVIF's can hardly be told apart: lettering, shutters, petals and the straw of a hat are there in
both, colours agree, and nothing shows patches; but AVIF keeps finer strands of hair at 0.2. At 0.1
colours are right in both, the sky's blue and the shutters' green. AVIF keeps more hair and more of
the clouds, which are flat in ours, as hair and plaster are; ours keeps lettering as clear or
clearer, and the twig before the shutters, which AVIF smears. WebP shows blocks, jagged edges and
other colours up to 0.2.

## Picture by picture

{pictures}

## Curves

{charts}

## Codecs

{codecs}

Measured on {machine}.
"""
