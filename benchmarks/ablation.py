"""What each part of the codec buys: BD-rates of codecs that lack one, against the whole.

    python benchmarks/ablation.py            # ten minutes of CPU; JSON and docs/ablation.md
    python benchmarks/ablation.py --page     # only the page, from the committed JSON

Needs the environment variable CSCODEC_DATA: a folder with table2/, kodak12/ and train/photos.
Variants that change the basis or the coder itself get tables (and filters) of their own. As that
takes long it is done on every sixth training picture, in gray, and they are held against the whole
codec with tables and filters from the same pictures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ablation_models import (
    other_bases,
    relearn,
    states_without_predictions,
    training_crops,
    unlapped,
)
from ablation_page import page
from ablation_patches import PATCHES, measure_patched
from ablation_variant import FULL, SETS, Variant
from machine import describe_machine
from measures import RATE_RANGE
from rate_distortion import pictures

from cscodec.arrays import Pixels
from cscodec.bitstream.tables import neutral_tables
from cscodec.evaluation import report
from cscodec.evaluation.rate_distortion import Point, Quality, bd_rate_of, mean_bd_rate
from cscodec.model import Model, load_model

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results/ablation.json"
PAGE = ROOT / "docs/ablation.md"

#: Between the steps that filters are learned at, where a picture's step will usually lie.
STEPS = (7.0, 10.0, 15.0, 22.0, 33.0, 50.0)
#: What the sets are compared by.
QUALITIES: dict[str, tuple[Quality, ...]] = {
    "table2": ("psnr_y_db", "ssim"),
    "kodak12": ("psnr_y_db", "psnr_rgb_db", "ssim"),
}
EVERY = 6  #: of how many training pictures one is used
RELEARNED = "relearned"  #: key of the whole codec with tables and filters from fewer pictures
#: How codecs that learn from fewer pictures are measured.
ALONE: dict[str, Any] = {"against": RELEARNED, "sets": SETS[:1]}


def variants(model: Model, crops: Sequence[Pixels]) -> list[Variant]:
    """Every codec of the table; those that learn for themselves learn from ``crops``."""
    own = relearn(model, model.luma.basis, crops)
    bases = {
        name: relearn(model, basis, crops) for name, basis in other_bases(model.luma, crops).items()
    }
    nothing = replace(bases["cosine transform"], tables={}, filters={})
    return [
        Variant(FULL, "", "", model),
        *restorations(model),
        Variant("effort 0", "search", "plain rounding", model, {"effort": 0}),
        Variant("effort 2", "search", "twice, with foresight", model, {"effort": 2}),
        *coders(model),
        *coders_learned_anew(own, crops),
        Variant(
            "unlapped", "lapping", "patches measured as they are", unlapped(model, crops), **ALONE
        ),
        *(Variant(name, "basis", name, basis, **ALONE) for name, basis in bases.items()),
        Variant("one segment", "layers", "one segment per tile", model, one_segment=True),
        Variant(
            "4:4:4", "chroma at half size", "4:4:4", model, {"subsampling": "4:4:4"},
            sets=SETS[1:],
        ),
        Variant(
            RELEARNED, "training pictures", "fewer, gray, for tables and filters", own,
            sets=SETS[:1],
        ),
        Variant(
            "none", "all but layers", "cosines, no learned tables, plain rounding, linear decoder",
            nothing, {"effort": 0}, decoder="linear", sets=SETS[:1],
        ),
    ]  # fmt: skip


def restorations(model: Model) -> list[Variant]:
    """The same files, decoded in other ways."""
    part = "restoration"
    without_filters = replace(model, filters={})
    # Filters of zeros change nothing: what is left is shrinkage.
    unfiltered = replace(model, filters={k: np.zeros_like(v) for k, v in model.filters.items()})
    return [
        Variant("omp", part, "averages of OMP codes", without_filters),
        Variant("shrinkage", part, "shrinkage, no learned filters", unfiltered),
        Variant(
            "consistent", part, "OMP, K = 4, patch by patch, into the cells", model,
            decoder="consistent",
        ),
        Variant("linear", part, "none: middles of the cells", model, decoder="linear"),
    ]  # fmt: skip


def coders(model: Model) -> list[Variant]:
    """Codecs with neutral tables in place of some of the model's."""
    part = "entropy coder"
    learned, neutral = dict(model.tables), neutral_tables().as_mapping()
    states = {"slots", "counts", "weights"}
    means = {name for name in learned if name.startswith("mean_")}
    networks = learned.keys() - states - means

    def without(names: Set[str]) -> Model:
        tables = {name: (neutral if name in names else learned)[name] for name in learned}
        return replace(model, tables=tables)

    return [
        Variant("neutral", part, "no learned tables at all", replace(model, tables={})),
        Variant("predictors", part, "learned predictions, neutral states", without(states)),
        Variant("no mean networks", part, "neutral networks of means", without(means)),
        Variant(
            "no networks", part, "neutral networks of the other measurements", without(networks)
        ),
    ]


