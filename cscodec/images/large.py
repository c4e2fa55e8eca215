"""Large picture files, some rows at a time: raw Netpbm, and TIFF in strips or tiles.

What is read is sliced like an array by :func:`cscodec.encode`, what is written assigned to by
:func:`cscodec.decode`. Other kinds of files, and pictures with alpha, are read whole.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from PIL import Image

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.images.exif import Exif
from cscodec.images.picture import Picture
from cscodec.images.tiff import FileTooLargeError, TiffWriter

LARGE_PIXELS = 1 << 26  #: pictures of more pixels are read and written in parts, if they can be
_MOST_BAND_BYTES = 1 << 28  #: of strips or tiles side by side, which are read at once
#: Compressions of TIFF that are read in parts: none, LZW, Deflate, PackBits. Others may unpack to
#: any size before it is noticed.
_DEFLATE = (8, 32946)
_READ_IN_PARTS = (1, 5, *_DEFLATE, 32773)


def rows_of(image: Image.Image, file: IO[bytes]) -> Any:
    """Return a large picture as something to slice, or None if it must be read whole.

    Parameters
    ----------
    image : PIL.Image.Image
        Opened, not loaded; of 8 bits per sample.
    file : file object
        Where it was opened from.
    """
    path = getattr(file, "name", None)
    width, height = image.size
    is_plain = image.mode in ("L", "RGB") and "transparency" not in image.info
    if not (isinstance(path, str) and is_plain and width * height > LARGE_PIXELS):
        return None
    if image.format == "PPM":
        return _raw_rows(image, path)
    return _tiff_rows(image, path) if image.format == "TIFF" else None


def _raw_rows(image: Image.Image, path: str) -> Any:
    width, height = image.size
    ((codec, _, offset, arguments), *more) = image.tile  # type: ignore[attr-defined]
    if codec != "raw" or more or arguments not in (image.mode, (image.mode, 0, 1)):
        return None
    shape = (height, width) if image.mode == "L" else (height, width, 3)
    return np.memmap(path, np.uint8, "r", offset, shape)


def _tiff_rows(image: Image.Image, path: str) -> Any:
    from tifffile import TiffFile

    with TiffFile(path) as tiff:
        page = tiff.pages[image.tell()]
        is_one_piece = page.is_memmappable
    shape = (*image.size[::-1], *((3,) if image.mode == "RGB" else ()))
    is_plain = page.photometric in (1, 2) and page.planarconfig == 1 and page.dtype == np.uint8
    if not is_plain or page.shape != shape or page.compression not in _READ_IN_PARTS:
        return None
    if is_one_piece:
        return np.memmap(path, np.uint8, "r", page.dataoffsets[0], shape)
    rows = TiffRows(page, path)
    if rows.band_bytes > _MOST_BAND_BYTES or not rows.are_in_the_file():
        return None
    try:
        rows[:1]
    except Exception:  # a compression that tifffile needs another package for; Pillow may not
        return None
    return rows


class TiffRows:
    """The first channels of a page, read from its strips or tiles.

    Attributes
    ----------
    shape : (H, W) or (H, W, 3)
    band_bytes : int
        Of the strips or tiles that lie side by side, which are decoded at once.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, page: Any, path: str) -> None:
        self._page = page
        self._path = path
        self.shape = page.shape
        self._height = page.tilelength if page.is_tiled else min(page.rowsperstrip, self.shape[0])
        self._across = -(-self.shape[1] // page.tilewidth) if page.is_tiled else 1
        width = page.tilewidth if page.is_tiled else self.shape[1]
        self._segment_bytes = self._height * width * int(np.prod(self.shape[2:]))
        self.band_bytes = self._across * self._segment_bytes
        self._last: tuple[int, Pixels] | None = None

    def are_in_the_file(self) -> bool:
        """Whether every strip or tile has a place, and lies in the file."""
        number = self._across * -(-self.shape[0] // self._height)
        end = os.path.getsize(self._path)
        places, sizes = self._page.dataoffsets[:number], self._page.databytecounts[:number]
        return len(places) == len(sizes) == number and all(
            at + size <= end for at, size in zip(places, sizes, strict=True)
        )

    def __getitem__(self, rows: slice) -> Pixels:
        start, stop, _ = rows.indices(self.shape[0])
        found = np.empty((stop - start, *self.shape[1:]), np.uint8)
        for band in range(start // self._height, -(-stop // self._height)):
            top = band * self._height
            first, last = max(start, top), min(stop, top + self._height)
            found[first - start : last - start] = self._band(band)[first - top : last - top]
        return found

    def _band(self, band: int) -> Pixels:
        """Decode the strips or tiles of a band; the last one is kept, as the next rows begin it."""
        if self._last is None or self._last[0] != band:
            page = self._page
            shape = (min(self._height, self.shape[0] - band * self._height), *self.shape[1:])
            pixels = np.zeros(shape, np.uint8)
            with open(self._path, "rb") as file:
                for index in range(band * self._across, (band + 1) * self._across):
                    file.seek(page.dataoffsets[index])
                    data = file.read(page.databytecounts[index])
                    try:
                        segment, place, size = self._decoded(data, index)
                        if segment is not None:  # else it was left out, and is black
                            left, right = place[3], min(place[3] + size[2], self.shape[1])
                            part = segment[0, : shape[0], : right - left]
                            pixels[:, left:right] = part.reshape(pixels[:, left:right].shape)
                    except Exception as error:  # readers of strips have errors of their own
                        raise InvalidInputError(
                            f"{self._path}: the picture is truncated or damaged (strip or tile "
                            f"{index}: {error}); get an intact copy"
                        ) from error
            self._last = band, pixels
        return self._last[1]

    def _decoded(self, data: bytes, index: int) -> Any:
        """Decode a strip or tile; its size is checked first, as Deflate unpacks to any."""
        if self._page.compression in _DEFLATE:
            most = self._segment_bytes
            if len(zlib.decompressobj().decompress(data, most + 1)) > most:
                raise ValueError(f"it holds more than its {most} bytes")
        return self._page.decode(data, index)


class WrittenRows:
    """A file that is written from the top down; assigned to like an array of ``shape``.

    Attributes
    ----------
    shape : (H, W) or (H, W, C)
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, shape: tuple[int, ...], write: Callable[[Pixels], object]) -> None:
        self.shape = shape
        self._write = write

    def __setitem__(self, rows: slice, pixels: Pixels) -> None:
        self._write(pixels)


def can_be_written_in_parts(suffix: str, shape: tuple[int, ...], *, can_seek: bool) -> bool:
    """Whether a picture is large, and its file can be written some rows at a time."""
    if shape[0] * shape[1] <= LARGE_PIXELS:
        return False
    if suffix in (".tif", ".tiff"):
        return can_seek
    if shape[2:] not in ((), (3,)):
        return False
    return suffix in (".ppm", ".pnm") or (suffix == ".pgm" and not shape[2:])


@contextmanager
def written_rows(file: IO[bytes], suffix: str, picture: Picture) -> Iterator[WrittenRows]:
    """Yield what to assign rows to, from the top, and finish the file.

    Parameters
    ----------
    suffix : str
        That :func:`can_be_written_in_parts` agrees to.
    picture : Picture
        Fitted to the format; of its pixels only the shape counts.

    Raises
    ------
    InvalidInputError
        If the format cannot hold so much.
    """
    shape = picture.pixels.shape
    if suffix not in (".tif", ".tiff"):
        kind = "P6" if shape[2:] else "P5"
        file.write(f"{kind}\n{shape[1]} {shape[0]}\n255\n".encode())
        yield WrittenRows(shape, lambda pixels: file.write(pixels.tobytes()))
        return
    writer = TiffWriter(file, shape, Exif(picture.exif) if picture.exif else None)
    try:
        yield WrittenRows(shape, writer.write)
        writer.finish(picture.xmp, picture.icc_profile)
    except (FileTooLargeError, struct.error) as error:
        raise InvalidInputError(
            f"a picture of {shape[1]} x {shape[0]} pixels cannot be written as {suffix} "
            f"({error}); write .ppm instead"
        ) from error
