"""Pillow and imageio open, save and refuse .csc files as they do their own formats."""

from __future__ import annotations

import io
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
from command_line import picture
from PIL import Image, ImageCms, UnidentifiedImageError

import cscodec
from cscodec.plugins import imageio as imageio_plugin
from cscodec.plugins import pillow as pillow_plugin


@pytest.fixture(autouse=True)
def _registered() -> None:
    pillow_plugin.register()
    imageio_plugin.register()


SHAPES = [(40, 50), (40, 50, 2), (40, 50, 3), (40, 50, 4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_pillow_there_and_back(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = picture(tmp_path / "a.png", *shape)
    with Image.open(tmp_path / "a.png") as image:
        image.save(tmp_path / "a.csc", quality=60)
    data = (tmp_path / "a.csc").read_bytes()
    assert data == cscodec.encode(pixels, quality=60)
    with Image.open(tmp_path / "a.csc") as image:
        assert image.format == "CSC"
        assert image.size == (50, 40)
        assert image.get_format_mimetype() == "image/x-cscodec"
        assert np.array_equal(np.asarray(image), cscodec.decode(data))
        assert np.array_equal(np.asarray(image.rotate(90, expand=True)).shape[:2], (50, 40))


def test_pillow_from_memory_and_verify(tmp_path: Path) -> None:
    pixels = picture(tmp_path / "a.png", 24, 24)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "CSC")
    assert buffer.getvalue() == cscodec.encode(pixels)
    buffer.seek(0)
    image = Image.open(buffer)
    assert image.copy().size == (24, 24)


def test_pillow_keeps_metadata() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif[0x010F] = "Maker"
    image = Image.new("RGB", (24, 24), "teal")
    image.info["icc_profile"] = profile
    buffer = io.BytesIO()
    image.save(buffer, "CSC", exif=exif, xmp=b"<x/>")
    again = Image.open(io.BytesIO(buffer.getvalue()))
    assert again.info["icc_profile"] == profile
    assert again.getexif()[0x010F] == "Maker"
    assert again.info["xmp"] == b"<x/>"


@pytest.mark.parametrize(
    ("mode", "shape"), [("1", (24, 24)), ("P", (24, 24, 3)), ("PA", (24, 24, 4))]
)
def test_pillow_converts_modes_that_lose_nothing(mode: str, shape: tuple[int, ...]) -> None:
    buffer = io.BytesIO()
    Image.new(mode, (24, 24)).save(buffer, "CSC")
    assert cscodec.decode(buffer.getvalue()).shape == shape


@pytest.mark.parametrize("mode", ["CMYK", "I;16", "F", "I", "LAB"])
def test_pillow_refuses_modes_that_would_lose(mode: str) -> None:
    with pytest.raises(OSError, match=f"cannot write mode {mode} as CSC"):
        Image.new(mode, (24, 24)).save(io.BytesIO(), "CSC")


def test_pillow_refuses_damaged_files_as_it_does_others() -> None:
    data = cscodec.encode(np.full((24, 24), 100, np.uint8))
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(b"junk" + data))
    with pytest.raises(OSError, match=r"."), Image.open(io.BytesIO(data[:-5])) as image:
        image.load()


def test_pillow_still_opens_everything_else(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 24, 24)
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "PNG"


@pytest.mark.parametrize("shape", SHAPES)
def test_imageio_there_and_back(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = picture(tmp_path / "a.png", *shape)
    path = tmp_path / "a.csc"
    iio.imwrite(path, pixels, quality=60)
    data = path.read_bytes()
    assert data == cscodec.encode(pixels, quality=60)
    linear = iio.imread(path, decoder="linear")
    assert np.array_equal(linear, cscodec.decode(data, decoder="linear"))
    assert iio.imread(path, index=...).shape == (1, *shape)
    assert len(list(iio.imiter(path))) == 1
    properties = iio.improps(path)
    assert (properties.shape, properties.dtype) == (shape, np.uint8)
    assert iio.immeta(path)["width"] == 50


def test_imageio_bytes() -> None:
    pixels = np.full((24, 24), 100, np.uint8)
    data = iio.imwrite("<bytes>", pixels, extension=".csc")
    assert data == cscodec.encode(pixels)
    assert np.array_equal(iio.imread(data, plugin="cscodec"), cscodec.decode(data))


def test_imageio_refusals(tmp_path: Path) -> None:
    path = tmp_path / "a.csc"
    pixels = np.full((24, 24), 100, np.uint8)
    with pytest.raises(ValueError, match="one picture"):
        iio.imwrite(path, [pixels, pixels])
    iio.imwrite(path, [pixels])
    with pytest.raises(ValueError, match="index 0, not 1"):
        iio.imread(path, index=1)
    with pytest.raises(OSError, match="cscodec"):
        iio.imwrite(tmp_path / "a.png", pixels, plugin="cscodec")
    path.write_bytes(b"junk")
    with pytest.raises(OSError, match="cscodec"):
        iio.imread(path, plugin="cscodec")
