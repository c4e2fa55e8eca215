"""The benchmarks' own logic, on toy codecs and small pictures."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cscodec.evaluation.rate_distortion import anchors

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.fixture
def pictures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gray_photo: np.ndarray, photo: np.ndarray
) -> Path:
    for name, pixels in {"table2": gray_photo, "kodak12": photo}.items():
        (tmp_path / name).mkdir()
        for index in range(2):
            picture = Image.fromarray(pixels[150 + 100 * index :][:128, 200:328])
            picture.save(tmp_path / name / f"{index}.png")
    monkeypatch.setenv("CSCODEC_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("benchmarks")
def test_a_codec_against_itself_costs_nothing_more(pictures: Path) -> None:
    import rate_distortion

    jpeg = {name: anchors(n)["JPEG"] for name, n in {"table2": 1, "kodak12": 3}.items()}
    ours = {name: replace(codec, name="ours") for name, codec in jpeg.items()}
    results = rate_distortion.compare(
        ours, rivals=["JPEG", "WebP"], cache=pictures / "cache", verbose=False
    )
    assert list(results["table2"]["0"]) == ["ours", "JPEG", "WebP"]
    summary = rate_distortion.summarise(results)
    assert set(summary["kodak12"]) == {"psnr_y_db", "psnr_rgb_db", "ssim"}
    table = summary["table2"]["psnr_y_db"]["0.25-1.5 bpp"]
    assert table["0"]["JPEG"] == pytest.approx(0, abs=1e-9)
    assert table["mean"]["WebP"] == pytest.approx((table["0"]["WebP"] + table["1"]["WebP"]) / 2)
    assert table["mean"]["WebP"] > 5  # JPEG costs more than WebP

    rate_distortion.draw(results, pictures / "charts")
    assert len(list((pictures / "charts").glob("rate-distortion-*.svg"))) == 5


@pytest.mark.usefixtures("benchmarks")
def test_anchors_are_kept_by_content_and_options(pictures: Path, gray_photo: np.ndarray) -> None:
    import rate_distortion

    calls = []

    def code(pixels: np.ndarray, setting: float) -> tuple[int, np.ndarray]:
        calls.append(setting)
        return int(setting), pixels

    codec = replace(anchors(1)["JPEG"], code=code, settings=(1.0, 2.0))
    cache, picture = pictures / "cache", gray_photo[:32, :32]
    first = rate_distortion.cached(codec, picture, cache, 1)
    assert rate_distortion.cached(codec, picture, cache, 1) == first
    assert calls == [1.0, 2.0]
    rate_distortion.cached(codec, 255 - picture, cache, 1)
    rate_distortion.cached(replace(codec, description="other"), picture, cache, 1)
    assert calls == [1.0, 2.0] * 3


@pytest.mark.usefixtures("benchmarks")
def test_ratios_are_above_one_where_a_target_is_met() -> None:
    from speed import Row

    assert Row.at_least("speed", "MP/s", 5.0, 10.0).ratio == 2
    assert Row.at_most("time", "s", 5.0, 10.0).ratio == 0.5
    assert Row.rival("other", "s", 10.0).ratio is None


@pytest.mark.usefixtures("benchmarks")
def test_the_restorers_page_has_what_was_measured() -> None:
    import restorer

    results = json.loads(restorer.RESULTS.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "restorer.md").read_text(encoding="utf-8")
    rows = restorer.mean_rows(results)
    for m in (restorer.MEASUREMENTS[0], restorer.MEASUREMENTS[-1]):
        rows += restorer.picture_rows(results, m)
    assert len(rows) == 3 * len(results["decoders"]) > 3
    for row in rows:
        assert row in page


@pytest.mark.usefixtures("benchmarks")
def test_medians_of_interleaved_runs() -> None:
    from speed import interleaved

    order = []
    durations = iter([0.05, 0.0, 0.0])

    def slow_once() -> None:
        order.append("a")
        time.sleep(next(durations))

    seconds = interleaved({"a": slow_once, "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 3
    assert seconds["a"] < 0.04
