"""Training of the restorer: what needs no PyTorch, and what is tested where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import restorer_reference as reference
from PIL import Image
from safetensors.numpy import load, load_file

from cscodec.errors import InvalidInputError
from cscodec.learning.corpus import PictureFile
from cscodec.learning.restorer import packing, sensing_matrices
from cscodec.sensing.network import Network, expected_arrays, load_network
from cscodec.sensing.restorer import improve_plane

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "models" / "networks" / "restorer.safetensors"
MODULE = "cscodec.learning.restorer"


def run(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process that first does something else."""
    given = ["restorer", *arguments]
    script = f"""
import sys, runpy
{before}
sys.argv = {given}
runpy.run_module({MODULE!r}, run_name="__main__")
"""
    path = os.pathsep.join([str(ROOT), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


class TestWithoutTorch:
    def test_help_is_there(self) -> None:
        done = run("--help", before="sys.modules['torch'] = None")
        assert done.returncode == 0, done.stderr
        assert "PHOTOS" in done.stdout

    def test_a_missing_torch_is_one_line_that_names_the_extra(self, tmp_path: Path) -> None:
        output = str(tmp_path / "mine.safetensors")
        done = run(str(tmp_path), "-o", output, before="sys.modules['torch'] = None")
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: training the restorer needs PyTorch")
        assert line.endswith("pip install 'cscodec[restorer]'")

    def test_nothing_of_the_package_loads_it(self) -> None:
        script = """
import sys
import cscodec.cli
from cscodec.learning import trainer, validation
from cscodec.sensing.network import load_network
load_network()
print("torch" in sys.modules)
"""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"

    def test_bytes_come_back_within_half_a_step(self) -> None:
        weights = np.random.default_rng(0).normal(size=(36, 16)).astype(np.float32)
        weights[:, 3] = 0
        values, scales = packing.quantize(weights)
        assert np.abs(values).max() == 127
        again = packing.dequantize(values, scales)
        assert np.all(np.abs(again - weights) <= scales / 2 * (1 + 1e-5))

    def test_cosines_are_orthonormal_without_mean_and_in_zig_zag(self) -> None:
        rows = sensing_matrices.zigzag_cosines()
        orthonormal = sensing_matrices.orthonormal_rows(rows)
        np.testing.assert_allclose(orthonormal @ orthonormal.T, np.eye(63), atol=1e-12)
        np.testing.assert_allclose(np.abs(np.sum(orthonormal * rows, axis=1)).min(), 4, rtol=0.3)
        # The second is flat along one side, the fourth varies along both.
        assert np.ptp(rows[0].reshape(8, 8), axis=0).max() < 1e-12 or (
            np.ptp(rows[0].reshape(8, 8), axis=1).max() < 1e-12
        )
        assert np.linalg.matrix_rank(rows[3].reshape(8, 8)) == 1
        assert np.ptp(rows[3].reshape(8, 8), axis=0).max() > 0.1

    def test_first_rows_span_what_those_of_a_matrix_do(self) -> None:
        matrix = np.random.default_rng(1).normal(size=(70, 64))
        rows = sensing_matrices.orthonormal_rows(matrix)
        assert rows.shape == (63, 64)
        few = matrix[:5] - matrix[:5].mean(axis=1, keepdims=True)
        np.testing.assert_allclose(few @ rows[:5].T @ rows[:5], few, atol=1e-10)


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="training the restorer needs PyTorch")


def shapes_of(module: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


class TestWithTorch:
    @pytest.mark.parametrize("num_measurements", [5, 20, 31])
    def test_the_module_and_the_kernels_agree(self, torch: Any, num_measurements: int) -> None:
        from cscodec.learning.restorer.network import Restorer

        module = Restorer()
        state = packing.unpack_weights(load_file(WEIGHTS), shapes_of(module))
        module.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
        rows = np.random.default_rng(0).normal(size=(num_measurements, 64))
        rows -= rows.mean(axis=1, keepdims=True)
        through = (np.linalg.pinv(rows) @ rows + 1 / 64).astype(np.float32)
        linear = np.random.default_rng(1).normal(0, 40, (32, 48)).astype(np.float32)
        with torch.inference_mode():
            expected = module(
                torch.from_numpy(linear)[None, None],
                torch.from_numpy(through)[None],
                torch.tensor([(num_measurements + 1) / 64]),
            )[0, 0].numpy()
        found = improve_plane(linear, through, load_network())
        np.testing.assert_allclose(found, expected, atol=0.5)  # features are whole numbers
        assert np.sqrt(np.mean(np.square(found - expected))) < 0.1

    def test_weights_are_packed_and_unpacked(self, torch: Any) -> None:
        from cscodec.learning.restorer.network import Restorer

        module = Restorer()
        shipped = load_file(WEIGHTS)
        again = packing.pack_weights(packing.unpack_weights(shipped, shapes_of(module)))
        assert again.keys() == shipped.keys() == expected_arrays().keys()
        for name, values in shipped.items():
            if name.endswith(".biases") and "enter" in name:
                assert not again[name].any()
            np.testing.assert_allclose(again[name], values, rtol=1e-6, err_msg=name)

    def test_crops_are_pixels_of_the_pictures(self, torch: Any) -> None:
        from cscodec.learning.restorer.photographs import Photographs

        plane = np.arange(70 * 90, dtype=np.int64).reshape(70, 90) % 251
        photographs = Photographs([plane.astype(np.uint8)] * 2, torch.device("cpu"))
        crops = photographs.crops(12, 16, np.random.default_rng(0)).numpy()
        assert crops.shape == (12, 1, 16, 16)
        windows = np.lib.stride_tricks.sliding_window_view(plane, (16, 16)).reshape(-1, 16, 16)
        known = {window.tobytes() for window in windows.astype(np.float32)}
        turned = [
            np.ascontiguousarray(flipped)
            for crop in crops[:, 0]
            for view in (crop, crop.T)
            for flipped in (view, view[::-1], view[:, ::-1], view[::-1, ::-1])
        ]
        # Half of them are taken pixel by pixel; eight views of each.
        hits = np.array([view.tobytes() in known for view in turned]).reshape(12, 8).any(axis=1)
        assert hits.sum() >= 6

    def test_small_pictures_are_passed_over(self, torch: Any, tmp_path: Path) -> None:
        from cscodec.learning.restorer.photographs import read_photographs

        Image.fromarray(np.zeros((50, 200), np.uint8)).save(tmp_path / "a.png")
        skipped: dict[str, str] = {}
        with pytest.raises(InvalidInputError, match="none of the 1 pictures can be used"):
            read_photographs([PictureFile(tmp_path / "a.png", "a.png")], 160, skipped)
        assert skipped == {"a.png": "smaller than 160 x 160 pixels"}

    def test_a_few_steps_learn_and_can_be_repeated(
        self, torch: Any, gray_photo: np.ndarray
    ) -> None:
        from cscodec.learning.restorer import batches, photographs, training

        matrices = {"cosines": sensing_matrices.orthonormal_rows(sensing_matrices.zigzag_cosines())}
        matrices["random-0"] = np.linalg.qr(np.random.default_rng(0).normal(size=(64, 31)))[0].T
        device = torch.device("cpu")

        def losses() -> list[float]:
            options = training.TrainingOptions(
                steps=10, batch_size=2, side=32, learning_rate=2e-4, warm_up=0
            )
            run = training.Training(
                options,
                photographs.Photographs([gray_photo], device),
                batches.Projections(matrices, device),
            )
            batch = run._next_batch()
            run._batches = [batch] * options.steps  # what it sees again and again, it learns
            return [float(run.advance()) for _ in range(options.steps)]

        first = losses()
        assert first[-1] < first[0] - 0.02
        assert losses() == first

    def test_the_command_makes_weights_that_work(
        self, torch: Any, gray_photo: np.ndarray, tmp_path: Path
    ) -> None:
        (tmp_path / "photos").mkdir()
        for number in range(3):
            part = gray_photo[:, 130 * number : 130 * number + 300]
            Image.fromarray(part).save(tmp_path / "photos" / f"{number}.png")
        output = tmp_path / "mine.safetensors"
        shorter = (
            "from cscodec.learning.restorer import sensing_matrices as s, training as t\n"
            "s._LEARNED, s._DICTIONARY_ITERATIONS, s._START = ((8, 2, True),), 3, 512\n"
            "t.TrainingOptions.__init__.__defaults__ = (41000, 2, 48, *t.TrainingOptions."
            "__init__.__defaults__[3:])"
        )
        done = run(str(tmp_path / "photos"), "-o", str(output), "--steps", "2", before=shorter)
        assert done.returncode == 0, done.stderr
        assert "held out m=20" in done.stdout
        network = Network.from_bytes(output.read_bytes())
        linear = np.random.default_rng(0).normal(0, 40, (16, 24)).astype(np.float32)
        through = np.full((64, 64), 1 / 64, np.float32)
        expected = reference.restore(linear, through, load(output.read_bytes()))
        np.testing.assert_array_equal(improve_plane(linear, through, network), expected)
