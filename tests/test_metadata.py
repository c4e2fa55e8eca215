"""Metadata travel whole where they can, agree with the pixels, and never decide what these are."""

from __future__ import annotations

import io
import re
import struct
import tracemalloc
import zlib
from typing import Any
from xml.dom import minidom

import exif_blocks
import numpy as np
import pytest
import tifffile
from PIL import Image, PngImagePlugin

from cscodec.errors import InvalidInputError
from cscodec.images import (
    Picture,
    fitted,
    parse_strip,
    read_picture,
    stripped,
    upright,
    write_picture,
)
from cscodec.images.directories import Directories
from cscodec.images.exif import Exif, gathered
from cscodec.images.metadata import oriented

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (24, 40, 3), np.uint8)
ORIENTATION = 0x0112
SUFFIXES = ["png", "jpg", "webp", "tif", "bmp", "ppm"]
KINDS = exif_blocks.SOUND | exif_blocks.DAMAGED
#: What a reader of EXIF may find odd, but has to survive.
QUIET = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def orientation_block(value: int, *tags: exif_blocks.Tag) -> bytes:
    return exif_blocks.block(*sorted([*tags, exif_blocks.MAKE, (ORIENTATION, 3, 1, value)]))


def turned(kind: str) -> bytes:
    """The EXIF of a kind with orientation 6 added in front, where that can be done."""
    data = KINDS[kind]
    start = 6 if data.startswith(b"Exif\0\0") else 0
    if start + 10 > len(data) or data[start : start + 4] != b"II*\0":
        return data
    number = int.from_bytes(data[start + 8 : start + 10], "little")
    table = data[start + 10 : start + 10 + 12 * number]
    entry = b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"
    at = len(data) - start
    new = (number + 1).to_bytes(2, "little") + entry + table + bytes(4)
    return data[: start + 4] + at.to_bytes(4, "little") + data[start + 8 :] + new


@QUIET
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("case", ["whole", "region", "rotated"])
def test_exif_of_any_kind_leaves_the_picture_alone(suffix: str, case: str) -> None:
    for kind in KINDS:
        try:
            check_exif(kind, suffix, case)
        except BaseException as error:
            error.add_note(f"EXIF with {kind}")
            raise


def check_exif(kind: str, suffix: str, case: str) -> None:
    pixels = PIXELS[3:19, 5:30] if case == "region" else PIXELS
    exif = turned(kind) if case == "rotated" else KINDS[kind]
    data = write_picture(Picture(pixels, exif=exif), suffix)
    is_turned = exif != KINDS[kind]
    expected = np.rot90(pixels, -1) if is_turned else pixels
    image = opened(data)
    assert (image.mode, image.size) == ("RGB", (expected.shape[1], expected.shape[0]))
    found = image.getexif()
    assert found.get(ORIENTATION, 1) == 1
    for tag in (0x8769, 0x8825):
        found.get_ifd(tag)
    if suffix != "jpg":
        assert np.array_equal(np.asarray(image), expected)
    if suffix == "tif":
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            assert np.array_equal(file.asarray(), expected)
            assert len(file.pages) == 1
            assert len(file.series) == 1
            assert file.series[0].shape == expected.shape
            assert file.series[0].kind in ("generic", "uniform")
    assert read_picture(data).pixels.shape == expected.shape
    if suffix in ("png", "jpg", "webp", "tif") and kind in exif_blocks.SOUND and kind != "nothing":
        assert found[0x010F] == "Maker"


def test_a_phones_exif_reaches_tiff_whole() -> None:
    data = write_picture(Picture(PIXELS, exif=KINDS["a phone's"]), "tif")
    found = opened(data).getexif()
    inner = found.get_ifd(0x8769)
    assert (inner[0x829A], inner[0x9003], inner[0x927C]) == (
        1 / 50,
        "2024:05:06 07:08:09",
        exif_blocks.NOTE,
    )
    assert found.get_ifd(0x8825)[2] == (48, 8, 15)
    # Makers' notes hold offsets that only their maker knows: they stay where they were.
    assert data.index(exif_blocks.NOTE) == KINDS["a phone's"].index(exif_blocks.NOTE) - 6
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        tags = file.pages.first.tags
        assert tags["Make"].value == "Maker"
        assert tags["ExifTag"].value["MakerNote"] == exif_blocks.NOTE
    again = read_picture(data)
    assert again.exif is not None
    assert exif_blocks.NOTE in again.exif
    assert read_picture(write_picture(again, "jpg")).exif is not None


