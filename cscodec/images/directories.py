"""TIFF's directories of tags, which EXIF shares: found in bytes or in a file, and packed.

An offset counts from the beginning of the TIFF file or EXIF block. Nothing is trusted: what does
not lie within the file raises ``ValueError``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, NamedTuple

EXIF_DIRECTORY, GPS_DIRECTORY, INTEROPERABILITY_DIRECTORY = 0x8769, 0x8825, 0xA005
#: Entries that hold the offset of another directory.
DIRECTORIES = (EXIF_DIRECTORY, GPS_DIRECTORY, INTEROPERABILITY_DIRECTORY)

BYTE, ASCII, SHORT, LONG, RATIONAL, UNDEFINED = 1, 2, 3, 4, 5, 7
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_BIG_SIZES = {16: 8, 17: 8, 18: 8}
_MOST_ENTRIES = 0xFFFF  #: which a BigTIFF could exceed
_MOST_NUMBERS = 0xFFFF  #: of a value, which would take a hundred bytes each
_NUMBERS = {1: "B", 3: "H", 4: "I", 6: "b", 7: "B", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q"}
_NUMBERS |= {18: "Q", 5: "II", 10: "ii"}
_SIGNATURES = {b"II*\0": ("<", False), b"MM\0*": (">", False)}
_SIGNATURES |= {b"II+\0": ("<", True), b"MM\0+": (">", True)}


class Field(NamedTuple):
    """What a tag holds: ``number`` values of a ``kind``, as bytes in the file's order."""

    kind: int
    number: int
    data: bytes


class Entry(NamedTuple):
    """Where an entry and its value lie; a ``size`` of 0 is a kind that is not known."""

    at: int
    kind: int
    number: int
    place: int
    size: int


class Directories:
    """A TIFF file or EXIF block, for looking up directories.

    Raises
    ------
    ValueError
        If it does not begin as one.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.length = file.seek(0, 2)
        signature = self._bytes(0, 4)
        if signature not in _SIGNATURES:
            raise ValueError("it does not begin as TIFF does")
        self.order, self.is_big = _SIGNATURES[signature]
        (self.first,) = self._unpack("Q" if self.is_big else "I", 8 if self.is_big else 4)

    def directory(self, offset: int) -> tuple[dict[int, Entry], int]:
        """Return the entries of the directory at an offset, and where its last part is.

        That part, an offset (8 bytes in a BigTIFF, else 4), leads to the next directory or is 0.
        If a tag comes twice, the later one counts. Raises ``ValueError``.
        """
        width, counts = (20, "Q") if self.is_big else (12, "H")
        (number,) = self._unpack(counts, offset)
        if number > _MOST_ENTRIES:
            raise ValueError(f"a directory of {number} entries")
        start = offset + struct.calcsize(counts)
        table = self._bytes(start, number * width)
        entries = {}
        for at in range(0, number * width, width):
            fields = f"{self.order}HH{'Q' if self.is_big else 'I'}"
            tag, kind, count = struct.unpack_from(fields, table, at)
            room = 8 if self.is_big else 4
            place = start + at + width - room
            each = _SIZES.get(kind) or (_BIG_SIZES.get(kind, 0) if self.is_big else 0)
            size = each * count
            if size > room:
                (place,) = self._unpack("Q" if self.is_big else "I", place)
            entries[tag] = Entry(start + at, kind, count, place, size)
        return entries, start + number * width

    def page(self, index: int) -> int:
        """Return the offset of a page's directory. Raises ``ValueError`` if there is none."""
        offset = self.first
        for _ in range(index):
            offset = self.pointer(self.directory(offset)[1])
        if not offset:
            raise ValueError(f"there is no page {index}")
        return offset

    def num_pages(self, most: int) -> int:
        """Count pages, up to one more than ``most`` and to the first that comes again."""
        seen: set[int] = set()
        offset = self.first
        with suppress(ValueError):
            while offset and offset not in seen and len(seen) <= most:
                seen.add(offset)
                offset = self.pointer(self.directory(offset)[1])
        return len(seen)

    def pointer(self, place: int) -> int:
        """Return the offset that is stored at a place."""
        return int(self._unpack("Q" if self.is_big else "I", place)[0])

    def check(self, entry: Entry) -> None:
        """Raise ``ValueError`` if a value is not whole, or of an unknown kind."""
        if not entry.size:
            raise ValueError(f"a value is of the unknown kind {entry.kind}, or empty")
        if entry.place + entry.size > self.length:
            raise ValueError(f"a value at {entry.place} is not whole")

    def field(self, entry: Entry) -> Field:
        """Return a tag's value; raises what :meth:`check` raises."""
        self.check(entry)
        return Field(entry.kind, entry.number, self._bytes(entry.place, entry.size))

    def numbers(self, entry: Entry) -> tuple[int, ...]:
        """Return a tag's value as integers, two for a ratio; raises ``ValueError``."""
        each = _NUMBERS.get(entry.kind, "")
        if entry.number > _MOST_NUMBERS:
            raise ValueError(f"a value of {entry.number} numbers")
        data = self.field(entry).data
        if not each:
            return ()
        return struct.unpack(f"{self.order}{len(each) * entry.number}{each[0]}", data)

    def _unpack(self, fields: str, offset: int) -> tuple[int, ...]:
        fields = self.order + fields
        return struct.unpack(fields, self._bytes(offset, struct.calcsize(fields)))

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset + size > self.length:
            raise ValueError(f"{size} bytes at {offset} are beyond its end at {self.length}")
        self._file.seek(offset)
        return self._file.read(size)


#: Fields by tag; directories within directories by the tag that leads to them.
Fields = Mapping[int, "Field | Fields"]


def pack_directory(order: str, fields: Fields, at: int) -> bytes:
    """Return a directory and its values as bytes that will begin at offset ``at``, an even one."""
    tail_at = at + 2 + 12 * len(fields) + 4
    table, tail = struct.pack(f"{order}H", len(fields)), bytearray()
    for tag in sorted(fields):
        field = fields[tag]
        place = tail_at + len(tail)
        if isinstance(field, Field):
            kind, count, data = field
        else:
            kind, count, data = LONG, 1, pack_directory(order, field, place)
        if len(data) > 4 or not isinstance(field, Field):
            tail += data + bytes(len(data) % 2)
            data = struct.pack(f"{order}I", place)
        table += struct.pack(f"{order}HHI", tag, kind, count) + data.ljust(4, b"\0")
    return table + bytes(4) + bytes(tail)


def pack_block(order: str, fields: Fields) -> bytes:
    """Return a whole EXIF block, without the prefix that JPEG wants."""
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(f"{order}I", 8) + pack_directory(order, fields, 8)
