"""The paper's evaluation, run again: every system trained, its tables and figures.

    python benchmarks/paper.py                    # everything, tens of minutes
    python benchmarks/paper.py --quick            # about two minutes, into a temporary folder
    python benchmarks/paper.py --pictures DIR     # also write restored Lena and Mandrill to DIR

Needs the environment variable CSCODEC_DATA: a folder with train/photos, table2 and kodak12. Writes
benchmarks/results/paper.json, docs/paper-results.md and the pictures of docs/paper/. The pictures
of table2 may not be passed on, so those restored from them are written on request only, elsewhere.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from machine import describe_machine
from paper_page import write_page
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cscodec.choices import PATCH_DECODERS
from cscodec.evaluation import report
from cscodec.evaluation.metrics import psnr_db, ssim
from cscodec.images import find_pictures, luma, read_picture
from cscodec.learning.corpus import Corpus, list_pictures, split_pictures
from cscodec.learning.online import LearnerParameters, OnlineLearner
from cscodec.learning.options import GAMMAS, default_sparsity
from cscodec.learning.rivals import Sizes, learn, training_set
from cscodec.learning.rivals.dictionary_updates import error_weight, objective, sparse_code
from cscodec.learning.validation import measure_quality, sense_and_restore
from cscodec.model import System
from cscodec.sensing.reconstruct import decode_measurements

ROOT = Path(__file__).resolve().parents[1]
NUM_MEASUREMENTS, NUM_ATOMS, SPARSITY = 20, 256, 4
SIZES = Sizes(NUM_MEASUREMENTS, NUM_ATOMS, SPARSITY)
GAMMA = GAMMAS["online"]
NUM_TEST_PATCHES = 6000
SMALL_SET = 6000
#: What is left open in Algorithms 1 and 2, and the names of what comes of it: the atoms' update and
#: what a new Φ does to A and B.
VARIANTS = {
    "letter": ("printed", "restart"),
    "letter-kept": ("printed", "keep"),
    "restarted": ("exact", "restart"),
    "online": ("exact", "keep"),  # the defaults of `cscodec train`
}
#: Systems that are also measured with decoders of whole planes; `refine` takes long.
PLANE_DECODERS = dict.fromkeys(VARIANTS, ("learned",)) | {"online": ("refine", "learned")}
MEASUREMENTS = (5, 10, 15, 20, 31)

Float32Array = npt.NDArray[np.float32]
Uint8Array = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Schedule:
    """How much is computed; `FULL` is what the committed page shows."""

    patches: int = 80_000
    rounds: int = 50
    outer_iterations: int = 10
    dictionary_iterations: int = 1000
    large_batch: int = 512
    further_iterations: int = 15_000
    draws: int = 3


FULL = Schedule()
QUICK = Schedule(
    patches=20_000,
    rounds=12,
    outer_iterations=4,
    dictionary_iterations=250,
    large_batch=256,
    further_iterations=250,
    draws=1,
)


@dataclass
class Run:
    """One system's training: what it gave, what it cost, how it went.

    `curve` has rows of (iteration, seconds of CPU so far, dB on the test patches).
    """

    system: System
    num_patches: int
    cpu_s: float
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    history: list[dict[str, float]] = field(default_factory=list)


class Watch:
    """Measures a system on the test patches while it learns, without counting the time for it."""

    def __init__(self, test_patches: Float32Array, every: int) -> None:
        self.curve: list[tuple[int, float, float]] = []
        self._test_patches = test_patches
        self._every = every
        self._start = time.process_time()

    def __call__(self, iteration: int, phi: npt.ArrayLike, psi: npt.ArrayLike) -> None:
        paused = time.process_time()
        quality = patch_psnr_db(self._test_patches, System.from_matrices(phi, psi))
        self.curve.append((iteration, paused - self._start, quality))
        self._start += time.process_time() - paused

    def is_due(self, iteration: int) -> bool:
        return iteration % self._every == 0 or iteration == 1

    def cpu_s(self) -> float:
        return time.process_time() - self._start


def patch_psnr_db(patches: Float32Array, system: System, decoder: str = "omp") -> float:
    """PSNR of zero-mean patches decoded from their measurements, neither rounded nor clipped."""
    measurements = patches @ system.sensing_matrix.T
    return psnr_db(patches, decode_measurements(measurements, system, decoder, SPARSITY))


def learn_batch(
    method: str, patches: Float32Array, test_patches: Float32Array, **parameters: Any
) -> Run:
    """Train a batch method."""
    watch = Watch(test_patches, every=1)
    if method in ("s-dcs", "bl", "ksvd", "mod"):
        parameters["observer"] = watch
    learned = learn(method, patches, SIZES, **parameters)
    system = System.from_matrices(learned.sensing_matrix, learned.dictionary)
    return Run(system, len(patches), watch.cpu_s(), watch.curve, learned.history)


def learn_online(
    corpus: Corpus,
    test_patches: Float32Array,
    schedule: Schedule,
    *,
    variant: str,
    sizes: Sizes = SIZES,
    batch_size: int = 128,
    inspect: Convergence | None = None,
) -> Run:
    """Train by Algorithm 1, in one of its variants.

    ``inspect`` sees the learner and Φ after every dictionary iteration and has further ones made.
    The system returned is that before these, which are Figure 4's.
    """
    update, statistics = VARIANTS[variant]
    parameters = LearnerParameters(**asdict(sizes), gamma=GAMMA, update=update)
    learner = OnlineLearner(parameters)
    corpus.window_size  # noqa: B018 - reads the pictures: not a cost of learning
    per_outer = schedule.dictionary_iterations
    # No divisor of an outer iteration: points fall before its end and after it.
    watch = Watch(test_patches, every=max(1, round(0.191 * per_outer)))
    while not learner.is_started:
        learner.partial_fit(corpus.next_batch(batch_size))
    planned = schedule.outer_iterations * per_outer
    further = schedule.further_iterations if inspect else 0
    phi = learner.sensing_matrix
    run: Run | None = None
    for iteration in range(1, planned + further + 1):
        if iteration <= planned and (iteration - 1) % per_outer == 0:
            phi = learner.sensing_matrix
            learner.update_sensing_matrix(forget=statistics == "restart")
        learner.partial_fit(corpus.next_batch(batch_size))
        is_last = iteration == planned
        if iteration <= planned and (is_last or watch.is_due(iteration)):  # a new Φ is not free
            watch(iteration, learner.sensing_matrix, learner.dictionary)
        if is_last:
            system = System.from_matrices(learner.sensing_matrix, learner.dictionary)
            run = Run(system, planned * batch_size, watch.cpu_s(), watch.curve)
        if inspect is not None:
            inspect(iteration, learner, phi)
    assert run is not None
    return run


class Convergence:
    """Figures 4 and 5: objective and PSNR on test patches, and how far the dictionary moves.

    `change` has the largest of every window of iterations, with the window's first.
    """

    def __init__(self, test_patches: Float32Array, schedule: Schedule) -> None:
        self.objective: list[tuple[int, float]] = []
        self.psnr_db: list[tuple[int, float]] = []
        self.change: list[tuple[int, float]] = []
        self._test_patches = test_patches
        self._per_outer = schedule.dictionary_iterations
        self._planned = schedule.outer_iterations * self._per_outer
        self._window = max(1, self._per_outer // 10)
        self._before: Float32Array | None = None

    def __call__(
        self, iteration: int, learner: OnlineLearner, phi: npt.NDArray[np.float64]
    ) -> None:
        psi = learner.dictionary
        if self._before is not None:
            change = float(np.linalg.norm(psi - self._before))
            if iteration == 2 or iteration % self._window == 1 % self._window:
                self.change.append((iteration, change))
            first, largest = self.change[-1]
            self.change[-1] = first, max(largest, change)
        self._before = psi
        if self._is_due(iteration):
            weight = error_weight(phi, GAMMA)
            wide = psi.astype(np.float64)
            codes = sparse_code(self._test_patches, wide, weight, SPARSITY)
            value = objective(self._test_patches, wide, codes, weight)
            quality = patch_psnr_db(self._test_patches, System.from_matrices(phi, psi))
            self.objective.append((iteration, value))
            self.psnr_db.append((iteration, quality))

    def _is_due(self, iteration: int) -> bool:
        """Every window's end, and what the first batch after a new Φ did; then more seldom."""
        if iteration > self._planned:
            return iteration % (5 * self._window) == 0
        return iteration % self._window == 0 or iteration % self._per_outer == 1


