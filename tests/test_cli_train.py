"""``cscodec train``: what it writes, prints and refuses, and how it is interrupted and resumed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from safetensors.numpy import save

from cscodec import load_model
from cscodec.cli import main
from cscodec.cli import train as train_command

ROOT = Path(__file__).resolve().parents[1]
SMALL = shlex.split(
    "-m 8 --atoms 32 --sparsity 2 --batch-size 64 --dictionary-iterations 20 --outer-iterations 2"
)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory, photo: npt.NDArray[np.uint8]) -> Path:
    """A folder of three colour pictures and a broken one, which is not held out."""
    folder = tmp_path_factory.mktemp("training") / "crops"
    folder.mkdir()
    for i in range(3):
        pixels = photo[200:360, 180 * i : 180 * i + 160]
        Image.fromarray(pixels).save(folder / f"{i}.png")
    (folder / "broken.png").write_bytes((folder / "0.png").read_bytes()[:500])
    return folder


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["train", *map(str, arguments)])
    code = caught.value.code
    assert isinstance(code, int)
    return code


def test_trains_prints_and_reports(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_path, report = tmp_path / "mine.safetensors", tmp_path / "report"
    code = run(pictures, "-o", model_path, *SMALL, "--licence", "CC0-1.0", "--report", report)
    out, err = capsys.readouterr()
    assert code == 0
    model = load_model(model_path)
    assert model.name == "mine"
    assert model.model_id.hex() in out
    for decoder in ("omp", "linear", "consistent", "refine"):
        quality = model.metadata["results"]["held_out"]["luma"][decoder]
        assert f"{quality['psnr_db']:.2f}" in out
    assert "skipped crops/broken.png" in err
    assert "1 pictures were skipped" in err
    validations = [line for line in err.splitlines() if " on held-out pictures" in line]
    assert [line.split(":")[1] for line in validations] == [
        f" luma {iteration}/40" for iteration in (8, 16, 24, 32, 40)
    ]
    history = model.metadata["results"]["history"]["luma"]
    assert f"{history[0]['psnr_db']:.2f} dB, SSIM {history[0]['ssim']:.4f}" in validations[0]
    held_out = model.metadata["results"]["held_out"]["luma"]
    ahead = held_out["linear"]["psnr_db"] - held_out["omp"]["psnr_db"]
    assert f"linear restores {ahead:.2f} dB more than the paper's omp" in out
    page = (report / "index.html").read_text(encoding="utf-8")
    assert model.model_id.hex() in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.safetensors", "report"]


@pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 elsewhere")
def test_trains_on_folders_whose_names_are_no_utf8(pictures: Path, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    for i in range(3):
        data = (pictures / f"{i}.png").read_bytes()
        Path(os.fsdecode(folder + b"/\xff%d.png" % i)).write_bytes(data)
    Path(os.fsdecode(folder + b"/\xfe.png")).write_bytes(data[:500])
    output = tmp_path / "m.safetensors"
    report, kept = ["--report", str(tmp_path / "report")], ["--checkpoint", str(tmp_path / "c")]
    code = run(
        os.fsdecode(folder),
        "-o",
        output,
        *SMALL,
        *report,
        *kept,
        "--test-folder",
        os.fsdecode(folder),
    )
    assert code == 0
    data = load_model(output).metadata["data"]
    assert data["folders"] == ["caf\\udce9"]
    assert list(data["skipped_pictures"]) == ["caf\\udce9/\\udcfe.png"]


def test_exact_restoration_is_called_so(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["-m", "63", "--atoms", "70", "--no-codec-tables", "--dictionary-iterations", "2"]
    assert run(pictures, "-o", tmp_path / "m.safetensors", *command, "--outer-iterations", "1") == 0
    out = capsys.readouterr().out
    assert "exact" in out
    assert "99.00" not in out
    assert "more than the paper's omp" not in out  # by how much nobody can say


def test_a_dictionary_that_did_not_settle_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load_model("paper-m20")
    train_command._show_results(model, "x", as_json=False)
    assert "did not settle" not in capsys.readouterr().err
    history = model.metadata["results"]["history"]["luma"]
    monkeypatch.setitem(history[-1], "psnr_db", history[-1]["psnr_db"] - 5)
    train_command._show_results(model, "x", as_json=False)
    assert "luma's dictionary ends 5.0 dB behind its best" in capsys.readouterr().err


def test_json_goes_to_stdout(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(pictures, "-o", tmp_path / "m.safetensors", *SMALL, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["model_id"] == load_model(tmp_path / "m.safetensors").model_id.hex()
    assert record["results"]["held_out"]["luma"]["omp"]["psnr_db"] > 20


def test_existing_outputs_are_refused(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "m.safetensors"
    output.write_bytes(b"precious")
    assert run(pictures, "-o", output, *SMALL) == 3
    checkpoint = tmp_path / "c"
    checkpoint.write_bytes(b"precious")
    assert run(pictures, "-o", tmp_path / "n.safetensors", "--checkpoint", checkpoint) == 3
    assert output.read_bytes() == checkpoint.read_bytes() == b"precious"
    assert "exists already" in capsys.readouterr().err
    assert run(pictures, "-o", output, *SMALL, "-f") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-o m.safetensors -m 64", "--measurements is 64; allowed is 1..63"),
        ("-o m.safetensors --gamma 0", "--gamma is 0"),
        ("-o m.safetensors --sparsity 21", "--sparsity is 21; allowed is 1..20"),
        ("-o m.safetensors --atoms 19", "--atoms is 19; allowed is 20..4096"),
        ("-o m.safetensors --method magic", "--method is 'magic'"),
        ("-o m.safetensors --statistics drop", "--statistics is 'drop'; allowed are restart, keep"),
        ("-o m.safetensors --update fast", "--update is 'fast'; allowed are exact, printed"),
        ("-o m.safetensors --method pca --update printed", "--update has no meaning for --method"),
        ("-o m.safetensors --method pca --gamma 1", "--gamma has no meaning for --method pca"),
        ("-o m.safetensors --resume", "--resume needs --checkpoint"),
        ("-o m.safetensors --method bl --parameter x", "write NAME=VALUE"),
        ("-o m.safetensors --method bl --checkpoint c", "--checkpoint works with --method online"),
        ("-o m.bin", "ends in .safetensors"),
    ],
)
def test_usage_errors(
    pictures: Path,
    arguments: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(pictures, *shlex.split(arguments)) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_unusable_folders_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        assert run(folder, "-o", tmp_path / "m.safetensors") == 1
        err = capsys.readouterr().err
        assert err.startswith(f"cscodec: {folder}: ")
        assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_parameters_of_a_method_reach_it(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [pictures, "-o", tmp_path / "m.safetensors", *shlex.split("-m 8 --atoms 32")]
    command += shlex.split("--method bl --patches 300 --iterations 1 --parameter")
    assert run(*command, "robustness=2") == 1
    assert "robustness is 2; allowed is 0 to below 1" in capsys.readouterr().err
    assert run(*command, "robust=0.5") == 1
    own = "dictionary_rounds, gram_rounds, robustness, target_gram"
    assert f"no parameter 'robust'; its own are: {own}" in capsys.readouterr().err
    assert run(*command, "robustness=0.25") == 0
    recorded = load_model(tmp_path / "m.safetensors").metadata["configuration"]["parameters"]
    assert recorded == {"robustness": 0.25}


def test_a_checkpoint_without_a_folder_is_refused_at_once(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "gone" / "run"
    code = run(pictures, "-o", tmp_path / "m.safetensors", *SMALL, "--checkpoint", checkpoint)
    assert code == 2
    assert f"{checkpoint}: cannot be written: there is no folder" in capsys.readouterr().err


def test_damaged_checkpoint_is_one_line(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c"
    path.write_bytes(save({}, metadata={"checkpoint": "[" * 200_000}))
    output = tmp_path / "m.safetensors"
    assert run(pictures, "-o", output, *SMALL, "--checkpoint", path, "--resume") == 1
    err = capsys.readouterr().err
    assert err.startswith(f"cscodec: {path}: not a checkpoint of this release")
    assert err.count("\n") == 1
    assert not output.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_interrupted_then_resumed_by_the_printed_command(pictures: Path, tmp_path: Path) -> None:
    output, checkpoint = tmp_path / "m.safetensors", tmp_path / "run.checkpoint"
    small = [word if word != "2" else "4000" for word in SMALL]  # too long to end by itself
    arguments = [str(pictures), "-o", str(output), *small, "--sparsity", "2"]
    arguments += ["--checkpoint", str(checkpoint), "--checkpoint-every", "10"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cscodec", "train", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert not output.exists()
    last_line = err.strip().splitlines()[-1]
    command = shlex.split(last_line.partition("resume with: ")[2])
    assert command[:2] == ["cscodec", "train"]
    assert "--resume" in command
    # What it would resume is this run: with other parameters it is refused.
    changed = [word if word != "64" else "65" for word in command[2:]]
    with pytest.raises(SystemExit):
        main(["train", *changed])
    assert not output.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_interrupted_while_tables_are_learned(pictures: Path, tmp_path: Path) -> None:
    """In kernels of seconds, which the process does not wait for."""
    output, checkpoint = tmp_path / "m.safetensors", tmp_path / "run.checkpoint"
    small = "-m 63 --atoms 64 --dictionary-iterations 2 --outer-iterations 1 --batch-size 64"
    arguments = [str(pictures), "-o", str(output), *small.split(), "--checkpoint", str(checkpoint)]
    with subprocess.Popen(
        [sys.executable, "-m", "cscodec", "train", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "learning the entropy coder's tables" in line:
                time.sleep(0.5)
                process.send_signal(signal.SIGINT)
    assert process.returncode == 130, lines
    assert lines[-1].startswith("cscodec: interrupted; resume with: cscodec train ")
    assert not output.exists()


def test_resume_makes_the_same_file(pictures: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole" / "m.safetensors", tmp_path / "parts" / "m.safetensors"
    assert run(pictures, "-o", whole, *SMALL) == 0
    script = (
        "import sys, cscodec.learning.trainer as t, os, signal\n"
        "save = t.save_checkpoint\n"
        "def save_and_die(path, checkpoint):\n"
        "    save(path, checkpoint)\n"
        "    os._exit(9)\n"
        "t.save_checkpoint = save_and_die\n"
        "from cscodec.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    checkpoint = ["--checkpoint", str(tmp_path / "c"), "--checkpoint-every", "15"]
    command = ["train", str(pictures), "-o", str(parts), *SMALL, *checkpoint, "--resume"]
    for _ in range(3):  # after iterations 15 and 30, and at the end
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
        died = subprocess.run(
            [sys.executable, "-c", script, *command], check=False, cwd=ROOT, env=environment
        )
        assert died.returncode == 9
        assert not parts.exists()
    assert run(*command[1:]) == 0
    assert parts.read_bytes() == whole.read_bytes()