@QUIET
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_tiff_leaves_out_is_named(kind: str) -> None:
    left_out = fitted(Picture(PIXELS, exif=KINDS[kind]), "tif").left_out
    is_silent = kind in exif_blocks.SOUND and kind not in exif_blocks.PROGRAMS_OWN
    own_of_tiff = ("XMP", "ICC profile", "ImageDepth", "ExtraSamples", "TileWidth", "TileOffsets")
    if kind.startswith(("a description that is no", "a second directory", "a directory within")):
        return
    if not is_silent:
        assert any("EXIF" in what for what in left_out), left_out
    elif kind not in own_of_tiff and kind not in exif_blocks.STRUCTURAL:
        assert not left_out


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "tif"])
def test_sizes_in_metadata_are_those_of_the_pixels(suffix: str) -> None:
    xmp = b'<x xmlns:exif="http://ns.adobe.com/exif/1.0/" exif:PixelXDimension="4032"/>'
    exif = exif_blocks.block((256, 3, 1, 4032), exif_blocks.MAKE, exif_blocks.EXIF)
    data = write_picture(Picture(PIXELS[:10, :20], exif=exif, xmp=xmp), suffix)
    image = opened(data)
    inner = image.getexif().get_ifd(0x8769)
    assert (inner[0xA002], inner[0xA003]) == (20, 10)
    assert image.getexif().get(256, 20) == 20
    assert read_picture(data).xmp == xmp.replace(b"4032", b"20")


def jpeg(exif: bytes, pixels: Any = PIXELS, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", exif=exif, quality=95, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(("kind", "value"), [(1, 6), (3, 6), (4, 6), (3, 8), (4, 3), (1, 5)])
@pytest.mark.parametrize("order", ["<", ">"])
def test_orientation_of_any_integer_type_is_applied(kind: int, value: int, order: str) -> None:
    exif = exif_blocks.block((ORIENTATION, kind, 1, value), order=order)
    plain = read_picture(jpeg(exif_blocks.block(exif_blocks.MAKE))).pixels
    picture = read_picture(jpeg(exif))
    assert np.array_equal(picture.pixels, oriented(plain, value))
    assert picture.exif is not None
    assert opened(write_picture(picture, "png")).getexif()[ORIENTATION] == 1


def test_an_orientation_that_is_a_text_is_none() -> None:
    picture = upright(Picture(PIXELS, exif=exif_blocks.block((ORIENTATION, 2, 2, b"6\0"))))
    assert picture.pixels.shape == PIXELS.shape
    assert picture.exif == exif_blocks.block((ORIENTATION, 3, 1, 1))


@pytest.mark.parametrize("value", [0, 9, 255])
def test_orientations_that_do_not_exist_are_none(value: int) -> None:
    picture = read_picture(jpeg(orientation_block(value)))
    assert picture.pixels.shape == PIXELS.shape
    assert opened(write_picture(picture, "png")).getexif()[ORIENTATION] == 1


def raw_profile(data: bytes, name: str) -> str:
    digits = data.hex()
    lines = [digits[at : at + 72] for at in range(0, len(digits), 72)]
    return "\n".join(["", name, f"{len(data):8}", *lines, ""])


XMP_6 = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="6"/></x:xmpmeta>'
XMP_FORMS = {
    "an attribute": XMP_6,
    "single quotes and spaces": XMP_6.replace(b'="6"', b" = '6'"),
    "an element": b"<x><tiff:Orientation> 6 </tiff:Orientation></x>",
    "an element with attributes": b'<x><tiff:Orientation a="x">6</tiff:Orientation></x>',
    "another prefix": b'<x xmlns:t="http://ns.adobe.com/tiff/1.0/" t:Orientation="6"/>',
    "UTF-16": XMP_6.decode().encode("utf-16"),
}


@pytest.mark.parametrize("form", XMP_FORMS)
@pytest.mark.parametrize("format_name", ["JPEG", "WEBP", "TIFF"])
def test_orientation_in_xmp_alone_is_applied(form: str, format_name: str) -> None:
    buffer = io.BytesIO()
    options = {"tiffinfo": {700: XMP_FORMS[form]}} if format_name == "TIFF" else {}
    Image.fromarray(PIXELS).save(buffer, format_name, **({"xmp": XMP_FORMS[form]} | options))
    picture = read_picture(buffer.getvalue())
    assert picture.pixels.shape == (40, 24, 3)
    assert picture.xmp is not None
    assert b"6" not in picture.xmp
    assert read_picture(write_picture(picture, "png")).pixels.shape == (40, 24, 3)


def test_the_own_orientation_of_avif_overrules_xmp() -> None:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, "AVIF", xmp=XMP_6)
    picture = read_picture(buffer.getvalue())
    assert picture.pixels.shape == PIXELS.shape
    assert picture.xmp == XMP_6.replace(b'"6"', b'"1"')


