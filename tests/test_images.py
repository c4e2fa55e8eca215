"""Picture files: every kind arrives whole or is refused with a reason."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageCms, ImageOps

from cscodec.errors import InvalidInputError
from cscodec.images import (
    PICTURE_SUFFIXES,
    Picture,
    find_pictures,
    luma,
    output_suffix,
    read_picture,
    write_picture,
)

XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="6"/></x:xmpmeta>'


def random_pixels(*shape: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def saved(image: Image.Image, format_name: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_name, **options)
    return buffer.getvalue()


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    width: int, height: int, bits: int, colour_type: int, rows: bytes, extra: bytes = b""
) -> bytes:
    """A PNG made by hand, for kinds that Pillow does not write."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", header)
        + extra
        + png_chunk(b"IDAT", zlib.compress(rows))
        + png_chunk(b"IEND", b"")
    )


def orientation_exif(value: int) -> bytes:
    exif = Image.Exif()
    exif[0x010F] = "Maker"
    exif[0x0112] = value
    return exif.tobytes()


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 2), (5, 7, 3), (5, 7, 4), (1, 1), (1, 90, 3)])
@pytest.mark.parametrize("suffix", ["png", "webp", "tif"])
def test_lossless_formats_return_the_pixels(suffix: str, shape: tuple[int, ...]) -> None:
    pixels = random_pixels(*shape)
    again = read_picture(write_picture(Picture(pixels), suffix)).pixels
    if suffix == "webp" and pixels.shape[2:] in ((), (2,)):  # WebP has no gray: it comes as RGB
        gray = pixels if pixels.ndim == 2 else pixels[..., 0]
        assert np.array_equal(again[..., 1], gray)
        assert pixels.ndim == 2 or np.array_equal(again[..., 3], pixels[..., 1])
    else:
        assert again.dtype == np.uint8
        assert np.array_equal(again, pixels)


@pytest.mark.parametrize(
    ("suffix", "shape"),
    [("bmp", (5, 7)), ("bmp", (5, 7, 3)), ("pgm", (5, 7)), ("ppm", (5, 7, 3)), ("pnm", (5, 7))],
)
def test_simple_formats_return_the_pixels(suffix: str, shape: tuple[int, ...]) -> None:
    pixels = random_pixels(*shape)
    assert np.array_equal(read_picture(write_picture(Picture(pixels), suffix)).pixels, pixels)


