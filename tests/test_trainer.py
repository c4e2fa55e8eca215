"""Training runs: reproducible, resumable bit for bit, recorded in the model, strict with input."""

from __future__ import annotations

import copy
import inspect
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from cscodec import Model, decode, encode, load_model
from cscodec.errors import InvalidInputError
from cscodec.evaluation.metrics import psnr_db
from cscodec.images import read_picture
from cscodec.layout import MAX_ATOMS, MAX_MEASUREMENTS
from cscodec.learning import options as options_module
from cscodec.learning import rivals
from cscodec.learning.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from cscodec.learning.corpus import luma_plane
from cscodec.learning.options import METHODS, RunSettings, TrainingOptions
from cscodec.learning.start import learner_parameters
from cscodec.learning.systems import make_system
from cscodec.learning.trainer import Progress, train
from cscodec.learning.validation import measure_quality
from cscodec.sensing.design import design_sensing_matrix

ROOT = Path(__file__).resolve().parents[1]
SMALL = TrainingOptions(
    measurements=8,
    atoms=32,
    sparsity=2,
    batch_size=64,
    dictionary_iterations=20,
    outer_iterations=2,
    seed=3,
)
NAMED = RunSettings(name="small", licence="CC0-1.0", validate_every=10)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory, photo: npt.NDArray[np.uint8]) -> Path:
    """A folder of six colour crops of a photograph, 128 x 128."""
    folder = tmp_path_factory.mktemp("training") / "crops"
    folder.mkdir()
    for i in range(6):
        top, left = 160 + 130 * (i // 3), 140 * (i % 3)
        Image.fromarray(photo[top : top + 128, left : left + 128]).save(folder / f"{i}.png")
    return folder


@pytest.fixture(scope="session")
def small_model(pictures: Path) -> Model:
    return train([pictures], SMALL, NAMED)


def test_model_has_the_sizes_asked_for(small_model: Model) -> None:
    assert small_model.sensing_matrix.shape == (8, 64)
    assert small_model.dictionary.shape == (64, 32)
    assert small_model.chroma is small_model.luma
    np.testing.assert_allclose(np.linalg.norm(small_model.dictionary, axis=0), 1, rtol=1e-5)


def test_learning_helps(small_model: Model) -> None:
    history = small_model.metadata["results"]["history"]["luma"]
    assert [row["iteration"] for row in history] == [10, 20, 30, 40]
    assert history[-1]["psnr_db"] > history[0]["psnr_db"]


def test_record_says_how_the_model_was_made(small_model: Model, pictures: Path) -> None:
    record = json.loads(json.dumps(small_model.metadata))
    assert record["command"] == (
        "cscodec train crops -o small.safetensors --measurements 8 --atoms 32 --sparsity 2 "
        "--batch-size 64 --dictionary-iterations 20 --outer-iterations 2 --seed 3 "
        "--licence CC0-1.0"
    )
    assert record["data"]["licence"] == "CC0-1.0"
    assert (record["data"]["num_pictures"], record["data"]["num_held_out"]) == (5, 1)
    assert record["configuration"] == SMALL.as_dict()
    held_out = record["results"]["held_out"]["luma"]
    assert set(held_out) == {"omp", "linear", "consistent", "refine"}
    assert held_out["omp"]["psnr_db"] == record["results"]["history"]["luma"][-1]["psnr_db"]
    assert held_out["refine"]["psnr_db"] > held_out["omp"]["psnr_db"]
    assert str(pictures.parent) not in json.dumps(record)


def test_same_seed_same_file(small_model: Model, pictures: Path) -> None:
    again = train([pictures], SMALL, NAMED, workers=2)
    assert again.to_bytes() == small_model.to_bytes()
    other = train([pictures], replace(SMALL, seed=4), NAMED)
    assert other.model_id != small_model.model_id


@pytest.mark.parametrize("stop_at", [1, 20, 33, 50, 80])
def test_interrupted_and_resumed_is_uninterrupted(
    pictures: Path, tmp_path: Path, stop_at: int
) -> None:
    options = replace(SMALL, chroma=True)
    checkpoint = tmp_path / "run.checkpoint"
    calls = []

    def interrupt(progress: Progress) -> None:
        calls.append(progress)
        if len(calls) == stop_at:
            signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)  # ignored, where tests run in the background
    settings = RunSettings(validate_every=10, checkpoint=checkpoint)
    with pytest.raises(KeyboardInterrupt):
        train([pictures], options, settings, progress=interrupt)
    assert len(calls) == stop_at, "the batch is finished, no other begun"
    assert signal.getsignal(signal.SIGINT) is handler
    settings = replace(settings, resume=True)
    resumed = train([pictures], options, settings, progress=calls.append)
    assert len(calls) == 80, "no batch is done twice or left out"
    assert resumed.to_bytes() == _chroma_model(pictures, tmp_path).to_bytes()