def test_exif_decides_where_xmp_says_otherwise() -> None:
    picture = read_picture(jpeg(orientation_block(1), xmp=XMP_6))
    assert picture.pixels.shape == PIXELS.shape
    assert picture.xmp == XMP_6.replace(b'"6"', b'"1"')
    picture = read_picture(jpeg(orientation_block(8), xmp=XMP_6))
    assert np.array_equal(picture.pixels, np.rot90(read_picture(jpeg(b"")).pixels))


@pytest.mark.parametrize("name", ["exif", "APP1", "xmp"])
def test_metadata_in_texts_of_a_png_are_found(name: str) -> None:
    info = PngImagePlugin.PngInfo()
    data = XMP_6 if name == "xmp" else orientation_block(6)
    info.add_text(f"Raw profile type {name}", raw_profile(data, name), zip=name == "APP1")
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, "PNG", pnginfo=info)
    picture = read_picture(buffer.getvalue())
    assert np.array_equal(picture.pixels, np.rot90(PIXELS, -1))
    assert picture.left_out == ()
    assert opened(write_picture(picture, "png")).getexif().get(ORIENTATION, 1) == 1


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + kind + content


def test_metadata_of_jpeg_2000_are_found() -> None:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, "JPEG2000")
    data = buffer.getvalue()
    header, end = data.index(b"jp2h") - 4, data.index(b"jp2c") - 4
    profile = box(b"colr", b"\2\0\0" + b"profile")
    size = struct.unpack_from(">I", data, header)[0] + len(profile)
    xmp = bytes.fromhex("be7acfcb97a942e89c71999491e3afac") + XMP_6
    exif = b"JpgTiffExif->JP2" + exif_blocks.block(exif_blocks.MAKE, prefix=b"")
    whole = data[:header] + struct.pack(">I", size) + data[header + 4 : end] + profile
    whole += box(b"uuid", xmp) + box(b"uuid", exif) + data[end:]
    picture = read_picture(whole)
    assert np.array_equal(picture.pixels, np.rot90(PIXELS, -1))
    assert picture.icc_profile == b"profile"
    assert picture.exif == exif_blocks.block(exif_blocks.MAKE, prefix=b"")
    assert picture.xmp == XMP_6.replace(b'"6"', b'"1"')


@pytest.mark.parametrize("value", [1, 6])
def test_thumbnails_are_dropped(value: int) -> None:
    thumbnail = b"\xff\xd8 a thumbnail \xff\xd9"
    exif = exif_blocks.block(
        exif_blocks.MAKE, (ORIENTATION, 3, 1, value), exif_blocks.EXIF, thumbnail=thumbnail
    )
    assert thumbnail in exif
    picture = read_picture(jpeg(exif))
    assert picture.exif is not None
    assert thumbnail not in picture.exif
    assert exif_blocks.NOTE in picture.exif
    found = Image.Exif()
    found.load(picture.exif)
    assert found.get_ifd(1) == {}
    assert found.get_ifd(0x8769)[0x927C] == exif_blocks.NOTE


GAIN_MAP = (
    b'<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/">'
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description '
    b'xmlns:hdrgm="http://ns.adobe.com/hdr-gain-map/1.0/" hdrgm:Version="1.0" '
    b'xmlns:GCamera="http://ns.google.com/photos/1.0/camera/" GCamera:MotionPhoto="1" '
    b'xmlns:note="http://ns.adobe.com/xmp/note/" note:HasExtendedXMP="ABC" '
    b'xmlns:dc="http://purl.org/dc/elements/1.1/" dc:format="image/jpeg" '
    b'xmlns:Container="http://ns.google.com/photos/1.0/container/">'
    b"<Container:Directory><rdf:Seq><rdf:li>GainMap</rdf:li></rdf:Seq></Container:Directory>"
    b"<dc:title>\xc3\xa4 title</dc:title></rdf:Description></rdf:RDF></x:xmpmeta>"
    b'<?xpacket end="w"?>'
)


