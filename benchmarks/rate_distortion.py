"""Rate-distortion curves and BD-rates against the strongest codecs, by what meters and eyes see.

    python benchmarks/rate_distortion.py            # everything; anchors take half an hour, once
    python benchmarks/rate_distortion.py --quick    # every third picture, fewer points
    python benchmarks/rate_distortion.py --page     # only docs/rate-distortion.md, from the record

Needs `pip install 'cscodec[bench]'` and the environment variable CSCODEC_DATA: a folder with
kodak12/ (colour), table2/ (gray) and train/photos/ (of which those that are held out). The anchors
are slow and do not change: their points are kept in --cache, by the picture's content, the options
and the libraries' versions.

A prototype is measured the same way from Python:

    from rate_distortion import compare, summarise
    summarise(compare([codec]))      # codec: cscodec.evaluation.codecs.Codec
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from anchors import anchors
from machine import describe_machine
from measures import MEASURES, RATE_RANGE, Point, bd_rate_of, curve, quality
from rate_distortion_page import CHARTED, LABELS, measured_goals, page

from cscodec.arrays import Pixels
from cscodec.evaluation import charts, report
from cscodec.evaluation.codecs import Codec, cscodec_codec
from cscodec.evaluation.rate_distortion import mean_bd_rate
from cscodec.images import read_picture
from cscodec.learning.corpus import list_pictures, split_pictures

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results/rate_distortion.json"
PAGE = ROOT / "docs/rate-distortion.md"
#: Codecs of ours that are measured: options of :func:`cscodec.encode`.
VARIANTS: dict[str, dict[str, Any]] = {
    "cscodec": {},
    "cscodec effort 2": {"effort": 2},
    "cscodec psnr": {"tune": "psnr"},
    "cscodec psnr effort 2": {"tune": "psnr", "effort": 2},
}
SETTINGS = (3.0, 10.0, 18.0, 27.0, 37.0, 48.0, 58.0, 68.0, 77.0, 85.0, 91.0)
QUICK_SETTINGS = (5.0, 20.0, 38.0, 55.0, 70.0, 85.0)

Curves = dict[str, list[Point]]  # codec -> points of one picture
Results = dict[str, dict[str, Curves]]  # set -> picture -> curves
Anchors = Callable[[int], Mapping[str, Codec]]


def compare(
    codecs: Sequence[Codec],
    *,
    sets: Sequence[str] = tuple(LABELS),
    names: Sequence[str] | None = None,
    rivals: Sequence[str] | None = None,
    cache: Path | None = None,
    workers: int = 2,
    every: int = 1,
) -> Results:
    """Measure codecs on sets of pictures, and the anchors beside them.

    Parameters
    ----------
    codecs : sequence of Codec
    sets : sequence of str
        Of ``kodak12``, ``table2`` and ``held-out``.
    names : sequence of str, optional
        Only pictures with these stems.
    rivals : sequence of str, optional
        Only these anchors.
    cache : Path, optional
        Where points of the anchors are kept; a folder in the system's temporary one by default.
    every : int
        Only every such picture.
    """
    cache = Path(tempfile.gettempdir()) / "cscodec-benchmarks" if cache is None else cache
    results: Results = {}
    for set_name in sets:
        results[set_name] = {}
        for path in pictures(set_name, names)[::every]:
            pixels = read_picture(path).pixels
            started = time.perf_counter()
            curves = {codec.name: curve(pixels, codec, workers=workers) for codec in codecs}
            seconds = time.perf_counter() - started
            for name, anchor in _chosen(rivals, pixels).items():
                curves[name] = curve(pixels, anchor, cache=cache, workers=workers)
            results[set_name][path.stem] = curves
            print(f"{set_name}/{path.stem}: {seconds:.0f} s", file=sys.stderr)
    return results


def _chosen(rivals: Sequence[str] | None, pixels: Pixels) -> dict[str, Codec]:
    found = anchors(1 if pixels.ndim == 2 else 3)
    return {name: codec for name, codec in found.items() if rivals is None or name in rivals}


def summarise(results: Results, own: Sequence[str] | None = None) -> dict[str, Any]:
    """BD-rates in per cent of our codecs against all others.

    Parameters
    ----------
    own : sequence of str, optional
        Names of our codecs; by default those of `VARIANTS`.

    Returns
    -------
    dict
        set -> codec of ours -> measure -> picture, or ``mean`` -> other codec -> BD-rate.
    """
    summary: dict[str, Any] = {}
    for set_name, curves in results.items():
        names = list(next(iter(curves.values()), {}))
        summary[set_name] = {
            name: {measure: _bd_rates(curves, name, measure) for measure in LABELS[set_name]}
            for name in names
            if name in (own or VARIANTS)
        }
    return summary


def _bd_rates(curves: Mapping[str, Curves], own: str, measure: str) -> dict[str, dict[str, float]]:
    table = {
        picture: {
            name: bd_rate_of(points, by_codec[own], measure)
            for name, points in by_codec.items()
            if name != own
        }
        for picture, by_codec in curves.items()
    }
    others = next(iter(table.values()))
    means = {name: mean_bd_rate([row[name] for row in table.values()]) for name in others}
    return {"mean": means} | table


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print the goals, and the means of everything."""
    for set_name, by_codec in summary.items():
        for name, by_measure in by_codec.items():
            means = {measure: table["mean"] for measure, table in by_measure.items()}
            others = list(next(iter(means.values())))
            rows = [[LABELS[set_name][measure], *row.values()] for measure, row in means.items()]
            print(f"\nBD-rate (%) of {name} on {set_name}")
            print(report.text_table(["", *others], rows, digits=1))
    if goals := measured_goals(summary):
        print()
        print(report.text_table(["set", "codec", "measure", "against", "wanted", "%"], goals, 1))


