"""Decoder ``learned``: kernels against NumPy, the file of weights, what the network is worth."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import restorer_reference as reference
from safetensors.numpy import load_file, save, save_file

import cscodec
from cscodec.errors import InvalidInputError, InvalidModelError, ModelNotFoundError
from cscodec.evaluation.metrics import psnr_db
from cscodec.kernels.convolution import ADD, WRITE, convolve
from cscodec.kernels.library import usable_levels
from cscodec.learning.validation import sense_and_restore
from cscodec.model import System, load_model
from cscodec.sensing import network, restorer
from cscodec.sensing.network import Network, expected_arrays, load_network
from cscodec.sensing.reconstruct import measure_plane
from cscodec.sensing.restorer import improve_plane, inverse_and_projection, restore_learned
from cscodec.shipped import shipped_folder

Float32Array = npt.NDArray[np.float32]
WEIGHTS = Path(__file__).resolve().parents[1] / "models" / "networks" / "restorer.safetensors"
if not WEIGHTS.exists():  # tests of an installed package
    WEIGHTS = (shipped_folder() or Path()) / "networks" / "restorer.safetensors"


@pytest.fixture(scope="module")
def arrays() -> dict[str, npt.NDArray[Any]]:
    return dict(load_file(WEIGHTS))


@pytest.fixture(scope="module")
def system() -> System:
    return load_model("paper-m20").luma


def projection(num_measurements: int) -> Float32Array:
    rows = np.random.default_rng(num_measurements).normal(size=(num_measurements, 64))
    rows -= rows.mean(axis=1, keepdims=True)
    return (np.linalg.pinv(rows) @ rows + 1 / 64).astype(np.float32)


def random_plane(shape: tuple[int, int]) -> Float32Array:
    return np.random.default_rng(0).normal(0, 40, shape).astype(np.float32)


class TestKernels:
    @pytest.mark.parametrize("shape", [(8, 8), (16, 40), (48, 72), (24, 136)])
    @pytest.mark.parametrize("num_measurements", [1, 20])
    def test_they_make_the_bits_of_numpy(
        self, arrays: dict[str, Any], shape: tuple[int, int], num_measurements: int
    ) -> None:
        linear, through = random_plane(shape), projection(num_measurements)
        expected = reference.restore(linear, through, arrays)
        for workers in (1, 2, 3):
            found = improve_plane(linear, through, load_network(), workers)
            np.testing.assert_array_equal(found, expected)

    def test_borders_stay_as_they_are(self) -> None:
        source = np.ones((6, 13, 4), np.int16)
        target = np.full((6, 13, 16), 7, np.int16)
        weights, biases = np.ones((1, 18, 16, 2), np.int16), np.zeros((4, 4, 1, 16), np.float32)
        scales = np.ones((1, 16), np.float32)
        convolve(source, weights, scales, biases, target, WRITE)
        convolve(source, weights, scales, biases, target, ADD)
        assert np.all(target[1:-1, 1:-1] == 72)
        target[1:-1, 1:-1] = 7
        assert np.all(target == 7)

    @pytest.mark.parametrize("wrong", ["source", "weights", "scales", "biases", "target"])
    def test_arrays_that_do_not_fit_are_refused(self, wrong: str) -> None:
        shapes = {
            "source": (6, 13, 4),
            "weights": (2, 18, 16, 2),
            "scales": (2, 16),
            "biases": (4, 4, 2, 16),
            "target": (6, 13, 32),
        }
        shapes[wrong] = (shapes[wrong][0] + 1, *shapes[wrong][1:])
        given: list[npt.NDArray[Any]] = [
            np.zeros(shape, np.float32 if name in ("scales", "biases") else np.int16)
            for name, shape in shapes.items()
        ]
        with pytest.raises(ValueError, match=r"convolve: .* expected"):
            convolve(*given, WRITE)

    def test_bits_do_not_depend_on_the_processor(self) -> None:
        digests = set()
        for level in usable_levels():
            environment = {**os.environ, "CSCODEC_KERNELS": level}
            command = [sys.executable, "-c", _BITS]
            run = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert run.returncode == 0, run.stderr[-2000:]
            digests.add(run.stdout)
        assert len(digests) == 1


_BITS = """
import hashlib, numpy as np
from cscodec.model import load_model
from cscodec.sensing.network import load_network
from cscodec.sensing.reconstruct import measure_plane
from cscodec.sensing.restorer import restore_learned
plane = np.random.default_rng(0).integers(0, 256, (60, 140)).astype(np.float32).cumsum(1) / 70
system = load_model("paper-m20").luma
restored = restore_learned(measure_plane(plane, system), system, plane.shape, load_network())
print(hashlib.sha256(restored.tobytes()).hexdigest())
"""


def test_pieces_make_the_same_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    linear, through = random_plane((160, 216)), projection(10)
    whole = improve_plane(linear, through, load_network())
    monkeypatch.setattr(restorer, "_PIECE", 32)
    np.testing.assert_array_equal(improve_plane(linear, through, load_network()), whole)
    # So much is needed: with less around them, pieces differ.
    monkeypatch.setattr(restorer, "_REACH", 48)
    assert np.any(improve_plane(linear, through, load_network()) != whole)


def test_three_views_are_averaged(gray_photo: npt.NDArray[np.uint8], system: System) -> None:
    plane = gray_photo[100:148, 200:264]
    through = inverse_and_projection(system.sensing_matrix)[1]
    linear = reference.put_back(np.zeros(plane.shape, np.float32), plane - np.float32(128), through)
    expected = np.zeros_like(linear)
    for turned in (lambda a: a, np.flipud, np.fliplr):
        rows = np.array([turned(row.reshape(8, 8)).ravel() for row in system.sensing_matrix])
        through = inverse_and_projection(rows)[1]
        expected += turned(improve_plane(turned(linear).copy(), through, load_network())) / 3
    measurements = measure_plane(plane, system)
    restored = restore_learned(measurements, system, plane.shape, load_network())
    np.testing.assert_allclose(restored, expected + 128, atol=0.1)


def test_restored_plane_keeps_to_the_measurements(
    gray_photo: npt.NDArray[np.uint8], system: System
) -> None:
    plane = gray_photo[100:196, 200:328]
    measurements = measure_plane(plane, system)
    restored = restore_learned(measurements, system, plane.shape, load_network())
    np.testing.assert_allclose(measure_plane(restored, system), measurements, rtol=1e-3, atol=0.02)


@pytest.mark.parametrize(("num_measurements", "gain_db"), [(5, 0.8), (12, 1.0), (20, 1.0)])
def test_it_gains_on_the_linear_decoder(
    gray_photo: npt.NDArray[np.uint8], system: System, num_measurements: int, gain_db: float
) -> None:
    plane = gray_photo[64:320, 128:448]
    first = slice(num_measurements)
    fewer = System(system.sensing_matrix[first], system.dictionary, system.basis[first])
    quality = {
        decoder: psnr_db(plane, sense_and_restore(plane, fewer, decoder))
        for decoder in ("linear", "learned")
    }
    assert quality["learned"] > quality["linear"] + gain_db


def test_with_all_measurements_nothing_is_lost(gray_photo: npt.NDArray[np.uint8]) -> None:
    plane = gray_photo[100:143, 200:261]
    np.testing.assert_array_equal(
        sense_and_restore(plane, load_model("photo").luma, "learned"), plane
    )


@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (33, 7)])
@pytest.mark.parametrize("num_measurements", [1, 40, 63])
def test_planes_and_measurements_of_any_number(
    shape: tuple[int, int], num_measurements: int
) -> None:
    photo = load_model("photo").luma
    plane = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    measurements = np.ascontiguousarray(measure_plane(plane, photo)[..., : 1 + num_measurements])
    restored = restore_learned(measurements, photo, shape, load_network())
    assert restored.shape == shape
    assert np.isfinite(restored).all()


def test_constant_planes_stay_constant(system: System) -> None:
    plane = np.full((20, 9), 77, np.uint8)
    measurements = measure_plane(plane, system)
    restored = restore_learned(measurements, system, plane.shape, load_network())
    np.testing.assert_allclose(restored, 77, atol=0.5)


def test_bad_measurements_are_refused(system: System) -> None:
    for shape in ((1, 2, 21), (2, 2, 22), (2, 2, 1), (4, 21), ()):
        with pytest.raises(InvalidInputError, match="a plane of 16x16 pixels needs"):
            restore_learned(np.ones(shape), system, (16, 16), load_network())
    with pytest.raises(InvalidInputError, match="hold NaN or infinity"):
        restore_learned(np.full((2, 2, 21), np.inf), system, (16, 16), load_network())


def test_it_does_not_decode_files() -> None:
    with pytest.raises(InvalidInputError, match="for unquantised measurements; allowed for files"):
        cscodec.decode(b"", decoder="learned")  # type: ignore[arg-type]


class TestWeights:
    def test_the_shipped_ones_are_small_and_no_model(self) -> None:
        assert WEIGHTS.stat().st_size <= 1_000_000
        assert "restorer" not in cscodec.shipped_models()

    def test_they_are_read_once(self) -> None:
        assert load_network() is load_network(WEIGHTS)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ModelNotFoundError, match="no such file of the restorer's weights"):
            load_network(tmp_path / "nonesuch.safetensors")

    @pytest.mark.parametrize(
        ("name", "change", "message"),
        [
            ("stages.1.leave.biases", None, "stages.1.leave.biases is missing"),
            ("stages.0.up.weights", lambda a: a[:, :-1], r"int8 \(96, 255\); allowed is int8 \("),
            ("stages.0.up.weights", lambda a: a.T, r"int8 \(256, 96\); allowed is int8 \(96, 256"),
            (
                "stages.0.up.weights",
                lambda a: a.astype(np.float32),
                "is float32 .* allowed is int8",
            ),
            ("stages.0.up.scales", lambda a: a.astype(np.float64), "allowed is float32"),
            ("stages.0.up.scales", lambda a: a * np.float32(np.nan), "up.scales holds nan"),
            ("stages.0.up.scales", lambda a: -a, r"up.scales holds -.*; allowed is 0 or more"),
            ("stages.0.down.biases", lambda a: a + np.float32(np.inf), "down.biases holds inf"),
            ("stages.0.places", lambda a: a + np.float32(2e6), "magnitudes up to 1e"),
            ("stages.0.places", lambda a: a[:1], r"places is float32 \(1, 4, 4, 64\)"),
            ("stages.2.places", lambda a: np.zeros(3), "unexpected array 'stages.2.places'"),
        ],
    )
    def test_bad_ones_are_refused(
        self, arrays: dict[str, Any], name: str, change: Any, message: str
    ) -> None:
        changed = dict(arrays)
        if change is None:
            del changed[name]
        else:
            changed[name] = np.ascontiguousarray(change(changed.get(name)))
        with pytest.raises(InvalidModelError, match=message) as caught:
            Network.from_bytes(save(changed), "mine")
        assert str(caught.value).startswith("mine: not usable as the restorer's weights (")
        assert "python -m cscodec.learning.restorer" in str(caught.value)

    @pytest.mark.parametrize("length", [0, 7, 8, 100, 5000, 900_000])
    def test_files_cut_short_are_refused(self, length: int) -> None:
        with pytest.raises(InvalidModelError, match="not usable"):
            Network.from_bytes(WEIGHTS.read_bytes()[:length])

    def test_damaged_headers_are_refused_or_mean_the_same(self) -> None:
        """A changed header may only swap arrays of one type and shape."""
        data = WEIGHTS.read_bytes()
        length = 8 + int.from_bytes(data[:8], "little")
        generator = np.random.default_rng(0)
        num_refused = 0
        for _ in range(300):
            changed = bytearray(data)
            for place in generator.integers(0, length, generator.integers(1, 4)):
                changed[place] = generator.integers(0, 256)
            try:
                loaded = Network.from_bytes(bytes(changed))
            except InvalidModelError:
                num_refused += 1
            else:
                assert len(loaded.stages) == 2
        assert num_refused > 250

    def test_models_are_no_networks_and_networks_no_models(self) -> None:
        with pytest.raises(InvalidModelError, match="unexpected array"):
            load_network(cscodec.shipped_models()["paper-m20"])
        with pytest.raises(InvalidModelError, match="not a usable model"):
            load_model(WEIGHTS)

    def test_large_files_are_refused_unread(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "large.safetensors"
        with open(path, "wb") as file:
            file.truncate(1 << 40)  # sparse: to read it would take all memory
        with pytest.raises(InvalidModelError, match="1099511627776 bytes are more than"):
            load_network(path)
        monkeypatch.setattr(network, "MOST_BYTES", 1000)
        with pytest.raises(InvalidModelError, match="allowed are 1000"):
            Network.from_bytes(WEIGHTS.read_bytes())

    def test_a_changed_file_is_read_again(self, arrays: dict[str, Any], tmp_path: Path) -> None:
        path = tmp_path / "mine.safetensors"
        save_file(arrays, path)
        first = load_network(path)
        zeros = {name: np.zeros(shape, dtype) for name, (dtype, shape) in expected_arrays().items()}
        save_file(zeros, path)
        os.utime(path, ns=(1, 1))
        assert load_network(path) is not first

    def test_a_network_of_zeros_changes_nothing(self) -> None:
        zeros = {name: np.zeros(shape, dtype) for name, (dtype, shape) in expected_arrays().items()}
        through, linear = projection(9), random_plane((16, 24))
        kept = reference.put_back(linear, linear, through)
        found = improve_plane(linear, through, Network.from_bytes(save(zeros)))
        np.testing.assert_allclose(found, kept, atol=1e-4)
