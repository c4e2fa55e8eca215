"""What the command line does with metadata, frames, depths and alpha of pictures."""

from __future__ import annotations

import io
import os
from pathlib import Path

import exif_blocks
import numpy as np
import pytest
import tifffile
from command_line import Run, entries, picture, pixels_of, run
from PIL import Image

import cscodec

__all__ = ["run"]
ORIENTATION = 0x0112
UPRIGHT = (np.add.outer(np.arange(24), np.arange(40)) * 4).astype(np.uint8)
PHONE = exif_blocks.block(
    exif_blocks.MAKE, (ORIENTATION, 3, 1, 6), exif_blocks.EXIF, exif_blocks.GPS
)


def save_photo(name: str, exif: bytes = PHONE) -> None:
    turned = Image.fromarray(np.ascontiguousarray(np.rot90(UPRIGHT)))
    turned.convert("RGB").save(name, quality=95, exif=exif)


@pytest.mark.parametrize("kind", ["ImageWidth", "ImageLength", "a phone's", "a ratio of 0/0"])
@pytest.mark.parametrize("region", [(), ("--region", "2,4,20,10")])
def test_exif_does_not_rule_a_tiff(run: Run, kind: str, region: tuple[str, ...]) -> None:
    pixels = picture("a.png", 24, 40, 3)
    Path("a.csc").write_bytes(cscodec.encode(pixels, exif=exif_blocks.SOUND[kind]))
    assert run("decode", "a.csc", "-o", "a.tif", *region).code == 0
    expected = cscodec.decode(Path("a.csc").read_bytes())
    if region:
        expected = expected[4:14, 2:22]
    assert np.array_equal(tifffile.imread("a.tif"), expected)
    assert np.array_equal(pixels_of("a.tif"), expected)


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "tif", "bmp"])
def test_photos_come_out_upright(run: Run, suffix: str) -> None:
    save_photo("a.jpg")
    # In Python too, and in files whose encoder did not turn them.
    turned = np.ascontiguousarray(np.rot90(UPRIGHT))
    Path("b.csc").write_bytes(cscodec.encode(turned, exif=PHONE))
    upright = exif_blocks.block((ORIENTATION, 3, 1, 1))
    data = cscodec.encode(turned, exif=upright)
    turning = exif_blocks.block((ORIENTATION, 3, 1, 6))
    Path("c.csc").write_bytes(exif_blocks.with_other_exif(data, upright, turning))
    assert run("encode", "a.jpg").code == 0
    for name in ("a", "b", "c"):
        assert run("decode", f"{name}.csc", "-o", f"out/{name}.{suffix}").code == 0
        with Image.open(f"out/{name}.{suffix}") as image:
            assert image.size == (40, 24)
            assert image.getexif().get(ORIENTATION, 1) == 1
            gray = np.asarray(image.convert("L")).astype(int)
        assert np.abs(gray - UPRIGHT).mean() < 6


def test_what_is_left_out_is_said(run: Run) -> None:
    save_photo("a.jpg")
    assert "left out" not in run("encode", "a.jpg").stderr
    said = run("decode", "a.csc", "-o", "a.bmp").stderr
    assert "left out: EXIF (BMP files have no place for it)" in said
    assert "left out" not in run("decode", "a.csc", "-f", "-o", "a.bmp", "--quiet").stderr
    (record,) = run("decode", "a.csc", "-f", "-o", "a.bmp", "--json").json()
    assert record["warnings"] == ["left out: EXIF (BMP files have no place for it)"]
    (record,) = run("decode", "a.csc", "-o", "a.png", "--json").json()
    assert record["warnings"] == []


