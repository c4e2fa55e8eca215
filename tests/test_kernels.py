"""Kernels: called with what they declare, checked, and never with arrays that do not fit."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import intrinsic_kernels as own
import numpy as np
import pytest

import cscodec.kernels
from cscodec.kernels import declaration, online
from cscodec.kernels.declaration import Kind, fields, kernels
from cscodec.kernels.multiply import multiply_matrices
from cscodec.kernels.pursuit import Codes, PursuitRoom, pursue_correlations

ROOT = Path(__file__).resolve().parents[1]
SQUARE = np.ones((4, 4), np.float32)


def run(script: str, **settings: str) -> str:
    """What a process prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    # In Python, 64-bit masks overflow as they should, and NumPy says so.
    warnings = "ignore" if settings.get("CSCODEC_KERNELS") == "python" else "error"
    command = [sys.executable, "-W", warnings, "-c", script]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.strip()


def all_kinds() -> list[tuple[str, Kind]]:
    """Every argument and field of a record that the package's kernels declare."""
    for module in pkgutil.iter_modules(cscodec.kernels.__path__):
        importlib.import_module(f"cscodec.kernels.{module.name}")
    found = []
    for kernel in kernels:
        if kernel.function.__module__.startswith("cscodec"):
            for name, kind in kernel.parameters():
                parts = [(name, kind)] if isinstance(kind, Kind) else fields(kind)
                found += [(f"{kernel.__name__}.{part}", of) for part, of in parts]
    return found


def test_kernels_run_without_what_compiled_them() -> None:
    script = """
import sys
import cscodec
import numpy as np
cscodec.decode(cscodec.encode(np.zeros((9, 9, 3), np.uint8)))
print(sorted({"numba", "llvmlite"} & set(sys.modules)))
"""
    assert run(script) == "[]"


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
    assert run(script) == run(script, CSCODEC_KERNELS="python")


@pytest.mark.parametrize(
    "left",
    [
        np.ones((4, 4), np.float64),
        np.ones(4, np.float32),
        np.ones((4, 4, 1), np.float32),
        np.ones((4, 8), np.float32)[:, ::2],
        np.ones((4, 4), np.float32)[:, ::-1],
        np.asfortranarray(np.ones((4, 4), np.float32)),
        np.ones((4, 4), ">f4"),
        [[1.0, 2.0], [3.0, 4.0]],
        memoryview(np.ones((4, 4), np.float32)),
        np.zeros(65, np.uint8)[1:].view(np.float32).reshape(4, 4),  # not aligned
        None,
    ],
)
def test_arrays_of_another_kind_are_refused(left: Any) -> None:
    if isinstance(left, np.ndarray) and left.flags.f_contiguous and left.ndim == 2:
        left = np.asfortranarray(np.ones((4, 5), np.float32))
    with pytest.raises(TypeError, match=r"multiply_matrices: left is .*, expected contiguous"):
        multiply_matrices(left, SQUARE, SQUARE.copy())


def test_what_a_kernel_writes_to_must_be_writable() -> None:
    product = SQUARE.copy()
    product.flags.writeable = False
    with pytest.raises(TypeError, match=r"product is .*, expected writable contiguous"):
        multiply_matrices(SQUARE, SQUARE, product)
    multiply_matrices(product, product, SQUARE.copy())  # reading is allowed


@pytest.mark.parametrize("shapes", [(4, 5, 4, 4), (5, 4, 4, 4), (4, 4, 4, 5), (4, 0, 1, 4)])
def test_sizes_of_one_name_must_agree(shapes: tuple[int, int, int, int]) -> None:
    """No product of matrices whose shapes do not fit is begun."""
    rows, depth, other, columns = shapes
    arrays = [np.ones(shape, np.float32) for shape in ((rows, depth), (other, 4), (4, columns))]
    with pytest.raises(ValueError, match=r"multiply_matrices: .* expected .* with rows = "):
        multiply_matrices(*arrays)


def test_missing_and_superfluous_arguments_are_refused() -> None:
    for arguments in ((), (SQUARE,) * 2, (SQUARE,) * 4):
        with pytest.raises(ValueError, match="zip"):
            multiply_matrices(*arguments)


def codes(signals: int, sparsity: int) -> Codes:
    return Codes(
        np.empty((signals, sparsity), np.int32),
        np.empty((signals, sparsity), np.float32),
        np.empty(signals, np.int32),
    )