def mean_curves(curves: Mapping[str, Curves], measure: str) -> list[charts.Series]:
    """Mean quality over the pictures at fixed rates: what the figures in docs/ show."""
    rates = np.geomspace(*RATE_RANGE, 12)
    series = []
    for name in next(iter(curves.values())):
        rows = []
        for by_codec in curves.values():
            points = sorted(by_codec[name], key=lambda point: point["bits_per_pixel"])
            x = np.log([point["bits_per_pixel"] for point in points])
            y = [quality(point, measure) for point in points]
            rows.append(np.interp(np.log(rates), x, y, left=np.nan, right=np.nan))
        mean = np.mean(rows, axis=0)
        series.append(charts.Series(name, list(zip(rates.tolist(), mean.tolist(), strict=True))))
    return series


def draw(results: Results, folder: Path) -> None:
    """Write one SVG per measure and set."""
    folder.mkdir(parents=True, exist_ok=True)
    for set_name in CHARTED & results.keys():
        curves = results[set_name]
        for measure, label in LABELS[set_name].items():
            chart = charts.line_chart(
                mean_curves(curves, measure),
                title=f"{label}, mean of the {len(curves)} pictures of {set_name}",
                x_label="bits per pixel (whole file)",
                y_label=label if measure == "ssimulacra2" else f"{label} (dB)",
                x_range=(0.0, RATE_RANGE[1]),
                better="up and left",
            )
            name = f"rate-distortion-{set_name}-{measure.replace('_', '-')}.svg"
            (folder / name).write_text(chart, encoding="utf-8")


def write(record: dict[str, Any], results: Results, path: Path) -> None:
    """Write the record as JSON, and the points beside it as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report.json_text(_rounded(record, 2)), encoding="utf-8")
    fields = ["setting", "num_bytes", "bits_per_pixel", *MEASURES]
    rows = [
        [set_name, picture, name, *(_rounded(point.get(field), 4) for field in fields)]
        for set_name, curves in results.items()
        for picture, by_codec in curves.items()
        for name, points in by_codec.items()
        for point in points
    ]
    table = report.csv_table(["set", "picture", "codec", *fields], rows)
    path.with_suffix(".csv").write_text(table, encoding="utf-8")


def pictures(set_name: str, names: Sequence[str] | None = None) -> list[Path]:
    """Files of a set, by name."""
    folder = Path(os.environ["CSCODEC_DATA"])
    if set_name == "held-out":
        _, held_out = split_pictures(list_pictures([str(folder / "train" / "photos")]))
        found = [Path(picture.path) for picture in held_out]
    else:
        found = sorted((folder / set_name).glob("*.png"))
    return [path for path in found if not names or path.stem in names]


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item, digits) for key, item in value.items()}
    return round(value, digits) if isinstance(value, float) else value


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(LABELS), choices=list(LABELS))
    parser.add_argument("--images", nargs="+", metavar="STEM", help="only these pictures")
    parser.add_argument("--anchors", nargs="*", metavar="NAME", help="only these; may be none")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--quick", action="store_true", help="every third picture, fewer points")
    parser.add_argument("--settings", nargs="+", type=float, metavar="QUALITY")
    parser.add_argument("--decoder", default="refine")
    parser.add_argument("--effort", type=int, default=1, help="of variants that don't name it")
    parser.add_argument("--model", default="photo")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="folder for the anchors' points")
    parser.add_argument("--json", type=Path, help="write results here, points beside it as .csv")
    parser.add_argument("--charts", type=Path, help="write SVG curves into this folder")
    parser.add_argument("--page", action="store_true", help="only write docs/rate-distortion.md")
    arguments = parser.parse_args()
    if not arguments.page and "CSCODEC_DATA" not in os.environ:
        parser.error("set CSCODEC_DATA to the folder that holds kodak12/, table2/ and train/")
    return arguments


def main() -> None:
    arguments = _arguments()
    if arguments.page:
        PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")
        return
    settings = arguments.settings or (QUICK_SETTINGS if arguments.quick else SETTINGS)
    options = {key: getattr(arguments, key) for key in ("decoder", "effort", "model")}
    codecs = [
        cscodec_codec(settings, name, **(options | VARIANTS[name])) for name in arguments.variants
    ]
    results = compare(
        codecs,
        sets=arguments.sets,
        names=arguments.images,
        rivals=arguments.anchors,
        cache=arguments.cache,
        workers=arguments.workers,
        every=3 if arguments.quick and not arguments.images else 1,
    )
    summary = summarise(results)
    print_summary(summary)
    record = {
        "ours": {codec.name: codec.description for codec in codecs},
        "anchors": {name: codec.description for name, codec in anchors(3).items()},
        "range_bpp": list(RATE_RANGE),
        "machine": describe_machine(),
        "bd_rate_percent": summary,
    }
    part = arguments.quick or arguments.images or arguments.settings
    whole = not part and arguments.anchors is None and set(arguments.sets) == set(LABELS)
    if whole:  # refresh what is committed
        arguments.json = arguments.json or RESULTS
        arguments.charts = arguments.charts or ROOT / "docs"
    if arguments.json:
        write(record, results, arguments.json)
    if arguments.charts:
        draw(results, arguments.charts)
    if whole:
        PAGE.write_text(page(_rounded(record, 2)), encoding="utf-8")


if __name__ == "__main__":
    main()
