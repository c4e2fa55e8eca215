"""Pictures that Pillow holds in memory: taken for what their mode says they are, or refused."""

from __future__ import annotations

from PIL import Image

from cscodec.errors import InvalidInputError
from cscodec.images.carried import resolution, with_resolution
from cscodec.images.directories import EXIF_DIRECTORY, GPS_DIRECTORY
from cscodec.images.exif import DESCRIPTIVE, ORIENTATION
from cscodec.images.headers import Unsupported
from cscodec.images.metadata import upright
from cscodec.images.picture import Picture
from cscodec.images.samples import as_displayed, check_mode


def from_pillow(image: Image.Image) -> Picture:
    """Return a picture of Pillow's upright, with the metadata that came with it.

    Alpha is kept if the mode has it, or the palette.

    Raises
    ------
    InvalidInputError
        If its samples cannot be kept as 8-bit gray or RGB, or it cannot be loaded.
    """
    stored = (image.info.get(name) for name in ("icc_profile", "xmp"))
    icc_profile, xmp = (item if isinstance(item, bytes) else None for item in stored)
    try:
        image.load()
        exif = exif_of(image)
        check_mode(image, 8, to_8bit=False)
        pixels, icc_profile = as_displayed(image, icc_profile)
    except Unsupported as error:
        raise InvalidInputError(f"image: {error}") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise InvalidInputError(f"image cannot be loaded: {error}") from error
    return upright(Picture(pixels, icc_profile, exif, xmp))


def exif_of(image: Image.Image) -> bytes | None:
    """Return the EXIF that came with a picture of Pillow's, and its resolution in it."""
    exif = image.info.get("exif") or _gathered(image.getexif())
    return with_resolution(exif or None, resolution(image))


def _gathered(found: Image.Exif) -> bytes | None:
    """What Pillow found elsewhere: in TIFF's tags, not all of which are EXIF, or in PNG's texts."""
    kept = Image.Exif()
    for tag in (*DESCRIPTIVE, ORIENTATION):
        if tag in found:
            is_directory = tag in (EXIF_DIRECTORY, GPS_DIRECTORY)
            kept[tag] = found.get_ifd(tag) if is_directory else found[tag]
    try:
        return kept.tobytes() if len(kept) else None
    except Exception:  # Pillow raises nearly anything for values that are not of their kind
        return None