def dct_system() -> System:
    """Twenty zig-zag DCT coefficients: what the paper's measurements compete with."""
    basis = training_set.dct_dictionary(63)[:, :NUM_MEASUREMENTS]
    return System.from_matrices(basis.T, basis)


def train_all(
    training: Corpus,
    test_patches: Float32Array,
    validation_patches: Float32Array,
    schedule: Schedule,
) -> tuple[dict[str, Run], dict[str, Convergence]]:
    """Train every system of the comparison."""
    patches = training.next_batch(schedule.patches)
    small = patches[:SMALL_SET]
    rounds = {"iterations": schedule.rounds}
    runs: dict[str, Run] = {}

    def add(name: str, run: Run) -> None:
        runs[name] = run
        quality = patch_psnr_db(test_patches, run.system)
        print(f"{name:16} {run.cpu_s:7.1f} s of CPU, {quality:.2f} dB on test patches", flush=True)

    online = partial(learn_online, training, test_patches, schedule)
    for variant in VARIANTS:
        add(variant, online(variant=variant))
    add("online-large", online(variant="online", batch_size=schedule.large_batch))
    convergence: dict[str, Convergence] = {}
    for variant in ("letter", "letter-kept"):  # again, as measuring is not a cost of learning
        convergence[variant] = Convergence(test_patches, schedule)
        online(variant=variant, inspect=convergence[variant])
    add("s-dcs", learn_batch("s-dcs", patches, test_patches, **rounds))
    add("s-dcs-small", learn_batch("s-dcs", small, test_patches, **rounds))
    add("bl", learn_batch("bl", small, test_patches, **rounds))
    add("ksvd", learn_batch("ksvd", patches, test_patches, **rounds))
    add("mod", learn_batch("mod", patches, test_patches, **rounds))
    given = {"dictionary": runs["ksvd"].system.dictionary, "validation_patches": validation_patches}
    add("robust", learn_batch("robust", patches, test_patches, **given))
    add("random", learn_batch("random", patches, test_patches, dictionary="learned", **rounds))
    add("random-dct", learn_batch("random", patches, test_patches, dictionary="dct"))
    add("pca", learn_batch("pca", patches, test_patches))
    add("dct", Run(dct_system(), 0, 0.0))
    return runs, convergence