@pytest.mark.parametrize(
    ("suffix", "shape", "lacks"),
    [
        ("jpg", (5, 7, 4), "alpha"),
        ("jpeg", (5, 7, 2), "alpha"),
        ("bmp", (5, 7, 4), "alpha"),
        ("ppm", (5, 7, 2), "alpha"),
        ("pgm", (5, 7, 3), "colour"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(
    suffix: str, shape: tuple[int, ...], lacks: str
) -> None:
    with pytest.raises(InvalidInputError, match=rf"\.{suffix} .*{lacks}.*\.png"):
        write_picture(Picture(random_pixels(*shape)), suffix)


def test_sizes_that_a_format_cannot_hold_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"20000 x 1 .*\.webp.*\.png"):
        write_picture(Picture(np.zeros((1, 20_000), np.uint8)), "x.webp")


@pytest.mark.parametrize("to", ["x.PNG", "png", ".png", Path("a.b/c.png"), "PNG"])
def test_output_suffix(to: str | Path) -> None:
    assert output_suffix(to) == ".png"


@pytest.mark.parametrize("to", ["x.csc", "x", "", "x.gif", "."])
def test_unknown_output_suffixes_are_refused(to: str) -> None:
    with pytest.raises(InvalidInputError, match=r"choose from \.png"):
        output_suffix(to)


def test_modes_arrive_as_gray_or_rgb_with_alpha_only_where_there_is_some() -> None:
    rgba = Image.fromarray(random_pixels(6, 9, 4))
    palette = rgba.convert("RGB").quantize(8)
    cases = [
        (Image.fromarray(random_pixels(6, 9)).convert("1"), {}, (6, 9)),
        (Image.fromarray(random_pixels(6, 9)), {}, (6, 9)),
        (Image.fromarray(random_pixels(6, 9) // 16), {"transparency": 7}, (6, 9, 2)),
        (rgba.convert("LA"), {}, (6, 9, 2)),
        (palette, {}, (6, 9, 3)),
        (palette, {"transparency": 0}, (6, 9, 4)),
        (palette, {"transparency": bytes([0, 128, 255])}, (6, 9, 4)),
        (rgba.convert("RGB"), {}, (6, 9, 3)),
        (rgba.convert("RGB"), {"transparency": rgba.getpixel((0, 0))[:3]}, (6, 9, 4)),
        (rgba, {}, (6, 9, 4)),
    ]
    for image, options, shape in cases:
        pixels = read_picture(saved(image, "PNG", **options)).pixels
        assert pixels.shape == shape, (image.mode, options)
        if image.mode == "L" and options:
            assert np.array_equal(pixels[..., 1] == 0, pixels[..., 0] == 7)
    one_bit = read_picture(saved(cases[0][0], "PNG")).pixels
    assert set(np.unique(one_bit)) == {0, 255}


def test_palette_alpha_keeps_its_levels() -> None:
    palette = Image.fromarray(random_pixels(6, 9, 3)).quantize(8)
    alphas = bytes([0, 128, 200])
    pixels = read_picture(saved(palette, "PNG", transparency=alphas)).pixels
    expected = np.array([*alphas, 255, 255, 255, 255, 255], np.uint8)[np.asarray(palette)]
    assert np.array_equal(pixels[..., 3], expected)


def sixteen_bit_files() -> dict[str, bytes]:
    deep = np.arange(48, dtype=np.uint16).reshape(4, 12) * 1000
    gray = Image.fromarray(deep)
    rows = b"".join(b"\0" + bytes(12) for _ in range(2))
    tiff_rgb = saved(Image.fromarray(random_pixels(2, 2, 3)), "TIFF", compression=None)
    at = tiff_rgb.index(struct.pack("<HHH", 8, 8, 8))
    tiff_rgb = tiff_rgb[:at] + struct.pack("<HHH", 16, 16, 16) + tiff_rgb[at + 6 :] + bytes(64)
    return {
        "PNG RGB": png(2, 2, 16, 2, rows),
        "PNG gray": saved(gray, "PNG"),
        "TIFF gray": saved(gray, "TIFF"),
        "TIFF RGB": tiff_rgb,
        "PPM RGB": b"P6 # a comment 7\n2 2\n#another\n65535\n" + bytes(24),
        "PPM plain": b"P3 1 1 1023 1 2 3\n",
        "PGM": b"P5 2 2 65535\n" + bytes(8),
        "JPEG 2000": saved(gray, "JPEG2000"),
        "AVIF": deep_avif(),
    }


def deep_avif() -> bytes:
    """A 10-bit AVIF's header on an 8-bit picture: only the header is looked at."""
    data = bytearray(saved(Image.fromarray(random_pixels(16, 16, 3)), "AVIF"))
    data[data.index(b"av1C") + 6] |= 0x40
    depths = data.index(b"pixi") + 9
    data[depths : depths + 3] = bytes([10, 10, 10])
    return bytes(data)


@pytest.mark.parametrize("case", sixteen_bit_files())
def test_more_than_eight_bits_are_refused_and_named(case: str) -> None:
    with pytest.raises(InvalidInputError, match=r"1[06] bits per sample.*convert it to 8 bits"):
        read_picture(sixteen_bit_files()[case])


@pytest.mark.parametrize(
    ("mode", "format_name", "reason"),
    [
        ("CMYK", "JPEG", "CMYK without an ICC profile.*sRGB"),
        ("CMYK", "TIFF", "CMYK without an ICC profile.*sRGB"),
        ("LAB", "TIFF", "LAB.*sRGB"),
        ("I", "TIFF", "32 bits"),
        ("F", "TIFF", "floating-point samples"),
        ("F", "PPM", "mode F.*floating-point"),
    ],
)
def test_unsupported_modes_are_refused_and_named(mode: str, format_name: str, reason: str) -> None:
    data = saved(Image.new(mode, (4, 4)), format_name)
    with pytest.raises(InvalidInputError, match=reason):
        read_picture(data)


@pytest.mark.parametrize("format_name", ["GIF", "PNG", "WEBP", "TIFF", "AVIF"])
def test_animations_and_pages_are_refused(format_name: str) -> None:
    frames = [Image.fromarray(random_pixels(16, 16, 3, seed=seed)) for seed in range(3)]
    data = saved(frames[0], format_name, save_all=True, append_images=frames[1:])
    with pytest.raises(InvalidInputError, match=r"animation.*3 frames"):
        read_picture(data)


def test_a_gif_with_one_frame_is_a_picture() -> None:
    image = Image.fromarray(random_pixels(6, 9, 3)).quantize(16)
    expected = np.asarray(image.convert("RGB"))
    assert np.array_equal(read_picture(saved(image, "GIF")).pixels, expected)


def test_the_first_frame_of_a_phones_mpo_is_the_picture() -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    data = saved(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert Image.open(io.BytesIO(data)).format == "MPO"
    assert read_picture(data).pixels[8, 8, 0] > 240


def test_limit_is_checked_before_decoding() -> None:
    data = png(60_000, 60_000, 8, 2, b"")
    with pytest.raises(InvalidInputError, match=r"60000 x 60000 .*200000000.*--max-pixels"):
        read_picture(data)
    small = saved(Image.new("L", (10, 10)), "PNG")
    assert read_picture(small, max_pixels=100).pixels.shape == (10, 10)
    with pytest.raises(InvalidInputError, match="limit of 99"):
        read_picture(small, max_pixels=99)


def test_pillows_own_limit_neither_warns_nor_fails_and_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    assert limit is not None
    width = 4 * 1024
    height = 2 * limit // width + 64  # above what Pillow refuses
    data = saved(Image.new("1", (width, height)), "PNG")
    factory, accept = Image.OPEN["PNG"]
    meanwhile = []  # other threads rely on it

    def watched(*arguments: Any) -> Any:
        meanwhile.append(Image.MAX_IMAGE_PIXELS)
        return factory(*arguments)

    monkeypatch.setitem(Image.OPEN, "PNG", (watched, accept))
    assert read_picture(data).pixels.shape == (height, width)
    assert meanwhile == [limit]
    assert limit == Image.MAX_IMAGE_PIXELS


def test_not_a_picture() -> None:
    with pytest.raises(InvalidInputError, match=r"empty \(0 bytes\)"):
        read_picture(b"")
    for data in (
        b"x",
        b"hello, world\n" * 50,
        b"\x89PNG\r\n\x1a\n",
        b"%PDF-1.4",
        b"%!PS-Adobe-3.0",
    ):
        with pytest.raises(InvalidInputError, match=r"picture"):
            read_picture(data)


def test_postscript_is_never_run() -> None:
    data = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    with pytest.raises(InvalidInputError, match="not a picture of a kind"):
        read_picture(data)


@pytest.mark.parametrize(
    ("format_name", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("WEBP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("BMP", {}),
        ("PPM", {}),
        ("GIF", {}),
        ("JPEG2000", {}),
        ("AVIF", {}),
        ("QOI", {}),
    ],
)
def test_truncated_files_are_refused(format_name: str, options: dict[str, Any]) -> None:
    image = Image.fromarray(random_pixels(40, 40, 3))
    data = saved(image.quantize(64) if format_name == "GIF" else image, format_name, **options)
    for share in (0.02, 0.3, 0.5, 0.7, 0.95):
        with pytest.raises(InvalidInputError, match=r"truncated or damaged|not a picture|empty"):
            read_picture(data[: int(share * len(data))])


def test_damage_gives_a_picture_or_a_clear_error() -> None:
    generator = np.random.default_rng(1)
    image = Image.fromarray(random_pixels(24, 24, 3))
    exif = orientation_exif(6)
    for format_name in ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000", "QOI"):
        options = {"exif": exif} if format_name in ("PNG", "JPEG", "WEBP", "TIFF") else {}
        data = saved(image, format_name, **options)
        for _ in range(60):
            damaged = bytearray(data)
            for at in generator.integers(0, min(len(data), 400), 3):
                damaged[at] = generator.integers(256)
            try:
                pixels = read_picture(bytes(damaged), max_pixels=10_000).pixels
            except InvalidInputError:
                continue
            assert pixels.dtype == np.uint8
            assert pixels.ndim in (2, 3)


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("value", range(1, 9))
def test_exif_orientation_is_applied_and_reset(format_name: str, value: int) -> None:
    pixels = np.zeros((16, 32, 3), np.uint8)
    pixels[:8, :16] = (255, 0, 0)
    pixels[8:, :8] = (0, 255, 0)
    data = saved(Image.fromarray(pixels), format_name, exif=orientation_exif(value))
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    picture = read_picture(data)
    assert picture.pixels.shape == expected.shape
    assert np.array_equal(picture.pixels, expected)
    assert picture.exif is not None
    exif = Image.Exif()
    exif.load(picture.exif)
    assert exif.get(0x0112, 1) == 1
    assert exif[0x010F] == "Maker"


def test_only_the_orientation_of_the_exif_changes() -> None:
    data = saved(Image.new("RGB", (16, 16)), "JPEG", exif=orientation_exif(8), xmp=XMP)
    picture = read_picture(data)
    before, after = orientation_exif(8), picture.exif
    assert after is not None
    assert [i for i in range(len(before)) if before[i] != after[i]] != []
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
    assert picture.xmp == XMP.replace(b'"6"', b'"1"')


@pytest.mark.parametrize(
    "exif",
    [
        b"Exif\0\0",
        b"Exif\0\0II*\0",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0MM\0*\0\0\0\x08\xff\xff",
        b"junk",
    ],
)
def test_damaged_exif_does_not_stop_a_picture(exif: bytes) -> None:
    picture = read_picture(saved(Image.new("RGB", (16, 16)), "WEBP", exif=exif))
    assert picture.pixels.shape == (16, 16, 3)


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "tif"])
def test_metadata_survive_every_format_that_has_a_place(suffix: str) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    xmp = XMP.replace(b'"6"', b'"1"')
    picture = Picture(random_pixels(8, 8, 3), profile, orientation_exif(1), xmp)
    again = read_picture(write_picture(picture, suffix))
    assert again.icc_profile == profile
    assert again.xmp == xmp
    assert again.exif is not None
    exif = Image.Exif()
    exif.load(again.exif)
    assert exif[0x010F] == "Maker"


def test_metadata_too_large_for_a_jpeg_are_left_out() -> None:
    picture = Picture(random_pixels(8, 8, 3), None, b"Exif\0\0" + bytes(70_000), bytes(70_000))
    again = read_picture(write_picture(picture, "jpg"))
    assert (again.exif, again.xmp) == (None, None)


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"nothing\.png: cannot be read: No such file"):
        read_picture(tmp_path / "nothing.png")
    with pytest.raises(InvalidInputError, match="is a folder"):
        read_picture(tmp_path)
    with pytest.raises(InvalidInputError, match="is a device"):
        read_picture("/dev/zero")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_picture("a\0b.png")
    (tmp_path / "bad.png").write_bytes(b"no")
    with (
        pytest.raises(InvalidInputError, match=r"bad\.png: not a picture"),
        open(tmp_path / "bad.png", "rb") as file,
    ):
        read_picture(file)


def test_pipes_can_be_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = saved(Image.fromarray(random_pixels(20, 20)), "PNG")
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    pixels = read_picture(pipe).pixels
    writer.join()
    assert pixels.shape == (20, 20)


def test_find_pictures(tmp_path: Path) -> None:
    for name in ("b.PNG", "a.jpg", "notes.txt", ".hidden.png", "sub/c.webp", ".git/d.png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    names = [path.relative_to(tmp_path).as_posix() for path in find_pictures(tmp_path)]
    assert names == ["a.jpg", "b.PNG", "sub/c.webp"]
    assert len(find_pictures(tmp_path, recursive=False)) == 2
    with pytest.raises(InvalidInputError, match="nowhere: cannot be read"):
        find_pictures(tmp_path / "nowhere")


def test_find_pictures_does_not_follow_loops(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(find_pictures(tmp_path)) == 1


def test_luma() -> None:
    colours = np.array([[[255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8)
    assert luma(colours).tolist() == [[255, 76, 150, 29]]
    pixels = random_pixels(50, 50, 4)
    exact = pixels[..., :3] @ np.array([0.299, 0.587, 0.114])
    assert np.abs(luma(pixels) - exact).max() <= 0.5 + 1e-9
    assert np.array_equal(luma(pixels[..., :2]), pixels[..., 0])
    assert np.array_equal(luma(pixels[..., 0]), pixels[..., 0])


def test_suffixes_are_lower_case() -> None:
    assert {suffix.lower() for suffix in PICTURE_SUFFIXES} == PICTURE_SUFFIXES


def test_import_is_light() -> None:
    code = (
        "import sys, cscodec.images; "
        "print([name for name in ('numba', 'scipy', 'skimage') if name in sys.modules])"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "[]"


class TestStreams:
    """They may have no end: no more is read than what shows that it is no picture."""

    class Endless(io.RawIOBase):
        def __init__(self, start: bytes) -> None:
            self.start, self.num_read = start, 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            piece = self.start[self.num_read : self.num_read + len(buffer)]
            buffer[:] = piece.ljust(len(buffer), b"\0")
            self.num_read += len(buffer)
            return len(buffer)

    def test_what_is_no_picture(self) -> None:
        stream = self.Endless(b"")
        with pytest.raises(InvalidInputError, match="not a picture"):
            read_picture(io.BufferedReader(stream))
        assert stream.num_read < 3_000_000

    def test_what_begins_like_a_picture(self) -> None:
        stream = self.Endless(b"\x89PNG\r\n\x1a\n")
        with pytest.raises(InvalidInputError, match="more than a picture of 1000 pixels takes"):
            read_picture(io.BufferedReader(stream), max_pixels=1000)
        assert stream.num_read < 70_000_000


def test_jpeg_files_of_thousands_of_scans_or_exif_blocks_are_refused() -> None:
    data = saved(Image.new("L", (64, 64)), "JPEG", progressive=True)
    scan = data.index(b"\xff\xda")
    end = data.index(b"\xff", scan + 2 + int.from_bytes(data[scan + 2 : scan + 4], "big"))
    for many in (
        data[:scan] + data[scan:end] * 5000 + data[scan:],
        data[:2] + b"\xff\xe1\x00\x0aExif\0\0ab" * 5000 + data[2:],
    ):
        with pytest.raises(InvalidInputError, match="more than 500 scans or 100 blocks of EXIF"):
            read_picture(many)
    assert read_picture(data).pixels.shape == (64, 64)


def test_pages_are_counted_in_linear_time() -> None:
    """Each a directory without an entry, which leads to the next."""
    first = saved(Image.new("L", (8, 8)), "TIFF")
    at = int.from_bytes(first[4:8], "little")
    number = int.from_bytes(first[at : at + 2], "little")
    last = at + 2 + 12 * number
    start = len(first) + len(first) % 2
    pages = b"".join(
        b"\0\0" + (start + 6 * (page + 1)).to_bytes(4, "little") for page in range(200_000)
    )
    data = first[:last] + start.to_bytes(4, "little") + first[last + 4 :].ljust(start - last - 4)
    with pytest.raises(InvalidInputError, match="more than 10000 pages"):
        read_picture(data + pages, frame=0)


def test_files_that_are_larger_than_any_picture_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    path.write_bytes(saved(Image.new("L", (8, 8)), "GIF"))
    os.truncate(path, 10**9)  # sparse
    with pytest.raises(
        InvalidInputError, match=r"a.gif: more than .* bytes, which a picture of 999"
    ):
        read_picture(path, max_pixels=999)


def test_sides_beyond_the_format_are_refused_before_they_are_read() -> None:
    header = struct.pack(">II5B", 1, 1 << 24, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", b""), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(payload)) + kind + payload
        + struct.pack(">I", zlib.crc32(kind + payload))
        for kind, payload in chunks
    )  # fmt: skip
    with pytest.raises(InvalidInputError, match="1 x 16777216 pixels; allowed are"):
        read_picture(data)


def test_frames_that_come_after_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a whole screen."""
    frames = [Image.new("L", (8, 8), 20 * number) for number in range(10)]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    monkeypatch.setattr("cscodec.images.reading._MOST_SCREENS", 4)
    assert read_picture(data, frame=3, max_pixels=64).pixels.shape[:2] == (8, 8)
    with pytest.raises(InvalidInputError, match="frame 4 comes after too many others"):
        read_picture(data, frame=4, max_pixels=64)
