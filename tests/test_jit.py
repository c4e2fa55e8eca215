"""Kernels: called with what they declare, compiled once, loaded without Numba."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cscodec._jit import Float32Vector, Float64, Integer, kernel
from cscodec.sensing._multiply import multiply_kernel

ROOT = Path(__file__).resolve().parents[1]

_SCRIPT = """
import sys
import numpy as np
from cscodec import _jit
from cscodec.sensing.pursuit import multiplied

compiled = []
_jit.listeners.append(compiled.append)
ones = np.ones((9, 20), np.float32)
assert (multiplied(ones, np.ascontiguousarray(ones.T)) == 20).all()
print(len(compiled), "numba" in sys.modules)
"""


def run(cache: Path | None, script: str = _SCRIPT, **settings: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    if cache is not None:
        environment["CSCODEC_CACHE_DIR"] = str(cache)
    command = [sys.executable, "-W", "error", "-c", script]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.strip()


def test_code_is_compiled_once_and_then_loaded_without_numba(tmp_path: Path) -> None:
    assert run(tmp_path) == "1 True"
    assert run(tmp_path) == "0 False"
    (stored,) = tmp_path.iterdir()
    assert stored.suffix == ".o"


def test_a_damaged_cache_is_replaced(tmp_path: Path) -> None:
    run(tmp_path)
    (stored,) = tmp_path.iterdir()
    whole = stored.read_bytes()
    for damaged in (b"", whole[:-1], whole[:500] + b"?" + whole[501:]):
        stored.write_bytes(damaged)
        assert run(tmp_path) == "1 True"
        assert len(stored.read_bytes()) == len(whole)


def test_code_for_another_cpu_is_another_file(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path, NUMBA_CPU_NAME="generic") == "1 True"
    assert len(list(tmp_path.iterdir())) == 2


def test_without_a_cache_every_process_compiles(tmp_path: Path) -> None:
    nowhere = tmp_path / "file" / "cache"
    nowhere.parent.write_text("in the way")
    assert run(nowhere) == run(nowhere) == "1 True"


def test_the_cache_moves_to_the_user_s_if_the_package_cannot_be_written(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from cscodec import _machine_code
_machine_code._PACKAGE = Path({str(tmp_path / "package")!r})
(_machine_code._PACKAGE / "bitstream").mkdir(parents=True)
(_machine_code._PACKAGE / "bitstream" / "layout.py").touch()
(_machine_code._PACKAGE / "__pycache__").write_text("cannot be written to")
{_SCRIPT}"""
    settings = {"XDG_CACHE_HOME": str(tmp_path / "home"), "CSCODEC_CACHE_DIR": ""}
    assert run(None, script, **settings) == "1 True"
    (stored,) = (tmp_path / "home" / "cscodec").iterdir()
    assert stat.S_IMODE(stored.stat().st_mode) & 0o111 == 0


def test_debuggers_can_do_without_machine_code() -> None:
    assert run(None, NUMBA_DISABLE_JIT="1") == "0 False"


@pytest.mark.parametrize(
    "left",
    [
        np.ones((4, 4), np.float64),
        np.ones(4, np.float32),
        np.ones((4, 4), np.float32)[:, ::2],
        np.ones((4, 4), ">f4"),
    ],
)
def test_arrays_of_another_kind_are_refused(left: np.ndarray) -> None:
    square = np.ones((4, 4), np.float32)
    with pytest.raises(TypeError, match="multiply: an argument is"):
        multiply_kernel(left, square, square)


def test_missing_and_superfluous_arguments_are_refused() -> None:
    square = np.ones((4, 4), np.float32)
    for arguments in ((), (square,) * 2, (square,) * 4):
        with pytest.raises(ValueError, match="zip"):
            multiply_kernel(*arguments)


def scale(values: Float32Vector, factor: Float64, first: Integer) -> None:
    for i in range(first, len(values)):
        values[i] = values[i] * np.float32(factor) + np.float32(1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSCODEC_CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("cache")
def test_numbers_arrive() -> None:
    values = np.arange(5, dtype=np.float32)
    kernel(scale)(values, 0.5, 2)
    np.testing.assert_array_equal(values, [0, 1, 2, 2.5, 3])


@pytest.mark.usefixtures("cache")
def test_products_and_sums_are_rounded_apart() -> None:
    # 1 - (1 + e)(1 - e) is e² in one rounding and 0 in two.
    values = np.array([-1 - 2.0**-13], np.float32)
    kernel(scale)(values, 1 - 2.0**-13, 0)
    assert values[0] == 0


def test_bounds_are_checked_if_numba_is_told_to(tmp_path: Path) -> None:
    script = """
import numpy as np
from cscodec._jit import Float32Vector, Integer, kernel

def read(values: Float32Vector, index: Integer) -> None:
    values[0] = values[index]

values = np.ones(3, np.float32)
kernel(read)(values, 2)
try:
    kernel(read)(values, 3)
except IndexError as error:
    print(error)
"""
    assert run(tmp_path, script, NUMBA_BOUNDSCHECK="1") == "read: an index is out of range"
