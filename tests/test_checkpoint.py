"""Checkpoints: what goes in comes out, writing is atomic, other configurations are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from cscodec.errors import InvalidInputError
from cscodec.learning.checkpoint import (
    Checkpoint,
    check_configuration,
    load_checkpoint,
    save_checkpoint,
)

STATE = {
    "iteration": 7,
    "learner": {
        "A": np.arange(6.0).reshape(2, 3),
        "empty": np.empty((0, 64), np.float32),
        "scalar": np.float64(0.1),
        "random": {"state": 2**127 + 1},
    },
    "history": {"luma": [{"iteration": 5, "psnr_db": 31.25}]},
}


def test_state_survives(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    save_checkpoint(path, Checkpoint({"seed": 3, "gamma": 1 / 32}, STATE))
    loaded = load_checkpoint(path)
    assert loaded.configuration == {"seed": 3, "gamma": 1 / 32}
    learner = loaded.state["learner"]
    np.testing.assert_array_equal(learner.pop("A"), STATE["learner"]["A"], strict=True)
    assert learner.pop("empty").shape == (0, 64)
    assert learner == {"scalar": 0.1, "random": {"state": 2**127 + 1}}
    assert loaded.state["history"] == STATE["history"]
    assert loaded.state["iteration"] == 7


def test_arrays_can_be_written_to_after_loading(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "c", Checkpoint({}, {"A": np.zeros(3)}))
    load_checkpoint(tmp_path / "c").state["A"][0] = 1


def test_failed_write_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    save_checkpoint(path, Checkpoint({}, {"iteration": 1}))

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(path, Checkpoint({}, {"iteration": 2}))
    assert load_checkpoint(path).state == {"iteration": 1}


@pytest.mark.parametrize(
    "data",
    [b"", b"not a checkpoint", b"\x02\0\0\0\0\0\0\0{}", b"\xff" * 64],
    ids=["empty", "text", "no_metadata", "huge_header"],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "c"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match="not a checkpoint"):
        load_checkpoint(path)


def written(path: Path, record: str, arrays: dict[str, Any] | None = None) -> Path:
    path.write_bytes(save(arrays or {}, metadata={"checkpoint": record}))
    return path


@pytest.mark.parametrize(
    "record",
    [
        "",
        "[]",
        "7",
        "{}",
        '{"version": 2}',
        '{"version": 2, "state": {}, "configuration": {}, "more": 0}',
        '{"version": 2, "state": {}, "configuration": []}',
        '{"version": 2, "state": {"a": {"__array__": "b"}}, "configuration": {}}',
        '{"version": 2, "state": {"a": {"__array__": []}}, "configuration": {}}',
        '{"version": 2, "state": {"a": {"__array__": -1}}, "configuration": {}}',
        '{"version": 2, "state": {}, "configuration": {"a": {"__array__": "a"}}}',
        f'{{"version": 2, "state": {"[" * 30 + "]" * 30}, "configuration": {{}}}}',
        f'{{"version": 2, "state": {{}}, "configuration": {{"a": {"[" * 30 + "]" * 30}}}}}',
        "[" * 200_000,
        '{"a":' * 200_000,
        f'{{"version": {"9" * 5000}}}',
    ],
    ids=lambda record: record[:60],
)
def test_other_records_are_refused(tmp_path: Path, record: str) -> None:
    path = written(tmp_path / "c", record, {"a": np.zeros(3)})
    with pytest.raises(InvalidInputError, match="not a checkpoint") as caught:
        load_checkpoint(path)
    assert len(str(caught.value)) < 400


def test_an_array_is_given_out_once(tmp_path: Path) -> None:
    """Or a file of megabytes would become terabytes."""
    record = {"version": 2, "configuration": {}, "state": [{"__array__": "a"}] * 2}
    path = written(tmp_path / "c", json.dumps(record), {"a": np.zeros(3)})
    with pytest.raises(InvalidInputError, match="not a checkpoint"):
        load_checkpoint(path)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot read the checkpoint"):
        load_checkpoint(tmp_path / "c")


def test_other_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cscodec.learning.checkpoint.VERSION", 99)
    save_checkpoint(tmp_path / "c", Checkpoint({}, {}))
    monkeypatch.undo()
    with pytest.raises(InvalidInputError, match="version is 99; allowed is 2"):
        load_checkpoint(tmp_path / "c")


def test_every_difference_is_named() -> None:
    saved = {"seed": 0, "gamma": 0.5, "rho": 15.0}
    check_configuration("c", saved, dict(saved))
    with pytest.raises(InvalidInputError) as caught:
        check_configuration("c", saved, {"seed": 1, "gamma": 0.5, "atoms": 64})
    for part in ("seed was 0, now 1", "rho was 15.0, now absent", "atoms was absent, now 64"):
        assert part in str(caught.value)
    assert "gamma" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_pipes_and_devices_are_no_checkpoints(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InvalidInputError, match="cannot read the checkpoint: it is no file"):
            load_checkpoint(path)
