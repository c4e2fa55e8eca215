"""Codecs held against each other at one size or one quality, and the page that shows it."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, features

from cscodec.errors import InvalidInputError
from cscodec.evaluation.codecs import NAMES, Codec, codec_named
from cscodec.evaluation.comparison import (
    Comparison,
    Target,
    at_quality,
    at_size,
    code,
    compare_picture,
    mean_curves,
    mean_row,
    target_of,
)
from cscodec.evaluation.comparison_page import (
    ALL_SHOWN,
    LEAST_SHOWN,
    MOST_SHOWN,
    Shown,
    render_page,
    room_for,
    shown,
)
from cscodec.evaluation.metrics import bits_per_pixel, psnr_db
from cscodec.evaluation.rate_distortion import Point

Pixels = npt.NDArray[np.uint8]


def toy(name: str = "toy", bias: int = 0) -> Codec:
    """Keeps multiples of a step, the negative of its setting; deflated."""

    def encode(pixels: Pixels, setting: float) -> bytes:
        step = int(-setting)
        kept = (np.rint(pixels / step) * step).clip(0, 255).astype(np.uint8)
        return zlib.compress(np.array(pixels.shape, "<u4").tobytes() + kept.tobytes()) + bytes(bias)

    def decode(file: bytes) -> Pixels:
        data = zlib.decompressobj().decompress(file)
        shape = np.frombuffer(data[:12], "<u4")
        return np.frombuffer(data[12:], np.uint8).reshape(shape)

    return Codec(name, encode, decode, (-60, -30, -8, -2), tuple(range(-100, -1)))


@pytest.fixture(scope="module")
def small(photo: Pixels) -> Pixels:
    return photo[100:180, 200:320]


class TestMeeting:
    def test_size_is_met_by_the_finest_setting_that_can(self, small: Pixels) -> None:
        codec = toy()
        sizes = {setting: len(codec.encode(small, setting)) for setting in codec.scale}
        wanted = sizes[-20]
        coded = at_size(small, codec, bits_per_pixel(wanted, small.shape))
        assert coded.point.num_bytes == len(coded.file) <= wanted
        assert coded.point.setting == max(s for s in sizes if sizes[s] <= wanted)
        assert np.array_equal(coded.pixels, codec.decode(coded.file))

    def test_quality_is_met_by_the_coarsest_setting_that_can(self, small: Pixels) -> None:
        codec = toy()
        coded = at_quality(small, codec, 30.0)
        setting = coded.point.setting
        assert psnr_db(small, coded.pixels) >= 30.0
        assert psnr_db(small, codec.decode(codec.encode(small, setting - 1))) < 30.0

    def test_what_cannot_be_met_is_met_as_nearly_as_can_be(self, small: Pixels) -> None:
        codec = toy()
        assert at_size(small, codec, 0.01).point.setting == codec.scale[0]
        assert at_quality(small, codec, 90.0).point.setting == codec.scale[-1]
        rows = compare_picture(small, [codec], Target(psnr_db=90.0), curves=False).rows()
        assert [row["met"] for row in rows] == [False]

    def test_target_of_a_file(self, small: Pixels) -> None:
        coded = code(small, toy(), -16)
        assert target_of(coded, quality=False).met_by(coded.point)
        again = compare_picture(small, [toy()], target_of(coded, quality=False), curves=False)
        assert again.coded["toy"].point == coded.point  # not one step less by rounding
        assert target_of(coded, quality=True) == Target(psnr_db=coded.point.psnr_rgb_db)
        flat = np.full((16, 16, 3), 32, np.uint8)
        with pytest.raises(InvalidInputError, match="without error"):
            target_of(code(flat, toy(), -16), quality=True)


def test_codecs_share_the_target_and_have_curves(small: Pixels) -> None:
    codecs = [toy("a"), toy("b", bias=300)]
    found = compare_picture(small, codecs, Target(bits_per_pixel=4.0), workers=2)
    a, b = found.rows()
    assert (a["codec"], b["codec"]) == ("a", "b")
    assert b["num_bytes"] <= 4.0 * small.shape[0] * small.shape[1] / 8
    assert a["psnr_db"] >= b["psnr_db"]
    for name, points in found.curves.items():
        assert found.coded[name].point in points
        assert [p.num_bytes for p in points] == sorted(p.num_bytes for p in points)
        assert len(points) == 3  # two of the settings, and the one that met the target


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_codec_meets_a_size(name: str, channels: int, small: Pixels) -> None:
    if name == "jpegxl":
        pytest.importorskip("imagecodecs")
    picture = small if channels == 3 else small[..., 1]
    codec = codec_named(name, channels)
    coded = at_size(picture, codec, bits_per_pixel(2000, picture.shape))
    assert 1000 < coded.point.num_bytes <= 2000
    assert coded.pixels.shape == picture.shape
    assert coded.point.psnr_rgb_db > 25


class TestMissing:
    def test_unknown_codecs_are_refused_with_the_known_ones(self) -> None:
        with pytest.raises(
            InvalidInputError, match="'gif' is no codec to compare; known are cscod"
        ):
            codec_named("gif", 3)

    def test_jpeg_xl_names_its_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "imagecodecs", None)
        with pytest.raises(InvalidInputError, match="pip install imagecodecs"):
            codec_named("jpegxl", 3)

    def test_avif_names_its_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(features, "check", lambda _: False)
        with pytest.raises(InvalidInputError, match="pip install --upgrade pillow"):
            codec_named("avif", 3)


def test_means_leave_out_what_is_missing_and_count_exact_pictures() -> None:
    row = {"num_bytes": 10, "bits_per_pixel": 1.0, "psnr_db": 31.0, "psnr_luma_db": 30.0}
    row |= {"ssim": None, "encode_s": 1.0, "decode_s": 2.0}
    mean = mean_row([row, row | {"num_bytes": 20, "psnr_db": math.inf, "ssim": 0.5}])
    assert (mean["num_bytes"], mean["psnr_db"], mean["ssim"]) == (15, 65.0, 0.5)
    assert mean_row([row])["ssim"] is None


def test_mean_curves_are_over_the_rates_that_all_pictures_have() -> None:
    def curve(rates: list[float], offset: float) -> list[Point]:
        return [Point(0, 1, r, 0, 30 + offset + 5 * math.log(r), 0) for r in rates]

    curves = [
        {"a": curve([0.1, 0.5, 1.0], 0), "b": curve([0.1, 0.2], 0)},
        {"a": curve([0.2, 0.4, 2.0], 2), "b": curve([0.3, 0.4], 0)},
    ]
    means = mean_curves(curves, "psnr_rgb_db", 5)
    assert means.keys() == {"a"}
    assert means["a"][0][0] == pytest.approx(0.2)
    assert means["a"][-1][0] == pytest.approx(1.0)
    for rate, value in means["a"]:
        assert value == pytest.approx(31 + 5 * math.log(rate))


class Page(HTMLParser):
    """What a page loads, what it has open, and the data in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.words: list[str] = []
        self.json = ""
        self.in_data = False
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "img", "input", "link"}:
            self.open.append(tag)
        self.loaded += [value or "" for key, value in attrs if key in {"src", "href"}]
        self.in_data = tag == "script" and ("type", "application/json") in attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())
        if self.in_data:
            self.json += data


