"""TIFF files, written so that metadata can never decide what the picture is.

The EXIF block, which is a TIFF without pixels, becomes the beginning of the file, so that all its
offsets, those inside makers' notes too, stay true. Strips follow, and at the end a new first
directory: our own tags, and those of the EXIF that are on the list of descriptive ones.
"""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np

from cscodec.arrays import Pixels
from cscodec.images.directories import BYTE, LONG, SHORT, UNDEFINED, Field, pack_directory
from cscodec.images.exif import DESCRIPTIVE, Exif

_DESCRIPTION = 0x010E
#: Descriptions by which programs recognise stacks of their own: the size in them is the source's.
_PROGRAMS_OWN = re.compile(
    rb"^\s*([{<\[#]|shape=|ImageJ=|Aperio |state\.|SCANIMAGE|EPICS )|OME>|scanimage\.SI"
)
_SOFTWARE = 0x0131
_PROGRAMS = re.compile(
    rb"^(MetaSeries|SI\.|TVX TIFF|IndicaLabs|PerkinElmer|Philips|ISS |EPICS |ScanOutput)|Ventana"
)
_STRIP_BYTES = 1 << 20


def carried_fields(exif: Exif) -> tuple[dict[int, Field], list[int]]:
    """Return the fields of an EXIF's first directory that a TIFF carries, and what it does not.

    The second are the numbers of the tags that are left out, but for those that every TIFF states
    for itself.
    """
    whole = exif.fields()
    fields = {
        tag: field for tag, field in whole.items() if tag in DESCRIPTIVE and _is_free(tag, field)
    }
    left_out = [
        tag for tag in exif.first if tag not in fields and (tag in DESCRIPTIVE or tag > 0x0214)
    ]
    return fields, left_out


def _is_free(tag: int, field: Field) -> bool:
    """Whether a field is free to travel, so that no reader takes the file for a program's own."""
    if tag == _DESCRIPTION:
        return _PROGRAMS_OWN.search(field.data) is None
    return tag != _SOFTWARE or _PROGRAMS.search(field.data) is None


def tiff_file(pixels: Pixels, exif: Exif | None, xmp: bytes | None, icc: bytes | None) -> bytes:
    """Return (H, W) or (H, W, 2..4) pixels as a TIFF file, deflated with horizontal differences.

    Raises
    ------
    ValueError, struct.error
        If it would be larger than 4 GB.
    """
    exif = exif or Exif.of({})
    order = exif.order
    fields = carried_fields(exif)[0]
    file = exif.block
    offsets, sizes = [], []
    height, width = pixels.shape[:2]
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    rows = max(1, _STRIP_BYTES // (width * channels))
    for top in range(0, height, rows):
        strip = zlib.compress(_differences(pixels[top : top + rows]).tobytes(), 6)
        offsets.append(len(file))
        sizes.append(len(strip))
        file += strip
    file += bytes(len(file) % 2)

    def shorts(*values: int) -> Field:
        return Field(SHORT, len(values), struct.pack(f"{order}{len(values)}H", *values))

    def longs(*values: int) -> Field:
        return Field(LONG, len(values), struct.pack(f"{order}{len(values)}I", *values))

    fields |= {
        256: longs(width),
        257: longs(height),
        258: shorts(*[8] * channels),
        259: shorts(8),  # deflate
        262: shorts(2 if channels >= 3 else 1),
        273: longs(*offsets),
        277: shorts(channels),
        278: longs(rows),
        279: longs(*sizes),
        317: shorts(2),  # horizontal differences
    }
    if channels in (2, 4):
        fields[338] = shorts(2)  # alpha, colours not multiplied by it
    if xmp:
        fields[700] = Field(BYTE, len(xmp), xmp)
    if icc:
        fields[34675] = Field(UNDEFINED, len(icc), icc)
    struct.pack_into(f"{order}I", file, 4, len(file))
    file += pack_directory(order, fields, len(file))
    if len(file) >= 1 << 32:
        raise ValueError("TIFF files end at 4 GB")
    return bytes(file)


def _differences(pixels: Pixels) -> Pixels:
    differences = pixels.copy()
    differences[:, 1:] -= pixels[:, :-1]
    return np.ascontiguousarray(differences)
