"""Any bytes give a result or an error of the right kind, in bounded time.

The targets, and how inputs are damaged, are in ``fuzz/``; ``make fuzz`` runs them for longer and
chooses inputs by what they reach. Here a fixed number of inputs is tried, and all of the corpus.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fuzz.__main__ import corpus
from fuzz.targets import GOOD, TARGETS, decoded, files
from strategies import ROOT, START, Pixels, join_chunks, odd_model, split_chunks

import cscodec
from cscodec.bitstream import container
from cscodec.errors import BitstreamError, TruncatedError

MOST_SECONDS = 5.0
#: Inputs that are tried here, natively and with every index checked.
COUNTS = {
    "container": (1500, 0),
    "entropy": (500, 150),
    "decode": (2500, 300),
    "alpha": (2000, 0),
    "model": (100, 40),
    "checkpoint": (200, 60),
    "picture": (1000, 0),
    "exif": (300, 0),
}
CHECKED = [name for name, (_, checked) in COUNTS.items() if checked]


def attack(name: str, count: int, seed: int) -> Counter[str]:
    """Try all of the corpus and damaged inputs; return how often each outcome was seen."""
    target = TARGETS[name]
    generator = np.random.default_rng(seed)
    inputs = [*target.seeds(), *(path.read_bytes() for path in corpus(name))]
    damaged = [
        target.mutate(inputs[number % len(inputs)], generator)
        for number in range(max(0, count - len(inputs)))
    ]
    seen: Counter[str] = Counter()
    for data in inputs + damaged:
        begin = time.perf_counter()
        try:
            seen[target.run(data)] += 1
            assert time.perf_counter() - begin < MOST_SECONDS
        except Exception as error:
            error.add_note(f"{name}: {data[:5000].hex()}")
            raise
    return seen


def test_all_targets_are_tried() -> None:
    assert COUNTS.keys() == TARGETS.keys()


@pytest.mark.parametrize("name", ["container", "entropy", "decode", "model"])
def test_the_corpus_is_of_today_s_format(name: str) -> None:
    """Old files, whose models are no more, would all end at the first check."""
    seen = Counter(TARGETS[name].run(path.read_bytes()) for path in corpus(name))
    assert seen[GOOD] > 0, "make it anew: python -m fuzz --renew-corpus"


@pytest.mark.filterwarnings("ignore")  # of Pillow, for pictures that are odd
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs(name: str) -> None:
    target = TARGETS[name]
    if name != "picture":  # of which some are of kinds that are refused
        assert {target.run(data) for data in target.seeds()} == {GOOD}
    seen = attack(name, COUNTS[name][0], 0)
    assert seen[GOOD] > 0
    assert name == "exif" or seen.total() - seen[GOOD] > 10


def test_damaged_files_give_every_error() -> None:
    expected = {GOOD, "ChecksumError", "TruncatedError", "InvalidFieldError", "BadMagicError"}
    expected |= {"UnsupportedVersionError", "LimitExceededError"}
    assert expected <= set(attack("container", 1500, 1))


@pytest.mark.parametrize("number", range(4))
def test_files_cut_anywhere(number: int) -> None:
    data = files()[number]
    for length in range(len(data)):
        assert decoded(data[:length], "linear", False) != GOOD
        assert decoded(data[:length], "linear", True) in (GOOD, "TruncatedError", "BadMagicError")


def test_every_damaged_bit_of_a_small_file_is_noticed() -> None:
    data = files()[3]
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decoded(bytes(damaged), "linear", False) != GOOD


def test_nothing_is_allocated_for_pictures_that_are_not_there() -> None:
    data = files()[0]
    chunks = split_chunks(data)
    fields = list(container.HEADER.unpack(chunks[0][1]))
    fields[:2] = 13_000, 13_000
    chunks[0] = (b"H", container.HEADER.pack(*fields))
    large = join_chunks(data[:START], chunks)
    tracemalloc.start()
    try:
        with pytest.raises((TruncatedError, BitstreamError)):
            cscodec.decode(large)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_models_of_strangers_do_no_harm() -> None:
    """A model that passes its checks codes any picture, however odd its numbers."""
    generator = np.random.default_rng(0)
    for _ in range(10):
        shape = (*generator.integers(1, 60, 2), *[(), (3,)][generator.integers(2)])
        picture: Pixels = generator.integers(0, 256, shape, np.uint8)
        step = float(generator.choice([0.25, 3, 100]))
        data = cscodec.encode(picture, model=odd_model(), step=step)
        assert decoded(data, "refine", False) == GOOD


def run_with_bounds_checked(code: str) -> str:
    """What a process prints whose kernels check every index."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
            "CSCODEC_KERNELS": "bounds",
        },
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout.strip()


@pytest.mark.parametrize("name", CHECKED)
def test_kernels_stay_within_their_arrays(name: str) -> None:
    """The same with every index checked."""
    code = f"from test_fuzz import attack; print(attack({name!r}, {COUNTS[name][1]}, 77)['good'])"
    assert int(run_with_bounds_checked(code)) > 0


def test_extreme_numbers_stay_within_arrays() -> None:
    """What overflows float32 may restore nothing, but must not lead kernels astray."""
    code = """
import numpy as np
from cscodec.sensing.averages import similar_average, sparse_average
from cscodec.sensing.pursuit import omp

noise = np.random.default_rng(0).normal(size=(40, 44))
eye = np.eye(64, 128)
with np.errstate(all="ignore"):
    for scale in (1e15, 1e20, 1e37):
        similar_average(noise * scale, 10.0)
        sparse_average(noise * scale, eye, 1.0)
    for size in (1e-22, 1e-19, 1e15):
        omp(np.zeros((1, 64)), np.full((64, 128), size), sparsity=3)
        omp(np.full((2, 64), 1e15), np.full((64, 128), size), sparsity=3)
print("done")
"""
    assert run_with_bounds_checked(code) == "done"
