"""Training over shards: workers against one worker, bytes over the wire, quality.

    python benchmarks/cluster.py                # all; writes benchmarks/results/cluster.json
    python benchmarks/cluster.py --only speed   # one part: speed quality

Beside the speed-up stands that of two processes that share nothing, taken in the same minutes:
what two processors of the machine give, and the most that workers can reach.

Needs the environment variable CSCODEC_DATA (train/photos, table2/) and the extra ``dask``. Workers
are processes of this machine, and bytes are those of its loopback: leave both alone meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
from machine import describe_machine

from cscodec.evaluation.report import json_text
from cscodec.learning.corpus import list_pictures
from cscodec.learning.online import LearnerParameters, OnlineLearner
from cscodec.learning.options import RunSettings, TrainingOptions
from cscodec.learning.trainer import Progress, train
from cscodec.learning.validation import measure_quality as measure_quality_of
from cscodec.learning.validation import read_planes

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks/results/cluster.json"
NEVER = 1 << 60
ALONE_S = 6.0  # that processes which share nothing learn
WARM_UP = 4  # rounds in which pictures are read and kernels loaded
#: As many patches in one process, batch by batch, and over shards, in rounds.
SCHEDULES = {
    "1.3 million": (
        TrainingOptions(),
        TrainingOptions(shards=16, batch_size=8192, dictionary_iterations=16),
    ),
    "8.2 million": (
        TrainingOptions(batch_size=512, dictionary_iterations=4000, outer_iterations=4),
        TrainingOptions(
            shards=16, batch_size=1 << 15, dictionary_iterations=62, outer_iterations=4
        ),
    ),
}


def measure_speed(folder: Path, rounds: int, repeats: int) -> dict[str, Any]:
    """Seconds and bytes per round with 1 and 2 workers, in turn; both make the same model."""
    options = TrainingOptions(
        shards=16, batch_size=1 << 16, dictionary_iterations=rounds, outer_iterations=1
    )
    seconds: dict[int, list[float]] = {1: [], 2: []}
    sent: dict[int, list[float]] = {1: [], 2: []}
    models = set()
    apart = []
    for _ in range(repeats):
        apart.append(measure_apart(2) / measure_apart(1))
        print(f"two processes apart: {apart[-1]:.2f} times one", file=sys.stderr)
        for workers in seconds:
            marks: list[tuple[float, int]] = []

            def mark(progress: Progress, marks: list[tuple[float, int]] = marks) -> None:
                marks.append((time.perf_counter(), psutil.net_io_counters(pernic=True)["lo"][0]))

            settings = RunSettings(validate_every=NEVER, scheduler=f"local:{workers}")
            models.add(train([folder], options, settings, progress=mark).to_bytes())
            (first, sent_before), (last, sent_after) = marks[WARM_UP], marks[-2]
            steps = len(marks) - 2 - WARM_UP
            seconds[workers].append((last - first) / steps)
            sent[workers].append((sent_after - sent_before) / steps)
            print(
                f"{workers} workers: {seconds[workers][-1] * 1e3:.0f} ms, "
                f"{sent[workers][-1] / 1e6:.2f} MB per round",
                file=sys.stderr,
            )
    if len(models) != 1:
        raise SystemExit("models differ")
    return {
        "patches_per_round": options.batch_size,
        "shards": options.shards,
        "seconds_per_round": {str(n): statistics.median(all_) for n, all_ in seconds.items()},
        "patches_per_second": {
            str(n): options.batch_size / statistics.median(all_) for n, all_ in seconds.items()
        },
        "bytes_per_round": {str(n): statistics.median(all_) for n, all_ in sent.items()},
        "speed_up": statistics.median(
            one / two for one, two in zip(seconds[1], seconds[2], strict=True)
        ),
        "speed_up_of_processes_apart": statistics.median(apart),
    }


def measure_apart(processes: int) -> float:
    """Patches per second of processes that learn side by side and share nothing."""
    command = [sys.executable, __file__, "--alone"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(processes)
    ]
    return sum(float(process.communicate()[0]) for process in running)


def learn_alone() -> float:
    """Learn from noise for a while in this process, on one thread; return patches per second."""
    patches = np.random.default_rng(0).normal(size=(1 << 12, 64)).astype(np.float32)
    learner = OnlineLearner(LearnerParameters())
    learner.partial_fit(patches)  # the first dictionary, and kernels loaded
    started, batches = time.perf_counter(), 0
    while time.perf_counter() - started < ALONE_S:
        learner.partial_fit(patches, workers=1)
        batches += 1
    return batches * len(patches) / (time.perf_counter() - started)


def measure_quality(data: Path, schedules: list[str]) -> list[dict[str, Any]]:
    """PSNR of models from as many patches, in one process and over shards."""
    planes = read_planes(
        list_pictures([data / "table2"]), "luma", max_side=1 << 16, max_pixels=1 << 30, skipped={}
    )
    rows = []
    for patches in schedules:
        for options in SCHEDULES[patches]:
            settings = RunSettings(validate_every=NEVER, scheduler="local")
            model = train([data / "train/photos"], options, settings)
            row = {
                "patches": patches,
                "shards": options.shards,
                "batch_size": options.batch_size,
                "psnr_db": {
                    decoder: measure_quality_of(planes, model.luma, decoder).psnr_db
                    for decoder in ("omp", "linear")
                },
            }
            print(json.dumps(row), file=sys.stderr, flush=True)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("speed", "quality"))
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--schedules", nargs="+", choices=list(SCHEDULES), default=list(SCHEDULES))
    arguments = parser.parse_args()
    if arguments.alone:
        print(learn_alone())
        return
    if "CSCODEC_DATA" not in os.environ:
        parser.error("set CSCODEC_DATA to the folder that holds train/photos and table2/")
    data = Path(os.environ["CSCODEC_DATA"])
    record = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    if arguments.only != "quality":
        speed = measure_speed(data / "train/photos", arguments.rounds, arguments.repeats)
        record["speed"] = {"machine": describe_machine(), **speed}
    if arguments.only != "speed":
        record["quality"] = measure_quality(data, arguments.schedules)
    RESULT.write_text(json_text(record), encoding="utf-8")
    print(json_text(record))


if __name__ == "__main__":
    main()
