"""Rate-distortion curves and BD-rates against JPEG, WebP, JPEG 2000 and AVIF.

    python benchmarks/rate_distortion.py                 # everything, a few minutes
    python benchmarks/rate_distortion.py --quick         # four pictures of each set, fewer points

Needs the environment variable CSCODEC_DATA: a folder with table2/ (gray) and kodak12/ (colour).
The anchors are slow and do not change: their points are kept in --cache, keyed by the picture's
content, the options and the version of Pillow.

A prototype is measured the same way from Python:

    from rate_distortion import compare
    compare({"kodak12": codec})      # codec: cscodec.evaluation.codecs.Codec
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from machine import describe_machine
from PIL import Image

from cscodec.arrays import Pixels
from cscodec.evaluation import charts, report
from cscodec.evaluation.codecs import Codec, anchors, cscodec_codec
from cscodec.evaluation.rate_distortion import (
    Point,
    Quality,
    bd_rate_of,
    mean_bd_rate,
    measure,
)

ROOT = Path(__file__).resolve().parents[1]
RATE_RANGE = (0.2, 1.5)
QUALITIES: dict[str, dict[Quality, str]] = {
    "table2": {"psnr_y_db": "PSNR", "ssim": "SSIM"},
    "kodak12": {"psnr_y_db": "PSNR of Y'", "psnr_rgb_db": "PSNR over RGB", "ssim": "SSIM of Y'"},
}
SETTINGS = (3.0, 10.0, 18.0, 27.0, 37.0, 48.0, 58.0, 68.0, 77.0, 85.0, 91.0)
QUICK_SETTINGS = (5.0, 20.0, 38.0, 55.0, 70.0, 85.0)
Curves = dict[str, list[Point]]  # codec -> points of one picture


def compare(
    codecs: Mapping[str, Codec],
    *,
    names: Sequence[str] | None = None,
    rivals: Sequence[str] | None = None,
    cache: Path | None = None,
    workers: int = 2,
    verbose: bool = True,
) -> dict[str, dict[str, Curves]]:
    """Measure one codec on each set beside the anchors.

    Parameters
    ----------
    codecs : mapping of set ("table2", "kodak12") to Codec
    names : sequence of str, optional
        Only pictures with these stems.
    rivals : sequence of str, optional
        Only these anchors.
    cache : Path, optional
        Where points of the anchors are kept; a folder in the system's temporary one by default.

    Returns
    -------
    dict
        set -> picture -> codec -> points; the measured codec comes first.
    """
    cache = default_cache() if cache is None else cache
    results: dict[str, dict[str, Curves]] = {}
    for set_name, codec in codecs.items():
        paths = pictures(set_name, names)
        if paths:
            results[set_name] = {}
        for path in paths:
            pixels = np.asarray(Image.open(path))
            started = time.perf_counter()
            curves = {codec.name: measure(pixels, codec.code, codec.settings, workers=workers)}
            seconds = time.perf_counter() - started
            for rival, anchor in anchors(1 if pixels.ndim == 2 else 3).items():
                if rivals is None or rival in rivals:
                    curves[rival] = cached(anchor, pixels, cache, workers)
            results[set_name][path.stem] = curves
            if verbose:
                print(f"{set_name}/{path.stem}: {seconds:.1f} s", file=sys.stderr)
    return results


def cached(codec: Codec, pixels: Pixels, cache: Path, workers: int) -> list[Point]:
    """Points of an anchor, measured once per picture and options."""
    key = f"{codec.name} {codec.description} {codec.settings} Pillow {PIL.__version__}"
    digest = hashlib.sha256(f"{key} {pixels.shape}".encode() + pixels.tobytes())
    file = cache / f"{digest.hexdigest()[:24]}.json"
    if not file.exists():
        points = measure(pixels, codec.code, codec.settings, workers=workers)
        cache.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([asdict(point) for point in points]))
    return [Point(**point) for point in json.loads(file.read_text())]


def bd_rates(
    curves: Mapping[str, Curves], quality: Quality, rate_range: tuple[float, float]
) -> dict[str, dict[str, float]]:
    """BD-rate in per cent of each picture's first codec against each other one, and the mean."""
    table: dict[str, dict[str, float]] = {}
    for picture, by_codec in curves.items():
        (_, own), *others = by_codec.items()
        table[picture] = {
            name: bd_rate_of(points, own, quality, rate_range) for name, points in others
        }
    rivals = next(iter(table.values()), {})
    table["mean"] = {
        name: mean_bd_rate([row[name] for row in list(table.values())]) for name in rivals
    }
    return table


def summarise(results: Mapping[str, Mapping[str, Curves]]) -> dict[str, Any]:
    """All BD-rates as nested dicts: set -> quality -> rate range -> picture -> anchor."""
    summary: dict[str, Any] = {}
    for set_name, curves in results.items():
        summary[set_name] = {
            quality: {_range_name(RATE_RANGE): bd_rates(curves, quality, RATE_RANGE)}
            for quality in QUALITIES[set_name]
        }
    if "table2" in results:
        narrow = (0.25, 1.5)
        summary["table2"]["psnr_y_db"][_range_name(narrow)] = bd_rates(
            results["table2"], "psnr_y_db", narrow
        )
    return summary


