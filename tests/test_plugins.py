"""Pillow and imageio open, save and refuse .csc files as they do their own formats."""

from __future__ import annotations

import copy
import io
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import exif_blocks
import imageio.v3 as iio
import numpy as np
import pytest
from command_line import picture
from PIL import Image, ImageCms, ImageFile, ImageOps, UnidentifiedImageError

import cscodec
import cscodec.plugins.imageio
import cscodec.plugins.pillow
from cscodec.errors import LimitExceededError

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
    ("mode", "shape"),
    [("1", (24, 24)), ("P", (24, 24, 3)), ("PA", (24, 24, 4)), ("YCbCr", (24, 24, 3))],
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


def test_imageio_reads_no_further_than_the_header_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.full((24, 24), 100, np.uint8)
    data = cscodec.encode(pixels)
    monkeypatch.setattr("cscodec.bitstream.container._MOST_OTHER_BYTES", 1000)
    endless = io.BytesIO(data + bytes(1 << 23))
    with pytest.raises(LimitExceededError, match="goes on after"):
        iio.imread(endless, plugin="cscodec")
    assert endless.tell() < 1 << 22
    with pytest.raises(LimitExceededError, match="claims 24 x 24 pixels; the limit is 100"):
        iio.imread(data, plugin="cscodec", max_pixels=100)
    with iio.imopen(data, "r", plugin="cscodec") as file:
        assert file.properties().shape == (24, 24)
        assert np.array_equal(file.read(), cscodec.decode(data))


ORIENTATION = 0x0112
SMOOTH = (np.add.outer(np.arange(24), np.arange(40)) * 3)[..., None] + np.array([0, 20, 40])
UPRIGHT = SMOOTH.astype(np.uint8)


def csc(image: Image.Image, **options: object) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "CSC", **options)
    return Image.open(io.BytesIO(buffer.getvalue()))


def photo(value: int, format_name: str = "PNG") -> Image.Image:
    """A picture that its orientation makes upright."""
    inverse = {6: 1, 8: 3, 3: 2}.get(value, 0)
    exif = exif_blocks.block(exif_blocks.MAKE, (ORIENTATION, 3, 1, value), exif_blocks.EXIF)
    buffer = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(np.rot90(UPRIGHT, inverse)))
    if format_name == "TIFF":
        tags = Image.Exif()
        tags.load(exif)
        image.save(buffer, "TIFF", exif=tags)
    else:
        image.save(buffer, format_name, exif=exif)
    return Image.open(io.BytesIO(buffer.getvalue()))


def is_upright(image: Image.Image) -> bool:
    # Lossy twice, but nothing like another orientation.
    pixels = np.asarray(image.convert("RGB")).astype(int)
    return pixels.shape == UPRIGHT.shape and bool(np.abs(pixels - UPRIGHT).mean() < 4)


@pytest.mark.parametrize("format_name", ["PNG", "JPEG", "WEBP", "TIFF"])
@pytest.mark.parametrize("value", [1, 3, 6, 8])
def test_pillow_saves_photos_upright_with_their_exif(format_name: str, value: int) -> None:
    saved = csc(photo(value, format_name))
    assert saved.size == (40, 24)
    assert is_upright(saved)
    assert saved.getexif().get(ORIENTATION, 1) == 1
    assert saved.getexif()[0x010F].rstrip("\0") == "Maker"
    assert saved.getexif().get_ifd(0x8769)[0x9003].startswith("2024:05:06")
    assert is_upright(ImageOps.exif_transpose(saved))


