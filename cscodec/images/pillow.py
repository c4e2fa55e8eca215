"""Pictures that Pillow holds in memory: taken for what their mode says they are, or refused."""

from __future__ import annotations

from PIL import Image

from cscodec.errors import InvalidInputError
from cscodec.images.headers import take_orientation
from cscodec.images.picture import Picture
from cscodec.images.reading import _COLOURS, _REMEDIES, _oriented, _samples


def from_pillow(image: Image.Image) -> Picture:
    """Return a picture of Pillow's upright, with the metadata that came with it.

    Raises
    ------
    InvalidInputError
        If its samples cannot be kept as 8-bit gray or RGB, or it cannot be loaded.
    """
    if image.mode not in _COLOURS:
        remedy = _REMEDIES.get(image.mode, "convert it to L or RGB first")
        raise InvalidInputError(f"image has mode {image.mode}, which is not supported: {remedy}")
    mode = _COLOURS[image.mode] + ("A" if image.has_transparency_data else "")
    try:
        pixels = _samples(image if image.mode == mode else image.convert(mode))
    except (OSError, ValueError, SyntaxError) as error:
        raise InvalidInputError(f"image cannot be loaded: {error}") from error
    stored = (image.info.get(name) for name in ("icc_profile", "exif", "xmp"))
    return upright(Picture(pixels, *(item if isinstance(item, bytes) else None for item in stored)))


def upright(picture: Picture) -> Picture:
    """Turn a picture as its EXIF says."""
    if not picture.exif:
        return picture
    orientation, exif = take_orientation(picture.exif)
    return Picture(_oriented(picture.pixels, orientation), picture.icc_profile, exif, picture.xmp)