def measure_choices(
    patches: Float32Array, validation_patches: Float32Array, schedule: Schedule
) -> list[dict[str, Any]]:
    """What the sources leave open, tried on the small set: dB on validation patches, several draws.

    Each draw is another 6,000 patches; all variants see the same draws.
    """
    variants: list[tuple[str, dict[str, Any]]] = [
        ("s-dcs", {}),
        ("s-dcs", {"gamma": 1 / 256}),
        ("bl", {}),
        ("bl", {"gamma": 1 / 32}),
        ("bl", {"gamma": 1 / 1024}),
        ("bl", {"robustness": 0.1}),
        ("bl", {"robustness": 0.9}),
        ("bl", {"dictionary_rounds": 1}),
        ("bl", {"target_gram": "equiangular"}),
    ]
    rows = []
    for method, change in variants:
        found = []
        for draw in range(schedule.draws):
            part = patches[draw * SMALL_SET : (draw + 1) * SMALL_SET]
            run = learn_batch(
                method, part, validation_patches, iterations=schedule.rounds, **change
            )
            found.append(patch_psnr_db(validation_patches, run.system))
        rows.append({"method": method, "change": change, "psnr_db": found})
        print(f"{method} {change}: {np.round(found, 2)} dB", flush=True)
    return rows


def measure_fewer(
    training: Corpus,
    test_patches: Float32Array,
    pictures: Mapping[str, Uint8Array],
    schedule: Schedule,
) -> list[dict[str, float]]:
    """OMP by the number of measurements: mean over pictures, K = 4 and K that follows M."""
    rows = []
    for num_measurements in MEASUREMENTS:
        for sparsity in sorted({4, default_sparsity(num_measurements)}):
            sizes = Sizes(num_measurements, NUM_ATOMS, sparsity)
            run = learn_online(training, test_patches, schedule, variant="online", sizes=sizes)
            found = {
                decoder: measure_quality(
                    list(pictures.values()), run.system, decoder, sparsity=sparsity
                ).psnr_db
                for decoder in ("omp", "linear")
            }
            rows.append({"measurements": num_measurements, "sparsity": sparsity, **found})
            print(rows[-1], flush=True)
    return rows


def read_luma(folder: Path) -> dict[str, Uint8Array]:
    """Luma of every picture of a folder, by stem."""
    return {path.stem: luma(read_picture(path).pixels) for path in find_pictures(folder)}