_CHROMA: dict[Path, Model] = {}


def _chroma_model(pictures: Path, tmp_path: Path) -> Model:
    if pictures not in _CHROMA:
        settings = RunSettings(validate_every=10)
        _CHROMA[pictures] = train([pictures], replace(SMALL, chroma=True), settings)
    return _CHROMA[pictures]


def test_chroma_has_a_system_of_its_own(pictures: Path, tmp_path: Path) -> None:
    model = _chroma_model(pictures, tmp_path)
    assert not np.array_equal(model.chroma.dictionary, model.luma.dictionary)
    assert set(model.metadata["results"]["held_out"]) == {"luma", "chroma"}


_KILL_ITSELF = """
import os, signal, sys
from cscodec.learning.options import RunSettings, TrainingOptions
from cscodec.learning.trainer import train
def progress(state):
    if state.iteration == 33:
        os.kill(os.getpid(), signal.SIGKILL)
settings = RunSettings(name="small", licence="CC0-1.0", validate_every=10,
                       checkpoint=sys.argv[2], checkpoint_every=7)
train([sys.argv[1]], TrainingOptions(**eval(sys.argv[3])), settings, progress=progress)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_killed_and_resumed_is_uninterrupted(
    pictures: Path, tmp_path: Path, small_model: Model
) -> None:
    checkpoint = tmp_path / "run.checkpoint"
    parameters = repr({k: v for k, v in SMALL.as_dict().items() if v})
    command = [sys.executable, "-c", _KILL_ITSELF, str(pictures), str(checkpoint), parameters]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    run = subprocess.run(command, check=False, capture_output=True, cwd=ROOT, env=environment)
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()
    done = []
    settings = replace(NAMED, checkpoint=checkpoint, resume=True)
    resumed = train([pictures], SMALL, settings, progress=done.append)
    assert done[0].iteration == 29, "28 iterations were in the last checkpoint"
    assert resumed.to_bytes() == small_model.to_bytes()


def test_checkpoint_of_another_run_is_refused(pictures: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.checkpoint"
    short = replace(SMALL, outer_iterations=1)
    train([pictures], short, RunSettings(checkpoint=checkpoint))
    resuming = RunSettings(checkpoint=checkpoint, resume=True)
    with pytest.raises(InvalidInputError, match=r"outer_iterations was 1, now 2"):
        train([pictures], SMALL, resuming)
    fewer = tmp_path / "crops"
    fewer.mkdir()
    for name in ("0.png", "1.png", "2.png"):
        (fewer / name).write_bytes((pictures / name).read_bytes())
    with pytest.raises(InvalidInputError, match=r"pictures was 5.*now 2"):
        train([fewer], short, resuming)
    with pytest.raises(InvalidInputError, match="--resume needs --checkpoint"):
        train([pictures], SMALL, RunSettings(resume=True))
    for every in ("validate", "checkpoint"):
        with pytest.raises(InvalidInputError, match=f"--{every}-every is 0; allowed is 1 or more"):
            train([pictures], SMALL, RunSettings(**{f"{every}_every": 0}))


@pytest.fixture(scope="session")
def interrupted(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """What a run had written when it was stopped after 25 of 40 iterations for chroma."""
    path = tmp_path_factory.mktemp("interrupted") / "run.checkpoint"

    def interrupt(progress: Progress) -> None:
        if (progress.channel, progress.iteration) == ("chroma", 25):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(
            [pictures],
            replace(SMALL, chroma=True),
            replace(NAMED, checkpoint=path),
            progress=interrupt,
        )
    return load_checkpoint(path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("", [], "state is of type list; allowed is a mapping"),
        ("", {}, "state lacks systems"),
        ("systems", None, "state.systems is None"),
        ("systems", {"luma": {"foo": 1}}, "state.systems.luma has an unknown entry 'foo'"),
        ("systems", {"luma": {}}, "state.systems.luma lacks sensing_matrix"),
        ("systems", {"red": {}}, "state.systems is .*from luma and chroma"),
        ("systems luma dictionary", np.zeros((64, 32)), r"dictionary is float64 \(64, 32\)"),
        ("systems luma sensing_matrix", np.zeros((9, 64)), r"matrix is float64 \(9, 64\)"),
        ("systems luma sensing_matrix", np.full((8, 64), 1e300), "what makes a system"),
        ("systems luma sensing_matrix", np.ones((8, 64)), "what makes a system"),
        ("history", {"luma": {}}, "history.luma is of type dict; allowed is a list"),
        ("history luma 0 psnr_db", math.nan, "history.luma.0.psnr_db is nan"),
        ("history luma 0 iteration", "5", "history.luma.0.iteration is '5'"),
        ("skipped_pictures", {"a.png": 3}, "skipped_pictures.a.png is 3; allowed is a text"),
        ("skipped_patches luma", -1, "skipped_patches.luma is -1"),
        ("unfinished", [], "state.unfinished is of type list"),
        ("unfinished iteration", None, "unfinished.iteration is None"),
        ("unfinished iteration", 41, r"unfinished.iteration is 41; .*1\.\.40"),
        ("unfinished learner", {}, "not the state of a learner: state lacks parameters"),
        ("unfinished learner parameters rho", 14.0, "begun with the parameters of this run"),
        ("unfinished learner metric", np.zeros((99, 64), np.float32), r"metric is float32 \(99"),
        ("unfinished learner random state state", -1, "random.state.state is -1"),
        ("unfinished positions", {}, "positions is of type dict"),
        ("unfinished positions", [], r"positions is of type list; allowed is a list of 1\.\.1"),
        ("unfinished positions 0 offset", -5, "positions.0.offset is -5"),
        ("unfinished positions 0 window", -2, "positions.0.window is -2"),
        ("unfinished positions 0 visit", 2**300, "positions.0.visit is a whole number of 301 bits"),
        ("unfinished positions 0 skipped", {"a.png": []}, "skipped.a.png is of type list"),
    ],
)
def test_checkpoints_of_other_contents_are_refused(
    interrupted: Checkpoint, pictures: Path, tmp_path: Path, place: str, value: Any, message: str
) -> None:
    state = copy.deepcopy(interrupted.state)
    *way, last = ["state", *place.split()]
    top: Any = {"state": state}
    inner = top
    for key in way:
        inner = inner[int(key) if key.isdigit() else key]
    inner[last] = value
    path = tmp_path / "run.checkpoint"
    save_checkpoint(path, Checkpoint(interrupted.configuration, top["state"]))
    settings = replace(NAMED, checkpoint=path, resume=True)
    with pytest.raises(InvalidInputError, match=f"not a checkpoint of this release .*{message}"):
        train([pictures], replace(SMALL, chroma=True), settings)


def test_checkpoint_without_its_iteration_is_refused(
    interrupted: Checkpoint, pictures: Path, tmp_path: Path
) -> None:
    state = copy.deepcopy(interrupted.state)
    del state["unfinished"]["iteration"]
    path = tmp_path / "run.checkpoint"
    save_checkpoint(path, Checkpoint(interrupted.configuration, state))
    with pytest.raises(InvalidInputError, match="unfinished lacks iteration"):
        train(
            [pictures],
            replace(SMALL, chroma=True),
            replace(NAMED, checkpoint=path, resume=True),
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measurements": 64}, r"--measurements is 64; allowed is 1\.\.63"),
        ({"measurements": 0}, r"--measurements is 0"),
        ({"sparsity": 9}, r"--sparsity is 9; allowed is 1\.\.8"),
        ({"atoms": 7}, r"--atoms is 7; allowed is 8\.\.4096"),
        ({"gamma": 0.0}, r"--gamma is 0; allowed is any number above 0"),
        ({"gamma": -1.0}, r"--gamma is -1"),
        ({"gamma": float("nan")}, r"--gamma is nan"),
        ({"rho": -1.0}, r"--rho is -1"),
        ({"batch_size": 0}, r"--batch-size is 0"),
        ({"seed": -1}, r"--seed is -1"),
        ({"method": "magic"}, r"--method is 'magic'; allowed are online, s-dcs"),
        ({"iterations": 5}, r"--iterations has no meaning for --method online"),
        ({"method": "pca"}, r"--batch-size has no meaning for --method pca"),
        ({"statistics": "drop"}, r"--statistics is 'drop'; allowed are restart, keep"),
        ({"update": "fast"}, r"--update is 'fast'; allowed are exact, printed"),
    ],
)
def test_parameters_that_cannot_work_are_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        train([tmp_path / "never looked at"], replace(SMALL, **change))


def test_batches_or_dictionaries_larger_than_the_data_are_refused(pictures: Path) -> None:
    with pytest.raises(InvalidInputError, match="larger than the data"):
        train([pictures], replace(SMALL, batch_size=10_000))
    with pytest.raises(InvalidInputError, match="fewer than --atoms 4096"):
        train([pictures], replace(SMALL, atoms=4096))


def test_flat_pictures_are_refused(tmp_path: Path) -> None:
    for i in range(3):
        Image.fromarray(np.full((64, 64), 40 * i, np.uint8)).save(tmp_path / f"{i}.png")
    with pytest.raises(InvalidInputError, match="constant or repeated"):
        train([tmp_path], SMALL)


def test_broken_pictures_are_listed_in_the_model(pictures: Path, tmp_path: Path) -> None:
    for path in pictures.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    broken = [f"broken{i}.png" for i in range(30)]  # some of them held out
    for name in broken:
        (tmp_path / name).write_bytes((tmp_path / "0.png").read_bytes()[:99])
    model = train([tmp_path], replace(SMALL, outer_iterations=1))
    skipped = model.metadata["data"]["skipped_pictures"]
    assert set(skipped) == {f"{tmp_path.name}/{name}" for name in broken}


def test_codec_model_has_tables_and_codes(
    pictures: Path, tmp_path: Path, photo: npt.NDArray[np.uint8]
) -> None:
    options = replace(SMALL, measurements=63, atoms=64, sparsity=4, chroma=True)
    model = train([pictures], replace(options, outer_iterations=1))
    assert model.tables
    path = tmp_path / "mine.safetensors"
    model.save(path)
    crop = photo[200:264, :96]
    restored = decode(encode(crop, quality=90, model=str(path)), model=str(path))
    assert psnr_db(crop, restored) > 30
    assert not train([pictures], replace(options, codec_tables=False)).tables


def test_dictionary_of_low_rank_makes_a_full_system() -> None:
    random = np.random.default_rng(0)
    atoms = random.standard_normal((10, 64))
    atoms -= atoms.mean(axis=1, keepdims=True)
    psi = np.repeat(atoms, 7, axis=0).T  # 70 atoms of rank 10
    phi = design_sensing_matrix(psi, 63)
    assert np.linalg.matrix_rank(phi) == 10
    system = make_system(phi, psi)
    assert np.linalg.matrix_rank(system.sensing_matrix) == 63
    np.testing.assert_allclose(system.sensing_matrix @ psi, phi @ psi, atol=1e-5)
    np.testing.assert_allclose(system.sensing_matrix.sum(axis=1), 0, atol=1e-5)
    np.testing.assert_array_equal(system.sensing_matrix[:10], phi[:10].astype(np.float32))


def test_model_is_measured_on_a_test_folder(pictures: Path, tmp_path: Path) -> None:
    for name in ("1.png", "4.png"):
        (tmp_path / name).write_bytes((pictures / name).read_bytes())
    model = train([pictures], replace(SMALL, outer_iterations=1), RunSettings(test_folder=tmp_path))
    test = model.metadata["results"]["test"]
    assert (test["folder"], test["num_pictures"]) == (tmp_path.name, 2)
    planes = [luma_plane(read_picture(tmp_path / name).pixels) for name in ("1.png", "4.png")]
    for decoder in ("omp", "linear"):
        expected = measure_quality(planes, model.luma, decoder, sparsity=SMALL.sparsity)
        assert test["luma"][decoder] == asdict(expected)
    with pytest.raises(InvalidInputError, match="not a folder"):
        train([pictures], SMALL, RunSettings(test_folder=tmp_path / "missing"))


def test_chroma_of_gray_pictures_is_refused_before_luma_is_learned(
    pictures: Path, tmp_path: Path
) -> None:
    for i, path in enumerate(sorted(pictures.iterdir())):
        gray = Image.open(path).convert("L")
        (gray if i % 2 else gray.convert("RGB")).save(tmp_path / path.name)
    batches: list[Progress] = []
    with pytest.raises(InvalidInputError, match=r"none of the 5 .* has colour; train without"):
        train([tmp_path], replace(SMALL, chroma=True), progress=batches.append)
    assert not batches


def test_validations_fall_anywhere_in_an_outer_iteration(pictures: Path) -> None:
    options = TrainingOptions()
    every = RunSettings().validation_interval(options)
    total = options.outer_iterations * options.dictionary_iterations
    places = np.arange(every, total, every) % options.dictionary_iterations
    gaps = np.diff(np.sort(places), append=places.min() + options.dictionary_iterations)
    assert gaps.max() < 2.1 * options.dictionary_iterations / len(places)
    history = train([pictures], SMALL).metadata["results"]["history"]["luma"]
    assert [row["iteration"] for row in history] == [8, 16, 24, 32, 40]


@pytest.mark.parametrize(("num_measurements", "sparsity"), [(1, 1), (5, 1), (10, 2), (20, 4)])
def test_sparsity_follows_the_number_of_measurements(num_measurements: int, sparsity: int) -> None:
    options = TrainingOptions(measurements=num_measurements)
    options.check()
    assert options.as_dict()["sparsity"] == sparsity == learner_parameters(options).sparsity
    assert "--sparsity" not in options.command(["photos"], "m.safetensors")
    assert replace(options, sparsity=1).chosen_sparsity == 1


def test_tiny_pictures_are_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for i in range(40):
        pixels = random.integers(0, 256, (8, 8), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    with pytest.raises(InvalidInputError, match="16 x 16"):
        train([tmp_path], replace(SMALL, batch_size=8))


@pytest.mark.parametrize("method", METHODS[1:])
def test_every_method_makes_a_model(pictures: Path, method: str, tmp_path: Path) -> None:
    options = TrainingOptions(
        method=method,
        measurements=8,
        atoms=80,
        sparsity=2,
        patches=500,
        iterations=None if method == "pca" else 2,
    )
    model = train([pictures], options, RunSettings(name=method))
    assert model.sensing_matrix.shape == (8, 64)
    quality = model.metadata["results"]["held_out"]["luma"]
    assert quality["linear"]["psnr_db"] > 15
    model.save(tmp_path / "model.safetensors")
    assert load_model(tmp_path / "model.safetensors").model_id == model.model_id


@pytest.mark.parametrize("method", METHODS[1:])
def test_gamma_is_the_methods_own_unless_given(method: str) -> None:
    own = inspect.signature(rivals.METHODS[method]).parameters.get("gamma")
    options = TrainingOptions(method=method)
    options.check()
    assert options.as_dict().get("gamma") == (own.default if own else None)
    if own:
        assert replace(options, gamma=0.5).as_dict()["gamma"] == 0.5
    else:
        with pytest.raises(InvalidInputError, match=f"--gamma has no .* --method {method}"):
            replace(options, gamma=0.5).check()


def test_batch_methods_get_the_gamma_they_record(pictures: Path) -> None:
    def learned(**change: Any) -> npt.NDArray[np.float32]:
        options = TrainingOptions(
            method="bl", measurements=8, atoms=80, sparsity=2, patches=500, iterations=2, **change
        )
        return train([pictures], options).dictionary

    np.testing.assert_array_equal(learned(), learned(gamma=1 / 256))
    assert not np.array_equal(learned(), learned(gamma=1 / 32))


def test_statistics_can_outlive_a_sensing_matrix(small_model: Model, pictures: Path) -> None:
    restarted = train([pictures], replace(SMALL, statistics="restart"), NAMED)
    assert restarted.metadata["configuration"]["statistics"] == "restart"
    assert "--statistics restart" in restarted.metadata["command"]
    worse, better = (
        model.metadata["results"]["held_out"]["luma"]["omp"]["psnr_db"]
        for model in (restarted, small_model)
    )
    assert better > worse


def test_atoms_can_be_updated_as_printed(small_model: Model, pictures: Path) -> None:
    printed = train([pictures], replace(SMALL, update="printed"), NAMED)
    assert "--update printed" in printed.metadata["command"]
    assert np.abs(printed.dictionary - small_model.dictionary).max() > 0.01


def test_parameters_of_methods_are_passed_on_and_checked(pictures: Path) -> None:
    options = TrainingOptions(
        method="random", measurements=8, atoms=80, patches=500, parameters={"dictionary": "dct"}
    )
    train([pictures], options)
    with pytest.raises(InvalidInputError, match=r"no parameter 'shape'.*dictionary"):
        train([pictures], replace(options, parameters={"shape": 1}))
    wide = replace(options, method="bl", parameters={"target_gram": "equiangular"}, iterations=1)
    narrow = replace(wide, parameters={"target_gram": "identity"})
    assert train([pictures], wide).model_id != train([pictures], narrow).model_id
    with pytest.raises(InvalidInputError, match=r"no parameter 'gamma'.*dictionary_rounds, gram_r"):
        train([pictures], replace(wide, parameters={"gamma": 1}))
    with pytest.raises(InvalidInputError, match="--checkpoint works with --method online only"):
        train([pictures], options, RunSettings(checkpoint="run.checkpoint"))


def test_limits_are_those_of_models() -> None:
    assert options_module.MAX_MEASUREMENTS == MAX_MEASUREMENTS
    assert options_module.MAX_ATOMS == MAX_ATOMS


def test_callbacks_see_every_iteration(pictures: Path) -> None:
    seen: list[Progress] = []
    callback: Callable[[Progress], None] = seen.append
    train([pictures], SMALL, RunSettings(validate_every=15), progress=callback)
    assert [progress.iteration for progress in seen] == list(range(1, 41))
    assert [p.iteration for p in seen if p.quality] == [15, 30, 40]
