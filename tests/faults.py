"""Faults at each system call that writes: ``make faults`` tries them all.

A command is run again and again under strace, which kills it at its first such call, then at its
second, and so on until it comes to its end; then calls fail instead, as on a full or broken disk.
Afterwards every output is what it was before, or whole, and nothing else is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from strategies import ROOT, texture

import cscodec
from cscodec.learning.checkpoint import load_checkpoint

#: What writing a file is made of.
CALLS = ("openat", "write", "fsync", "fchmod", "linkat", "unlink", "rename", "mkdir")
ERRORS = {
    "openat": ("EMFILE", "ENOSPC"),
    "write": ("ENOSPC", "EIO"),
    "fsync": ("EIO", "ENOSPC"),
    "linkat": ("EIO", "ENOSPC"),
    "rename": ("EIO",),
    "mkdir": ("ENOSPC",),
}
_MOST = 200  #: calls of one kind in one thread, of which every one is tried


@dataclass(frozen=True)
class Case:
    """A command, and how its outputs are known to be whole.

    Attributes
    ----------
    arguments : tuple of str
        Of the command line; it is run in a folder where ``prepare`` was called.
    outputs : mapping of str to callable
        For each output a function that raises if the file, whose path it takes, is not whole.
    """

    arguments: tuple[str, ...]
    prepare: Callable[[Path], None]
    outputs: Mapping[str, Callable[[Path], object]]


def can_inject() -> bool:
    """Whether strace is there and may be used."""
    command = ["strace", "-qq", "-e", "trace=none", "true"]
    return shutil.which("strace") is not None and subprocess.run(command).returncode == 0


def injected(folder: Path, arguments: tuple[str, ...], call: str, fault: str, number: int) -> bool:
    """Run a command with a fault at the ``number``-th call of every thread; whether it came to it.

    ``fault`` is ``signal=KILL`` or ``error=...``, as strace takes it.
    """
    log = folder.parent / f"{folder.name}.log"
    places = [f"--trace-path={folder}"] if call == "openat" else []  # not what is only read
    command = [
        "strace", "-f", "-qq", "-o", str(log), "-e", f"trace={call}", *places,
        "-e", f"inject={call}:{fault}:when={number}",
        sys.executable, "-P", "-m", "cscodec", *arguments,
    ]  # fmt: skip
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = log.read_text()
    log.unlink()
    if fault.startswith("error"):
        assert "Traceback" not in run.stderr, run.stderr
        return "(INJECTED)" in found
    return "killed by SIGKILL" in found


def faults(case: Case, calls: tuple[str, ...] = CALLS) -> Iterator[tuple[str, str, int]]:
    """Try every fault at every call; yield what was tried.

    Raises
    ------
    AssertionError
        If something was lost, torn or left over.
    """
    for call in calls:
        kinds = ["signal=KILL", *(f"error={name}" for name in ERRORS.get(call, ()))]
        for fault in kinds:
            for number in range(1, _MOST):
                if not _tried(case, call, fault, number):
                    break
                yield call, fault, number


def _tried(case: Case, call: str, fault: str, number: int) -> bool:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "work").resolve()
        folder.mkdir()
        case.prepare(folder)
        before = _contents(folder)
        happened = injected(folder, case.arguments, call, fault, number)
        after = _contents(folder)
        for name, data in after.items():
            if data != before.get(name):
                assert name in case.outputs or _may_stay(name, call, fault), (
                    f"{name} is left over after {fault} at {call} {number}"
                )
                case.outputs.get(name, lambda _: None)(folder / name)
        assert before.keys() <= after.keys()
        return happened


def _may_stay(name: str, call: str, fault: str) -> bool:
    """Between the two calls of a replacement the new file has a hidden name: it goes next time."""
    return call == "rename" and fault == "signal=KILL" and Path(name).name.startswith(".cscodec-")


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _is_file_of_ours(path: Path) -> None:
    cscodec.info(path.read_bytes())


def _is_picture(path: Path) -> None:
    with Image.open(path) as picture:
        np.asarray(picture)


def _is_page(path: Path) -> None:
    assert path.read_text().rstrip().endswith("</html>")


def _pictures(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(texture(40, 50, 3, seed=number)).save(folder / name)


def _prepare_encode(folder: Path) -> None:
    _pictures(folder, "a.png")


def _prepare_replace(folder: Path) -> None:
    _pictures(folder, "a.png")
    (folder / "a.csc").write_bytes(b"old")


def _prepare_decode(folder: Path) -> None:
    (folder / "a.csc").write_bytes(cscodec.encode(texture(40, 50, 3)))


def _prepare_batch(folder: Path) -> None:
    _pictures(folder, *(f"in/{number}.png" for number in range(4)))


def _prepare_training(folder: Path) -> None:
    (folder / "in").mkdir()
    for number in range(3):
        Image.fromarray(texture(120, 120, seed=number)).save(folder / "in" / f"{number}.png")


_TRAINING = (
    "train", "in", "-o", "m.safetensors", "-m", "4", "--atoms", "16", "--sparsity", "2",
    "--batch-size", "32", "--dictionary-iterations", "4", "--outer-iterations", "1",
    "--checkpoint", "c", "--checkpoint-every", "2", "--report", "page",
)  # fmt: skip
CASES = {
    "encode": Case(("encode", "a.png"), _prepare_encode, {"a.csc": _is_file_of_ours}),
    "encode -f": Case(("encode", "a.png", "-f"), _prepare_replace, {"a.csc": _is_file_of_ours}),
    "decode": Case(("decode", "a.csc"), _prepare_decode, {"a.png": _is_picture}),
    "encode -r": Case(
        ("encode", "-r", "in", "-d", "out", "-j", "2"),
        _prepare_batch,
        {f"out/{number}.csc": _is_file_of_ours for number in range(4)},
    ),
    "train": Case(
        _TRAINING,
        _prepare_training,
        {"m.safetensors": cscodec.load_model, "c": load_checkpoint, "page/index.html": _is_page},
    ),
}


def main() -> int:
    """Try everything, and say how much that was."""
    if not can_inject():
        print("strace is not there, or may not be used")
        return 1
    for name, case in CASES.items():
        counts: dict[str, int] = {}
        for call, fault, _ in faults(case):
            counts[f"{call} {fault}"] = counts.get(f"{call} {fault}", 0) + 1
        print(f"{name}: {sum(counts.values())} faults, nothing torn or left over; {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
