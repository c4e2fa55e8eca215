"""Every sample of a picture file arrives, or the file is refused with a reason and a remedy."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms
from test_images import png, png_chunk, random_pixels, saved, sixteen_bit_files

from cscodec.errors import InvalidInputError
from cscodec.images import (
    Picture,
    fitted,
    headers,
    parse_colour,
    read_picture,
    reading,
    write_picture,
)
from cscodec.images.headers import bits_per_sample

PIXELS = random_pixels(24, 40, 3)


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + kind + content


def jpeg_2000(pixels: Any = PIXELS, *, before: bytes = b"") -> bytes:
    data = saved(Image.fromarray(pixels), "JPEG2000")
    at = data.index(b"jp2c") - 4
    return data[:at] + before + data[at:]


@pytest.mark.parametrize("kind", [b"uuid", b"free"])
def test_a_header_behind_a_large_box_is_found(kind: bytes) -> None:
    large = box(kind, bytes(300_000))
    assert np.array_equal(read_picture(jpeg_2000(before=large)).pixels, PIXELS)
    deep = np.arange(48, dtype=np.uint16).reshape(4, 12) * 1000
    with pytest.raises(InvalidInputError, match="16 bits per sample"):
        read_picture(jpeg_2000(deep, before=large))


@pytest.mark.parametrize("form", [b"P6 #%s\n40 24 255\n", b"P6\n40 #%s\n24\n255\n"])
def test_a_header_with_a_large_comment_is_read(form: bytes) -> None:
    header = form % (b"x" * 300_000)
    try:
        with Image.open(io.BytesIO(header + PIXELS.tobytes())) as image:
            image.load()
    except Exception:
        pytest.skip("this Pillow does not open it")
    assert np.array_equal(read_picture(header + PIXELS.tobytes()).pixels, PIXELS)
    deep = header.replace(b"255", b"65535")
    with pytest.raises(InvalidInputError, match="16 bits per sample"):
        read_picture(deep + 2 * PIXELS.tobytes())


@pytest.mark.parametrize(
    "picture",
    [b"P6 2 2 255\n" + bytes(12), b"P5 3 2 65535\n" + bytes(12), b"P4 9 2\n" + bytes(4)],
)
def test_portable_pictures_in_a_row_are_refused(picture: bytes) -> None:
    assert read_picture(picture + b"\n", to_8bit=True).pixels.shape[0] == 2
    with pytest.raises(InvalidInputError, match="several pictures"):
        read_picture(picture * 2, to_8bit=True)


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7])
def test_words_and_comments_may_be_cut_anywhere(
    block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "_BLOCK_BYTES", block_bytes)
    for text in (b"P6 40 24 65535\n", b"P6#a\r40\n#65 b # c\n24#\n  65535", b"P2 4 2\n#\n1023 "):
        assert bits_per_sample("PPM", io.BytesIO(text)) == (10 if b"P2" in text else 16)
    assert bits_per_sample("PPM", io.BytesIO(b"P5 1 1 255 " + b"#" * 9)) == 8


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("AVIF", box(b"ftyp", b"avif")),
        ("AVIF", box(b"ftyp", b"avif") + box(b"meta", bytes(4) + box(b"iprp", box(b"ipco", b"")))),
        ("JPEG2000", box(b"jP  ", b"\r\n\x87\n")),
        ("JPEG2000", box(b"jP  ", b"\r\n\x87\n") + box(b"jp2c", b"\xff\x4f\xff\x51")),
        ("JPEG2000", b"\xff\x4f\xff\x51" + bytes(38)),
        ("PPM", b"P6 1 2"),
        ("PPM", b"P9 1 2 255"),
        ("PPM", b"P6 " + b"1" * 100),
        ("PNG", b"\x89PNG\r\n\x1a\n" + png_chunk(b"CgBI", bytes(4))),
        ("TIFF", b"II*\0\xff\xff\xff\xff"),
    ],
)
def test_an_unknown_depth_is_never_taken_for_8_bits(kind: str, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        bits_per_sample(kind, io.BytesIO(data))


@pytest.mark.parametrize(("bits", "transparent"), [(1, 0), (1, 1), (2, 1), (2, 3), (4, 2), (4, 15)])
@pytest.mark.parametrize("high_bits", [0, 0x5500])
def test_transparent_gray_of_few_bits(bits: int, transparent: int, high_bits: int) -> None:
    values = np.arange(8) * ((1 << bits) - 1) // 7
    packed = np.packbits((values[:, None] >> np.arange(bits - 1, -1, -1)) & 1)
    value = transparent | (high_bits if bits > 1 else 0)
    extra = png_chunk(b"tRNS", struct.pack(">H", value))
    data = png(8, 8, bits, 0, (b"\0" + packed.tobytes()) * 8, extra)
    pixels = read_picture(data).pixels
    assert pixels[0, :, 0].tolist() == (values * 255 // ((1 << bits) - 1)).tolist()
    assert pixels[0, :, 1].tolist() == np.where(values == transparent, 0, 255).tolist()


def test_a_transparent_colour_counts_by_its_low_bits() -> None:
    row = bytes([10, 20, 30, 10, 20, 31])
    extra = png_chunk(b"tRNS", struct.pack(">3H", 0x10A, 20, 0xFF1E))
    assert read_picture(png(2, 1, 8, 2, b"\0" + row, extra)).pixels[0, :, 3].tolist() == [0, 255]


@pytest.mark.parametrize("bits", [1, 2, 4, 7])
@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_2000_of_few_bits_has_its_full_range(bits: int, channels: int) -> None:
    most = (1 << bits) - 1
    wanted = np.arange(32 * 32 * channels).reshape(32, 32, channels) % (most + 1)
    # As 8 bits with another zero: what differs then is only what the header says.
    shifted = (wanted - (1 << bits) // 2 + 128).astype(np.uint8)
    data = bytearray(saved(Image.fromarray(shifted.squeeze()), "JPEG2000", mct=0))
    size = data.index(b"\xff\x4f\xff\x51") + 4
    for component in range(channels):
        data[size + 38 + 3 * component] = bits - 1
    data[data.index(b"ihdr") + 14] = bits - 1
    expected = np.round(wanted * 255 / most).astype(np.uint8).squeeze()
    assert np.array_equal(read_picture(bytes(data)).pixels, expected)


def test_signed_jpeg_2000_is_refused() -> None:
    data = bytearray(jpeg_2000())
    data[data.index(b"\xff\x4f\xff\x51") + 42] |= 0x80
    with pytest.raises(InvalidInputError, match=r"signed samples.*convert"):
        read_picture(bytes(data))


def test_jpeg_2000_of_five_components_is_refused_as_that() -> None:
    data = jpeg_2000()
    at = data.index(b"\xff\x4f\xff\x51") + 4
    five = struct.pack(">H", 53) + data[at + 2 : at + 36] + struct.pack(">H", 5) + b"\7\1\1" * 5
    with pytest.raises(InvalidInputError, match="5 samples per pixel"):
        read_picture(data[:at] + five + data[at + 47 :])


def tiff(pixels: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, pixels, metadata=None, **options)
    return buffer.getvalue()


WITH_ALPHA = {"photometric": "rgb", "extrasamples": ["unassalpha"]}
KEPT: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "gray": ((24, 40), {}),
    "gray with alpha": ((24, 40, 2), {"photometric": "minisblack", "extrasamples": [2]}),
    "RGB": ((24, 40, 3), {"photometric": "rgb"}),
    "RGB in planes": ((3, 24, 40), {"photometric": "rgb", "planarconfig": "separate"}),
    "RGB in tiles": ((24, 40, 3), {"photometric": "rgb", "tile": (16, 16)}),
    "RGBA": ((24, 40, 4), WITH_ALPHA),
    "RGBA in planes": ((4, 24, 40), WITH_ALPHA | {"planarconfig": "separate"}),
    "RGBA, deflated": ((24, 40, 4), WITH_ALPHA | {"compression": "zlib", "predictor": True}),
}


@pytest.mark.parametrize("case", KEPT)
def test_tiff_arrives_whole(case: str) -> None:
    shape, options = KEPT[case]
    pixels = random_pixels(*shape)
    found = read_picture(tiff(pixels, **options)).pixels
    in_planes = options.get("planarconfig") == "separate"
    assert np.array_equal(found, np.moveaxis(pixels, 0, 2) if in_planes else pixels)


def unspecified(samples: int, photometric: str) -> tuple[Any, dict[str, Any]]:
    return random_pixels(24, 40, samples), {
        "photometric": photometric,
        "planarconfig": "contig",
        "extrasamples": [0] * (samples - {"rgb": 3, "minisblack": 1, "separated": 4}[photometric]),
    }


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "int8": (np.full((8, 8), -1, np.int8), {}, "signed samples .8 bits"),
    "int16": (np.full((8, 8), -1, np.int16), {}, "signed samples .16 bits"),
    "float16": (np.zeros((8, 8), np.float16), {}, "floating-point samples .16 bits"),
    "float32": (np.zeros((8, 8), np.float32), {}, "floating-point samples .32 bits"),
    "float64": (np.zeros((8, 8), np.float64), {}, "floating-point samples .64 bits"),
    "complex": (np.zeros((8, 8), np.complex64), {}, "complex"),
    "uint32": (np.zeros((8, 8), np.uint32), {}, "32 bits per sample"),
    "RGB int8": (np.zeros((8, 8, 3), np.int8), {"photometric": "rgb"}, "signed samples"),
    "gray and another": (*unspecified(2, "minisblack"), "2 samples per pixel.*alpha"),
    "gray and four others": (*unspecified(5, "minisblack"), "5 samples per pixel"),
    "RGB and another": (*unspecified(4, "rgb"), "4 samples per pixel"),
    "RGB and two others": (*unspecified(5, "rgb"), "5 samples per pixel"),
    "RGBA and another": (
        random_pixels(24, 40, 5),
        {"photometric": "rgb", "planarconfig": "contig", "extrasamples": [2, 0]},
        "5 samples per pixel",
    ),
    "CMYK and another": (*unspecified(5, "separated"), "5 samples per pixel"),
    "raw sensor": (random_pixels(8, 8), {"photometric": "cfa"}, "photometric interpretation 32803"),
    "a thumbnail": (random_pixels(8, 8), {"subfiletype": 1}, "thumbnail"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tiff_that_would_not_arrive_whole_is_refused(case: str) -> None:
    pixels, options, reason = REFUSED[case]
    with pytest.raises(InvalidInputError, match=f"^picture: .*{reason}"):
        read_picture(tiff(pixels, **options))
    with pytest.raises(InvalidInputError, match=reason):
        read_picture(tiff(pixels, **options), to_8bit=True)


def test_words_for_what_is_wrong() -> None:
    whole = saved(Image.fromarray(PIXELS), "PNG")
    text = png_chunk(b"tEXt", b"Comment\0hello")
    damaged = whole[:33] + text[:-1] + bytes([text[-1] ^ 1]) + whole[33:]
    with pytest.raises(InvalidInputError, match=r"damaged .*tEXt"):
        read_picture(damaged)
    bomb = png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(5_000_000)))
    with pytest.raises(InvalidInputError, match="a text or an ICC profile in it is larger"):
        read_picture(whole[:33] + bomb + whole[33:])
    with pytest.raises(InvalidInputError, match="not a picture of a kind"):
        read_picture(b"hello")
    jpeg = bytearray(saved(Image.fromarray(PIXELS), "JPEG"))
    jpeg[jpeg.index(b"\xff\xc0") + 4] = 12
    with pytest.raises(InvalidInputError, match=r"damaged .*12-bit"):
        read_picture(bytes(jpeg))


@pytest.mark.parametrize("format_name", ["GIF", "PNG", "WEBP", "TIFF", "AVIF"])
def test_a_frame_can_be_chosen(format_name: str) -> None:
    colours = ("red", "blue", "lime")
    frames = [Image.new("RGB", (16, 16), colour) for colour in colours]
    data = saved(frames[0], format_name, save_all=True, append_images=frames[1:])
    for frame, colour in enumerate(colours):
        found = read_picture(data, frame=frame).pixels[8, 8]
        assert np.abs(found.astype(int) - parse_colour(colour)).max() < 8
    with pytest.raises(InvalidInputError, match="no frame 3; it has 0 to 2"):
        read_picture(data, frame=3)
    with pytest.raises(InvalidInputError, match=r"animation.*--frame 0"):
        read_picture(data)
    single = saved(frames[0], format_name)
    assert read_picture(single, frame=0).pixels.shape == (16, 16, 3)
    with pytest.raises(InvalidInputError, match="no frame 1; it has 0 to 0"):
        read_picture(single, frame=1)


def test_each_page_of_a_tiff_is_judged_by_its_own_tags() -> None:
    buffer = io.BytesIO()
    with tifffile.TiffWriter(buffer) as writer:
        writer.write(random_pixels(8, 8), metadata=None)
        writer.write(np.zeros((8, 8), np.int8), metadata=None, description="second")
        writer.write(random_pixels(9, 9, seed=1), metadata=None, description="third")
    assert read_picture(buffer.getvalue(), frame=0).exif is not None  # resolution and software
    with pytest.raises(InvalidInputError, match="signed"):
        read_picture(buffer.getvalue(), frame=1)
    third = read_picture(buffer.getvalue(), frame=2)
    assert np.array_equal(third.pixels, random_pixels(9, 9, seed=1))
    assert b"third" in (third.exif or b"")


@pytest.mark.parametrize("case", sorted(set(sixteen_bit_files()) - {"AVIF", "PPM plain"}))
def test_sixteen_bits_become_eight_where_that_is_asked_for(case: str) -> None:
    data = sixteen_bit_files()[case]
    pixels = read_picture(data, to_8bit=True).pixels
    assert pixels.dtype == np.uint8
    if "gray" in case or case == "JPEG 2000":
        deep = np.arange(48, dtype=np.uint16).reshape(4, 12) * 1000
        assert np.array_equal(pixels, deep >> 8)


def test_ten_and_twelve_bits_become_eight() -> None:
    assert read_picture(b"P3 1 1 1023 0 512 1023\n", to_8bit=True).pixels.tolist() == [
        [[0, 128, 255]]
    ]
    values = np.arange(0, 4096, 64, np.uint16).reshape(8, 8)
    packed = np.packbits((values.reshape(-1, 1) >> np.arange(11, -1, -1)) & 1)
    tags = [(256, 8), (257, 8), (258, 12), (259, 1), (262, 1), (273, 200), (277, 1), (278, 8)]
    table = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in [*tags, (279, 96)])
    data = (b"II*\0\x08\0\0\0\x09\0" + table).ljust(200, b"\0") + packed.tobytes()
    assert np.array_equal(read_picture(data, to_8bit=True).pixels, values >> 4)


def test_a_transparent_value_of_16_bits() -> None:
    values = np.array([[0x1234, 0x1235]], ">u2")
    extra = png_chunk(b"tRNS", b"\x12\x34")
    data = png(2, 1, 16, 0, b"\0" + values.tobytes(), extra)
    assert read_picture(data, to_8bit=True).pixels.tolist() == [[[0x12, 0], [0x12, 255]]]
    colour = png(1, 1, 16, 2, b"\0" + bytes(6), png_chunk(b"tRNS", bytes(6)))
    with pytest.raises(InvalidInputError, match="transparent colour has 16 bits"):
        read_picture(colour, to_8bit=True)


def cmyk_profile() -> bytes:
    """An ICC profile with a table of two values for each ink: black is dark, paper is white."""
    lightness = [0 if at & 1 else 255 for at in range(16)]  # of what the last ink leaves
    table = bytes(value for light in lightness for value in (light, 128, 128))
    ramp = bytes(range(256))
    lut = b"mft1" + bytes(4) + bytes([4, 3, 2, 0])
    lut += struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    lut += ramp * 4 + table + ramp * 3
    header = bytearray(128)
    header[8:12] = b"\x02\x10\0\0"
    header[12:24] = b"prtrCMYKLab "
    header[36:40] = b"acsp"
    header[68:80] = struct.pack(">3i", 63190, 65536, 54061)
    body = bytes(header) + struct.pack(">I", 1) + struct.pack(">4sII", b"A2B0", 144, len(lut)) + lut
    return struct.pack(">I", len(body)) + body[4:]


@pytest.mark.parametrize("format_name", ["JPEG", "TIFF"])
def test_cmyk_becomes_srgb_by_its_profile(format_name: str) -> None:
    image = Image.new("CMYK", (16, 16), (0, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 8, 16))
    options = {"quality": 100} if format_name == "JPEG" else {}
    picture = read_picture(saved(image, format_name, icc_profile=cmyk_profile(), **options))
    assert picture.icc_profile is None
    assert picture.pixels.shape == (16, 16, 3)
    assert picture.pixels[:, :8].min() > 250
    assert picture.pixels[:, 8:].max() < 10
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for unusable in (b"no profile", srgb):
        with pytest.raises(InvalidInputError, match=r"CMYK whose ICC profile cannot.*sRGB"):
            read_picture(saved(image, format_name, icc_profile=unusable))


def test_alpha_that_hides_nothing_is_no_obstacle() -> None:
    opaque = np.dstack([PIXELS, np.full((24, 40), 255, np.uint8)])
    assert np.array_equal(read_picture(saved(Image.fromarray(opaque), "PNG")).pixels, PIXELS)
    assert np.array_equal(read_picture(write_picture(Picture(opaque), "bmp")).pixels, PIXELS)
    gray = opaque[..., 2:]
    assert np.array_equal(read_picture(write_picture(Picture(gray), "pgm")).pixels, gray[..., 0])
    assert fitted(Picture(opaque), "png").pixels.shape == (24, 40, 4)


def test_background() -> None:
    pixels = np.zeros((1, 3, 4), np.uint8)
    pixels[0] = [(255, 0, 0, 255), (255, 0, 0, 0), (255, 0, 0, 128)]
    laid = fitted(Picture(pixels), "bmp", background=parse_colour("#00ff00")).pixels
    assert laid.tolist() == [[[255, 0, 0], [0, 255, 0], [128, 127, 0]]]
    gray = pixels[..., 2:]
    assert fitted(Picture(gray), "jpg", background=(255, 255, 255)).pixels.tolist() == [
        [0, 255, 127]
    ]
    assert fitted(Picture(gray), "jpg", background=(255, 0, 0)).pixels.shape == (1, 3, 3)
    with pytest.raises(InvalidInputError, match=r"\.pgm files cannot hold colour"):
        fitted(Picture(gray), "pgm", background=(255, 0, 0))
    assert fitted(Picture(pixels), "png", background=(1, 2, 3)).pixels is not None
    assert fitted(Picture(pixels), "png", background=(1, 2, 3)).pixels.shape == (1, 3, 4)
    with pytest.raises(InvalidInputError, match="'nothing' is not a colour"):
        parse_colour("nothing")


def heic(**options: Any) -> bytes:
    pillow_heif = pytest.importorskip("pillow_heif")
    buffer = io.BytesIO()
    smooth = np.add.outer(np.arange(64), np.arange(96))[..., None] + np.array([0, 30, 60])
    image = pillow_heif.from_pillow(Image.fromarray(smooth.astype(np.uint8)))
    try:
        image.save(buffer, quality=90, **options)
    except RuntimeError as error:
        pytest.skip(f"no encoder for HEIC: {error}")
    return buffer.getvalue()


def test_heic_is_read() -> None:
    picture = read_picture(heic())
    assert picture.pixels.shape == (64, 96, 3)
    assert abs(int(picture.pixels[10, 20, 1]) - 60) < 8
    assert ".heic" in reading.PICTURE_SUFFIXES


def test_heic_names_the_package_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_HAS_HEIF", False)
    data = box(b"ftyp", b"heic" + bytes(4) + b"mif1heic") + bytes(100)
    with pytest.raises(InvalidInputError, match=r"pip install 'cscodec\[heif\]'"):
        read_picture(data)


def test_damaged_heic_is_refused() -> None:
    data = heic()
    for share in (0.1, 0.5, 0.9):
        with pytest.raises(InvalidInputError, match="damaged"):
            read_picture(data[: int(share * len(data))])
