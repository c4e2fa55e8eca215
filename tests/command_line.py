"""Running the command line in tests: in this process, or in one of its own."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from cscodec.cli import main

ROOT = Path(__file__).resolve().parents[1]
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Result:
    code: int
    stdout: bytes
    stderr: str

    def json(self) -> list[dict[str, object]]:
        records = json.loads(self.stdout)
        assert isinstance(records, list)
        return records


Run = Callable[..., Result]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Run the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run_main(*arguments: str | Path) -> Result:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = capfdbinary.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        stderr = captured.err.decode()
        assert "Traceback" not in stderr
        return Result(code, captured.out, stderr)

    return run_main


def picture(name: str | Path, *shape: int, seed: int = 0) -> Pixels:
    """Save a small smooth picture with some texture, and return its pixels."""
    height, width, *_ = shape
    generator = np.random.default_rng(seed)
    ramp = np.add.outer(np.arange(height), np.arange(width)) * (180 / (height + width)) + 30
    pixels = np.clip(
        (ramp.reshape(height, width, *[1] * (len(shape) - 2)) + generator.normal(0, 6, shape)),
        0,
        255,
    ).astype(np.uint8)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(name)
    return pixels


def pixels_of(source: str | Path | bytes) -> Pixels:
    with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
        return np.asarray(image)


def in_a_process(*arguments: str) -> list[str]:
    """The command line as a process of its own; cscodec need not be installed."""
    start = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from cscodec.__main__ import main; main()"
    )
    return [sys.executable, "-c", start, *arguments]


def entries(folder: Path = Path()) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
