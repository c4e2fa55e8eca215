"""EXIF, changed where it stands.

Makers' notes point to places of the block by offsets that only their maker knows: so nothing in it
is moved. Values are changed in place; a directory with other entries is added at the end.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from fractions import Fraction

from cscodec.images.directories import (
    DIRECTORIES,
    EXIF_DIRECTORY,
    GPS_DIRECTORY,
    RATIONAL,
    SHORT,
    Directories,
    Entry,
    Field,
    Fields,
    pack_block,
    pack_directory,
)

PREFIX = b"Exif\0\0"
ORIENTATION = 0x0112
X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT = 0x011A, 0x011B, 0x0128
_INCH, _CENTIMETRE = 2, 3
#: Tags of the first directory that describe the picture and not its storage, and so may travel
#: from TIFF and into it: document's name, description, make, model, resolution, software, date,
#: artist, host, rating, copyright, IPTC, what Windows adds, the EXIF and the GPS directory.
DESCRIPTIVE = frozenset(
    (0x010D, 0x010E, 0x010F, 0x0110, X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT, 0x0131, 0x0132)
) | {0x013B, 0x013C, 0x4746, 0x4749, 0x8298, 0x83BB, EXIF_DIRECTORY, GPS_DIRECTORY}
DESCRIPTIVE |= frozenset(range(0x9C9B, 0x9CA0))
_RESOLUTION_TAGS = {X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT, ORIENTATION}
#: Widths and heights, of the first directory and of the EXIF directory.
_WIDTHS, _HEIGHTS = (0x0100, 0xA002), (0x0101, 0xA003)
_MOST_BYTES = 1 << 24  #: of EXIF gathered from a TIFF, whose directories may repeat one value


class Exif:
    """An EXIF block that can be changed.

    Parameters
    ----------
    data : bytes
        With or without the prefix ``Exif\\0\\0``; :meth:`tobytes` gives it back as it came.

    Raises
    ------
    ValueError
        If it is no EXIF, or its first directory is not whole.
    """

    def __init__(self, data: bytes) -> None:
        self._prefix = PREFIX if data.startswith(PREFIX) else b""
        self.block = bytearray(data[len(self._prefix) :])
        self._parse()
        if self.directories.is_big:
            raise ValueError("it is a BigTIFF")

    @classmethod
    def of(cls, fields: Fields) -> Exif:
        """Make a block of fields, little-endian."""
        return cls(pack_block("<", fields))

    def tobytes(self) -> bytes:
        """Return the block as it is now."""
        return self._prefix + bytes(self.block)

    def _parse(self) -> None:
        self.directories = Directories(io.BytesIO(self.block))
        self.order = self.directories.order
        self.first, self._next_at = self.directories.directory(self.directories.first)

    def take_orientation(self) -> int:
        """Return the orientation, 1..8, or 0 if there is none, and set it to 1."""
        entry = self.first.get(ORIENTATION)
        if entry is None:
            return 0
        (value, *_) = self._numbers(entry) or (0,)
        # As one SHORT, which it should be: not all readers take it for a number otherwise.
        upright = struct.pack(f"{self.order}HIHH", SHORT, 1, 1, 0)
        if (entry.kind, entry.number, value) != (SHORT, 1, 1):
            self.block[entry.at + 2 : entry.at + 12] = upright
            self._parse()
        return value if 1 <= value <= 8 else 1

    def drop_thumbnail(self) -> None:
        """Remove the second directory and the picture in it, which is neither turned nor cut."""
        offset = self.directories.pointer(self._next_at)
        if not offset:
            return
        self.block[self._next_at : self._next_at + 4] = bytes(4)
        end = max(last for _, last in self._places())
        with suppress(ValueError):
            entries, next_at = self.directories.directory(offset)
            dead = [(offset, next_at + 4)]
            dead += [(entry.place, entry.place + entry.size) for entry in entries.values()]
            for start, length in ((0x0201, 0x0202), (0x0111, 0x0117)):
                if start in entries and length in entries:
                    at, size = (self._numbers(entries[tag]) for tag in (start, length))
                    dead += [(a, a + b) for a, b in zip(at, size, strict=False)]
            self._clear((max(first, end), last) for first, last in dead)
        self.block = self.block[: max(end, len(self.block.rstrip(b"\0")))]
        self._parse()

    def set_size(self, width: int, height: int) -> None:
        """Change width and height where they are stored."""
        for entries in self._all_directories():
            for tags, value in ((_WIDTHS, width), (_HEIGHTS, height)):
                for tag in tags:
                    if tag in entries:
                        self._set(entries[tag], value)

    def resolution(self) -> tuple[float, float] | None:
        """Return pixels per inch, horizontally and vertically, or None."""
        values = []
        for tag in (X_RESOLUTION, Y_RESOLUTION):
            numbers = self._numbers(self.first.get(tag))
            if len(numbers) != 2 or numbers[0] <= 0 or numbers[1] <= 0:
                return None
            values.append(numbers[0] / numbers[1])
        unit = (self._numbers(self.first.get(RESOLUTION_UNIT)) or (_INCH,))[0]
        if unit not in (_INCH, _CENTIMETRE):
            return None
        scale = 2.54 if unit == _CENTIMETRE else 1.0
        return values[0] * scale, values[1] * scale

    def is_resolution_only(self) -> bool:
        """Whether it says nothing else."""
        return self.first.keys() <= _RESOLUTION_TAGS

    def set_resolution(self, pixels_per_inch: tuple[float, float]) -> None:
        """Store pixels per inch, unless they are there already."""
        found = self.resolution() or (0.0, 0.0)
        pairs = zip(pixels_per_inch, found, strict=True)
        if all(abs(new - old) < 0.005 * new for new, old in pairs):
            return
        self._rewrite(self.fields() | resolution_fields(self.order, pixels_per_inch))

    def drop_position(self) -> None:
        """Remove the GPS directory and what it says."""
        if GPS_DIRECTORY not in self.first:
            return
        with suppress(ValueError):
            offset = self._offset(self.first[GPS_DIRECTORY])
            entries, next_at = self.directories.directory(offset)
            dead = [(entry.place, entry.place + entry.size) for entry in entries.values()]
            self._clear([(offset, next_at + 4), *dead])
        fields = self.fields()
        fields.pop(GPS_DIRECTORY, None)
        self._rewrite(fields)

    def fields(self) -> dict[int, Field]:
        """Return the fields of the first directory that are whole and lead somewhere.

        Where they repeat one another's bytes, only so many as have twice the block's size.
        """
        found = {}
        room = 2 * len(self.block)
        for tag, entry in self.first.items():
            room -= entry.size
            with suppress(ValueError):
                if tag in DIRECTORIES:
                    self._check_directory(self._offset(entry))
                if room >= 0:
                    found[tag] = self.directories.field(entry)
        return found

    def _rewrite(self, fields: Fields) -> None:
        """Replace the first directory; the second, which it led to, goes."""
        self.drop_thumbnail()
        self._clear([(self.directories.first, self._next_at + 4)])
        self.block += bytes(len(self.block) % 2)
        at = len(self.block)
        self.block[4:8] = struct.pack(f"{self.order}I", at)
        self.block += pack_directory(self.order, fields, at)
        self._parse()

    def _check_directory(self, offset: int) -> None:
        for tag, entry in self.directories.directory(offset)[0].items():
            self.directories.check(entry)
            if tag in DIRECTORIES:
                self.directories.directory(self._offset(entry))

    def _all_directories(self) -> Iterator[dict[int, Entry]]:
        yield self.first
        for entries in (self.first, self._below(self.first, EXIF_DIRECTORY)):
            for tag in DIRECTORIES:
                if tag in entries and (below := self._below(entries, tag)):
                    yield below

    def _below(self, entries: dict[int, Entry], tag: int) -> dict[int, Entry]:
        with suppress(ValueError, KeyError):
            return self.directories.directory(self._offset(entries[tag]))[0]
        return {}

    def _places(self) -> Iterator[tuple[int, int]]:
        """First and last byte of all that is known to be in use."""
        yield self.directories.first, self._next_at + 4
        for entries in self._all_directories():
            for tag, entry in entries.items():
                yield entry.place, min(entry.place + entry.size, len(self.block))
                if tag in DIRECTORIES and (below := self._below(entries, tag)):
                    offset = self._offset(entry)
                    yield offset, offset + 2 + 12 * len(below) + 4

    def _offset(self, entry: Entry) -> int:
        return (self._numbers(entry) or (len(self.block),))[0]

    def _numbers(self, entry: Entry | None) -> tuple[int, ...]:
        if entry is not None:
            with suppress(ValueError):
                return self.directories.numbers(entry)
        return ()

    def _set(self, entry: Entry, value: int) -> None:
        """Store an integer over the first of an entry's, if it fits."""
        each = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 7: "B"}.get(entry.kind)
        if each and entry.place + entry.size <= len(self.block):
            with suppress(struct.error):
                struct.pack_into(self.order + each, self.block, entry.place, value)
                self._parse()

    def _clear(self, parts: Iterable[tuple[int, int]]) -> None:
        """Write zeros from first to last place of each part, every byte once."""
        at = 0
        for first, last in sorted(parts):
            first, last = max(first, at), min(last, len(self.block))
            if first < last:
                self.block[first:last] = bytes(last - first)
                at = last


