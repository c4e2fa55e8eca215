"""``cscodec compare``, and what ``cscodec eval`` shares with it, as a user meets them."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import Run, entries, picture, run
from PIL import Image

import cscodec
from cscodec.cli import console
from cscodec.evaluation.metrics import psnr_db

__all__ = ["run"]


def test_all_files_have_at_most_the_same_size(run: Run) -> None:
    picture("a.png", 96, 128, 3)
    picture("in/b.png", 64, 64)
    picture("in/c.png", 48, 96, 4)
    found = run("compare", "-r", "a.png", "in", "--codecs", "jpeg,cscodec", "--bpp", "2", "--json")
    assert found.code == 0
    report = json.loads(found.stdout)
    assert report["common"] == "size"
    rows = report["pictures"]
    assert [(row["input"], row["codec"]) for row in rows[:2]] == [
        ("a.png", "JPEG"),
        ("a.png", "cscodec"),
    ]
    assert len(rows) == 6
    assert all(row["met"] == (row["bits_per_pixel"] <= 2) for row in rows)
    assert all(row["met"] for row in rows if row["codec"] == "cscodec")
    ours = [row["psnr_db"] for row in rows if row["codec"] == "cscodec"]
    (mean,) = (row for row in report["means"] if row["codec"] == "cscodec")
    assert mean["psnr_db"] == pytest.approx(sum(ours) / 3)
    assert report["curves"] == []  # are for the page


def test_the_size_is_that_of_our_file_by_default(run: Run) -> None:
    pixels = picture("a.png", 96, 128, 3)
    rows = json.loads(run("compare", "a.png", "--codecs", "cscodec,webp", "--json").stdout)
    ours, webp = rows["pictures"]
    size = len(cscodec.encode(pixels, quality=50))
    assert 0.97 * size < ours["num_bytes"] <= size
    assert webp["num_bytes"] <= size
    other = json.loads(run("compare", "a.png", "--codecs", "webp", "-q", "50", "--json").stdout)
    assert other["pictures"][0]["num_bytes"] == webp["num_bytes"]


def test_or_all_have_at_least_the_same_quality(run: Run) -> None:
    pixels = picture("a.png", 96, 128, 3)
    own = psnr_db(pixels, cscodec.decode(cscodec.encode(pixels, quality=40)))
    common = ("compare", "a.png", "--codecs", "cscodec,jpeg", "--csv")
    for words, wanted in ((("--target-psnr", "33"), 33.0), (("--at-quality", "-q", "40"), own)):
        shown = run(*common, *words).stdout.decode()
        for row in csv.DictReader(io.StringIO(shown)):
            assert wanted <= float(row["psnr_db"]) < wanted + 2
            assert row["met"] == "True"


def test_the_report_is_one_page_with_its_data_beside_it(run: Run) -> None:
    picture("it's.png", 64, 80, 3)
    Path("bad.png").write_text("no")
    words = ("compare", "bad.png", "it's.png", "--codecs", "cscodec,jpeg", "--bpp", "1.5")
    result = run(*words, "--report", "out/page")
    assert result.code == 1  # for the bad picture; the other is there
    assert "bad.png: " in result.stderr
    assert "it's.png  cscodec" in result.stdout.decode()
    folder = Path("out/page")
    assert entries(folder) == {"index.html", "comparison.json", "comparison.csv"}
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "it&#x27;s.png by 2 codecs, at the same size" in page
    assert "cscodec compare bad.png &#x27;it&#x27;&quot;&#x27;&quot;&#x27;s.png&#x27;" in page
    assert "--report out/page" in page
    data = json.loads((folder / "comparison.json").read_text())
    assert {point["codec"] for point in data["curves"]} == {"cscodec", "JPEG"}
    rows = list(csv.DictReader(io.StringIO((folder / "comparison.csv").read_text())))
    assert [int(row["num_bytes"]) for row in rows] == [row["num_bytes"] for row in data["pictures"]]

    again = run(*words, "--report", "out/page")
    assert again.code == console.Exit.OUTPUT_EXISTS
    assert "use -f" in again.stderr
    assert run("compare", "it's.png", *words[3:], "--report", "out/page", "-f").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--codecs", "gif"], "'gif' is no codec"),
        (["--codecs", "jpeg,jpeg"], "'jpeg' stands there twice"),
        (["--bpp", "1", "-q", "50"], "exclude each other"),
        (["--at-quality", "--bpp", "1"], "--at-quality goes with -q or --target-psnr"),
        (["--at-size", "--target-psnr", "30"], "--at-size goes with -q, --bpp or --target-size"),
        (["--bpp", "nan"], "--bpp is nan"),
        (["--target-psnr", "inf"], "--target-psnr is inf"),
        (["--target-size", "many"], "is not a size"),
        (["--json", "--csv"], "exclude each other"),
        (["--report", "a.png"], "is not a folder"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_work(
    words: list[str], said: str, run: Run
) -> None:
    picture("a.png", 16, 16)
    result = run("compare", "a.png", *words)
    assert result.code == console.Exit.USAGE
    assert said in " ".join(result.stderr.split())
    assert result.stdout == b""


def test_a_codec_that_is_missing_is_left_out_or_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture("a.png", 32, 32, 3)
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    monkeypatch.setattr("cscodec.cli.compare.USUAL_CODECS", "cscodec,jpegxl")
    usual = run("compare", "a.png", "--json")
    assert usual.code == 0
    assert {row["codec"] for row in json.loads(usual.stdout)["pictures"]} == {"cscodec"}
    assert "jpegxl is left out" in usual.stderr
    asked = run("compare", "a.png", "--codecs", "cscodec,jpegxl")
    assert asked.code == console.Exit.USAGE
    assert "pip install imagecodecs" in " ".join(asked.stderr.split())


def test_without_matplotlib_a_report_is_refused_at_once_and_figures_are_not(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture("a.png", 32, 32, 3)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ("compare", "a.png", "--codecs", "cscodec")
    result = run(*words, "--report", "page")
    assert (result.code, result.stdout) == (console.Exit.FAILED, b"")
    assert "pip install 'cscodec[report]'" in result.stderr
    assert not Path("page").exists()
    assert run(*words).code == 0
    assert run(*words, "--report", "page", "--no-curves").code == 0
    assert Path("page/index.html").exists()


def test_a_picture_without_error_is_exact_and_leaves_the_mean_finite(run: Run) -> None:
    Image.fromarray(np.zeros((32, 32), np.uint8)).save("black.png")
    picture("b.png", 32, 32)
    command = ("eval", "black.png", "b.png", "--decoder", "linear")
    shown = run(*command).stdout.decode().splitlines()
    assert "exact" in shown[1]
    assert "exact" not in shown[2] + shown[3]
    report = json.loads(run(*command, "--json").stdout)
    own = report["pictures"][1]["psnr_db"]
    assert report["means"][0]["psnr_db"] == pytest.approx((99.0 + own) / 2)


def test_all_measurements_restore_exactly(run: Run) -> None:
    picture("a.png", 32, 32)
    command = ("eval", "a.png", "--unquantized", "-m", "63", "--decoder", "linear")
    assert "exact" in run(*command).stdout.decode()
