"""The benchmarks' own logic, on toy codecs and small pictures."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cscodec.evaluation.codecs import Codec, codec_named
from cscodec.evaluation.metrics import psnr_db

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
            picture = Image.fromarray(pixels[100 + 50 * index :][:192, 200:392])
            picture.save(tmp_path / name / f"{index}.png")
    monkeypatch.setenv("CSCODEC_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("benchmarks")
def test_a_codec_against_itself_costs_nothing_more(pictures: Path) -> None:
    pytest.importorskip("imagecodecs")
    pytest.importorskip("pillow_heif")
    pytest.importorskip("ssimulacra2")
    import rate_distortion

    ours = replace(codec_named("jpeg", 3), name="ours", settings=(8.0, 22.0, 48.0, 80.0))
    gray = replace(codec_named("jpeg", 1), name="ours", settings=ours.settings)
    cache, rivals = pictures / "cache", ["JPEG", "WebP"]
    results = rate_distortion.compare([gray], sets=["table2"], rivals=rivals, cache=cache)
    results |= rate_distortion.compare([ours], sets=["kodak12"], rivals=rivals, cache=cache)
    assert list(results["table2"]["0"]) == ["ours", "WebP", "JPEG"]
    summary = rate_distortion.summarise(results, ["ours"])
    assert list(summary["kodak12"]["ours"]) == list(rate_distortion.MEASURES)
    for measure, table in summary["table2"]["ours"].items():
        assert table["0"]["JPEG"] == pytest.approx(0, abs=3), measure  # between other settings
        assert table["mean"]["WebP"] == pytest.approx((table["0"]["WebP"] + table["1"]["WebP"]) / 2)
    assert summary["table2"]["ours"]["psnr_y_db"]["mean"]["WebP"] > 5  # JPEG costs more than WebP

    rate_distortion.draw(results, pictures / "charts")
    assert len(list((pictures / "charts").glob("rate-distortion-*.svg"))) == 8


@pytest.mark.usefixtures("benchmarks")
def test_the_page_has_the_goals_and_what_was_measured() -> None:
    from rate_distortion_page import GOALS, page

    rates = {"mean": 1.25, "0": 0.5, "1": 2.0}
    summary: dict[str, dict[str, dict[str, dict[str, dict[str, float]]]]] = {}
    for goal in GOALS:
        table = summary.setdefault(goal.set_name, {}).setdefault(goal.codec, {})
        rows = table.setdefault(goal.measure, {name: {} for name in rates})
        for name, rate in rates.items():
            rows[name][goal.against] = rate
    record = {
        "ours": {"cscodec": "options of ours"},
        "anchors": {"HEIC": "options of x265"},
        "range_bpp": [0.2, 1.5],
        "machine": {"cpu": "a processor", "cpus": 2},
        "bd_rate_percent": summary,
    }
    text = page(record)
    assert "| kodak12 | cscodec | SSIMULACRA2 | JPEG XL | -5 | +1.2 |" in text
    assert "| table2 | cscodec psnr | PSNR | AVIF psnr | +3 | +1.2 |" in text
    assert "| 1 | +2.0 |" in text
    assert "- **HEIC**: options of x265" in text


@pytest.mark.usefixtures("benchmarks")
def test_curves_are_kept_by_content_and_options(tmp_path: Path, gray_photo: np.ndarray) -> None:
    from measures import curve

    calls = []

    def encode(pixels: np.ndarray, setting: float) -> bytes:
        calls.append(setting)
        return bytes(int(setting))

    picture = gray_photo[:192, :192]
    codec = Codec("toy", encode, lambda file: picture // 2, (100.0, 200.0))
    first = curve(picture, codec, cache=tmp_path)
    assert curve(picture, codec, cache=tmp_path) == first
    assert calls == [100.0, 200.0]
    more = replace(codec, settings=(100.0, 300.0, 9000.0, 9001.0))
    assert [point["num_bytes"] for point in curve(picture, more, cache=tmp_path)] == [
        100,
        300,
        9000,
    ]
    assert calls == [100.0, 200.0, 300.0, 9000.0]  # 9001 is beyond what curves are compared at
    curve(255 - picture, codec, cache=tmp_path)
    curve(picture, replace(codec, description="other"), cache=tmp_path)
    assert calls[4:] == [100.0, 200.0] * 2


@pytest.mark.usefixtures("benchmarks")
@pytest.mark.parametrize("channels", [1, 3])
def test_anchors_are_at_their_strongest(
    photo: np.ndarray, gray_photo: np.ndarray, channels: int
) -> None:
    pytest.importorskip("imagecodecs")
    pytest.importorskip("pillow_heif")
    from anchors import anchors

    picture = (photo if channels == 3 else gray_photo)[150:310, 200:360]
    found = anchors(channels)
    assert list(found) == ["AVIF psnr", "AVIF iq", "JPEG XL", "WebP", "JPEG 2000", "HEIC", "JPEG"]
    sizes, psnrs = {}, {}
    for name, codec in found.items():
        assert list(codec.settings) == sorted(codec.settings, reverse=name == "JPEG XL")
        file, decoded = codec.code(picture, codec.settings[4])
        assert decoded.shape == picture.shape
        sizes[name], psnrs[name] = len(file), psnr_db(picture, decoded)
    assert sizes["AVIF psnr"] != sizes["AVIF iq"]  # the tune arrives
    description = found["HEIC"].description
    assert "x265" in description
    assert "preset=veryslow, tune=psnr, chroma=420" in description
    assert all(psnr > 22 for psnr in psnrs.values())


@pytest.mark.usefixtures("benchmarks")
def test_ms_ssim_sees_what_is_lost_at_every_scale(gray_photo: np.ndarray) -> None:
    from perceptual import ms_ssim

    plane = gray_photo[100:300, 100:300].astype(float)
    assert ms_ssim(plane, plane) == 1
    noisy = plane + 20 * np.random.default_rng(1).standard_normal(plane.shape)
    coarse = plane.copy()  # as much error, but in the means of blocks
    coarse += 20 * np.kron(np.random.default_rng(1).standard_normal((25, 25)), np.ones((8, 8)))
    assert ms_ssim(plane, coarse) < ms_ssim(plane, noisy) < 1
    # Luminance counts at the coarsest scale alone: sum of the plain similarity's terms there.
    flat = np.full((176, 176), 100.0)
    expected = (2 * 100 * 120 + 6.5025) / (100**2 + 120**2 + 6.5025)
    assert ms_ssim(flat, flat + 20) == pytest.approx(expected**0.1333)
    with pytest.raises(ValueError, match="at least 176 x 176"):
        ms_ssim(plane[:100], plane[:100])


@pytest.mark.usefixtures("benchmarks")
def test_ssimulacra2_is_the_packages(photo: np.ndarray) -> None:
    package = pytest.importorskip("ssimulacra2")
    from perceptual import ssimulacra2

    picture = np.ascontiguousarray(photo[101:230, 100:241])  # odd sides
    for quality in (10, 60):
        decoded = codec_named("jpeg", 3).code(picture, quality)[1]
        files = []
        for pixels in (picture, decoded):
            files.append(io.BytesIO())
            Image.fromarray(pixels).save(files[-1], "PNG")
        expected = package.compute_ssimulacra2(*files)
        assert ssimulacra2(picture, decoded) == pytest.approx(expected, abs=0.01)
    assert ssimulacra2(picture, picture) == pytest.approx(100, abs=1e-6)


@pytest.mark.usefixtures("benchmarks")
def test_sheets_and_the_quality_scale(tmp_path: Path, photo: np.ndarray) -> None:
    pytest.importorskip("imagecodecs")
    pytest.importorskip("pillow_heif")
    import quality_scale
    from sheet import CAPTION, GAP, box_of, draw_sheet
    from side_by_side import row

    picture = photo[150:310, 200:360]
    panels = row(picture, [codec_named("jpeg", 3)], 0.8)
    assert [text.split(",")[0] for text, _ in panels] == ["original", "JPEG"]
    assert 0.5 < float(panels[1][0].split(",")[1].split()[0]) <= 0.8  # bits per pixel
    sheet = np.asarray(draw_sheet([panels, panels], box_of("8,16,40,24"), zoom=2))
    assert sheet.shape == (2 * (48 + CAPTION), 2 * 80 + GAP, 3)
    assert np.array_equal(sheet[:48:2, :80:2], picture[16:40, 8:48])

    points = {
        f"{name} {quality:g}": {
            picture: {"bits_per_pixel": 0.5, "psnr_y_db": 30.0, "ssimulacra2": score}
            for picture, score in {"a": 60.0, "b": 64.0}.items()
        }
        for name, qualities in {"cscodec": quality_scale.QUALITIES, "AVIF iq": (60.0,)}.items()
        for quality in qualities
    }
    spreads = {name: quality_scale.spread(points[f"{name} {at:g}"])
               for name, at in quality_scale.COMPARED.items()}  # fmt: skip
    assert spreads["cscodec"] == {"mean": 62, "deviation": pytest.approx(8**0.5), "extent": 4}
    text = quality_scale.page({"points": points, "spread": spreads})
    assert "| 75 | 0.50 | 0.50 to 0.50 | 62 | 30.0 | 62 |" in text
    assert "| AVIF iq at 60 | 62.0 | 2.8 | 4.0 |" in text


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
