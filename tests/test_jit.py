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
    if "NUMBA_DISABLE_JIT" in settings:
        command[2] = "ignore"  # in Python, 64-bit masks overflow as they should, and NumPy says so
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
_machine_code._PACKAGE.mkdir()
(_machine_code._PACKAGE / "__pycache__").write_text("cannot be written to")
{_SCRIPT}"""
    settings = {"XDG_CACHE_HOME": str(tmp_path / "home"), "CSCODEC_CACHE_DIR": ""}
    assert run(None, script, **settings) == "1 True"
    (stored,) = (tmp_path / "home" / "cscodec").iterdir()
    assert stat.S_IMODE(stored.stat().st_mode) & 0o111 == 0


def test_without_a_home_only_the_package_s_folder_is_tried(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from cscodec import _machine_code
_machine_code._PACKAGE = Path({str(tmp_path)!r})
def no_home(self):
    raise RuntimeError("no home")
Path.expanduser = no_home
{_SCRIPT}"""
    settings = {"XDG_CACHE_HOME": "~/nowhere", "CSCODEC_CACHE_DIR": ""}
    assert run(None, script, **settings) == "1 True"
    assert run(None, script, **settings) == "0 False"


def test_without_sources_nothing_is_cached(tmp_path: Path) -> None:
    script = "from cscodec import _jit\n_jit._SOURCES = None\n" + _SCRIPT
    assert run(tmp_path, script) == run(tmp_path, script) == "1 True"
    assert not list(tmp_path.iterdir())


def test_debuggers_can_do_without_machine_code() -> None:
    """The whole coder runs in Python, and gives the same bytes."""
    script = """
import hashlib
import numpy as np
import cscodec

y, x = np.mgrid[:24, :20]
pixels = np.stack([9 * x + y, 5 * y, (x * y) % 200], axis=-1).astype(np.uint8)
data = cscodec.encode(pixels, quality=90, workers=1)
linear = cscodec.decode(data, decoder="linear", workers=1)
print(hashlib.sha256(data + linear.tobytes()).hexdigest())
"""
    assert run(None, script) == run(None, script, NUMBA_DISABLE_JIT="1")


def test_threads_may_compile_at_once(tmp_path: Path) -> None:
    script = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from cscodec.sensing.patches import extract_patches
from cscodec.sensing.pursuit import multiplied, omp

ones = np.ones((9, 20), np.float32)
with ThreadPoolExecutor(3) as pool:
    jobs = [
        pool.submit(multiplied, ones, np.ascontiguousarray(ones.T)),
        pool.submit(omp, ones, np.eye(20, dtype=np.float32), sparsity=2),
        pool.submit(extract_patches, ones),
    ]
    print([job.result() is not None for job in jobs])
"""
    assert run(tmp_path, script) == "[True, True, True]"


@pytest.mark.parametrize(
    "left",
    [
        np.ones((4, 4), np.float64),
        np.ones(4, np.float32),
        np.ones((4, 4), np.float32)[:, ::2],
        np.ones((4, 4), ">f4"),
        [[1.0, 2.0], [3.0, 4.0]],
        None,
    ],
)
def test_arrays_of_another_kind_are_refused(left: object) -> None:
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_can_work_on() -> None:
    script = """
import os
import numpy as np
import cscodec

data = cscodec.encode(np.zeros((600, 600, 3), np.uint8), workers=2)
child = os.fork()
if child == 0:
    os._exit(cscodec.decode(data, workers=2).shape != (600, 600, 3))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.stdout.strip() == "0", result.stderr[-2000:]