def coders_learned_anew(own: Model, crops: Sequence[Pixels]) -> list[Variant]:
    """Codecs whose coder is another, with tables that fit it."""
    part = "entropy coder"
    unpredicted = replace(own, tables=states_without_predictions(own, crops))
    return [
        Variant(
            "unpredicted", part, "neutral predictions, states learned anew", unpredicted, **ALONE
        ),
        *(
            Variant(key, part, patch.description, own, patched=True, **ALONE)
            for key, patch in PATCHES.items()
        ),
    ]


Curves = dict[str, dict[str, dict[str, list[Point]]]]  # variant -> set -> picture -> points


def run(
    compared: Sequence[Variant],
    paths: Mapping[str, Sequence[Path]],
    steps: Sequence[float] = STEPS,
    workers: int = 2,
) -> Curves:
    """Measure every variant on the pictures of its sets."""
    curves: Curves = {}
    for variant in compared:
        started = time.perf_counter()
        curves[variant.key] = {
            name: measure_patched(variant.key, variant.model, EVERY, paths[name], steps, workers)
            if variant.patched
            else variant.points(paths[name], steps, workers)
            for name in variant.sets
        }
        print(f"{variant.key}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return curves


def summarise(compared: Sequence[Variant], curves: Curves) -> list[dict[str, Any]]:
    """BD-rates in per cent: how many more bytes a codec needs without the part."""
    rows = []
    for variant in compared[1:]:
        rates: dict[str, Any] = {}
        for name in variant.sets:
            rates[name] = {}
            own, others = curves[variant.key][name], curves[variant.against][name]
            for quality in QUALITIES[name]:
                by_picture = {
                    picture: bd_rate_of(others[picture], own[picture], quality, RATE_RANGE)
                    for picture in own
                }
                mean = mean_bd_rate(list(by_picture.values()))
                rates[name][quality] = {"mean": mean} | by_picture
        rows.append(
            {
                "key": variant.key,
                "part": variant.part,
                "instead": variant.description,
                "against": variant.against,
                "bd_rate_percent": rates,
            }
        )
    return rows


def layer_cost(curves: Curves) -> float:
    """The most that layers cost in any file, as a share of the file without them."""
    return max(
        layered.num_bytes / single.num_bytes - 1
        for name, by_picture in curves["one segment"].items()
        for picture, points in by_picture.items()
        for single, layered in zip(points, curves[FULL][name][picture], strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="photo")
    parser.add_argument("--page", action="store_true", help="only write the page, from the JSON")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    if not arguments.page:
        if "CSCODEC_DATA" not in os.environ:
            parser.error("set CSCODEC_DATA to the folder that holds table2/, kodak12/ and train/")
        model = load_model(arguments.model)
        crops = training_crops(Path(os.environ["CSCODEC_DATA"]) / "train/photos", EVERY)
        paths = {"table2": pictures("table2"), "kodak12": pictures("kodak12")[::3]}
        started = time.process_time()
        compared = variants(model, crops)
        print(f"learning: {time.process_time() - started:.0f} s of CPU", file=sys.stderr)
        curves = run(compared, paths, workers=arguments.workers)
        record = {
            "model": model.name,
            "model_id": model.model_id.hex(),
            "steps": STEPS,
            "rate_range_bpp": RATE_RANGE,
            "pictures": {name: [path.stem for path in found] for name, found in paths.items()},
            "num_training_crops": len(crops),
            "cpu_s": round(time.process_time() - started),
            "machine": describe_machine(),
            "largest_layer_cost": round(layer_cost(curves), 6),
            "variants": rounded(summarise(compared, curves)),
        }
        arguments.json.write_text(report.json_text(record), encoding="utf-8")
    text = page(json.loads(arguments.json.read_text(encoding="utf-8")))
    (PAGE if arguments.json == RESULTS else arguments.json.with_suffix(".md")).write_text(
        text, encoding="utf-8"
    )


def rounded(value: Any) -> Any:
    """The same with two decimals."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 2) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
