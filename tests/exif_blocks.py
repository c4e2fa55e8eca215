"""EXIF made by hand, of every kind that has been met or could be."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

#: (tag, kind, count, value): the value is a number, bytes, or for a directory a list of these.
Tag = tuple[int, int, int, Any]
PREFIX = b"Exif\0\0"
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 10: 8}


def directory(tags: Sequence[Tag], at: int, order: str = "<", next_at: int = 0) -> bytes:
    table = struct.pack(f"{order}H", len(tags))
    tail = bytearray()
    tail_at = at + 2 + 12 * len(tags) + 4
    for tag, kind, count, value in tags:
        if isinstance(value, list):
            data = struct.pack(f"{order}I", tail_at + len(tail))
            tail += directory(value, tail_at + len(tail), order)
        elif isinstance(value, bytes):
            data = value.ljust(4, b"\0")
            if len(value) > 4:
                data = struct.pack(f"{order}I", tail_at + len(tail))
                tail += value + bytes(len(value) % 2)
        else:
            data = struct.pack(order + {1: "B", 3: "H", 4: "I"}[kind], value).ljust(4, b"\0")
        table += struct.pack(f"{order}HHI", tag, kind, count) + data
    return table + struct.pack(f"{order}I", next_at) + bytes(tail)


def block(*tags: Tag, order: str = "<", thumbnail: bytes = b"", prefix: bytes = PREFIX) -> bytes:
    """An EXIF block; with a thumbnail, it has a second directory."""
    magic = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8)
    first = directory(tags, 8, order)
    if thumbnail:
        at = 8 + len(first)
        first = directory(tags, 8, order, at)
        second = [(0x0112, 3, 1, 6), (0x0201, 4, 1, at + 42), (0x0202, 4, 1, len(thumbnail))]
        first += directory(second, at, order) + thumbnail
    return prefix + magic + first


def with_other_exif(data: bytes, old: bytes, new: bytes) -> bytes:
    """A .csc file with other EXIF of the same length, which no encoder of ours would store."""

    def chunk_end(payload: bytes) -> bytes:
        return payload + zlib.crc32(b"e" + payload).to_bytes(4, "big")

    assert data.count(chunk_end(old)) == 1
    return data.replace(chunk_end(old), chunk_end(new))


MAKE: Tag = (0x010F, 2, 6, b"Maker\0")
EXPOSURE = struct.pack("<II", 1, 50)
NOTE = b"MakerNote that points to places\0"
EXIF: Tag = (
    0x8769,
    4,
    1,
    [
        (0x829A, 5, 1, EXPOSURE),
        (0x9003, 2, 20, b"2024:05:06 07:08:09\0"),
        (0x927C, 7, len(NOTE), NOTE),
        (0xA002, 4, 1, 4032),
        (0xA003, 3, 1, 3024),
    ],
)
GPS: Tag = (0x8825, 4, 1, [(1, 2, 2, b"N\0"), (2, 5, 3, struct.pack("<6I", 48, 1, 8, 1, 15, 1))])

#: Tags that say how a TIFF is stored, with values that are not so.
STRUCTURAL: dict[str, Tag] = {
    "NewSubfileType": (254, 4, 1, 1),
    "ImageWidth": (256, 4, 1, 64),
    "ImageWidth of a phone": (256, 3, 1, 4032),
    "ImageLength": (257, 4, 1, 9999),
    "BitsPerSample": (258, 3, 3, struct.pack("<3H", 16, 16, 16)),
    "Compression": (259, 3, 1, 6),
    "PhotometricInterpretation 0": (262, 3, 1, 0),
    "PhotometricInterpretation 1": (262, 3, 1, 1),
    "PhotometricInterpretation 6": (262, 3, 1, 6),
    "FillOrder": (266, 3, 1, 2),
    "StripOffsets": (273, 4, 1, 8),
    "SamplesPerPixel": (277, 3, 1, 1),
    "RowsPerStrip": (278, 4, 1, 1),
    "StripByteCounts": (279, 4, 1, 1),
    "PlanarConfiguration": (284, 3, 1, 2),
    "Predictor": (317, 3, 1, 3),
    "ColorMap": (320, 3, 6, struct.pack("<6H", *range(6))),
    "TileWidth": (322, 4, 1, 16),
    "TileOffsets": (324, 4, 1, 8),
    "SubIFDs": (330, 4, 1, 8),
    "ExtraSamples": (338, 3, 1, 0),
    "SampleFormat": (339, 3, 1, 3),
    "JPEGTables": (347, 7, 8, b"\xff\xd8tables"),
    "YCbCrSubSampling": (530, 3, 2, struct.pack("<2H", 2, 2)),
    "YCbCrPositioning": (531, 3, 1, 1),
    "XMP": (700, 1, 5, b"<x/>\0"),
    "ICC profile": (34675, 7, 6, b"profil"),
    "ImageDepth": (32997, 4, 1, 7),
}
#: Descriptions and programs by which tifffile takes a file for a stack of another program.
PROGRAMS_OWN: dict[str, Tag] = {
    name: (270, 2, len(text) + 1, text + b"\0")
    for name, text in {
        "tifffile's description": b'{"shape": [7, 64, 64]}',
        "tifffile's old description": b"shape=(7, 64, 64)",
        "ImageJ's description": b"ImageJ=1.11a\nimages=7\nslices=7",
        "OME's description": b'<?xml version="1.0"?><OME><Image/></OME>',
        "Aperio's description": b"Aperio Image Library v1\n64x64",
        "ScanImage's description": b"state.configPath='x'\nscanimage.SI.x=1",
        "MetaSeries' description": b"<MetaData></MetaData>",
    }.items()
} | {
    name: (305, 2, len(name) + 1, name.encode() + b"\0")
    for name in ("MetaSeries", "SI.2023", "Philips DP v1.0", "PerkinElmer-QPI", "IndicaLabs x")
}
SOUND: dict[str, bytes] = {
    "nothing": block(),
    "a maker": block(MAKE),
    "a phone's": block(MAKE, EXIF, GPS, thumbnail=b"\xff\xd8thumbnail\xff\xd9"),
    "a phone's without prefix": block(MAKE, EXIF, GPS, prefix=b""),
    "big-endian": block(MAKE, (0x8769, 4, 1, [(0xA002, 4, 1, 9)]), order=">"),
    "a ratio of 0/0": block(MAKE, (0x8769, 4, 1, [(0x829A, 5, 1, bytes(8))])),
    "a resolution of 0/0": block(MAKE, (0x011A, 5, 1, bytes(8)), (0x011B, 5, 1, bytes(8))),
    "a resolution": block(
        MAKE,
        (0x011A, 5, 1, struct.pack("<II", 300, 1)),
        (0x011B, 5, 1, struct.pack("<II", 300, 1)),
        (0x0128, 3, 1, 2),
    ),
    "text that is not ASCII": block((0x010E, 2, 6, b"\xff\xfe\xc3(\xa0\0"), MAKE),
    "text without an end": block((0x010E, 2, 6, b"abcdef"), MAKE),
    "a description that is no text": block((0x010E, 3, 1, 7), MAKE),
    "a date that is no text": block(MAKE, (0x0132, 4, 1, 7)),
} | {name: block(*sorted([MAKE, tag])) for name, tag in (STRUCTURAL | PROGRAMS_OWN).items()}
DAMAGED: dict[str, bytes] = {
    "empty": b"Exif\0\0",
    "a beginning": b"Exif\0\0II*\0",
    "junk": b"junk" * 10,
    "a directory beyond the end": b"Exif\0\0II*\0\xff\xff\xff\xff",
    "a directory that is cut short": block(MAKE, EXIF)[:40],
    "a value beyond the end": block(MAKE, (0x0131, 2, 500, struct.pack("<I", 90_000))),
    "a value of an unknown kind": block(MAKE, (0x0131, 99, 1, b"abcd")),
    "a value of no kind": block(MAKE, (0x0131, 0, 1, b"abcd")),
    "a value of 4 billion": block(MAKE, (0x0131, 5, 0xFFFFFFFF, b"abcd")),
    "a directory within itself": block(MAKE, (0x8769, 4, 1, 8)),
    "an EXIF directory beyond the end": block(MAKE, (0x8769, 4, 1, 70_000)),
    "an EXIF directory that is a text": block(MAKE, (0x8769, 2, 5, b"text\0")),
    "an EXIF directory of nothing": block(MAKE, (0x8769, 4, 0, b"")),
    "a value beyond the end, in a directory": block(
        MAKE, (0x8769, 4, 1, [(0x9003, 2, 500, struct.pack("<I", 90_000))])
    ),
    "a second directory beyond the end": PREFIX
    + b"II*\0\x08\0\0\0"
    + directory([MAKE], 8, "<", 99_999),
    "a second directory that is the first": PREFIX
    + b"II*\0\x08\0\0\0"
    + directory([MAKE], 8, "<", 8),
}