def test_pillow_saves_the_exif_that_is_given_or_none() -> None:
    image = photo(6)
    given = Image.Exif()
    given[ORIENTATION] = 6
    given[0x0131] = "Program"
    assert is_upright(csc(image, exif=given))
    assert csc(image, exif=given).getexif()[0x0131] == "Program"
    assert csc(image, exif=given.tobytes()).getexif().get(ORIENTATION) == 1
    assert "exif" not in csc(image, exif=None).info
    assert csc(image, exif=None).size == image.size
    assert csc(ImageOps.exif_transpose(image)).size == (40, 24)
    xmp = b'<x tiff:Orientation="6"/>'
    turned = csc(Image.fromarray(np.ascontiguousarray(np.rot90(UPRIGHT))), xmp=xmp)
    assert is_upright(turned)
    assert turned.info["xmp"] == xmp.replace(b"6", b"1")


def test_pillow_carries_resolution() -> None:
    image = Image.fromarray(UPRIGHT)
    assert csc(image, dpi=(300, 150)).info["dpi"] == (300, 150)
    image.info["dpi"] = (96, 96)
    assert csc(image).info["dpi"] == (96, 96)
    assert "dpi" not in csc(image, exif=None).info


def test_pillow_says_what_it_leaves_out() -> None:
    with pytest.warns(UserWarning, match="EXIF, which is damaged"):
        assert "exif" not in csc(Image.fromarray(UPRIGHT), exif=b"Exif\0\0junk").info


def turned_file(path: Path) -> Path:
    """A file as another encoder might make it: its EXIF asks for turning."""
    exif = exif_blocks.block((ORIENTATION, 3, 1, 1))
    data = cscodec.encode(np.ascontiguousarray(np.rot90(UPRIGHT)), exif=exif)
    turning = exif_blocks.block((ORIENTATION, 3, 1, 6))
    path.write_bytes(exif_blocks.with_other_exif(data, exif, turning))
    return path


def test_files_that_ask_for_turning_are_turned(tmp_path: Path) -> None:
    path = turned_file(tmp_path / "a.csc")
    with Image.open(path) as image:
        assert image.size == (40, 24)
        assert is_upright(image)
        assert image.getexif()[ORIENTATION] == 1
    assert is_upright(Image.fromarray(iio.imread(path)))
    assert iio.improps(path).shape == UPRIGHT.shape
    found = Image.Exif()
    found.load(iio.immeta(path)["exif"])
    assert found[ORIENTATION] == 1
    assert (iio.immeta(path)["width"], iio.immeta(path)["height"]) == (40, 24)


