"""Pictures read and written some rows at a time: all kinds of arrays, and little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import Pixels, plain_model, texture

import cscodec
from cscodec.errors import InvalidInputError
from cscodec.rows import PictureRows, release_pages

MODEL = plain_model()


class Sliced:
    """Nothing but a shape, a dtype, rows to read and rows to write; says how many at once."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels
        self.shape, self.dtype = pixels.shape, pixels.dtype
        self.most_rows = 0

    def __getitem__(self, rows: slice) -> Any:
        self.most_rows = max(self.most_rows, rows.stop - rows.start)
        return self.pixels[rows]

    def __setitem__(self, rows: slice, values: Pixels) -> None:
        self.most_rows = max(self.most_rows, rows.stop - rows.start)
        self.pixels[rows] = values


@pytest.fixture(scope="module", params=[(), (3,), (4,)], ids=["gray", "RGB", "RGBA"])
def tall(request: pytest.FixtureRequest) -> Pixels:
    """3 x 2 tiles."""
    return texture(1100, 530, *request.param)


@pytest.fixture(scope="module")
def tall_file(tall: Pixels) -> bytes:
    return cscodec.encode(tall, model=MODEL)


class TestReading:
    def test_what_is_sliced_like_an_array_gives_the_same_file(
        self, tall: Pixels, tall_file: bytes
    ) -> None:
        source = Sliced(tall)
        assert cscodec.encode(source, model=MODEL) == tall_file
        has_alpha = tall.shape[2:] == (4,)  # which is read before
        assert source.most_rows == (512 if has_alpha else 368)  # a row of tiles

    def test_a_mapped_file_too_and_its_pages_are_let_go(self, tmp_path: Path) -> None:
        pixels = texture(600, 700)
        pixels.tofile(tmp_path / "raw")
        mapped = np.memmap(tmp_path / "raw", np.uint8, "r", shape=pixels.shape)
        assert cscodec.encode(mapped, model=MODEL) == cscodec.encode(pixels, model=MODEL)
        np.testing.assert_array_equal(mapped, pixels)

    @pytest.mark.parametrize("mode", ["r+", "c"])
    def test_letting_go_of_pages_loses_nothing(self, mode: Any, tmp_path: Path) -> None:
        (tmp_path / "raw").write_bytes(bytes(100_000))
        mapped = np.memmap(tmp_path / "raw", np.uint8, mode)
        mapped[:] = 7
        release_pages(mapped[10:20])
        assert mapped.min() == 7

    def test_one_channel_is_gray(self) -> None:
        pixels = texture(20, 30)
        assert PictureRows(Sliced(pixels[..., None])).shape == (20, 30)
        assert cscodec.encode(Sliced(pixels[..., None]), model=MODEL) == cscodec.encode(
            pixels, model=MODEL
        )

    @pytest.mark.parametrize("target", [{"target_bpp": 1.0}, {"target_psnr": 35.0}])
    def test_targets_read_several_times(self, target: dict[str, float], monkeypatch: Any) -> None:
        pixels = texture(520, 20, 3)
        expected = cscodec.encode(pixels, model=MODEL, **target)
        monkeypatch.setattr("cscodec.codec._MOST_KEPT_PIXELS", 0)
        assert cscodec.encode(Sliced(pixels), model=MODEL, **target) == expected

    def test_rows_that_break_the_promise_are_refused(self) -> None:
        source = Sliced(texture(20, 30))
        source.shape = (40, 30)
        with pytest.raises(InvalidInputError, match=r"rows of the image came as uint8 \(20, 30\)"):
            list(PictureRows(source).strips(512))
        with pytest.raises(
            InvalidInputError, match=r"came as uint8 \(4, 30\); expected .* \(8, 30\)"
        ):
            cscodec.encode(source, model=MODEL)


class TestWriting:
    def test_what_is_assigned_to_like_an_array_is_filled(
        self, tall: Pixels, tall_file: bytes
    ) -> None:
        out = Sliced(np.zeros_like(tall))
        assert cscodec.decode(tall_file, model=MODEL, out=out) is out
        assert out.most_rows == 368  # a row of tiles
        np.testing.assert_array_equal(out.pixels, cscodec.decode(tall_file, model=MODEL))

    def test_a_region_and_a_scale_too(self, tall: Pixels, tall_file: bytes) -> None:
        whole = cscodec.decode(tall_file, model=MODEL)
        out = np.zeros((600, 40, *tall.shape[2:]), np.uint8)
        cscodec.decode(tall_file, model=MODEL, region=(490, 400, 40, 600), out=out)
        np.testing.assert_array_equal(out, whole[400:1000, 490:530])
        out = np.zeros((138, 67, *tall.shape[2:]), np.uint8)
        cscodec.decode(tall_file, model=MODEL, scale=1 / 8, out=out)
        np.testing.assert_array_equal(out, cscodec.decode(tall_file, model=MODEL, scale=1 / 8))

    @pytest.mark.parametrize("wrong", [np.zeros((20, 31), np.uint8), np.zeros((20, 30), np.int8)])
    def test_another_shape_or_type_is_refused(self, wrong: Any) -> None:
        data = cscodec.encode(texture(20, 30), model=MODEL)
        with pytest.raises(InvalidInputError, match=r"this picture needs uint8 \(20, 30\)"):
            cscodec.decode(data, model=MODEL, out=wrong)


MEASURED = """
import re, sys, numpy as np, cscodec
from pathlib import Path

def peak_bytes():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

folder, height, width = Path(sys.argv[1]), 32768, 2048
cscodec.decode(cscodec.encode(np.zeros((600, 600), np.uint8), workers=2), workers=2)
(folder / "in").touch(), (folder / "out").touch()
with open(folder / "in", "r+b") as file:
    file.truncate(height * width)
source = np.memmap(folder / "in", np.uint8, "r", shape=(height, width))
start = peak_bytes()
data = cscodec.encode(source, workers=2)
encoded = peak_bytes()
with open(folder / "out", "r+b") as file:
    file.truncate(height * width)
target = np.memmap(folder / "out", np.uint8, "r+", shape=(height, width))
cscodec.decode(data, decoder="linear", out=target, workers=2)
print(encoded - start, peak_bytes() - start, int(np.abs(target[:: 999]).max()))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_memory_does_not_grow_with_the_height_of_a_picture(tmp_path: Path) -> None:
    """67 megapixels of gray, of which two rows of tiles and what the threads work on are held: 21
    to 34 MB, as threads are sooner or later, and whatever the height."""
    found = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    encoding, both, brightest = map(int, found.stdout.split())
    assert brightest <= 1
    assert encoding < 45e6, f"{encoding / 1e6:.0f} MB"
    assert both < 60e6, f"{both / 1e6:.0f} MB"
