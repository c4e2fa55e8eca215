"""What metadata say of the pixels beside them is made true, or removed.

One rule for everything that reads, saves or writes a picture: pixels stand upright and the
orientation, wherever it is stored, reads 1; sizes are those of the pixels; thumbnails, and mentions
of other parts of the source, are gone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.images import xmp as xmp_properties
from cscodec.images.exif import Exif
from cscodec.images.picture import Picture

#: What can be left out at the user's wish.
STRIPPABLE = ("exif", "xmp", "icc", "gps")


def upright(picture: Picture) -> Picture:
    """Turn a picture as its EXIF says, or its XMP if EXIF says nothing, and make metadata agree.

    EXIF that cannot be read is left out.
    """
    orientation, picture = take_orientation(picture)
    pixels = oriented(picture.pixels, orientation)
    return with_size(picture.but(pixels=pixels), *pixels.shape[1::-1])


def take_orientation(picture: Picture) -> tuple[int, Picture]:
    """Return the orientation, 1..8, and the picture with metadata that say 1, not turned yet."""
    exif, orientation, left_out = picture.exif, 0, []
    if exif:
        try:
            block = Exif(exif)
            orientation = block.take_orientation()
            block.drop_thumbnail()
            exif = block.tobytes()
        except ValueError as error:
            exif = None
            left_out.append(f"EXIF, which is damaged ({error})")
    xmp = picture.xmp and xmp_properties.as_utf8(picture.xmp)
    if xmp:
        in_xmp, xmp = xmp_properties.take_orientation(xmp)
        orientation = orientation or in_xmp
        whole, xmp = xmp, xmp_properties.without_dangling(xmp)
        if xmp is None:
            left_out.append("XMP, which speaks of other parts of the source and is damaged")
        elif xmp != whole:
            left_out.append("what XMP says of other parts of the source, such as gain maps")
    return orientation or 1, picture.but(*left_out, exif=exif, xmp=xmp)


def with_size(picture: Picture, width: int, height: int) -> Picture:
    """Change the sizes that metadata state; the EXIF is whole."""
    exif = picture.exif
    if exif:
        block = Exif(exif)
        block.set_size(width, height)
        exif = block.tobytes()
    xmp = picture.xmp and xmp_properties.with_size(picture.xmp, width, height)
    return picture.but(exif=exif, xmp=xmp)


def oriented(pixels: Pixels, orientation: int) -> Pixels:
    """Turn and mirror pixels as an EXIF orientation, 1..8, asks for."""
    if orientation == 1:
        return pixels
    pixels = np.asarray(pixels)
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def stripped(picture: Picture, parts: Iterable[str]) -> Picture:
    """Leave out some of the metadata: of :data:`STRIPPABLE`, where "gps" is a part of two others.

    XMP whose position cannot be removed is left out whole.
    """
    icc_profile, exif, xmp = picture.icc_profile, picture.exif, picture.xmp
    parts, left_out = set(parts), []
    if "gps" in parts:
        if exif:
            try:
                block = Exif(exif)
                block.drop_position()
                exif = block.tobytes()
            except ValueError:
                exif = None
        xmp = xmp and xmp_properties.without_position(xmp_properties.as_utf8(xmp))
        if picture.xmp and xmp is None:
            left_out.append("XMP, from which the position alone cannot be removed")
    return picture.but(
        *left_out,
        icc_profile=None if "icc" in parts else icc_profile,
        exif=None if "exif" in parts else exif,
        xmp=None if "xmp" in parts else xmp,
    )


def parse_strip(text: str) -> frozenset[str]:
    """Read names of :data:`STRIPPABLE` between commas, or "all".

    Raises
    ------
    InvalidInputError
        If there are others.
    """
    names = [name.strip().lower() for name in text.split(",")]
    if names == ["all"]:
        return frozenset(STRIPPABLE)
    if unknown := [name for name in names if name not in STRIPPABLE]:
        raise InvalidInputError(
            f"{unknown[0]!r} cannot be stripped; choose from {', '.join(STRIPPABLE)}"
        )
    return frozenset(names)
