"""Picture files to arrays: the one place where Pillow opens anything.

Reading is strict. A picture either arrives with every sample that its file holds, as 8-bit gray or
RGB with or without alpha, or it is refused with the reason and a remedy: Pillow alone would open
16-bit colour as 8-bit, take the first frame of an animation, and warn or fail at sizes of its own.
Metadata never decide whether a picture can be read: what is damaged is left out, and named.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from PIL import Image, UnidentifiedImageError

from cscodec.errors import InvalidInputError
from cscodec.images.carried import carried_metadata
from cscodec.images.directories import Directories
from cscodec.images.headers import (
    Unsupported,
    bits_per_sample,
    check_one_picture,
    check_segments,
)
from cscodec.images.large import rows_of
from cscodec.images.metadata import upright
from cscodec.images.picture import Picture
from cscodec.images.samples import check_mode, samples
from cscodec.layout import DEFAULT_MAX_PIXELS, MAX_DIMENSION
from cscodec.streams import read_up_to

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
_HEIF_PACKAGE = "pillow_heif"
_HAS_HEIF = importlib.util.find_spec(_HEIF_PACKAGE) is not None
HEIF_SUFFIXES = frozenset({".heic", ".heif", ".hif"})
HEIF_REMEDY = "HEIC pictures need another package: pip install 'cscodec[heif]'"
_HEIF_BRANDS = frozenset(
    (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1")
)
#: Suffixes of what can be read here: HEIC needs a package that need not be installed.
PICTURE_SUFFIXES = frozenset(
    suffix
    for suffixes in (*(known for _, known in INPUT_FORMATS), HEIF_SUFFIXES if _HAS_HEIF else ())
    for suffix in suffixes
)
# Of a stream, which may have no end.
_PIECE = 1 << 20
_MOST_BYTES_PER_PIXEL, _MOST_OTHER_BYTES = 16, 64 << 20
_MOST_PAGES, _MOST_SCREENS = 10_000, 32  #: of a stack; of an animation, in parts of max_pixels


@dataclass(frozen=True)
class _Wanted:
    """What the caller asked for, see :func:`read_picture`."""

    max_pixels: int
    frame: int | None
    to_8bit: bool


def read_picture(
    source: str | os.PathLike[str] | bytes | IO[bytes],
    *,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    frame: int | None = None,
    to_8bit: bool = False,
) -> Picture:
    """Read one picture from a path, from bytes, or from an open binary file.

    It stands upright, as its metadata ask for, see :func:`~cscodec.images.metadata.upright`. CMYK
    becomes sRGB by its ICC profile. Alpha that is 255 everywhere is no alpha.

    Parameters
    ----------
    max_pixels : int
        Larger pictures are refused before anything is allocated for them.
    frame : int, optional
        Which frame of an animation, or page of a stack, from 0; such files are refused without.
    to_8bit : bool
        Keep the high 8 bits of samples that have up to 16, instead of refusing them.

    Raises
    ------
    InvalidInputError
        If there is no such file, it is not a picture, it is damaged, too large or animated, or
        its samples cannot be kept in 8 bits. The message begins with the file's name.
    """
    wanted = _Wanted(max_pixels, frame, to_8bit)
    if isinstance(source, bytes):
        return _read(io.BytesIO(source), "picture", wanted)
    if not isinstance(source, (str, os.PathLike)):
        name = getattr(source, "name", None)
        try:
            file = io.BytesIO(stream_bytes(source, max_pixels))
        except InvalidInputError:
            raise
        except (OSError, ValueError, TypeError) as error:  # closed, for writing only, of text
            raise InvalidInputError(f"picture: cannot be read: {error}") from error
        return _read(file, name if isinstance(name, str) else "picture", wanted)
    name = os.fspath(source)
    try:
        kind = os.stat(name).st_mode
        if stat.S_ISDIR(kind):
            raise InvalidInputError(f"{name}: is a folder, not a picture")
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise InvalidInputError(f"{name}: is a device, not a picture")
        most = max_pixels * _MOST_BYTES_PER_PIXEL + _MOST_OTHER_BYTES
        if os.path.getsize(name) > most:
            raise InvalidInputError(
                f"{name}: more than {most} bytes, which a picture of {max_pixels} pixels takes; "
                "raise the limit (--max-pixels) if you trust it"
            )
        with open(name, "rb") as opened:
            seekable = opened if opened.seekable() else io.BytesIO(stream_bytes(opened, max_pixels))
            return _read(seekable, name, wanted)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(f"{name}: cannot be read: {reason}") from error


def stream_bytes(stream: IO[bytes], max_pixels: int) -> bytes:
    """Read a stream: what it begins with if that is no picture, and a picture up to a limit.

    Raises
    ------
    InvalidInputError
        If it goes on beyond what ``max_pixels`` can take.
    """
    begun = read_up_to(stream, _PIECE)
    if begun[4:8] != b"ftyp" and not any(_accepting(begun)):
        return begun
    most = max_pixels * _MOST_BYTES_PER_PIXEL + _MOST_OTHER_BYTES
    data = begun + read_up_to(stream, most + 1 - len(begun))
    if len(data) > most:
        raise InvalidInputError(
            f"goes on after {most} bytes, more than a picture of {max_pixels} pixels takes; "
            "raise the limit (--max-pixels) if you trust it"
        )
    return data


def _read(file: IO[bytes], name: str, wanted: _Wanted) -> Picture:
    head = file.read(64)
    file.seek(0)
    if not head:
        raise InvalidInputError(f"{name}: the file is empty (0 bytes)")
    try:
        with _opened(file, head) as image:
            _check(image, wanted, file)
            bits = bits_per_sample(image.format or "", file, image.tell())
            check_mode(image, bits, wanted.to_8bit)
            check_one_picture(image, bits, file)
            rows = rows_of(image, file) if bits == 8 else None
            if rows is not None:
                return upright(carried_metadata(image, file).but(pixels=rows))
            file.seek(0)
            image.load()
            return upright(_picture(image, file, bits))
    except Unsupported as error:
        raise InvalidInputError(f"{name}: {error}") from error
    except (InvalidInputError, MemoryError):
        raise
    except UnidentifiedImageError as error:
        raise InvalidInputError(f"{name}: {_why_not_identified(file, head)}") from error
    except Exception as error:  # Pillow's parsers raise nearly anything on damaged files
        raise InvalidInputError(f"{name}: {_damage(error)}") from error


def _picture(image: Image.Image, file: IO[bytes], bits: int) -> Picture:
    found = carried_metadata(image, file)
    pixels, icc_profile = samples(image, file, bits, found.icc_profile)
    return found.but(pixels=pixels, icc_profile=icc_profile)


def _opened(file: IO[bytes], head: bytes) -> Image.Image:
    if head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS and b"avi" not in head[16:]:
        if not _HAS_HEIF:
            raise Unsupported(f"{HEIF_REMEDY}; or convert it to JPEG first")
        heif: Image.Image = importlib.import_module(_HEIF_PACKAGE).HeifImageFile(file)
        return heif
    # Not by Image.open: it refuses and warns by a limit of the whole process.
    for name in _accepting(head):
        with suppress(SyntaxError, IndexError, TypeError, struct.error):
            if name == "JPEG":
                check_segments(file)
            file.seek(0)
            image: Image.Image = Image.OPEN[name][0](file, "")
            return image
    raise UnidentifiedImageError


def _openable() -> list[str]:
    Image.init()
    return [name for name, _ in INPUT_FORMATS if name in Image.OPEN]


def _accepting(head: bytes) -> Iterator[str]:
    """Formats that a file which begins so may be of."""
    for name in _openable():
        accepts = Image.OPEN[name][1]
        if accepts is None or accepts(head[:16]) is True:
            yield name


def _check(image: Image.Image, wanted: _Wanted, file: IO[bytes]) -> None:
    # A phone's MPO holds the photograph first and previews or a second view after it; HEIF names
    # the one that is the picture.
    is_animated = getattr(image, "is_animated", False)
    if is_animated or wanted.frame:
        frames = _frames(image, file)
        if wanted.frame is not None:
            if not 0 <= wanted.frame < frames:
                raise Unsupported(f"there is no frame {wanted.frame}; it has 0 to {frames - 1}")
            _check_size(image, wanted.max_pixels)
            if (wanted.frame + 1) * image.width * image.height > _MOST_SCREENS * wanted.max_pixels:
                raise Unsupported(f"frame {wanted.frame} comes after too many others of its size")
            image.seek(wanted.frame)
        elif image.format not in ("MPO", "HEIF"):
            raise Unsupported(
                f"an animation or a stack of pages ({frames} frames); "
                "choose one (--frame 0 is the first)"
            )
    _check_size(image, wanted.max_pixels)


def _frames(image: Image.Image, file: IO[bytes]) -> int:
    """Count frames; Pillow looks each page of a TIFF up in a list of those before."""
    if image.format != "TIFF":
        return int(getattr(image, "n_frames", 1))
    frames = Directories(file).num_pages(_MOST_PAGES)
    if frames > _MOST_PAGES:
        raise Unsupported(f"a stack of more than {_MOST_PAGES} pages")
    return frames


def _check_size(image: Image.Image, max_pixels: int) -> None:
    width, height = image.size
    if max(width, height) > MAX_DIMENSION:
        raise Unsupported(f"{width} x {height} pixels; allowed are 1 to {MAX_DIMENSION} each way")
    if width * height > max_pixels:
        raise Unsupported(
            f"{width} x {height} pixels are more than the limit of {max_pixels}; "
            "raise it (--max-pixels) if you trust the file"
        )


def _damage(error: BaseException) -> str:
    if "MAX_TEXT" in str(error):
        return (
            "a text or an ICC profile in it is larger than 1 MB, or all texts are larger than "
            "64 MB; save it anew without them"
        )
    if isinstance(error, Image.DecompressionBombError):
        return (
            f"{error}, which is Pillow's own limit (PIL.Image.MAX_IMAGE_PIXELS) for pictures of "
            "this kind; raise it if you trust the file, or convert it first"
        )
    return f"the picture is truncated or damaged ({error}); get an intact copy"


def _why_not_identified(file: IO[bytes], head: bytes) -> str:
    """Say what is wrong with a file that Pillow does not open, as far as it can be known."""
    for name in _accepting(head):
        try:
            bits = bits_per_sample(name, file)
            if name == "TIFF":
                return f"a TIFF of this kind ({bits} bits per sample) is not supported; {_CONVERT}"
            file.seek(0)
            Image.OPEN[name][0](file, "")
        except Unsupported as error:
            return str(error)
        except Exception as error:
            return _damage(error)
    known = ", ".join(name for name, _ in INPUT_FORMATS)
    also = ", HEIF" if _HAS_HEIF else ""
    return f"not a picture of a kind that can be read ({known}{also}); convert it first"


_CONVERT = "convert it to 8-bit gray or RGB first"