def picture_of(uri: str) -> Pixels:
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as picture:
        return np.asarray(picture)


@pytest.fixture(scope="module")
def compared(photo: Pixels) -> Comparison:
    codecs = [codec_named(name, 3) for name in ("cscodec", "jpeg", "webp")]
    return compare_picture(photo[60:252, 150:406], codecs, Target(bits_per_pixel=1.0))


def kept(compared: Comparison, name: str = "a.png", index: int = 0, count: int = 1) -> Shown:
    return shown(name, compared, index, count)


@pytest.fixture(scope="module")
def page(compared: Comparison) -> str:
    return render_page([kept(compared)], by_quality=False, command="cscodec compare a.png")


class TestPage:
    def test_needs_nothing_from_elsewhere(self, page: str) -> None:
        parsed = Page(page)
        assert [link for link in parsed.loaded if not link.startswith("#")] == []
        assert not re.findall(r"(?:src|href|url\()\s*=?\s*[\"']?(?:https?:)?//", page)
        assert "cscodec compare a.png" in page

    def test_holds_the_pictures_as_they_were_decoded(self, page: str, compared: Comparison) -> None:
        data = json.loads(Page(page).json)
        ((view,), names) = data, ["original", "cscodec", "JPEG", "WebP"]
        assert [image["name"] for image in view["images"]] == names
        decoded = [compared.original, *(coded.pixels for coded in compared.coded.values())]
        for image, pixels in zip(view["images"], decoded, strict=True):
            assert np.array_equal(picture_of(image["src"]), pixels)

    def test_says_the_figures_and_the_best(self, page: str, compared: Comparison) -> None:
        best = max(compared.rows(), key=lambda row: row["psnr_db"])
        for row in compared.rows():
            assert f">{row['num_bytes'] / 1000:.1f}<" in page
        assert f'<td class="best">{best["psnr_db"]:.2f}</td>' in page
        assert f"by PSNR <b>{best['codec']}</b>" in page
        assert "Higher is better" in page

    def test_at_one_quality_the_smallest_file_is_best(self, small: Pixels) -> None:
        codecs = [toy("a"), toy("b", bias=300)]
        found = compare_picture(small, codecs, Target(psnr_db=30), curves=False)
        page = render_page([kept(found)], by_quality=True)
        assert "at the same quality" in page
        assert f'<td class="best">{found.rows()[0]["num_bytes"] / 1000:.1f}</td>' in page
        assert "<svg" not in page  # no curves were asked for

    def test_what_misses_the_target_says_so_and_does_not_win(self, small: Pixels) -> None:
        codecs = [toy("a"), toy("huge", bias=90_000)]
        found = compare_picture(small, codecs, Target(bits_per_pixel=4.0), curves=False)
        page = render_page([kept(found)], by_quality=False)
        assert "cannot be smaller" in page
        assert "by PSNR <b>a</b>" in page

    def test_names_are_text(self, small: Pixels) -> None:
        name = "</script><b>x"
        found = compare_picture(small, [toy("<u>")], Target(bits_per_pixel=8.0), curves=False)
        page = render_page([kept(found, name)], by_quality=False, settings={"<i>": "&"})
        assert "<u>" not in page
        assert name not in page
        assert json.loads(Page(page).json)[0]["name"] == name
        assert "<i>" not in page

    def test_many_pictures_have_means_and_tables_of_their_own(self, compared: Comparison) -> None:
        page = render_page([kept(compared, n, i, 2) for i, n in enumerate("ab")], by_quality=False)
        assert "Means of 2 pictures" in page
        assert page.count("<table") == 3
        assert "KB per million pixels" in page

    def test_large_pictures_are_shown_by_their_middle(self) -> None:
        wide = np.zeros((24, MOST_SHOWN // 10, 3), np.uint8)
        wide[12, MOST_SHOWN // 20] = 255
        found = Comparison(Target(1.0), wide, {}, {})
        view = shown("wide.png", found, 0, 1).view
        assert view is not None
        assert view["width"] * view["height"] <= MOST_SHOWN
        assert "middle" in view["note"]
        assert picture_of(view["images"][0]["src"]).max() == 255

    def test_a_page_stays_small_enough_to_open(self) -> None:
        assert room_for(1) == MOST_SHOWN
        assert room_for(1000) == LEAST_SHOWN
        tiny = Comparison(Target(1.0), np.zeros((8, 8), np.uint8), {}, {})
        views = [shown("a", tiny, index, 1000).view for index in range(1000)]
        assert sum(view is not None for view in views) * room_for(1000) <= ALL_SHOWN
        assert views[0] is not None
        assert views[-1] is None


PROBE = """
<script>
const found = { errors: window.errors };
const operate = () => {
  const all = (wanted) => [...document.querySelectorAll(wanted)];
  const click = (wanted) => document.querySelector(wanted).click();
  const scales = () => all(".layer img").map((img) => getComputedStyle(img).transform);
  const clip = () => getComputedStyle(all(".layer")[0]).clipPath;
  found.sizes = all(".layer img").map((img) => img.naturalWidth);
  found.tags = all(".tag b").map((tag) => tag.textContent);
  const split = document.getElementById("split");
  split.value = 20;
  split.dispatchEvent(new Event("input"));
  found.clip = clip();
  click('[data-view="side"]');
  found.panes = all(".pane").length;
  click('[data-zoom="2"]');
  found.scales = scales();
  all(".pane")[0].dispatchEvent(new WheelEvent("wheel",
    { ctrlKey: true, deltaY: -300, bubbles: true, cancelable: true, clientX: 9, clientY: 9 }));
  found.wheel = scales();
  click('[data-view="difference"]');
  found.blend = getComputedStyle(all(".layer")[1]).mixBlendMode;
  Object.assign(document.body.style, { width: "360px", margin: 0 });
  window.dispatchEvent(new Event("resize"));
  found.wide = all("body *").filter((element) => !element.closest(".scroll, svg, .layer") &&
    element.getBoundingClientRect().right > 361).map((element) => element.outerHTML.slice(0, 80));
};
window.addEventListener("load", () => {  // pictures are there, and the page is printed right after
  try { operate(); } catch (error) { found.errors.push(String(error)); }
  document.body.dataset.found = JSON.stringify(found);
});
</script>
"""


def in_browser(page: str, folder: Path) -> Mapping[str, Any]:
    """Open a page in a browser without a window, operate it, and return what was found."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium here: the page is not tried in a browser (apt install chromium)")
    watch = "<head><script>window.errors=[];onerror=(e)=>{errors.push(String(e))}</script>"
    (folder / "page.html").write_text(page.replace("<head>", watch) + PROBE, encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"]
    command += ["--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    url = (folder / "page.html").as_uri()
    run = subprocess.run([*command, url], capture_output=True, text=True, timeout=120)
    found = re.findall(r'data-found="([^"]*)"', run.stdout)
    assert len(found) == 1, f"the browser printed {len(run.stdout)} characters; {run.stderr}"
    result: dict[str, Any] = json.loads(found[0].replace("&quot;", '"').replace("&lt;", "<"))
    return result


def test_the_page_works_in_a_browser(page: str, tmp_path: Path) -> None:
    found = in_browser(page, tmp_path)
    assert found["errors"] == []
    assert found["sizes"] == [256, 256]
    assert found["tags"] == ["original", "cscodec"]
    assert "80%" in found["clip"]  # the left picture is cut where the line is
    assert found["panes"] == 4
    for scales, least in ((found["scales"], 2.0), (found["wheel"], 2.5)):
        assert len(scales) == 4
        assert len(set(scales)) == 1, "zoom and place are not in step"
        assert float(re.findall(r"matrix\(([\d.]+)", scales[0])[0]) >= least
    assert found["blend"] == "difference"
    assert found["wide"] == [], "something does not fit on a phone"
