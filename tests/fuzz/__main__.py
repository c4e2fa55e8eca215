"""Fuzz: ``python -m fuzz [TARGET ...]``, with ``tests`` on the path.

With Atheris (``pip install atheris``) inputs are chosen by what they reach in the Python code, and
with ``CSCODEC_KERNELS=python`` also in the kernels; each target runs in a process of its own.
Without it, or with ``--blind``, seeds are damaged at random, which is faster and sees less. Inputs
that break a promise are kept and named. ``--renew-corpus`` writes ``corpus/`` again: what is worth
trying first, and what the tests try always.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

CORPUS = Path(__file__).parent / "corpus"
NAMES = ["container", "entropy", "decode", "alpha", "model", "checkpoint", "picture", "exif"]
_MOST_BYTES = {"model": 200_000, "checkpoint": 60_000}  #: of an input that Atheris makes
_USUAL_BYTES = 3000
_MOST_SECONDS = 60  #: for one input, on a machine that may be busy
_LARGEST_CORPUS = 150_000  #: bytes of a target


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--seconds", type=float, default=60, help="in all")
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target, instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blind", action="store_true", help="do not look at what is reached")
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="for what fails")
    parser.add_argument("--renew-corpus", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    wanted.targets = wanted.targets or NAMES
    if unknown := sorted(set(wanted.targets) - set(NAMES)):
        parser.error(f"there is no target {', '.join(unknown)}")
    wanted.found.mkdir(parents=True, exist_ok=True)
    if wanted.here:
        (target,) = wanted.targets
        return run(target, wanted)
    failed = []
    for target in wanted.targets:
        command = [sys.executable, "-m", "fuzz", target, "--here", *_arguments(wanted)]
        print(f"== {target}", flush=True)
        if subprocess.run(command).returncode:
            failed.append(target)
    if failed:
        print(f"a promise was broken by {', '.join(failed)}: see {wanted.found}")
    return bool(failed)


def _arguments(wanted: argparse.Namespace) -> list[str]:
    found = ["--seconds", str(wanted.seconds / len(wanted.targets)), "--runs", str(wanted.runs)]
    found += ["--seed", str(wanted.seed), "--found", str(wanted.found)]
    found += ["--blind"] * wanted.blind + ["--renew-corpus"] * wanted.renew_corpus
    return found


def run(target: str, wanted: argparse.Namespace) -> int:
    """Fuzz one target in this process."""
    faulthandler.enable()
    warnings.simplefilter("ignore")  # Pillow's, of odd pictures
    if wanted.renew_corpus and wanted.into is None:
        return renew_corpus(target, wanted)
    if not wanted.blind:
        try:
            import atheris  # noqa: F401
        except ImportError:
            print("Atheris is not installed: inputs are made blindly")
        else:
            with tempfile.TemporaryDirectory() as folder:
                return run_atheris(target, wanted, wanted.into or Path(folder))
    return run_blind(target, wanted)


def run_blind(name: str, wanted: argparse.Namespace) -> int:
    """Damage seeds at random, and count outcomes."""
    from fuzz.targets import TARGETS

    target = TARGETS[name]
    generator = np.random.default_rng([wanted.seed, NAMES.index(name)])
    inputs = [*target.seeds(), *(path.read_bytes() for path in corpus(name))]
    current = wanted.found / f"{name}-last"  # what killed the process, if it is there afterwards
    seen: Counter[str] = Counter()
    started, slowest, watched = time.monotonic(), 0.0, 0.0
    with open(current, "wb", buffering=0) as file:
        while not _is_over(wanted, sum(seen.values()), time.monotonic() - started):
            data = target.mutate(inputs[generator.integers(len(inputs))], generator)
            file.seek(0)
            file.write(data)
            file.truncate()
            begin = time.monotonic()
            if begin - watched > 1:  # it starts a thread
                faulthandler.dump_traceback_later(_MOST_SECONDS, exit=True)
                watched = begin
            try:
                seen[target.run(data)] += 1
            except Exception:
                print(f"{name}: broken by {shutil.copy(current, _kept(wanted.found, name, data))}")
                raise
            slowest = max(slowest, time.monotonic() - begin)
            if sum(seen.values()) % 10_000 == 0:
                _say(name, seen, slowest, time.monotonic() - started)
    faulthandler.cancel_dump_traceback_later()
    current.unlink()
    _say(name, seen, slowest, time.monotonic() - started)
    return 0


def _is_over(wanted: argparse.Namespace, runs: int, seconds: float) -> bool:
    return runs >= wanted.runs if wanted.runs else seconds >= wanted.seconds


def _say(name: str, seen: Counter[str], slowest: float, seconds: float) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name}: {sum(seen.values())} inputs in {seconds:.0f} s, the slowest {slowest:.2f} s, "
        f"{memory:.0f} MiB at most; {dict(seen.most_common())}",
        flush=True,
    )


def _kept(folder: Path, name: str, data: bytes) -> Path:
    return folder / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"


def corpus(name: str) -> list[Path]:
    """Inputs that are kept."""
    return sorted((CORPUS / name).glob("*"))


def run_atheris(name: str, wanted: argparse.Namespace, folder: Path) -> int:
    """Let libFuzzer choose inputs by what they reach; new ones are added to ``folder``."""
    import atheris

    with atheris.instrument_imports(include=["cscodec", "PIL"]):
        from fuzz.targets import TARGETS

        import cscodec.kernels.layers  # noqa: F401

    target = TARGETS[name]
    for number, data in enumerate(target.seeds()):
        (folder / f"seed-{number}").write_bytes(data)
    seen: Counter[str] = Counter()

    def test_one(data: bytes) -> None:
        seen[target.run(bytes(data))] += 1
        if sum(seen.values()) % 10_000 == 0:
            print(f"{name}: {sum(seen.values())} inputs; {dict(seen.most_common())}", flush=True)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        if seed % 4 == 0:
            return bytes(atheris.Mutate(data, most))
        return target.mutate(bytes(data), np.random.default_rng(seed))[:most]

    limits = [f"-max_len={_MOST_BYTES.get(name, _USUAL_BYTES)}", f"-timeout={_MOST_SECONDS}"]
    limits += [f"-runs={wanted.runs}"] if wanted.runs else [f"-max_total_time={wanted.seconds:.0f}"]
    limits += [f"-seed={wanted.seed + 1}", f"-artifact_prefix={wanted.found / name}-"]
    limits += ["-rss_limit_mb=2000", "-print_final_stats=1", "-verbosity=0"]
    folders = [str(folder), *([str(CORPUS / name)] if corpus(name) else [])]
    atheris.Setup(["fuzz", *limits, *folders], test_one, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


def renew_corpus(name: str, wanted: argparse.Namespace) -> int:
    """Fuzz with nothing but seeds, and keep the smallest inputs that reach as much."""
    from fuzz.targets import TARGETS

    shutil.rmtree(CORPUS / name, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        reaching = [sys.executable, "-m", "fuzz", name, "--here", "--into", folder]
        if code := subprocess.run([*reaching, *_arguments(wanted)]).returncode:
            return code
        seeds, reached = {*TARGETS[name].seeds()}, set()
        left = _LARGEST_CORPUS
        (CORPUS / name).mkdir(parents=True)
        for path in sorted(Path(folder).iterdir(), key=lambda path: (path.stat().st_size, path)):
            data = path.read_bytes()
            new = lines_reached(TARGETS[name].run, data) - reached
            if new and data not in seeds and len(data) <= left:
                _kept(CORPUS / name, name, data).write_bytes(data)
                left -= len(data)
            reached |= new
    print(f"{name}: {len(corpus(name))} inputs kept")
    return 0


def lines_reached(function: Callable[[bytes], str], data: bytes) -> set[tuple[str, int, int]]:
    """Files, lines and lines after them that are run in the package."""
    reached = set()

    def enter(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if "/cscodec/" not in frame.f_code.co_filename:
            return None
        before = frame.f_lineno

        def step(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
            nonlocal before
            reached.add((frame.f_code.co_filename, before, frame.f_lineno))
            before = frame.f_lineno
            return step

        return step

    sys.settrace(enter)
    try:
        function(data)
    finally:
        sys.settrace(None)
    return reached


if __name__ == "__main__":
    sys.exit(main())