def test_xmp_does_not_point_to_what_is_left_out() -> None:
    picture = read_picture(jpeg(b"", xmp=GAIN_MAP))
    assert "gain maps" in picture.left_out[0]
    xmp = picture.xmp
    assert xmp is not None
    for gone in (b"hdrgm", b"MotionPhoto", b"HasExtendedXMP", b"GainMap", b"Container"):
        assert gone not in xmp
    for kept in (b'dc:format="image/jpeg"', b"\xc3\xa4 title", b"<?xpacket begin"):
        assert kept in xmp
    entities = b"<!DOCTYPE x [<!ENTITY a 'b'>]>" + GAIN_MAP
    namespace = b"http://ns.adobe.com/hdr-gain-map/1.0/ "
    comment = f"<!--{namespace.decode('utf-16-le')}-->"
    hidden = f"<!DOCTYPE x [<!ENTITY a 'b'>]><x>{comment}&a;</x>".encode("utf-16-le")
    assert namespace in hidden
    assert minidom.parseString(hidden).documentElement is not None  # what it is, expat sees
    for data in (
        entities + namespace, GAIN_MAP[:-60] + namespace, b"<a>" * 50_000 + namespace, hidden,
    ):  # fmt: skip
        picture = upright(Picture(PIXELS, xmp=data))
        assert picture.xmp is None
        assert "XMP" in picture.left_out[0]


@pytest.mark.parametrize("format_name", ["PNG", "JPEG", "BMP", "TIFF"])
@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "bmp"])
def test_resolution_travels(format_name: str, suffix: str) -> None:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, format_name, dpi=(300, 150))
    picture = read_picture(buffer.getvalue())
    found = opened(write_picture(picture, suffix)).info["dpi"]
    assert np.allclose([float(value) for value in found], (300, 150), rtol=0.001)


def test_resolution_of_the_file_counts_more_than_that_of_its_exif() -> None:
    exif = KINDS["a resolution"]
    picture = read_picture(jpeg(exif, dpi=(96, 96)))
    assert opened(write_picture(picture, "png")).info["dpi"] == pytest.approx((96, 96), rel=0.001)
    same = read_picture(jpeg(exif, dpi=(300, 300)))
    assert same.exif == exif
    assert read_picture(jpeg(exif_blocks.block(exif_blocks.MAKE))).exif == exif_blocks.block(
        exif_blocks.MAKE
    )


def test_a_thumbnail_goes_where_the_resolution_is_stored_anew() -> None:
    exif = exif_blocks.block(exif_blocks.MAKE, exif_blocks.EXIF, thumbnail=b"\xff\xd8 thumbnail")
    picture = read_picture(jpeg(exif, dpi=(96, 96)))
    assert picture.exif is not None
    assert b"thumbnail" not in picture.exif
    assert picture.exif.index(exif_blocks.NOTE) == exif.index(exif_blocks.NOTE)
    assert Exif(picture.exif).resolution() == (96, 96)


def png_with(*chunks: tuple[bytes, bytes]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).save(buffer, "PNG")
    data = buffer.getvalue()
    extra = b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return data[:33] + extra + data[33:]


SRGB_CHROMATICITIES = (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)


@pytest.mark.parametrize(
    ("chunks", "named"),
    [
        ([(b"gAMA", struct.pack(">I", 100_000))], "gamma of 1"),
        ([(b"gAMA", struct.pack(">I", 45_455))], None),
        ([(b"gAMA", struct.pack(">I", 100_000)), (b"sRGB", b"\0")], None),
        ([(b"cHRM", struct.pack(">8I", *SRGB_CHROMATICITIES))], None),
        ([(b"cHRM", struct.pack(">8I", *[30_000] * 8))], "cHRM"),
        ([(b"cICP", bytes([9, 16, 0, 1]))], "primaries 9, transfer 16"),
        ([(b"cICP", bytes([1, 13, 0, 1]))], None),
        ([(b"tEXt", b"Author\0me")], "texts .Author"),
    ],
)
def test_what_a_png_has_and_cannot_travel_is_named(
    chunks: list[tuple[bytes, bytes]], named: str | None
) -> None:
    left_out = read_picture(png_with(*chunks)).left_out
    if named is None:
        assert left_out == ()
    else:
        assert re.search(named, " ".join(left_out))


