"""The library of kernels: the best that the processor can run, or one line that says what to do."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cscodec.errors import KernelsError
from cscodec.kernels import library

ROOT = Path(__file__).resolve().parents[1]
REMEDY = "run 'make kernels' in a checkout; else install anew what it came from"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of the libraries'."""
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.delenv(library.VARIABLE, raising=False)
    return tmp_path


def put(folder: Path, *levels: str) -> None:
    """Copy a library that this processor can open under other names."""
    original = Path(library.__file__).parent / "native"
    (found, *_) = (
        path for path in original.glob(f"*{library.SUFFIX}") if "bounds" not in path.name
    )
    for level in levels:
        for path in (found, library.digest_path(found)):
            shutil.copy(path, folder / path.name.replace(found.stem, level))


def answering(*, leaf_1: int = -1, leaf_7: int = -1, extended: int = -1, saved: int = -1) -> Any:
    """A library that says these things of the processor."""

    class Library:
        @staticmethod
        def cscodec_cpuid(leaf: int, register: int) -> int:
            return {0: 16, 1: leaf_1, 7: leaf_7}.get(leaf, extended)

        @staticmethod
        def cscodec_xgetbv() -> int:
            return saved

    return Library()


def test_a_missing_library(folder: Path) -> None:
    with pytest.raises(KernelsError, match=f"kernels are missing \\(.*\\): {REMEDY}"):
        library.usable_levels()


@pytest.mark.parametrize("length", [0, 4, 5000, -1])
def test_a_library_cut_short(folder: Path, length: int) -> None:
    """It is not opened: half of a library would end the process."""
    level = library.LEVELS[library.machine()][0]
    put(folder, level)
    path = folder / f"{level}{library.SUFFIX}"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(KernelsError, match=f"kernels are damaged \\(.*\\): {REMEDY}"):
        library.usable_levels()


def test_a_library_that_is_none(folder: Path) -> None:
    level = library.LEVELS[library.machine()][0]
    path = folder / f"{level}{library.SUFFIX}"
    path.write_bytes(b"MZ" * 1000)
    with pytest.raises(KernelsError, match="cannot be loaded"):  # without its digest
        library.usable_levels()
    library.digest_path(path).write_text(hashlib.sha256(b"MZ" * 1000).hexdigest())
    with pytest.raises(KernelsError, match=f"cannot be loaded \\(.*\\): {REMEDY}"):
        library.usable_levels()


def test_a_library_made_from_other_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, library.LEVELS[library.machine()][0])
    monkeypatch.setattr(library, "sources_digest", lambda: "0" * 64)
    monkeypatch.setattr(library, "processor_level", lambda _: 1)
    with pytest.raises(KernelsError, match=f"were made from other sources .*: {REMEDY}"):
        library._library.__wrapped__()  # not the one that is kept


def test_sources_are_all_that_kernels_are_made_of(tmp_path: Path) -> None:
    """A change to any of them shows, also in how lines end it does not."""
    copy = tmp_path / "cscodec"
    shutil.copytree(ROOT / "cscodec", copy, ignore=shutil.ignore_patterns("native", "__pycache__"))

    def digest() -> str:
        code = "from cscodec.kernels import library; print(library.sources_digest())"
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-c", code]
        return subprocess.check_output(command, env=environment, cwd=tmp_path, text=True)

    before = digest()
    source = copy / "kernels" / "means.py"
    text = source.read_bytes()
    source.write_bytes(text.replace(b"\n", b"\r\n"))
    assert digest() == before
    source.write_bytes(text.replace(b"128 * both", b"129 * both"))
    assert digest() != before
    source.write_bytes(text)
    layout = copy / "layout.py"
    layout.write_bytes(layout.read_bytes().replace(b"VALUE_CLIP = 32", b"VALUE_CLIP = 31"))
    assert digest() != before


@pytest.mark.skipif(library.machine() != "x86_64", reason="levels are those of x86-64")
class TestLevels:
    @pytest.mark.parametrize(
        ("said", "level"),
        [
            ({}, 3),
            ({"leaf_1": 0}, 0),
            ({"leaf_1": ~(1 << 20)}, 0),  # no SSE 4.2
            ({"leaf_1": ~(1 << 12)}, 1),  # no FMA
            ({"leaf_1": ~(1 << 27)}, 1),  # no word from the system: xgetbv must not run
            ({"leaf_7": ~(1 << 5)}, 1),  # no AVX2
            ({"extended": ~(1 << 5)}, 1),  # no LZCNT
            ({"saved": 0x3}, 1),  # the system does not save the upper halves
            ({"leaf_7": ~(1 << 16)}, 2),  # no AVX-512
            ({"saved": 0x7}, 2),  # nor the widest registers
        ],
    )
    def test_follow_from_what_the_processor_says(self, said: dict[str, int], level: int) -> None:
        assert library.processor_level(answering(**said)) == level

    def test_the_best_that_the_processor_can_run_is_taken(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(folder, *library.LEVELS["x86_64"])
        for number, best in enumerate(library.LEVELS["x86_64"], 1):
            monkeypatch.setattr(library, "processor_level", lambda _, number=number: number)
            assert library.usable_levels()[-1] == best

    def test_a_processor_below_all_levels(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(folder, *library.LEVELS["x86_64"])
        monkeypatch.setattr(library, "processor_level", lambda _: 0)
        with pytest.raises(KernelsError, match="below level x86-64-v2, the lowest"):
            library.usable_levels()

    def test_kernels_for_a_better_processor(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(folder, "x86-64-v4")
        monkeypatch.setattr(library, "processor_level", lambda _: 2)
        with pytest.raises(
            KernelsError, match=f"of level x86-64-v4, this one is of level x86-64-v3: {REMEDY}"
        ):
            library.usable_levels()

    def test_a_level_that_the_processor_cannot_run_is_not_taken_by_name(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(folder, *library.LEVELS["x86_64"])
        monkeypatch.setattr(library, "processor_level", lambda _: 2)
        monkeypatch.setenv(library.VARIABLE, "x86-64-v4")
        with pytest.raises(KernelsError, match="allowed here are x86-64-v2, x86-64-v3"):
            library._library.__wrapped__()


def test_other_families_of_processors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("riscv64", "i686", ""):
        monkeypatch.setattr("platform.machine", lambda name=name: name)
        with pytest.raises(KernelsError, match="no kernels for processors of type"):
            library.machine()
    monkeypatch.setattr("platform.machine", lambda: "AMD64")
    assert library.machine() == "x86_64"


@pytest.mark.parametrize("name", ["nowhere", "../native/x86-64-v3", "/tmp/evil"])
def test_names_in_the_environment_are_names_of_libraries(name: str, tmp_path: Path) -> None:
    """And what is wrong is one line, from the command line too, with nothing half-written."""
    source = tmp_path / "a.png"
    from PIL import Image

    Image.fromarray(np.zeros((8, 8), np.uint8)).save(source)
    run = subprocess.run(
        [sys.executable, "-m", "cscodec", "encode", str(source)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CSCODEC_KERNELS": name},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert "there are no kernels called" in line or "allowed are names, not paths" in line
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