def print_summary(summary: Mapping[str, Any], per_picture: bool = True) -> None:
    """Print one table per set, quality and rate range."""
    for set_name, by_quality in summary.items():
        for quality, by_range in by_quality.items():
            for range_name, table in by_range.items():
                label = QUALITIES[set_name][quality]
                print(f"\nBD-rate (%) over {label}, {set_name}, {range_name}")
                shown = table if per_picture else {"mean": table["mean"]}
                rows = [[name, *row.values()] for name, row in shown.items()]
                print(report.text_table(["picture", *table["mean"]], rows, digits=1))


def mean_curves(curves: Mapping[str, Curves], quality: Quality) -> list[charts.Series]:
    """Mean quality over the pictures at fixed rates: what the figures in docs/ show."""
    rates = np.geomspace(*RATE_RANGE, 12)
    series = []
    for name in next(iter(curves.values())):
        rows = []
        for by_codec in curves.values():
            points = sorted(by_codec[name], key=lambda point: point.bits_per_pixel)
            x = [point.bits_per_pixel for point in points]
            y = [getattr(point, quality) for point in points]
            rows.append(np.interp(np.log(rates), np.log(x), y, left=np.nan, right=np.nan))
        mean = np.mean(rows, axis=0)
        series.append(charts.Series(name, list(zip(rates.tolist(), mean.tolist(), strict=True))))
    return series


def draw(results: Mapping[str, Mapping[str, Curves]], folder: Path) -> None:
    """Write one SVG per set and quality."""
    folder.mkdir(parents=True, exist_ok=True)
    for set_name, curves in results.items():
        for quality, label in QUALITIES[set_name].items():
            chart = charts.line_chart(
                mean_curves(curves, quality),
                title=f"{label}, mean of the {len(curves)} pictures of {set_name}",
                x_label="bits per pixel (whole file)",
                y_label=label + ("" if quality == "ssim" else " (dB)"),
                x_range=(0.0, RATE_RANGE[1]),
                better="up and left",
            )
            name = f"rate-distortion-{set_name}-{quality.replace('_', '-')}.svg"
            (folder / name).write_text(chart, encoding="utf-8")


def write(record: dict[str, Any], results: Mapping[str, Mapping[str, Curves]], path: Path) -> None:
    """Write the record as JSON, and the points beside it as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report.json_text(_rounded(record, 2)), encoding="utf-8")
    fields = [field.name for field in dataclass_fields(Point)]
    rows = [
        [set_name, picture, name, *(_rounded(value, 4) for value in asdict(point).values())]
        for set_name, curves in results.items()
        for picture, by_codec in curves.items()
        for name, points in by_codec.items()
        for point in points
    ]
    table = report.csv_table(["set", "picture", "codec", *fields], rows)
    path.with_suffix(".csv").write_text(table, encoding="utf-8")


def pictures(set_name: str, names: Sequence[str] | None = None) -> list[Path]:
    """Files of a set, by name."""
    folder = Path(os.environ["CSCODEC_DATA"]) / set_name
    found = [path for path in sorted(folder.glob("*.png")) if not names or path.stem in names]
    return found


def default_cache() -> Path:
    """Folder for the anchors' points."""
    return Path(tempfile.gettempdir()) / "cscodec-benchmarks"


def _range_name(rate_range: tuple[float, float]) -> str:
    return "{:g}-{:g} bpp".format(*rate_range)


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item, digits) for key, item in value.items()}
    return round(value, digits) if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(QUALITIES), choices=list(QUALITIES))
    parser.add_argument("--images", nargs="+", metavar="STEM", help="only these pictures")
    parser.add_argument("--anchors", nargs="+", metavar="NAME", choices=list(anchors(1)))
    parser.add_argument("--quick", action="store_true", help="every third picture, fewer points")
    parser.add_argument("--settings", nargs="+", type=float, metavar="QUALITY")
    parser.add_argument("--decoder", default="refine")
    parser.add_argument("--effort", type=int, default=1)
    parser.add_argument("--model", default="photo")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="folder for the anchors' points")
    parser.add_argument("--json", type=Path, help="write results here, points beside it as .csv")
    parser.add_argument("--charts", type=Path, help="write SVG curves into this folder")
    arguments = parser.parse_args()
    if "CSCODEC_DATA" not in os.environ:
        parser.error("set CSCODEC_DATA to the folder that holds table2/ and kodak12/")
    if arguments.quick:
        settings: Sequence[float] = arguments.settings or QUICK_SETTINGS
    else:
        settings = arguments.settings or SETTINGS
        whole = not (arguments.images or arguments.anchors or arguments.settings)
        if whole and set(arguments.sets) == set(QUALITIES):  # a full run: refresh what is committed
            arguments.json = arguments.json or ROOT / "benchmarks/results/rate_distortion.json"
            arguments.charts = arguments.charts or ROOT / "docs"
    options = {key: getattr(arguments, key) for key in ("decoder", "effort", "model")}
    results: dict[str, dict[str, Curves]] = {}
    for set_name in arguments.sets:
        codec = cscodec_codec(settings, **options)
        names = arguments.images
        if arguments.quick and not names:
            names = [path.stem for path in pictures(set_name)[::3]]
        results |= compare(
            {set_name: codec},
            names=names,
            rivals=arguments.anchors,
            cache=arguments.cache,
            workers=arguments.workers,
        )
    summary = summarise(results)
    print_summary(summary)
    if arguments.json:
        record = {
            "codec": options | {"settings": list(settings)},
            "anchors": {name: codec.description for name, codec in anchors(3).items()},
            "machine": describe_machine(),
            "bd_rate_percent": summary,
        }
        write(record, results, arguments.json)
    if arguments.charts:
        draw(results, arguments.charts)


if __name__ == "__main__":
    main()
