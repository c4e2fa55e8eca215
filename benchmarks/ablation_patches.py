"""For ablation.py: codecs that lack a part of the entropy coder which no option switches off.

The package is copied, with what compiles its kernels, and a line of the copy is changed. In a
process of its own, the copy learns tables anew and codes the pictures.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ablation_models import relearn_tables, training_crops
from ablation_variant import Variant

import cscodec
from cscodec.evaluation.rate_distortion import Point
from cscodec.model import Model, load_model

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Patch:
    """A line of a file of the project, and what takes its place."""

    description: str
    file: str
    line: str
    replacement: str


PATCHES = {
    "first context": Patch(
        "one context per decision, its first; no mixing",
        "building/intrinsics.py",
        "logit = builder.ashr(builder.call(total, [products]), _INT32(12))",
        "logit = builder.extract_element(heard, _INT32(0))",
    ),
    "fixed weights": Patch(
        "mixing with equal weights that do not learn",
        "building/intrinsics.py",
        "error = builder.ashr(builder.trunc(error, _INT32), _INT32(1))",
        "error = _INT32(0)",
    ),
    "four neighbours": Patch(
        "predictions from the four neighbours coded before",
        "cscodec/learning/priors.py",
        "end = last if source < NUM_CAUSAL else first",
        "end = last if source < NUM_CAUSAL else 1",
    ),
}


def copy_patched(patch: Patch, folder: Path) -> None:
    """Copy the package and the compiler of its kernels into a folder, and change a line.

    Raises
    ------
    ValueError
        If the line to change is not there exactly once.
    """
    for name in ("building", "cscodec"):
        # Compiled kernels stay behind: they may be those of other sources.
        ignored = shutil.ignore_patterns("__pycache__", "native")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    path = folder / patch.file
    text = path.read_text(encoding="utf-8")
    if text.count(patch.line) != 1:
        raise ValueError(
            f"{patch.file} has {patch.line!r} {text.count(patch.line)} times, not once"
        )
    path.write_text(text.replace(patch.line, patch.replacement), encoding="utf-8")


def measure_patched(
    key: str, model: Model, every: int, paths: Sequence[Path], steps: Sequence[float], workers: int
) -> dict[str, list[Point]]:
    """Points of each picture, by a codec that lacks what ``PATCHES[key]`` takes away.

    Its tables are learned from every n-th training picture; the rest of the model stays.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_patched(PATCHES[key], folder)
        subprocess.run([sys.executable, "-m", "building.libraries"], cwd=folder, check=True)
        model.save(folder / "model.safetensors")
        task = {
            "folder": name,
            "every": every,
            "paths": [str(path) for path in paths],
            "steps": list(steps),
            "workers": workers,
        }
        subprocess.run(
            [sys.executable, __file__, json.dumps(task)],
            check=True,
            env=os.environ | {"PYTHONPATH": name},
        )
        points = json.loads((folder / "points.json").read_text(encoding="utf-8"))
    return {picture: [Point(**point) for point in found] for picture, found in points.items()}


def main() -> None:
    """Measure within the copied package: the other side of :func:`measure_patched`."""
    task = json.loads(sys.argv[1])
    folder = Path(task["folder"])
    if not Path(cscodec.__file__).is_relative_to(folder):
        raise RuntimeError(f"{cscodec.__file__} is not the copy in {folder}")
    crops = training_crops(Path(os.environ["CSCODEC_DATA"]) / "train/photos", task["every"])
    model = relearn_tables(load_model(folder / "model.safetensors"), crops)
    paths = [Path(path) for path in task["paths"]]
    found = Variant("patched", "", "", model).points(paths, task["steps"], task["workers"])
    points = {picture: [asdict(point) for point in curve] for picture, curve in found.items()}
    (folder / "points.json").write_text(json.dumps(points), encoding="utf-8")


if __name__ == "__main__":
    main()