def test_strip(run: Run) -> None:
    save_photo("a.jpg")
    assert run("encode", "a.jpg", "-o", "whole.csc").code == 0
    for command in (("encode", "a.jpg"), ("decode", "whole.csc")):
        suffix = "csc" if command[0] == "encode" else "png"
        for strip, has_make, has_position in (
            ("--strip", False, False),
            ("--strip=exif", False, False),
            ("--strip=gps", True, False),
            ("--strip=icc,xmp", True, True),
        ):
            assert run(*command, strip, "-f", "-o", f"x.{suffix}").code == 0
            if suffix == "csc":
                assert run("decode", "x.csc", "-f", "-o", "x.png").code == 0
            with Image.open("x.png") as image:
                found = image.getexif()
            assert (0x010F in found, 0x8825 in found) == (has_make, has_position)
    assert run("encode", "--strip", "a.jpg", "-f", "-o", "y.csc").code == 0
    assert run("encode", "a.jpg", "--strip=gpx").code == 2
    Path("--strip").write_bytes(Path("a.jpg").read_bytes())
    assert run("encode", "-o", "z.csc", "--", "--strip").code == 0


def test_preserve(run: Run) -> None:
    picture("a.png", 16, 16)
    os.utime("a.png", ns=(10**18, 10**18 + 5))
    assert run("encode", "a.png", "--preserve").code == 0
    assert os.stat("a.csc").st_mtime_ns == 10**18 + 5
    assert run("decode", "a.csc", "-o", "b.png", "--preserve").code == 0
    assert os.stat("b.png").st_mtime_ns == 10**18 + 5
    assert run("decode", "a.csc", "-o", "c.png").code == 0
    assert os.stat("c.png").st_mtime_ns > 10**18 + 5
    assert run("encode", "a.png", "-o", "-", "--preserve").code == 0


def test_frames(run: Run) -> None:
    frames = [Image.fromarray(picture(f"{k}.png", 16, 16, seed=k)) for k in range(3)]
    frames[0].save("a.tif", save_all=True, append_images=frames[1:])
    assert "--frame" in run("encode", "a.tif").stderr
    assert run("encode", "a.tif", "--frame", "2").code == 0
    assert Path("a.csc").read_bytes() == cscodec.encode(pixels_of("2.png"))
    assert "no frame 3" in run("encode", "a.tif", "-f", "--frame", "3").stderr
    assert run("encode", "a.tif", "--frame", "-1").code == 2


def test_deep_samples(run: Run) -> None:
    deep = np.arange(256, dtype=np.uint16).reshape(16, 16) * 257
    Image.fromarray(deep).save("a.png")
    refused = run("encode", "a.png")
    assert refused.code == 1
    assert "--to-8bit" in refused.stderr
    assert run("encode", "a.png", "--to-8bit").code == 0
    expected = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert Path("a.csc").read_bytes() == cscodec.encode(expected)


def test_alpha_and_outputs_without(run: Run) -> None:
    pixels = picture("a.png", 16, 16, 4)
    pixels[..., 3] = np.arange(16) * 17
    Image.fromarray(pixels).save("a.png")
    assert run("encode", "a.png").code == 0
    refused = run("decode", "a.csc", "-o", "a.jpg")
    assert refused.code == 1
    assert "--background" in refused.stderr
    assert entries() == {"a.png", "a.csc"}
    assert run("decode", "a.csc", "-o", "a.bmp", "--background", "#ff0000").code == 0
    assert pixels_of("a.bmp")[0, 0].tolist() == [255, 0, 0]
    assert run("decode", "a.csc", "-o", "b.bmp", "--background", "no colour").code == 2
    # The last column is opaque: nothing is hidden there.
    assert run("decode", "a.csc", "-o", "c.jpg", "--region", "15,0,1,16").code == 0
    pixels[..., 3] = 255
    Image.fromarray(pixels).save("b.png")
    assert run("encode", "b.png").code == 0
    assert cscodec.info(Path("b.csc").read_bytes()).channels == 3
    assert run("decode", "b.csc", "-o", "b.jpg").code == 0


def test_standard_input_and_output(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    save_photo("a.jpg")
    given = io.TextIOWrapper(io.BytesIO(Path("a.jpg").read_bytes()))
    monkeypatch.setattr("sys.stdin", given)
    assert run("encode", "-", "-o", "a.csc", "--strip=gps", "--preserve").code == 0
    assert 0x8825 not in pixels_exif("a.csc")


def pixels_exif(name: str) -> Image.Exif:
    found = Image.Exif()
    found.load(cscodec.info(Path(name).read_bytes()).exif or b"")
    return found
