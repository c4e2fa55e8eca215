"""What the quality scale means: what a number costs, looks like, and how alike it looks elsewhere.

    python benchmarks/quality_scale.py            # JSON, docs/quality-scale.png and its page
    python benchmarks/quality_scale.py --page     # only the page, from the committed JSON

Needs `pip install 'cscodec[bench]'` and the environment variable CSCODEC_DATA: a folder with
kodak12/. AVIF runs once for each picture, at the number where it looks about like ours at 75.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from anchors import anchors
from machine import describe_machine
from measures import curve
from rate_distortion import ROOT, pictures
from sheet import box_of, draw_sheet

from cscodec.evaluation import report
from cscodec.evaluation.codecs import cscodec_codec
from cscodec.evaluation.comparison import code
from cscodec.images import read_picture

RESULTS = ROOT / "benchmarks/results/quality_scale.json"
PAGE, STRIP = ROOT / "docs/quality-scale.md", ROOT / "docs/quality-scale.png"
QUALITIES = (20.0, 40.0, 60.0, 75.0, 90.0)
COMPARED = {"cscodec": 75.0, "AVIF iq": 60.0}  # at these numbers, spreads are held together

Table = dict[str, dict[str, dict[str, float]]]  # codec at a quality -> picture -> point


def measure_pictures(paths: Sequence[Path], workers: int) -> Table:
    """Points of every picture at `QUALITIES` by our codec, and at its one number by AVIF."""
    ours = cscodec_codec(QUALITIES)
    rival = replace(anchors(3)["AVIF iq"], settings=(COMPARED["AVIF iq"],))
    table: Table = {}
    for path in paths:
        pixels = read_picture(path).pixels
        for codec in (ours, rival):
            for point in curve(pixels, codec, workers=workers, most=float("inf")):
                key = f"{codec.name} {point['setting']:g}"
                table.setdefault(key, {})[path.stem] = point
    return table


def spread(points: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Mean, standard deviation and extent of SSIMULACRA2 over pictures."""
    scores = [point["ssimulacra2"] for point in points.values()]
    return {"mean": fmean(scores), "deviation": stdev(scores), "extent": max(scores) - min(scores)}


def draw_strip(picture: Path, crop: str, zoom: int) -> None:
    """The same part at every quality, and what the file costs."""
    pixels = read_picture(picture).pixels
    codec = cscodec_codec(QUALITIES)
    panels = []
    for quality in QUALITIES:
        coded = code(pixels, codec, quality)
        panels.append((f"{quality:g}: {coded.point.bits_per_pixel:.2f} bpp", coded.pixels))
    panels.append(("original", pixels))
    draw_sheet([panels[:3], panels[3:]], box_of(crop), zoom).save(STRIP, optimize=True)


def page(record: Mapping[str, Any]) -> str:
    """Return docs/quality-scale.md."""
    points = record["points"]
    costs: list[list[report.Cell]] = []
    for quality in QUALITIES:
        row = points[f"cscodec {quality:g}"].values()
        mean = {name: fmean(point[name] for point in row) for name in next(iter(row))}
        rates = sorted(point["bits_per_pixel"] for point in row)
        costs.append(
            [
                f"{quality:g}",
                f"{mean['bits_per_pixel']:.2f}",
                f"{rates[0]:.2f} to {rates[-1]:.2f}",
                f"{125 * mean['bits_per_pixel']:.0f}",
                f"{mean['psnr_y_db']:.1f}",
                f"{mean['ssimulacra2']:.0f}",
                f"{spread(points[f'cscodec {quality:g}'])['deviation']:.1f}",
            ]
        )
    spreads: list[list[report.Cell]] = [
        [f"{name} at {quality:g}", *record["spread"][name].values()]
        for name, quality in COMPARED.items()
    ]
    return PAGE_TEXT.format(
        costs=report.markdown_table(
            ["quality", "bits per pixel", "from picture to picture", "KB per megapixel",
             "PSNR of Y' (dB)", "SSIMULACRA2", "its deviation"],
            costs,
        ),
        spreads=report.markdown_table(
            ["codec", "mean", "standard deviation", "largest less smallest"], spreads, digits=1
        ),
        num_pictures=len(next(iter(points.values()))),
    )  # fmt: skip


PAGE_TEXT = """# The quality scale

Written by `python benchmarks/quality_scale.py`; do not edit. All numbers, by picture, are in
[quality_scale.json](../benchmarks/results/quality_scale.json).

![One picture at qualities 20, 40, 60, 75 and 90, and as it was](quality-scale.png)

What each costs, mean over {num_pictures} photographs (kodak12), default settings, whole files:

{costs}

SSIMULACRA2 says how alike two pictures look: 90 can hardly be told apart, 70 is high quality, 50
medium, 30 low.

## The same number, about the same look

SSIMULACRA2 over the same photographs at one number for all of them, and AVIF's (speed 4, its own
tune) at the number of its scale where it looks about as good. The less it varies, the less has a
number to be chosen picture by picture:

{spreads}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=ROOT / "samples/cat.png")
    parser.add_argument("--crop", default="300,150,280,240", metavar="X,Y,W,H")
    parser.add_argument("--zoom", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    if not arguments.page:
        if "CSCODEC_DATA" not in os.environ:
            parser.error("set CSCODEC_DATA to the folder that holds kodak12/")
        points = measure_pictures(pictures("kodak12"), arguments.workers)
        record = {
            "spread": {name: spread(points[f"{name} {at:g}"]) for name, at in COMPARED.items()},
            "points": points,
            "machine": describe_machine(),
        }
        RESULTS.write_text(report.json_text(record), encoding="utf-8")
        draw_strip(arguments.picture, arguments.crop, arguments.zoom)
    PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