def resolution_fields(order: str, pixels_per_inch: tuple[float, float]) -> dict[int, Field]:
    """Return the three fields that state a resolution."""
    fields = {RESOLUTION_UNIT: Field(SHORT, 1, struct.pack(f"{order}H", _INCH))}
    for tag, value in zip((X_RESOLUTION, Y_RESOLUTION), pixels_per_inch, strict=True):
        ratio = Fraction(value).limit_denominator(10_000)
        data = struct.pack(f"{order}II", ratio.numerator, ratio.denominator)
        fields[tag] = Field(RATIONAL, 1, data)
    return fields


def gathered(directories: Directories, page: int) -> tuple[bytes | None, list[int]]:
    """Return a TIFF page's descriptive tags as an EXIF block, and the tags that are damaged.

    The first is None if the page has no such tags.
    """
    left_out: list[int] = []
    room = _MOST_BYTES

    def below(offset: int, wanted: Collection[int] | None, depth: int) -> dict[int, Field | Fields]:
        nonlocal room
        fields: dict[int, Field | Fields] = {}
        for tag, entry in directories.directory(offset)[0].items():
            if tag == ORIENTATION and not depth:  # applied by who reads the pixels, but stated
                fields[tag] = Field(SHORT, 1, struct.pack(f"{directories.order}H", 1))
            if wanted is not None and tag not in wanted:
                continue
            try:
                if tag in DIRECTORIES:
                    (place, *_) = directories.numbers(entry)
                    if depth < 2 and (inner := below(place, None, depth + 1)):
                        fields[tag] = inner
                    continue
                room -= entry.size
                if room < 0 or entry.kind > 12:
                    raise ValueError("too large for EXIF")
                fields[tag] = directories.field(entry)
            except ValueError:
                left_out.append(tag)
        return fields

    try:
        fields = below(directories.page(page), DESCRIPTIVE, 0)
    except ValueError:
        return None, left_out
    return (pack_block(directories.order, fields) if fields else None), left_out
