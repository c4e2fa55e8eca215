"""Folders: what fails stops only itself, what was interrupted goes on, and nothing goes unsaid."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Run, entries, in_a_process, picture, run
from PIL import Image

from cscodec.cli import batch
from cscodec.cli.options import format_bytes
from cscodec.cli.plan import Job

__all__ = ["run"]


def test_files_of_other_kinds_are_counted(run: Run) -> None:
    picture("in/a.jpg", 20, 20)
    for name in ("IMG_2.CR2", "deep/clip.mp4", "x.tga", "y.TGA", ".hidden.mov", "Makefile"):
        Path("in", name).parent.mkdir(exist_ok=True)
        Path("in", name).write_bytes(b"other")
    result = run("encode", "-r", "in", "-d", "out")
    assert result.code == 0
    assert "5 files of other kinds: .cr2 .mp4 .tga Makefile\n" in result.stderr
    assert "clip.mp4" in run("encode", "-r", "in", "-d", "out", "-v", "-f").stderr
    assert "5 files of other kinds" in run("eval", "-r", "in", "--decoder", "linear").stderr
    assert "6 files of other kinds" in run("info", "-r", "out", "in").stderr
    assert "other kinds" not in run("encode", "-r", "in", "-d", "out", "-f", "--quiet").stderr


def test_phones_pictures_that_are_left_out_are_told_the_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    batch.say_left_out(["in/IMG_1.HEIC", "in/notes.txt"])
    said = capsys.readouterr().err
    assert said.startswith("cscodec: 2 files of other kinds: .heic .txt\n")
    assert "pip install 'cscodec[heif]'" in said
    batch.say_left_out(["in/notes.txt"])
    assert "heif" not in capsys.readouterr().err


def test_a_summary_says_what_was_saved(run: Run) -> None:
    for name in ("in/a.png", "in/b.png"):
        picture(name, 200, 200, 3)
    result = run("encode", "-r", "in", "-d", "out")
    before, after = (sum(path.stat().st_size for path in Path(f).iterdir()) for f in ("in", "out"))
    saved = int(100 - 100 * after / before)
    words = f"{format_bytes(before)} to {format_bytes(after)}, {saved} % saved\n"
    assert f"cscodec: 2 files written: {words}" in result.stderr
    assert re.search(r"2 files written: .* kB\n", run("decode", "-r", "out", "-d", "again").stderr)
    for record in run("encode", "-r", "in", "-d", "json", "--json").json():
        assert record["source_bytes"] == Path(str(record["input"])).stat().st_size
        assert record["num_bytes"] == Path(str(record["output"])).stat().st_size


def test_a_folder_that_cannot_be_listed_stops_only_itself(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture("in/a.png", 20, 20)
    Path("in/locked").mkdir()
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    result = run("encode", "-r", "in", "-d", "out", "--json")
    refused, done = result.json()
    assert result.code == 1
    assert refused["error"] == "in/locked: cannot be read: Permission denied"
    assert done["output"] == "out/a.csc"


def test_an_empty_folder_stops_only_itself(run: Run) -> None:
    picture("in/a.png", 20, 20)
    Path("empty").mkdir()
    result = run("encode", "-r", "empty", "in", "-d", "out")
    assert result.code == 1
    assert "empty: holds no files to work on" in result.stderr
    assert "1 of 2 files failed" in result.stderr
    assert entries(Path("out")) == {"a.csc"}


def test_all_collisions_are_listed_and_stop_only_themselves(run: Run) -> None:
    for name in ("a.jpg", "a.png", "b.bmp", "b.png", "b.tif", "c.png"):
        picture(f"in/{name}", 20, 20)
    result = run("encode", "-r", "in", "-d", "out")
    assert result.code == 2
    assert entries(Path("out")) == {"c.csc"}
    assert "in/a.jpg and in/a.png would both be written to out/a.csc; add --keep" in result.stderr
    assert "in/b.bmp and in/b.png and in/b.tif would all be written" in result.stderr
    assert result.stderr.count("would") == 5
    assert run("encode", "-r", "in", "-d", "kept", "--keep-suffix").code == 0
    kept = {"a.jpg.csc", "a.png.csc", "b.bmp.csc", "b.png.csc", "b.tif.csc", "c.png.csc"}
    assert entries(Path("kept")) == kept
    assert run("decode", "-r", "kept", "-d", "again").code == 0
    assert entries(Path("again")) == {name.replace(".csc", ".png") for name in kept}
    assert run("encode", "in/a.png", "-o", "x.csc", "--keep-suffix").code == 2


def test_a_dry_run_writes_nothing_and_says_what_would_be(run: Run) -> None:
    picture("in/a.png", 20, 20)
    picture("in/b.png", 20, 20)
    Path("out").mkdir()
    Path("out/b.csc").write_text("precious")
    before = entries()
    result = run("encode", "-r", "in", "gone.png", "-d", "out", "--dry-run", "-v")
    assert entries() == before
    assert result.code == 1
    assert "in/a.png -> out/a.csc" in result.stderr
    assert "out/b.csc: exists already" in result.stderr
    assert "gone.png: cannot be read" in result.stderr
    assert "1 file would be written" in result.stderr
    (record,) = run("encode", "in/a.png", "--dry-run", "--json").json()
    assert record == {"input": "in/a.png", "output": "in/a.csc", "dry_run": True}
    assert run("decode", "-r", "out", "-d", "back", "--dry-run").code == 0
    assert entries() == before


def test_existing_outputs_can_be_passed_over(run: Run) -> None:
    picture("in/a.png", 20, 20)
    picture("in/b.png", 20, 20)
    run("encode", "in/b.png", "-d", "out")
    Path("out/b.csc").write_text("precious")
    result = run("encode", "-r", "in", "-d", "out", "--skip-existing", "-v")
    assert result.code == 0
    assert "in/b.png: skipped, out/b.csc exists" in result.stderr
    only = run("encode", "in/b.png", "-d", "out", "--skip-existing")
    assert only.stderr == "cscodec: in/b.png: skipped, out/b.csc exists\n"
    assert re.search(r"in/a.png -> out/a.csc: .*, [\d.]+ s$", result.stderr, re.MULTILINE)
    assert "1 file skipped" in result.stderr
    assert Path("out/b.csc").read_text() == "precious"
    assert entries(Path("out")) == {"a.csc", "b.csc"}
    records = run("encode", "-r", "in", "-d", "out", "--skip-existing", "--json").json()
    assert [record["skipped"] for record in records] == [True, True]
    assert "--skip-existing" in run("encode", "-r", "in", "-d", "out").stderr
    assert run("encode", "in/a.png", "-f", "--skip-existing").code == 2


def test_a_file_that_grows_is_warned_of(run: Run) -> None:
    generator = np.random.default_rng(0)
    Image.fromarray(generator.random((60, 60)) < 0.5).save("a.png")
    result = run("encode", "a.png")
    assert result.code == 0
    assert "a.png: warning: " in result.stderr
    assert "bytes are more than the" in result.stderr
    (record,) = run("encode", "a.png", "-f", "--json").json()
    assert len(record["warnings"]) == 1
    picture("b.png", 100, 100, 3)
    assert "warning" not in run("encode", "b.png").stderr


def test_a_warning_is_no_failure_and_can_be_silenced(run: Run) -> None:
    Image.new("1", (64, 64)).save("a.png")
    result = run("encode", "a.png", "--quiet", "--step", "0.25")
    assert (result.code, result.stderr) == (0, "")


def test_what_is_done_with_a_file_can_be_sent_elsewhere(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture("a.png", 24, 24)
    run_jobs = batch._run_jobs

    def send(jobs: Sequence[Job], work: batch.Work, *rest: Any) -> None:
        run_jobs(jobs, pickle.loads(pickle.dumps(work)), *rest)

    monkeypatch.setattr(batch, "_run_jobs", send)
    assert run("encode", "a.png").code == 0
    assert run("decode", "a.csc", "-o", "b.png").code == 0


def test_status_lines_are_as_long_as_they_are(tmp_path: Path) -> None:
    folder = "long" * 30
    for seed in range(3):
        picture(tmp_path / folder / f"{seed}.png", 24, 24, seed=seed)
    reader, terminal = os.openpty()
    with open(reader, "rb", buffering=0) as screen:
        command = in_a_process("encode", "-r", folder, "-d", "out")
        subprocess.run(command, cwd=tmp_path, stderr=terminal, check=True)
        shown = screen.read(100_000)
        os.close(terminal)
    for seed in range(3):
        assert f"cscodec: {folder}/{seed}.png -> out/{seed}.csc: ".encode() in shown


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder of 200 files: pictures of many kinds, broken ones, and others."""
    kinds = [("jpg", (3,)), ("png", (3,)), ("png", (4,)), ("png", ()), ("bmp", (3,)), ("tif", (3,))]
    kinds += [("webp", (3,)), ("ppm", (3,)), ("gif", ()), ("png", (2,))]
    for number in range(180):
        suffix, channels = kinds[number % len(kinds)]
        folder = tmp_path / "photos" / ("", "holiday", "holiday/day 2")[number % 3]
        picture(folder / f"{number}.{suffix}", 40 + number // 3, 120, *channels, seed=number)
    for number in range(10):
        (tmp_path / "photos" / f"broken{number}.jpg").write_bytes(b"\xff\xd8\xff" + bytes(number))
        (tmp_path / "photos" / "holiday" / f"clip{number}.mp4").write_bytes(b"film")
    return tmp_path


def test_a_folder_is_encoded_interrupted_resumed_and_decoded(mixed: Path) -> None:
    command = in_a_process("encode", "-r", "photos", "-d", "small", "-j", "2", "--skip-existing")
    process = subprocess.Popen(command, cwd=mixed, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list(mixed.glob("small/**/*.csc"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    done = entries(mixed / "small")
    assert 5 <= len(done) < 180
    written = set(re.findall(r" -> small/(.*\.csc): [\d,]+ bytes", said))
    assert f"interrupted: {len(written)} of 190 files done" in said
    assert written == done

    resumed = subprocess.run(command, cwd=mixed, capture_output=True, text=True)
    assert resumed.returncode == 1  # for the broken ones
    assert f"{len(done)} files skipped: outputs exist" in resumed.stderr
    assert f"{180 - len(done)} files written" in resumed.stderr
    assert "10 files of other kinds: .mp4" in resumed.stderr
    assert "10 of 190 files failed" in resumed.stderr
    assert len(entries(mixed / "small")) == 180

    decode = in_a_process("decode", "-r", "small", "-d", "back", "--decoder", "linear", "--json")
    assert subprocess.run(decode, cwd=mixed, capture_output=True).returncode == 0
    names = {re.sub(r"\.\w+$", "", name) for name in entries(mixed / "photos")}
    names = {name for name in names if "broken" not in name and "clip" not in name}
    assert {name.removesuffix(".png") for name in entries(mixed / "back")} == names
