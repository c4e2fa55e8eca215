"""Large picture files, read some rows at a time: raw Netpbm, and TIFF in strips or tiles.

Both give what :func:`cscodec.encode` slices like an array. Other kinds of files, and pictures with
alpha, are read whole.
"""

from __future__ import annotations

from typing import IO, Any

import numpy as np
from PIL import Image

from cscodec.arrays import Pixels

LARGE_PIXELS = 1 << 26  #: pictures of more pixels are read and written in parts, if they can be
_MOST_BAND_BYTES = 1 << 28  #: of strips or tiles side by side, which are read at once


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
    if not is_plain or page.shape != shape:
        return None
    if is_one_piece:
        return np.memmap(path, np.uint8, "r", page.dataoffsets[0], shape)
    rows = TiffRows(page, path)
    if rows.band_bytes > _MOST_BAND_BYTES:
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
        self.band_bytes = self._height * int(np.prod(self.shape[1:]))
        self._last: tuple[int, Pixels] | None = None

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
                    segment, place, size = page.decode(data, index, jpegtables=page.jpegtables)
                    if segment is not None:  # else it was left out, and is black
                        left, right = place[3], min(place[3] + size[2], self.shape[1])
                        part = segment[0, : shape[0], : right - left]
                        pixels[:, left:right] = part.reshape(pixels[:, left:right].shape)
            self._last = band, pixels
        return self._last[1]