def test_profiles_that_pillow_does_not_read_are_named() -> None:
    buffer = io.BytesIO()
    Image.fromarray(PIXELS).quantize(16).save(buffer, "GIF")
    data = buffer.getvalue()
    at = 13 + 3 * (2 << (data[10] & 7))
    for name, words in ((b"ICCRGBG1012", "its ICC profile"), (b"XMP DataXMP", "its XMP")):
        extension = b"!\xff\x0b" + name + b"\x04data\0"
        assert read_picture(data[:at] + extension + data[at:]).left_out == (words,)
    assert read_picture(data).left_out == ()
    header = struct.pack("<IiiHHIIiiII", 124, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0) + bytes(16)
    pixel = b"\x01\x02\x03\0"
    for mark, left_out in (
        (b"DEBM", ("its ICC profile",)),
        (b"KNIL", ("its ICC profile",)),
        (b"BGRs", ()),
    ):
        whole = (header + mark).ljust(124, b"\0")
        start = b"BM" + struct.pack("<IHHI", 14 + len(whole) + 4, 0, 0, 14 + len(whole))
        picture = read_picture(start + whole + pixel)
        assert picture.pixels.tolist() == [[[3, 2, 1]]]
        assert picture.left_out == left_out


@pytest.mark.parametrize("suffix", ["bmp", "ppm"])
def test_formats_without_metadata_say_so(suffix: str) -> None:
    picture = Picture(PIXELS, b"profile", orientation_block(1), XMP_6)
    left_out = fitted(picture, suffix).left_out
    assert [what.split(" (")[0] for what in left_out] == ["ICC profile", "EXIF", "XMP"]


def test_xmp_that_png_cannot_hold_is_named_and_others_keep_it() -> None:
    xmp = b"<x>\xe4</x>"
    assert "not UTF-8" in fitted(Picture(PIXELS, xmp=xmp), "png").left_out[0]
    for suffix in ("jpg", "webp", "tif"):
        assert read_picture(write_picture(Picture(PIXELS, xmp=xmp), suffix)).xmp == xmp


@pytest.mark.parametrize("order", ["<", ">"])
def test_strip(order: str) -> None:
    position = (0x8825, 4, 1, [(1, 2, 2, b"N\0"), (2, 5, 3, b"position" * 3)])
    exif = exif_blocks.block(exif_blocks.MAKE, position, order=order)
    xmp = b'<x xmlns:exif="http://ns.adobe.com/exif/1.0/" exif:GPSLatitude="48N" exif:ISO="9"/>'
    picture = Picture(PIXELS, b"profile", exif, xmp)
    without = stripped(picture, {"gps"})
    assert without.exif is not None
    assert without.xmp is not None
    assert b"position" not in without.exif
    assert b"GPS" not in without.xmp
    assert b'exif:ISO="9"' in without.xmp
    found = Image.Exif()
    found.load(without.exif)
    assert found[0x010F] == "Maker"
    assert 0x8825 not in found
    assert stripped(picture, {"gps"}).icc_profile == b"profile"
    bare = stripped(picture, parse_strip("all"))
    assert (bare.icc_profile, bare.exif, bare.xmp) == (None, None, None)
    assert stripped(picture, parse_strip("EXIF, icc")).xmp == xmp
    with pytest.raises(InvalidInputError, match="'gpx' cannot be stripped; choose from exif"):
        parse_strip("exif,gpx")
    damaged = stripped(Picture(PIXELS, xmp=b"<GPS http://ns.adobe.com/exif/1.0/"), {"gps"})
    assert damaged.xmp is None
    assert "XMP" in damaged.left_out[0]


