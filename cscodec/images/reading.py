"""Picture files to arrays: the one place where Pillow opens anything.

Reading is strict. A picture either arrives with every sample that its file holds, as 8-bit gray or
RGB with or without alpha, or it is refused with the reason and a remedy: Pillow alone would open
16-bit colour as 8-bit, take the first frame of an animation, and warn or fail at sizes of its own.
The EXIF orientation is applied to the pixels, and reset where it is stored.
"""

from __future__ import annotations

import io
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np
from PIL import Image, UnidentifiedImageError

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.images.headers import bits_per_sample, take_orientation, tiff_exif
from cscodec.images.picture import Picture
from cscodec.layout import DEFAULT_MAX_PIXELS

#: What is opened: formats with a signature, whose readers run no other program.
INPUT_FORMATS = (
    ("PNG", (".png", ".apng")),
    ("JPEG", (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo")),
    ("WEBP", (".webp",)),
    ("TIFF", (".tif", ".tiff")),
    ("BMP", (".bmp", ".dib")),
    ("PPM", (".ppm", ".pgm", ".pbm", ".pnm")),
    ("GIF", (".gif",)),
    ("JPEG2000", (".jp2", ".j2k", ".jpx", ".j2c", ".jpc")),
    ("AVIF", (".avif", ".avifs")),
    ("QOI", (".qoi",)),
)
PICTURE_SUFFIXES = frozenset(suffix for _, suffixes in INPUT_FORMATS for suffix in suffixes)

#: Pillow's modes that lose nothing as 8-bit gray or RGB (alpha is decided apart).
_COLOURS = dict.fromkeys(("1", "L", "LA", "La"), "L") | dict.fromkeys(
    ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "YCbCr"), "RGB"
)
_REMEDIES = {
    "CMYK": "CMYK needs a colour-managed conversion; convert it to sRGB first",
    "LAB": "L*a*b* needs a colour-managed conversion; convert it to sRGB first",
    "F": "floating-point samples have no fixed range; convert it to 8 bits per sample first",
}
_STRIP_PIXELS = 1 << 22
_HEAD_BYTES = 1 << 18  #: enough to hold every header that is looked at
_pillow_lock = threading.Lock()


def read_picture(
    source: str | os.PathLike[str] | bytes | IO[bytes], *, max_pixels: int = DEFAULT_MAX_PIXELS
) -> Picture:
    """Read one picture from a path, from bytes, or from an open binary file.

    Parameters
    ----------
    max_pixels : int
        Larger pictures are refused before anything is allocated for them.

    Raises
    ------
    InvalidInputError
        If there is no such file, it is not a picture, it is damaged, too large or animated, or
        its samples cannot be kept in 8 bits. The message begins with the file's name.
    """
    if isinstance(source, bytes):
        return _read(io.BytesIO(source), "picture", max_pixels)
    if not isinstance(source, (str, os.PathLike)):
        name = getattr(source, "name", None)
        file = io.BytesIO(source.read())
        return _read(file, name if isinstance(name, str) else "picture", max_pixels)
    name = os.fspath(source)
    try:
        kind = os.stat(name).st_mode
        if stat.S_ISDIR(kind):
            raise InvalidInputError(f"{name}: is a folder, not a picture")
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise InvalidInputError(f"{name}: is a device, not a picture")
        with open(name, "rb") as opened:
            seekable = opened if opened.seekable() else io.BytesIO(opened.read())
            return _read(seekable, name, max_pixels)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(f"{name}: cannot be read: {reason}") from error


def _read(file: IO[bytes], name: str, max_pixels: int) -> Picture:
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if not head:
        raise InvalidInputError(f"{name}: the file is empty (0 bytes)")
    try:
        with _pillow_limit_lifted():
            image = Image.open(file, formats=_openable())
        with image:
            _check(image, head, name, max_pixels)
            image.load()
            return _picture(image)
    except (InvalidInputError, MemoryError):
        raise
    except UnidentifiedImageError as error:
        known = ", ".join(format_name for format_name, _ in INPUT_FORMATS)
        raise InvalidInputError(
            f"{name}: not a picture of a kind that can be read ({known}); convert it first"
        ) from error
    except Exception as error:  # Pillow's parsers raise nearly anything on damaged files
        raise InvalidInputError(
            f"{name}: the picture is truncated or damaged ({error}); get an intact copy"
        ) from error


def _openable() -> list[str]:
    Image.init()
    return [name for name, _ in INPUT_FORMATS if name in Image.OPEN]


@contextmanager
def _pillow_limit_lifted() -> Iterator[None]:
    # Pillow's own limit warns at 89 megapixels and fails at 179, whatever the caller allows.
    # It is a global: hold it only while the header is parsed, one thread at a time.
    with _pillow_lock:
        limit = Image.MAX_IMAGE_PIXELS
        Image.MAX_IMAGE_PIXELS = None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _check(image: Image.Image, head: bytes, name: str, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise InvalidInputError(
            f"{name}: {width} x {height} pixels are more than the limit of {max_pixels}; "
            "raise it (--max-pixels) if you trust the file"
        )
    bits = bits_per_sample(image, head)
    if bits > 8:
        raise InvalidInputError(
            f"{name}: {bits} bits per sample are not supported; convert it to 8 bits first"
        )
    if image.mode not in _COLOURS:
        remedy = _REMEDIES.get(image.mode, "convert it to 8 bits per sample first")
        raise InvalidInputError(f"{name}: mode {image.mode} is not supported: {remedy}")
    # A phone's MPO holds the photograph first and previews or a second view after it.
    if getattr(image, "is_animated", False) and image.format != "MPO":
        frames = getattr(image, "n_frames", "several")
        raise InvalidInputError(
            f"{name}: an animation or a stack of pages ({frames} frames); extract one frame first"
        )


def _picture(image: Image.Image) -> Picture:
    exif = tiff_exif(image) if image.format == "TIFF" else image.info.get("exif")
    xmp = image.info.get("xmp")
    icc_profile = image.info.get("icc_profile")
    mode = _COLOURS[image.mode] + ("A" if image.has_transparency_data else "")
    pixels = _samples(image if image.mode == mode else image.convert(mode))
    if exif:
        orientation, exif = take_orientation(exif)
        if orientation != 1:
            pixels = _oriented(pixels, orientation)
            if xmp:  # some programs store it here as well, and some readers believe it
                xmp = re.sub(rb"(tiff:Orientation(?:=[\"']|>))[2-8]", rb"\g<1>1", xmp)
    return Picture(pixels, icc_profile or None, exif or None, xmp or None)


def _samples(image: Image.Image) -> Pixels:
    # In strips: np.asarray(image) would hold the whole picture two more times on the way.
    width, height = image.size
    channels = len(image.getbands())
    pixels = np.empty((height, width) + ((channels,) if channels > 1 else ()), np.uint8)
    rows = max(1, _STRIP_PIXELS // width)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        pixels[top:bottom] = np.asarray(image.crop((0, top, width, bottom)))
    return pixels


def _oriented(pixels: Pixels, orientation: int) -> Pixels:
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)
