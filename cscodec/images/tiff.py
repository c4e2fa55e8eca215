"""TIFF files, written so that metadata can never decide what the picture is.

The EXIF block, which is a TIFF without pixels, becomes the beginning of the file, so that all its
offsets, those inside makers' notes too, stay true. Strips follow, and at the end a new first
directory: our own tags, and those of the EXIF that are on the list of descriptive ones.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from typing import IO

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
_MOST_BYTES = 1 << 32


class FileTooLargeError(ValueError):
    """A file that would be larger than its format allows."""


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
    FileTooLargeError, struct.error
        If it would be larger than 4 GB.
    """
    file = io.BytesIO()
    writer = TiffWriter(file, pixels.shape, exif)
    writer.write(pixels)
    writer.finish(xmp, icc)
    return file.getvalue()


class TiffWriter:
    """A TIFF file that is written from the top down.

    Parameters
    ----------
    file : file object
        Empty; it can seek.
    shape : (H, W) or (H, W, 2..4)
        Of the whole picture.
    """

    def __init__(self, file: IO[bytes], shape: tuple[int, ...], exif: Exif | None) -> None:
        self._file = file
        self._exif = exif or Exif.of({})
        self._shape = shape
        self._channels = 1 if len(shape) == 2 else shape[2]
        self._rows = max(1, _STRIP_BYTES // (shape[1] * self._channels))  # of a strip
        self._waiting: list[Pixels] = []
        self._offsets: list[int] = []
        self._sizes: list[int] = []
        self._file.write(bytes(self._exif.block))

    def write(self, pixels: Pixels) -> None:
        """Write the next rows; those that fill no strip wait.

        Raises
        ------
        FileTooLargeError
            If the file would be larger than 4 GB.
        """
        pixels = np.concatenate([*self._waiting, pixels]) if self._waiting else pixels
        whole = len(pixels) - len(pixels) % self._rows
        for top in range(0, whole, self._rows):
            self._write_strip(pixels[top : top + self._rows])
        self._waiting = [pixels[whole:]] if whole < len(pixels) else []

    def finish(self, xmp: bytes | None, icc: bytes | None) -> None:
        """Write what is left, and the directory.

        Raises
        ------
        FileTooLargeError, struct.error
            If the file would be larger than 4 GB.
        """
        for pixels in self._waiting:
            self._write_strip(pixels)
        order = self._exif.order
        fields = carried_fields(self._exif)[0] | self._structure()
        if xmp:
            fields[700] = Field(BYTE, len(xmp), xmp)
        if icc:
            fields[34675] = Field(UNDEFINED, len(icc), icc)
        file = self._file
        file.write(bytes(file.tell() % 2))
        place = file.tell()
        directory = bytes(pack_directory(order, fields, place))
        if place + len(directory) >= _MOST_BYTES:
            raise FileTooLargeError("TIFF files end at 4 GB")
        file.write(directory)
        file.seek(4)
        file.write(struct.pack(f"{order}I", place))

    def _write_strip(self, pixels: Pixels) -> None:
        strip = zlib.compress(_differences(pixels).tobytes(), 6)
        self._offsets.append(self._file.tell())
        self._sizes.append(len(strip))
        if self._offsets[-1] + len(strip) >= _MOST_BYTES:
            raise FileTooLargeError("TIFF files end at 4 GB")
        self._file.write(strip)

    def _structure(self) -> dict[int, Field]:
        """Fields that say how the pixels are stored."""
        order = self._exif.order

        def shorts(*values: int) -> Field:
            return Field(SHORT, len(values), struct.pack(f"{order}{len(values)}H", *values))

        def longs(*values: int) -> Field:
            return Field(LONG, len(values), struct.pack(f"{order}{len(values)}I", *values))

        fields = {
            256: longs(self._shape[1]),
            257: longs(self._shape[0]),
            258: shorts(*[8] * self._channels),
            259: shorts(8),  # deflate
            262: shorts(2 if self._channels >= 3 else 1),
            273: longs(*self._offsets),
            277: shorts(self._channels),
            278: longs(self._rows),
            279: longs(*self._sizes),
            317: shorts(2),  # horizontal differences
        }
        if self._channels in (2, 4):
            fields[338] = shorts(2)  # alpha, colours not multiplied by it
        return fields


def _differences(pixels: Pixels) -> Pixels:
    differences = pixels.copy()
    differences[:, 1:] -= pixels[:, :-1]
    return np.ascontiguousarray(differences)
