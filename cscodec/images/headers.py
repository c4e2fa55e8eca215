"""What picture files say of their samples, in headers that Pillow does not pass on.

Pillow cuts samples to 8 bits silently, takes signed ones for unsigned, and drops those that it has
no name for. Here is said what a file holds, wherever its header is; what cannot be made out is
refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import IO

from PIL import Image

from cscodec.images.boxes import boxes, boxes_within, content
from cscodec.images.directories import Directories

_BITS, _PHOTOMETRIC, _SAMPLES, _SAMPLE_FORMAT, _EXTRA = 258, 262, 277, 339, 338
_NEW_SUBFILE, _INK_SET = 254, 332
_TIFF_TAGS = (_BITS, _PHOTOMETRIC, _SAMPLES, _SAMPLE_FORMAT, _EXTRA, _NEW_SUBFILE, _INK_SET)
_SAMPLE_FORMATS = {2: "signed", 3: "floating-point", 5: "complex", 6: "complex floating-point"}
_COLOURS_OF = {0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3, 8: 3, 9: 3, 10: 3}
_COMMENT, _BLOCK_BYTES = re.compile(rb"#[^\r\n]*"), 1 << 16
_MARKER = re.compile(rb"\xff+([^\x00\xd0-\xd7\xff])")  #: of JPEG: neither a sample nor a restart
_MOST_SCANS, _MOST_EXIF_BLOCKS, _MOST_LOOKED_AT = 500, 100, 1 << 28
_CODESTREAM = b"\xff\x4f\xff\x51"  #: JPEG 2000's first two markers, SOC and SIZ
IMAGE_PROPERTIES = ((b"meta", 4), (b"iprp", 0), (b"ipco", 0))


class Unsupported(Exception):
    """A file that cannot be read whole; the message says why and what to do."""


def bits_per_sample(kind: str, file: IO[bytes], page: int = 0) -> int:
    """Return the bits per sample that a file of a kind (Pillow's name) holds.

    Raises
    ------
    Unsupported
        If there are samples that would not arrive.
    ValueError
        If the header that says so is not found or makes no sense.
    """
    if kind == "TIFF":
        return _tiff_bits(file, page)
    find = _DEPTHS.get(kind)
    return 8 if find is None else find(file)


def check_segments(file: IO[bytes]) -> None:
    """Refuse JPEG files of so many scans or EXIF blocks that reading them would take for ever.

    Raises
    ------
    Unsupported
        If there are more than any camera or program writes.
    """
    file.seek(0)
    data = file.read(_MOST_LOOKED_AT)
    position, scans, blocks = 2, 0, 0
    while (found := _MARKER.search(data, position)) and found[1] != b"\xd9":
        position = found.end()
        if found[1] in b"\x01\xd8":  # which have no length
            continue
        scans += found[1] == b"\xda"
        blocks += found[1] == b"\xe1" and data[position + 2 : position + 6] == b"Exif"
        if scans > _MOST_SCANS or blocks > _MOST_EXIF_BLOCKS:
            raise Unsupported(
                f"a JPEG file of more than {_MOST_SCANS} scans or {_MOST_EXIF_BLOCKS} blocks of "
                "EXIF takes too long to read; save it anew first"
            )
        position += max(2, int.from_bytes(data[position : position + 2], "big"))


def _tiff_bits(file: IO[bytes], page: int) -> int:
    directories = Directories(file)
    entries, _ = directories.directory(directories.page(page))
    found = {tag: directories.numbers(entries[tag]) for tag in _TIFF_TAGS if tag in entries}
    tags = {tag: numbers for tag, numbers in found.items() if numbers}
    for sample_format in tags.get(_SAMPLE_FORMAT, ()):
        if sample_format in _SAMPLE_FORMATS:
            bits = max(tags.get(_BITS, (1,)))
            raise Unsupported(
                f"{_SAMPLE_FORMATS[sample_format]} samples ({bits} bits per sample) have no fixed "
                "range; convert it to 8 bits per sample, unsigned, first"
            )
    (photometric,) = tags.get(_PHOTOMETRIC, (1,))[:1] or (1,)
    (samples,) = tags.get(_SAMPLES, (1,))[:1] or (1,)
    if photometric not in _COLOURS_OF:
        raise Unsupported(
            f"its samples are of a kind that is not known (photometric interpretation "
            f"{photometric}, such as raw sensor data); convert it to RGB first"
        )
    extra = samples - _COLOURS_OF[photometric]
    meaning = tags.get(_EXTRA, ())
    if extra > 1 or (extra == 1 and meaning[:1] not in ((1,), (2,))) or extra < 0:
        raise Unsupported(
            f"{samples} samples per pixel, where gray or colours with or without alpha have 1 to 4 "
            "and say which is alpha; write the others to files of their own first"
        )
    if tags.get(_INK_SET, (1,))[:1] == (2,) and photometric == 5:
        raise Unsupported("its inks are not CMYK; convert it to sRGB first")
    if page == 0 and tags.get(_NEW_SUBFILE, (0,))[0] & 1:
        raise Unsupported(
            "its first page is a thumbnail of a picture that is stored elsewhere in it, as in raw "
            "files; convert it with the program it is made for"
        )
    return max(tags.get(_BITS, (1,)))


def _png_bits(file: IO[bytes]) -> int:
    file.seek(8)
    chunk = file.read(17)
    if chunk[4:8] != b"IHDR" or len(chunk) < 17:
        raise ValueError("its first chunk is not IHDR")
    return chunk[16]


def png_chunks(file: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and content of the small chunks before a PNG's pixels."""
    at = 8
    while True:
        file.seek(at)
        header = file.read(8)
        if len(header) < 8 or header[4:] == b"IDAT":
            return
        (length,) = struct.unpack_from(">I", header)
        yield header[4:], file.read(length) if length <= 256 else b""
        at += 12 + length


def _portable_bits(file: IO[bytes]) -> int:
    """Of PBM, PGM and PPM: the maximum is the header's fourth word, comments not counted."""
    file.seek(0)
    words = _words(file)
    magic = next(words, b"")
    if magic in (b"P1", b"P4"):
        return 1
    if magic not in (b"P2", b"P3", b"P5", b"P6", b"Py", b"PyP", b"PyRGBA", b"PyCMYK"):
        return 8 if magic in (b"PF", b"Pf") else _unknown(f"it begins with {magic[:8]!r}")
    fields = list(islice(words, 3))
    if len(fields) < 3:
        return _unknown("its header is cut short")
    return int(fields[2]).bit_length()


def _unknown(reason: str) -> int:
    raise ValueError(f"the depth of its samples is not known: {reason}")


def check_one_picture(image: Image.Image, bits: int, file: IO[bytes]) -> None:
    """Refuse a file of several PBM, PGM or PPM pictures, of which Pillow opens the first.

    Raises
    ------
    Unsupported
        If another begins where the first, not loaded yet, ends.
    """
    file.seek(0)
    bits_per_pixel = {b"P4": 1, b"P5": 8, b"P6": 24}.get(file.read(2))
    tiles = getattr(image, "tile", [])
    if image.format != "PPM" or bits_per_pixel is None or len(tiles) != 1:
        return
    width, height = image.size
    row = (width * bits_per_pixel + 7) // 8 * (2 if bits > 8 else 1)
    file.seek(tiles[0].offset + height * row)
    if re.match(rb"P[1-6]\s", file.read(3)):
        raise Unsupported("several pictures, one after the other; write each to a file first")


def _words(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the words of a text, without comments, which go from # to the end of a line."""
    rest = b""  # the beginning of a word or a comment that goes on
    while block := file.read(_BLOCK_BYTES):
        text = rest + block
        words = _COMMENT.sub(b" ", text).split()
        if b"#" in re.split(rb"[\r\n]", text)[-1]:
            rest = b"#"
        else:
            rest = b"" if text[-1:].isspace() else words.pop()[:99]
        yield from words
    if rest not in (b"", b"#"):
        yield rest


def _jpeg_2000_bits(file: IO[bytes]) -> int:
    depths, signed = jpeg_2000_depths(file)
    if signed:
        raise Unsupported("signed samples have no fixed range; convert it to 8 bits first")
    if len(depths) > 4:
        raise Unsupported(
            f"{len(depths)} samples per pixel, where gray or colours with or without alpha have 1 "
            "to 4; write the others to files of their own first"
        )
    return max(depths)


def jpeg_2000_depths(file: IO[bytes]) -> tuple[list[int], bool]:
    """Return the bits of each component, and whether there are signed ones."""
    file.seek(0)
    at = 0 if file.read(4) == _CODESTREAM else None
    if at is None:
        at = next((box.start for box in boxes(file) if box.kind == b"jp2c"), None)
    if at is None:
        raise ValueError("its codestream is not found")
    file.seek(at)
    if file.read(4) != _CODESTREAM:
        raise ValueError("its codestream does not begin as one")
    size = file.read(38)
    (components,) = struct.unpack_from(">H", size, 36) if len(size) == 38 else (0,)
    found = file.read(3 * components)[::3]
    if not components or len(found) < components:
        raise ValueError("its header is cut short")
    return [(depth & 0x7F) + 1 for depth in found], any(depth & 0x80 for depth in found)


def _avif_bits(file: IO[bytes]) -> int:
    depths = [
        (12 if data[2] & 0x20 else 10) if data[2] & 0x40 else 8
        for box in boxes_within(file, *IMAGE_PROPERTIES)
        if box.kind == b"av1C" and len(data := content(file, box)) > 2
    ]
    return max(depths) if depths else _unknown("no description of its coding is found")


_DEPTHS: Mapping[str, Callable[[IO[bytes]], int]] = {
    "PNG": _png_bits,
    "PPM": _portable_bits,
    "JPEG2000": _jpeg_2000_bits,
    "AVIF": _avif_bits,
}


def colour_description(image: Image.Image, file: IO[bytes]) -> str | None:
    """Name a description of colours that only the file's format can carry, and is not sRGB.

    That is the gamma of PNG, the code points of PNG and AVIF, and the linear light of QOI. None
    if there is none, or an ICC profile says it better.
    """
    if image.info.get("icc_profile"):
        return None
    if image.format == "PNG":
        chunks = dict(png_chunks(file))
        if len(code := chunks.get(b"cICP", b"")) == 4:
            return _code_points("cICP", code[0], code[1])
        gamma = image.info.get("gamma", 1 / 2.2)
        if b"sRGB" not in chunks and abs(gamma * 2.2 - 1) > 0.02:
            return f"the gamma of {gamma:.5g}"
        if b"sRGB" not in chunks and (b"cHRM" in chunks and not _are_srgb(chunks[b"cHRM"])):
            return "the chromaticities (cHRM)"
    if image.format in ("AVIF", "HEIF"):
        for box in boxes_within(file, *IMAGE_PROPERTIES):
            data = content(file, box) if box.kind == b"colr" else b""
            if data[:4] == b"nclx" and len(data) >= 8:
                return _code_points("nclx", *struct.unpack_from(">HH", data, 4))
    if image.format == "QOI":
        file.seek(13)
        if file.read(1) == b"\1":
            return "its linear light"
    return None


def _code_points(name: str, primaries: int, transfer: int) -> str | None:
    if primaries in (1, 2) and transfer in (1, 2, 6, 13, 14, 15):  # near to sRGB, or not said
        return None
    return f"its colour space ({name}: primaries {primaries}, transfer {transfer})"


def _are_srgb(chromaticities: bytes) -> bool:
    expected = (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
    if len(chromaticities) != 32:
        return False
    found = struct.unpack(">8I", chromaticities)
    return all(abs(a - b) <= 200 for a, b in zip(expected, found, strict=True))


#: UUIDs of the boxes of JPEG 2000 that hold EXIF and XMP.
_EXIF_BOX, _XMP_BOX = b"JpgTiffExif->JP2", bytes.fromhex("be7acfcb97a942e89c71999491e3afac")


def jpeg_2000_metadata(file: IO[bytes]) -> dict[str, bytes]:
    """Return the ICC profile, EXIF and XMP of a JPEG 2000 file, which Pillow does not look for."""
    found: dict[str, bytes] = {}
    for box in boxes_within(file, (b"jp2h", 0)):
        if box.kind == b"colr" and (data := content(file, box))[:1] in (b"\2", b"\3"):
            found.setdefault("icc_profile", data[3:])
    for box in boxes(file):
        if box.kind == b"uuid":
            with suppress(KeyError):
                data = content(file, box)
                names = {_EXIF_BOX: "exif", _XMP_BOX: "xmp"}
                found.setdefault(names[data[:16]], data[16:])
    return found
