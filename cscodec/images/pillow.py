"""Pictures that Pillow holds in memory: taken for what their mode says they are, or refused."""

from __future__ import annotations

from PIL import Image

from cscodec.errors import InvalidInputError
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
    stored = (image.info.get(name) for name in ("icc_profile", "exif", "xmp"))
    icc_profile, exif, xmp = (item if isinstance(item, bytes) else None for item in stored)
    try:
        image.load()
        check_mode(image, 8, to_8bit=False)
        pixels, icc_profile = as_displayed(image, icc_profile)
    except Unsupported as error:
        raise InvalidInputError(f"image: {error}") from error
    except (OSError, ValueError, SyntaxError) as error:
        raise InvalidInputError(f"image cannot be loaded: {error}") from error
    return upright(Picture(pixels, icc_profile, exif, xmp))