@pytest.mark.parametrize(("byte_order", "is_big"), [("<", False), (">", False), ("<", True)])
def test_descriptions_of_a_tiff_travel(byte_order: Any, is_big: bool) -> None:
    buffer = io.BytesIO()
    extra = [(315, "s", 0, "An artist", True), (0x9C9B, 1, 4, b"t\0i\0", True)]
    tifffile.imwrite(
        buffer, PIXELS, bigtiff=is_big, byteorder=byte_order, extratags=extra, metadata=None
    )
    picture = read_picture(buffer.getvalue())
    assert np.array_equal(picture.pixels, PIXELS)
    assert picture.left_out == ()
    found = opened(write_picture(picture, "jpg")).getexif()
    assert found[315] == "An artist"
    assert found[0x9C9B] == b"t\0i\0"


def test_hostile_xmp_takes_a_time_of_its_length() -> None:
    for hostile in (
        b"tiff:Orientation " * 20_000,
        b"tiff:Orientation" + b" " * 300_000,
        b"<tiff:Orientation " + b"a" * 300_000,
        b'xmlns:a="http://ns.adobe.com/tiff/1.0/" Orientation' * 5_000,
    ):
        assert upright(Picture(PIXELS, xmp=hostile)).xmp == hostile


def repeated(tags: range, size: int) -> bytes:
    """EXIF each of whose many values is the whole block."""
    many: list[exif_blocks.Tag] = [(tag, 7, size, bytes(4)) for tag in tags]
    return exif_blocks.block(*many, (0x8769, 4, 1, many), (0x8825, 4, 1, many), prefix=b"")


def test_values_that_repeat_one_another_are_not_multiplied() -> None:
    # Copied as often as they are named, they would fill 1 GB.
    size = 1_000_000
    exif = repeated(range(0x8400, 0x8600), size).ljust(size + 100, b"x")
    exif += exif_blocks.block(thumbnail=b"thumbnail")
    tracemalloc.start()
    try:
        for suffix in ("tif", "png"):
            picture = stripped(upright(Picture(PIXELS, exif=exif)), {"gps"})
            assert np.array_equal(read_picture(write_picture(picture, suffix)).pixels, PIXELS)
        block, _ = gathered(Directories(io.BytesIO(exif)), 0)
        assert len(block or b"") < 1 << 25
        assert tracemalloc.get_traced_memory()[1] < 1 << 28
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("suffix", "name", "size"),
    [("jpg", "icc_profile", 17_000_000), ("jpg", "xmp", 70_000), ("png", "icc_profile", 1_100_000)],
)
def test_metadata_too_large_for_a_format_are_named(suffix: str, name: str, size: int) -> None:
    data = np.random.default_rng(0).bytes(size)
    picture = Picture(PIXELS).but(**{name: data})
    assert f"{size:,} bytes" in fitted(picture, suffix).left_out[0]
    again = read_picture(write_picture(picture, suffix))
    assert getattr(again, name) is None


def test_long_lists_of_numbers_in_exif_cost_nothing() -> None:
    """A thumbnail of four million strips, whose places are bytes."""
    number = 4_000_000
    block = struct.pack("<4sI", b"II*\0", 8)
    block += struct.pack("<HI", 0, 14)  # no entries; the next directory
    block += struct.pack("<H", 2)
    for tag, at in ((0x0111, 100), (0x0117, 100)):
        block += struct.pack("<HHII", tag, 1, number, at)
    block = (block + bytes(4)).ljust(100, b"\0") + bytes(number)
    tracemalloc.start()
    try:
        upright(Picture(PIXELS, exif=block))
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_much_xmp_is_removed() -> None:
    """Each looked up among all others, these would take minutes."""
    namespace = "http://ns.adobe.com/hdr-gain-map/1.0/"
    xmp = f'<x xmlns:h="{namespace}">' + "<h:Version/>" * 100_000 + "</x>"
    picture = upright(Picture(PIXELS, xmp=xmp.encode()))
    assert "h:Version" not in (picture.xmp or b"").decode()


@pytest.mark.parametrize("kind", ["utf-16-le", "utf-16-be", "utf-32", "reference"])
def test_no_position_hides_in_xmp(kind: str) -> None:
    xmp = '<x xmlns:exif="http://ns.adobe.com/exif/1.0/"><d exif:GPSLatitude="48,12.5N"/></x>'
    data = xmp.replace("1.0/", "1.0&#47;").encode() if kind == "reference" else xmp.encode(kind)
    found = stripped(Picture(PIXELS, xmp=data), ["gps"])
    kept = (found.xmp or b"").replace(b"\0", b"")
    assert b"48,12.5N" not in kept
