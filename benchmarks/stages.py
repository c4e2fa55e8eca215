"""Where the time of encoding and decoding goes: a clock around every kernel.

    python benchmarks/stages.py            # writes benchmarks/results/stages.json
    python benchmarks/stages.py --quick    # fewer rounds; prints only

The first twelve pictures of Kodak as they are, one thread. What no kernel takes is "Python": calls,
allocation, NumPy. Needs the environment variable CSCODEC_DATA (kodak12/).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine, set_blas
from PIL import Image

import cscodec
from cscodec.choices import DECODERS, TUNES, Decoder
from cscodec.kernels.declaration import Kernel, kernels

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "stages.json"
QUALITY = 75
EFFORTS = (1, 2)


def put_clocks(spent: defaultdict[str, float]) -> None:
    """Make every kernel add its seconds to those of its stage, which is its file."""

    def timed(kernel: Kernel, code: Callable[..., None]) -> Callable[..., None]:
        stage = kernel.__module__.rpartition(".")[2]

        def call(*arguments: Any) -> None:
            started = time.process_time()
            code(*arguments)
            spent[stage] += time.process_time() - started

        return call

    for kernel in kernels:
        kernel._code = timed(kernel, kernel._code or kernel._load())


def actions(folder: Path) -> dict[str, Callable[[], object]]:
    """What is timed, by name: encoding and decoding of all pictures."""
    pictures = [np.asarray(Image.open(path)) for path in sorted(folder.glob("*.png"))]
    found: dict[str, Callable[[], object]] = {}

    def encoded(tune: str, effort: int) -> list[bytes]:
        options: dict[str, Any] = {"quality": QUALITY, "tune": tune, "effort": effort}
        return [cscodec.encode(pixels, workers=1, **options) for pixels in pictures]

    def decode(files: list[bytes], decoder: Decoder) -> None:
        for data in files:
            cscodec.decode(data, decoder=decoder, workers=1)

    for tune in TUNES:
        files = encoded(tune, 1)
        for effort in EFFORTS:
            found[f"{tune}, encode, effort {effort}"] = partial(encoded, tune, effort)
        for decoder in DECODERS:
            found[f"{tune}, decode, {decoder}"] = partial(decode, files, decoder)
    return found


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds of every stage of every action, in turn."""
    spent: defaultdict[str, float] = defaultdict(float)
    timed = actions(Path(os.environ["CSCODEC_DATA"]) / "kodak12")  # loads every kernel's code
    put_clocks(spent)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, action in timed.items():
            spent.clear()
            started = time.process_time()
            action()
            whole = time.process_time() - started
            runs[name].append(spent | {"Python": whole - sum(spent.values()), "all": whole})
    return {
        name: {
            stage: round(statistics.median(run.get(stage, 0) for run in kept), 5)
            for stage in sorted(set().union(*kept))
        }
        for name, kept in runs.items()
    }


def main() -> None:
    """Measure, print, write down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two rounds; writes no results")
    quick = parser.parse_args().quick
    set_blas(OPENBLAS_NUM_THREADS="1")
    if "CSCODEC_DATA" not in os.environ:
        parser.error("set CSCODEC_DATA to the folder that holds kodak12/")
    seconds = measure(2 if quick else 9)
    for name, stages in seconds.items():
        print(f"{name}: {1000 * stages['all']:.0f} ms")
        for stage, value in sorted(stages.items(), key=lambda item: -item[1]):
            if stage != "all" and value > 0.005 * stages["all"]:
                print(f"    {stage:16} {1000 * value:7.1f}  {value / stages['all']:6.1%}")
    if not quick:
        record = {"machine": describe_machine(), "quality": QUALITY, "seconds": seconds}
        RESULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