def measure_pictures(
    pictures: Mapping[str, Uint8Array], runs: Mapping[str, Run]
) -> dict[str, dict[str, dict[str, Any]]]:
    """PSNR, SSIM and seconds of every picture by system and decoder."""
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for name, run in runs.items():
        decoders = PATCH_DECODERS + PLANE_DECODERS.get(name, ())
        results[name] = {}
        for decoder in decoders:
            found = {}
            for picture, plane in pictures.items():
                start = time.perf_counter()
                restored = sense_and_restore(plane, run.system, decoder, sparsity=SPARSITY)
                seconds = time.perf_counter() - start
                found[picture] = {
                    "psnr_db": psnr_db(plane, restored),
                    "ssim": ssim(plane, restored),
                    "seconds": seconds,
                }
            results[name][decoder] = found
        means = {
            decoder: round(float(np.mean([row["psnr_db"] for row in found.values()])), 2)
            for decoder, found in results[name].items()
        }
        print(f"{name:16} {means}", flush=True)
    return results


def describe_run(run: Run, test_patches: Float32Array) -> dict[str, Any]:
    """What the results keep of a system's training."""
    return {
        "num_patches": run.num_patches,
        "cpu_s": run.cpu_s,
        "test_psnr_db": patch_psnr_db(test_patches, run.system),
        "test_psnr_db_linear": patch_psnr_db(test_patches, run.system, "linear"),
        "curve": run.curve,
        "history": run.history,
    }


def write_restored(
    folder: Path, pictures: Mapping[str, Uint8Array], runs: Mapping[str, Run]
) -> None:
    """Write originals and restorations of Lena and Mandrill as PNG files."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for picture in ("lena", "mandrill"):
        Image.fromarray(pictures[picture]).save(folder / f"{picture}.png")
        for name, run in runs.items():
            for decoder in ("omp", *PLANE_DECODERS.get(name, ())):
                restored = sense_and_restore(
                    pictures[picture], run.system, decoder, sparsity=SPARSITY
                )
                Image.fromarray(restored).save(folder / f"{picture}-{name}-{decoder}.png")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="less of everything, two minutes")
    parser.add_argument("--output", type=Path, help="folder to write to instead of the project")
    parser.add_argument("--pictures", type=Path, help="folder for restored Lena and Mandrill")
    arguments = parser.parse_args()
    if not (data := os.environ.get("CSCODEC_DATA")):
        print("CSCODEC_DATA is not set: it names the folder with train/photos", file=sys.stderr)
        return 2
    schedule = QUICK if arguments.quick else FULL
    quick_folder = Path(tempfile.gettempdir()) / "cscodec-paper-quick"
    output = arguments.output or (quick_folder if arguments.quick else ROOT)
    training, held_out = split_pictures(list_pictures([Path(data) / "train" / "photos"]))
    with threadpool_limits(1, "blas"):
        held_out_patches = Corpus(held_out, seed=1)
        test_patches = held_out_patches.next_batch(NUM_TEST_PATCHES)
        validation_patches = held_out_patches.next_batch(NUM_TEST_PATCHES)
        corpus = Corpus(training, seed=0)
        runs, convergence = train_all(corpus, test_patches, validation_patches, schedule)
        draws = corpus.next_batch(schedule.draws * SMALL_SET)
        choices = measure_choices(draws, validation_patches, schedule)
        pictures = read_luma(Path(data) / "table2")
        fewer = measure_fewer(corpus, test_patches, pictures, schedule)
        measured = measure_pictures(pictures, runs)
    results = {
        "machine": describe_machine(),
        "schedule": asdict(schedule),
        "num_training_pictures": len(training),
        "num_held_out_pictures": len(held_out),
        "num_test_patches": len(test_patches),
        "systems": {
            name: {**describe_run(run, test_patches), "table2": measured[name]}
            for name, run in runs.items()
        },
        "choices": choices,
        "fewer": fewer,
        "convergence": {
            variant: {name: getattr(found, name) for name in ("objective", "psnr_db", "change")}
            for variant, found in convergence.items()
        },
    }
    target = output / "benchmarks" / "results" / "paper.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(report.json_text(results), encoding="utf-8")
    sample = read_luma(Path(data) / "kodak12")["kodim05"]
    write_page(output / "docs", results, {name: run.system for name, run in runs.items()}, sample)
    if arguments.pictures:
        write_restored(arguments.pictures, pictures, runs)
    print(f"written: {target} and {output / 'docs' / 'paper-results.md'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