@pytest.mark.parametrize(
    "change",
    [
        {"factor": np.empty((3, 4), np.float32)},
        {"directions": np.empty((4, 9), np.float32)},
        {"scores": np.zeros(63, np.float32)},
        {"scores": np.zeros(128, np.float32)},
        {"touched": np.empty(8, np.int64)},
    ],
)
def test_fields_of_records_are_checked_like_arguments(change: dict[str, Any]) -> None:
    gram, correlations = np.eye(8, dtype=np.float32), np.ones((3, 8), np.float32)
    energies, room = np.ones(3), PursuitRoom.of(8, 4)
    pursue_correlations(correlations, gram, energies, 0.0, room, codes(3, 4))
    name = next(iter(change))
    with pytest.raises((TypeError, ValueError), match=f"pursue_correlations: room.({name}|score)"):
        pursue_correlations(correlations, gram, energies, 0.0, room._replace(**change), codes(3, 4))
    wrong = codes(3, 4)._replace(values=np.empty((3, 5), np.float32))
    with pytest.raises(ValueError, match=r"codes\.values"):
        pursue_correlations(correlations, gram, energies, 0.0, room, wrong)


def test_a_record_of_another_kind_is_refused() -> None:
    room = PursuitRoom.of(8, 4)
    with pytest.raises(TypeError, match="in place of"):
        pursue_correlations(
            np.ones((3, 8), np.float32), np.eye(8, dtype=np.float32), np.ones(3), 0.0,
            tuple(room), codes(3, 4),
        )  # fmt: skip


def test_pursuit_does_not_pass_the_end_of_room_that_is_too_small() -> None:
    """How much room scores take is no relation that a declaration could say."""
    num_atoms = 2000
    room = PursuitRoom.of(num_atoms, 4)
    scores = np.zeros(64, np.float32)
    small = room._replace(scores=scores, score_bits=scores.view(np.int32).reshape(1, 64))
    gram = np.eye(num_atoms, dtype=np.float32)
    correlations = np.ones((3, num_atoms), np.float32)
    found = codes(3, 4)
    pursue_correlations(correlations, gram, np.full(3, np.inf), 0.0, small, found)
    assert found.indices.max() < 64


def test_a_metric_from_a_checkpoint_cannot_be_longer_than_the_room_for_it() -> None:
    atoms = np.ones((70, 64), np.float32)
    room = [np.empty((64, 70), np.float32), np.empty((64, 70), np.float32)]
    with pytest.raises(ValueError, match="weigh_atoms: metric is float32"):
        online.weigh_atoms(
            atoms, np.ones((200_000, 64), np.float32), *room, np.empty((70, 70), np.float32)
        )


def test_every_array_that_kernels_take_names_its_sizes() -> None:
    for label, kind in all_kinds():
        for size in kind.shape or ():
            declaration._Axis.of(size)  # raises where it cannot be read
            assert size != 0, label
    assert len(all_kinds()) > 100


def test_only_the_last_name_of_a_product_may_be_new() -> None:
    axis, sizes = declaration._Axis.of("2 * rows * columns + 3"), {"rows": 5}
    assert axis.fits(43, sizes)
    assert sizes["columns"] == 4
    assert not axis.fits(53, sizes)
    with pytest.raises(ValueError, match="is no size"):
        declaration._Axis.of("rows - 1")
    assert not declaration._Axis.of("rows + 2").fits(1, {})


class TestNumbers:
    def test_they_arrive(self) -> None:
        values = np.arange(5, dtype=np.float32)
        own.compiled()["scale"](values, 0.5, 2)
        np.testing.assert_array_equal(values, [0, 1, 2, 2.5, 3])

    def test_products_and_sums_are_rounded_apart(self) -> None:
        # 1 - (1 + e)(1 - e) is e² in one rounding and 0 in two.
        values = np.array([-1 - 2.0**-13], np.float32)
        own.compiled()["scale"](values, 1 - 2.0**-13, 0)
        assert values[0] == 0

    def test_empty_arrays_are_allowed(self) -> None:
        own.compiled()["scale"](np.empty(0, np.float32), 0.5, 0)


def test_bounds_are_checked_if_kernels_are_built_to() -> None:
    read_at = own.compiled(check_bounds=True)["read_at"]
    values = np.arange(3, dtype=np.float32)
    read_at(values, 2)
    assert values[0] == 2
    for index in (3, -4, 2**40):  # -3 to -1 count from the end, as in Python
        with pytest.raises(IndexError, match="read_at: an index is out of range"):
            read_at(values, index)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("warm", [True, False])
def test_a_forked_child_can_work_on(warm: bool) -> None:
    """Also if another thread loads kernels for the first time while it is made."""
    script = f"""
import os, threading
import numpy as np
import cscodec

picture = np.zeros((600, 600, 3), np.uint8)
if {warm}:
    cscodec.encode(picture, workers=2)
else:
    threading.Thread(target=lambda: cscodec.encode(picture)).start()
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        data = cscodec.encode(picture, workers=2)
        os._exit(cscodec.decode(data, workers=2).shape != (600, 600, 3))
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.stdout.strip() == str([0] * 5), result.stderr[-2000:]