def test_imageio_writes_upright(tmp_path: Path) -> None:
    exif = exif_blocks.block((ORIENTATION, 3, 1, 6))
    iio.imwrite(tmp_path / "a.csc", np.ascontiguousarray(np.rot90(UPRIGHT)), exif=exif)
    stored = cscodec.info((tmp_path / "a.csc").read_bytes())
    assert (stored.width, stored.height) == (40, 24)
    assert stored.exif == exif_blocks.block((ORIENTATION, 3, 1, 1))


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 4), (1, 1)])
def test_pillow_never_takes_the_file_itself_for_pixels(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    # Smaller than their file: Pillow would map it into memory where it thinks pixels are.
    pixels = picture(tmp_path / "a.png", *shape)
    Image.fromarray(pixels).save(tmp_path / "a.csc")
    with Image.open(tmp_path / "a.csc") as image:
        found = np.asarray(image)
    assert np.array_equal(found, cscodec.decode((tmp_path / "a.csc").read_bytes()))


@pytest.mark.parametrize("loaded", [False, True])
def test_pillow_pictures_are_copied_and_pickled(loaded: bool) -> None:
    image = csc(Image.fromarray(UPRIGHT))
    if loaded:
        image.load()
    expected = np.asarray(image.copy())
    for again in (copy.copy(image), copy.deepcopy(image), pickle.loads(pickle.dumps(image))):
        again.load()
        assert np.array_equal(np.asarray(again), expected)
    assert image.format == "CSC"


def mean(image: Image.Image) -> float:
    return float(np.asarray(image).mean())


def test_pillow_pictures_go_to_other_processes() -> None:
    image = csc(Image.fromarray(UPRIGHT))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(mean, image).result() == mean(image)


def test_pillow_refuses_what_it_cannot_save(tmp_path: Path) -> None:
    image = Image.fromarray(UPRIGHT)
    with pytest.raises(OSError, match="lossless=True: CSC files are lossy"):
        csc(image, lossless=True)
    with pytest.raises(OSError, match=r"a \.csc file holds one picture, not 2"):
        csc(image, save_all=True, append_images=[image])
    with pytest.raises(OSError, match=r"one picture, not 2"):
        csc(image, append_images=[image])
    assert csc(image, save_all=True).size == (40, 24)
    assert csc(image, lossless=False).size == (40, 24)
    with pytest.raises(OSError, match="lossless"):
        image.save(tmp_path / "a.csc", lossless=True)
    assert not (tmp_path / "a.csc").exists()


def large() -> Image.Image:
    ramp = np.add.outer(np.arange(300), np.arange(500)) * 0.3
    return csc(Image.fromarray(np.repeat(ramp.astype(np.uint8)[..., None], 3, axis=2)))


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        ((500, 300), (500, 300)),
        ((251, 150), (500, 300)),
        ((250, 150), (250, 150)),
        ((100, 100), (250, 150)),
        ((100, 75), (125, 75)),
        ((10, 10), (63, 38)),
        ((1, 1), (63, 38)),
    ],
)
def test_pillow_drafts(asked: tuple[int, int], size: tuple[int, int]) -> None:
    whole, image = large(), large()
    result = image.draft(None, asked)
    assert image.size == size
    if size == (500, 300):
        assert result is None
    else:
        assert result is not None
        assert result[0] == "RGB"
        box = result[1]
        assert (np.ceil(box[2]), np.ceil(box[3])) == size
        assert image.draft(None, (1, 1)) is None
    expected = np.asarray(whole.resize(size, Image.Resampling.BOX, result and (0, 0, 500, 300)))
    assert np.abs(np.asarray(image).astype(int) - expected).mean() < 3
    assert image.draft(None, (1, 1)) is None


def test_pillow_thumbnails_turned_files(tmp_path: Path) -> None:
    exif = exif_blocks.block((ORIENTATION, 3, 1, 1))
    turned = np.ascontiguousarray(np.rot90(np.asarray(large())))
    data = cscodec.encode(turned, exif=exif)
    new = exif_blocks.block((ORIENTATION, 3, 1, 6))
    image = Image.open(io.BytesIO(exif_blocks.with_other_exif(data, exif, new)))
    expected = Image.fromarray(np.asarray(large()))
    for thumbnail in (image, expected):
        thumbnail.thumbnail((60, 60))
    assert image.size == expected.size == (60, 36)
    assert np.abs(np.asarray(image).astype(int) - np.asarray(expected)).mean() < 3


def test_pillow_loads_what_there_is_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    data = cscodec.encode(np.asarray(large()))
    cut = data[: len(data) // 2]
    with pytest.raises(OSError, match="needs"):
        Image.open(io.BytesIO(cut))
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    expected = cscodec.decode(cut, allow_partial=True)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(cut))), expected)


@pytest.mark.parametrize("size", [(0, 5), (5, 0)])
def test_pillow_pictures_without_pixels(size: tuple[int, int]) -> None:
    image = Image.new("RGB", size)
    with pytest.raises(cscodec.InvalidInputError, match="pixels; allowed are 1 to"):
        cscodec.encode(image)
    with pytest.raises(OSError, match=r"pixels; allowed are 1 to|empty"):
        image.save(io.BytesIO(), "CSC")


def test_imageio_writes_one_picture(tmp_path: Path) -> None:
    pixels = np.asarray(large())
    with iio.imopen(tmp_path / "a.csc", "w", plugin="cscodec") as file:
        file.write(pixels)
        with pytest.raises(ValueError, match="holds one picture"):
            file.write(pixels)
    assert (tmp_path / "a.csc").read_bytes() == cscodec.encode(pixels)
