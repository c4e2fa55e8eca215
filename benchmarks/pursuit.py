"""Our pursuit and our learner beside SPAMS and scikit-learn.

    python benchmarks/pursuit.py            # writes benchmarks/results/pursuit.json
    python benchmarks/pursuit.py --quick    # fewer rounds and iterations; prints only

All on one thread of one machine, on patches of samples/. Results are checked before anything is
timed; competitors take turns within one run, and medians of processor seconds are compared, which
other programs on the machine disturb less than the clock. Needs the extra "bench".
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import spams
from machine import describe_machine, set_blas
from sklearn.decomposition import MiniBatchDictionaryLearning

from cscodec.images import luma, read_picture
from cscodec.learning.online import LearnerParameters, OnlineLearner
from cscodec.sensing.design import design_sensing_matrix
from cscodec.sensing.pursuit import omp, omp_reference
from cscodec.transform.patches import extract_patches, remove_mean

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "pursuit.json"
NUM_ATOMS, BATCH_SIZE, SPARSITY = 256, 128, 4  # the paper's

Array = npt.NDArray[np.float32]


def main() -> None:
    """Run all comparisons and write down what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute; writes no results")
    quick = parser.parse_args().quick
    set_blas(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    patches = sample_patches()
    results: dict[str, Any] = {
        "machine": describe_machine(),
        "threads": 1,
        "omp": [
            compare_omp(patches, num_measurements, sparsity, rounds=5 if quick else 21)
            for num_measurements, sparsity in ((20, 4), (64, 8))
        ],
        "learning": [
            compare_learning(patches, batch_size, rounds=1 if quick else 5)
            for batch_size in (128, 512, 1024)
        ],
        "default_schedule": default_schedule(patches, share=0.1 if quick else 1.0),
    }
    text = json.dumps(results, indent=2)
    print(text)
    if not quick:
        RESULTS.write_text(text + "\n")


def sample_patches() -> Array:
    """Zero-mean patches of all sample pictures, shuffled, none of them flat: (n, 64) float32."""
    planes = [luma(read_picture(path).pixels) for path in sorted((ROOT / "samples").glob("*.*g"))]
    patches = np.concatenate([remove_mean(extract_patches(plane))[0] for plane in planes])
    patches = patches[np.ptp(patches, axis=1) > 0]
    return np.random.default_rng(0).permutation(patches)


def compare_omp(
    patches: Array, num_measurements: int, sparsity: int, rounds: int
) -> dict[str, Any]:
    """Time `omp` against SPAMS's, correlations included, on (equivalent) unit-norm atoms."""
    dictionary = patches[:NUM_ATOMS].T / np.linalg.norm(patches[:NUM_ATOMS], axis=1)
    signals = patches[NUM_ATOMS : NUM_ATOMS + 20_000]
    if num_measurements < 64:
        phi = design_sensing_matrix(dictionary, num_measurements).astype(np.float32)
        dictionary, signals = phi @ dictionary, np.ascontiguousarray(signals @ phi.T)
    dictionary = np.ascontiguousarray(dictionary / np.linalg.norm(dictionary, axis=0), np.float32)
    columns, signals_as_columns = np.asfortranarray(dictionary), np.asfortranarray(signals.T)

    def ours() -> Any:
        return omp(signals, dictionary, sparsity=sparsity)

    def theirs() -> Any:
        # Without eps, this release reads memory that was never set, and stops at once or too early.
        return spams.omp(signals_as_columns, columns, L=sparsity, eps=0.0, numThreads=1)

    codes = ours()
    reference = omp_reference(signals[:2000], dictionary, sparsity=sparsity)
    same = np.sort(codes.indices[:2000], axis=1) == np.sort(reference.indices, axis=1)
    agreement = float(np.all(same, axis=1).mean())
    if agreement < 0.999:
        raise SystemExit(f"only {agreement:.2%} of supports agree with the reference")
    left_by_ours = residual(signals, codes.reconstruct(dictionary))
    left_by_spams = residual(signals, (columns @ theirs()).T)
    if not 0.9 < left_by_spams / left_by_ours < 1.01:  # it chooses a little better than OMP
        raise SystemExit(f"SPAMS leaves {left_by_spams:.4f} of the energy, ours {left_by_ours:.4f}")
    our_seconds, their_seconds = interleaved([ours, theirs], rounds)
    return {
        "num_measurements": num_measurements,
        "num_atoms": NUM_ATOMS,
        "sparsity": sparsity,
        "num_signals": len(signals),
        "agreement_with_reference": agreement,
        "residual_ours": left_by_ours,
        "residual_spams": left_by_spams,
        "ours_us_per_signal": our_seconds / len(signals) * 1e6,
        "spams_us_per_signal": their_seconds / len(signals) * 1e6,
        "times_faster_than_spams": their_seconds / our_seconds,
        "target": 1.3,
    }


def compare_learning(patches: Array, batch_size: int, rounds: int) -> dict[str, Any]:
    """Time the learner per coded patch against trainDL and MiniBatchDictionaryLearning."""
    start = patches[:NUM_ATOMS].T / np.linalg.norm(patches[:NUM_ATOMS], axis=1)
    stream = patches[NUM_ATOMS : NUM_ATOMS + 10 * batch_size]
    few = stream[: max(128, batch_size // 4)]
    columns, atoms = np.asfortranarray(stream.T), np.asfortranarray(start)
    iterations = 12_800 // batch_size

    def ours() -> None:
        learner = OnlineLearner(LearnerParameters(sparsity=SPARSITY), dictionary=start)
        for i in range(iterations):
            first = i % 10 * batch_size
            learner.partial_fit(stream[first : first + batch_size])

    def theirs(threads: int) -> Any:
        return spams.trainDL(
            columns,
            D=atoms,
            K=NUM_ATOMS,
            mode=3,  # at most lambda1 atoms
            lambda1=SPARSITY,
            batchsize=batch_size,
            iter=iterations,
            numThreads=threads,
            verbose=False,
        )

    def scikit_learn() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that so few iterations do not converge
            model = MiniBatchDictionaryLearning(
                NUM_ATOMS, batch_size=batch_size, dict_init=start.T, random_state=0
            )
            model.partial_fit(few)

    before, after = (coding_error(stream, psi) for psi in (start, theirs(1)))
    if not after < 0.9 * before:
        raise SystemExit(f"trainDL did not learn: error {after:.1f} after {before:.1f}")
    our_seconds, their_seconds = interleaved([ours, lambda: theirs(1)], rounds)
    begin = time.perf_counter()
    theirs(2)
    their_clock_on_two = time.perf_counter() - begin
    (slow_seconds,) = interleaved([scikit_learn], 1)
    coded = iterations * batch_size
    return {
        "batch_size": batch_size,
        "num_atoms": NUM_ATOMS,
        "sparsity": SPARSITY,
        "ours_us_per_patch": our_seconds / coded * 1e6,
        "spams_us_per_patch": their_seconds / coded * 1e6,
        "spams_two_threads_clock_us_per_patch": their_clock_on_two / coded * 1e6,
        "scikit_learn_us_per_patch": slow_seconds / len(few) * 1e6,
        "times_faster_than_spams": their_seconds / our_seconds,
        "target_spams": 2.5,
        "times_faster_than_scikit_learn": slow_seconds / len(few) / (our_seconds / coded),
        "target_scikit_learn": 100,
    }


def default_schedule(patches: Array, share: float) -> dict[str, Any]:
    """Time Algorithm 1 with the paper's parameters: 10 x 1000 batches of 128 patches."""
    learner = OnlineLearner().partial_fit(patches[:2048])
    usable = len(patches) // BATCH_SIZE
    outer, inner = 10, round(1000 * share)
    wall, processor = time.perf_counter(), time.process_time()
    for i in range(outer * inner):
        if i % inner == 0:
            learner.update_sensing_matrix()
        first = i % usable * BATCH_SIZE
        learner.partial_fit(patches[first : first + BATCH_SIZE])
    return {
        "batches": outer * inner,
        "seconds": time.perf_counter() - wall,
        "processor_seconds": time.process_time() - processor,
        "target_seconds": 7.0 * share,
    }


def interleaved(functions: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Return each function's median of processor seconds; they run once before, then in turn."""
    for function in functions:
        function()
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, times in zip(functions, seconds, strict=True):
            begin = time.process_time()
            function()
            times.append(time.process_time() - begin)
    return [statistics.median(times) for times in seconds]


def coding_error(signals: Array, dictionary: Array) -> float:
    """Return the mean squared error of the signals' sparse codes."""
    codes = omp(signals, dictionary, sparsity=SPARSITY)
    return float(np.mean((signals - codes.reconstruct(dictionary)) ** 2))


def residual(signals: Array, approximation: Array) -> float:
    """Return the share of the signals' energy that the approximation leaves."""
    return float(np.sum((signals - approximation) ** 2) / np.sum(signals**2))


if __name__ == "__main__":
    main()
