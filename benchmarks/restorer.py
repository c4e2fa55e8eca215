"""What decoders make of unquantised measurements, by the protocol of the paper's figures.

    python benchmarks/restorer.py                    # linear and learned: some minutes
    python benchmarks/restorer.py --decoder refine   # half an hour more
    python benchmarks/restorer.py --cosines          # with another Φ

Whole pictures of table2, in the folder that CSCODEC_DATA names: luma, the patch mean and the first
m measurements of paper-m20 in floats, 8-bit output, one thread. With --cosines, Φ is the cosines of
a patch in zig-zag order, as JPEG has them. Every decoder's figures stay in
benchmarks/results/restorer.json until it is run again, with the machine that it ran on. Seconds are
those of the processor, and include the measuring.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from machine import describe_machine

from cscodec.choices import UNQUANTISED_DECODERS
from cscodec.evaluation.metrics import psnr_db, ssim
from cscodec.evaluation.report import text_table
from cscodec.images import luma, read_picture
from cscodec.learning.restorer.sensing_matrices import orthonormal_rows, zigzag_cosines
from cscodec.learning.validation import PROTOCOL, sense_and_restore
from cscodec.model import System, load_model

RESULTS = Path(__file__).resolve().parent / "results" / "restorer.json"
MODEL = "paper-m20"
MEASUREMENTS = (20, 15, 10, 5)
DECODERS = ("linear", "learned")
COSINES = ", cosines"  # after the name of a decoder whose figures are with these

Plane = npt.NDArray[np.uint8]
Figures = dict[str, dict[str, dict[str, float]]]


def main() -> None:
    """Measure decoders, keep what was measured of others, print means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decoder", action="append", choices=UNQUANTISED_DECODERS)
    parser.add_argument("--cosines", action="store_true", help="as Φ, in place of paper-m20's")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    planes = read_planes(Path(os.environ["CSCODEC_DATA"]) / "table2")
    kept = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    results: dict[str, Any] = {
        "protocol": PROTOCOL.partition(";")[0],
        "model": MODEL,
        "decoders": kept.get("decoders", {}),
    }
    for decoder in arguments.decoder or DECODERS:
        figures: Figures = {}
        results["decoders"][decoder + COSINES * arguments.cosines] = {
            "machine": describe_machine(),
            "threads": 1,
            "figures": figures,
        }
        for m in MEASUREMENTS:
            figures[str(m)] = measure(planes, decoder, m, in_cosines=arguments.cosines)
            arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rows = [
        [decoder, m, *(round(value, 4) for value in mean(pictures).values())]
        for decoder, found in results["decoders"].items()
        for m, pictures in found["figures"].items()
    ]
    print(text_table(["decoder", "m", "PSNR (dB)", "SSIM", "seconds"], rows, digits=4))


def read_planes(folder: Path) -> dict[str, Plane]:
    """Luma of the pictures of a folder, by name."""
    return {path.stem: luma(read_picture(path).pixels) for path in sorted(folder.glob("*.png"))}


def measure(
    planes: dict[str, Plane], decoder: str, m: int, *, in_cosines: bool
) -> dict[str, dict[str, float]]:
    """Figures by picture."""
    system = load_model(MODEL).luma
    matrix, basis = system.sensing_matrix, system.basis
    if in_cosines:
        matrix = basis = orthonormal_rows(zigzag_cosines()).astype(np.float32)
    fewer = System(matrix[:m], system.dictionary, basis[:m])
    sense_and_restore(next(iter(planes.values()))[:32, :32], fewer, decoder)  # loads kernels
    figures = {}
    for name, plane in planes.items():
        started = time.process_time()
        restored = sense_and_restore(plane, fewer, decoder)
        seconds = time.process_time() - started
        figures[name] = {
            "psnr_db": psnr_db(plane, restored),
            "ssim": ssim(plane, restored),
            "seconds": seconds,
        }
    print(decoder, m, mean(figures), flush=True)
    return figures


def mean_rows(results: dict[str, Any]) -> list[str]:
    """Rows of a table of means, as docs/restorer.md has them: a row for each decoder."""
    rows = []
    for decoder, found in results["decoders"].items():
        means = [mean(found["figures"][str(m)]) for m in MEASUREMENTS if str(m) in found["figures"]]
        cells = [f"{figures['psnr_db']:.2f} / {figures['ssim']:.4f}" for figures in means]
        rows.append(f"| {_label(decoder)} | {' | '.join(cells)} |")
    return rows


def picture_rows(results: dict[str, Any], m: int) -> list[str]:
    """Rows of a table of PSNR for one m: a row for each decoder."""
    rows = []
    for decoder, found in results["decoders"].items():
        pictures = found["figures"].get(str(m), {})
        values = [f"{figures['psnr_db']:.2f}" for figures in pictures.values()]
        rows.append(f"| {_label(decoder)} | {m} | {' | '.join(values)} |")
    return rows


def _label(decoder: str) -> str:
    name, *rest = decoder.partition(", ")
    return f"`{name}`{''.join(rest)}"


def mean(pictures: dict[str, dict[str, float]]) -> dict[str, float]:
    """Mean figures over pictures."""
    names = ("psnr_db", "ssim", "seconds")
    return {
        name: float(np.mean([figures[name] for figures in pictures.values()])) for name in names
    }


if __name__ == "__main__":
    main()
