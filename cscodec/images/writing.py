"""Arrays to picture files: the suffix names the format, and what it cannot hold is refused."""

from __future__ import annotations

import io
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageColor, PngImagePlugin

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.images.exif import PREFIX, Exif, resolution_fields
from cscodec.images.metadata import upright
from cscodec.images.picture import Picture
from cscodec.images.samples import without_opaque_alpha
from cscodec.images.tiff import carried_fields, tiff_file

Colour = tuple[int, int, int]
_METADATA = {"icc_profile": "ICC profile", "exif": "EXIF", "xmp": "XMP"}


@dataclass(frozen=True)
class _OutputFormat:
    name: str
    channels: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    has_metadata: bool = True
    has_resolution: bool = True


_PORTABLE = _OutputFormat("PPM", (1, 3), has_metadata=False, has_resolution=False)
_JPEG = _OutputFormat("JPEG", (1, 3), {"quality": 95, "subsampling": 0})
_TIFF = _OutputFormat("TIFF", (1, 2, 3, 4))
_OUTPUT_FORMATS = {
    # Level 3 takes half the time of the usual 6, for 4 % more bytes on decoded photographs.
    ".png": _OutputFormat("PNG", (1, 2, 3, 4), {"compress_level": 3}),
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    ".webp": _OutputFormat("WEBP", (1, 2, 3, 4), {"lossless": True, "exact": True}),
    ".tif": _TIFF,
    ".tiff": _TIFF,
    ".bmp": _OutputFormat("BMP", (1, 3), has_metadata=False),
    ".ppm": _PORTABLE,
    ".pnm": _PORTABLE,
    ".pgm": _OutputFormat("PPM", (1,), has_metadata=False, has_resolution=False),
}
#: Most bytes of metadata that a format can hold, or that Pillow reads from it; more are left out.
_MOST_BYTES = {
    ("JPEG", "exif"): 65_000,
    ("JPEG", "xmp"): 65_000,
    ("JPEG", "icc_profile"): 255 * 65_519,
    ("PNG", "icc_profile"): 1 << 20,
}


def write_picture(picture: Picture, to: str | os.PathLike[str]) -> bytes:
    """Encode a picture in the format that a path's suffix (or a bare suffix) names.

    ICC profile, EXIF, XMP and resolution are kept as :func:`fitted` says. All formats but JPEG
    (quality 95, 4:4:4) are lossless.

    Raises
    ------
    InvalidInputError
        If the suffix is unknown, or the format cannot hold these pixels.
    """
    suffix = output_suffix(to)
    target = _OUTPUT_FORMATS[suffix]
    picture = fitted(picture, suffix)
    exif = Exif(picture.exif) if picture.exif else None
    try:
        if target is _TIFF:
            return tiff_file(picture.pixels, exif, picture.xmp, picture.icc_profile)
        buffer = io.BytesIO()
        image = Image.fromarray(picture.pixels)
        image.save(buffer, target.name, **target.options, **_metadata_options(picture, target.name))
    except (OSError, ValueError, struct.error) as error:
        height, width = picture.pixels.shape[:2]
        raise InvalidInputError(
            f"a picture of {width} x {height} pixels cannot be written as {suffix} "
            f"({error}); write .png instead"
        ) from error
    return buffer.getvalue()


def fitted(
    picture: Picture, to: str | os.PathLike[str], background: Colour | None = None
) -> Picture:
    """Return a picture as a format holds it, upright; its ``left_out`` says what it cannot.

    Parameters
    ----------
    background : three of 0..255, optional
        What alpha is laid on if the format has none. Alpha that is 255 everywhere needs none.

    Raises
    ------
    InvalidInputError
        If the suffix is unknown, or the format cannot hold these pixels.
    """
    suffix = output_suffix(to)
    target = _OUTPUT_FORMATS[suffix]
    picture = upright(picture)
    pixels = picture.pixels
    if pixels.ndim == 3 and pixels.shape[2] not in target.channels:
        pixels = without_opaque_alpha(pixels)
        if pixels.ndim == 3 and pixels.shape[2] in (2, 4) and background is not None:
            pixels = _laid_on(pixels, background)
        channels = 1 if pixels.ndim == 2 else pixels.shape[2]
        if channels not in target.channels:
            what = "alpha" if channels in (2, 4) else "colour"
            or_else = " or give a colour (--background white)" if channels in (2, 4) else ""
            raise InvalidInputError(
                f"{suffix} files cannot hold {what}; write .png instead{or_else}"
            )
        picture = picture.but(pixels=pixels)
    return _with_metadata_of(target, picture)


def parse_colour(text: str) -> Colour:
    """Read a colour: a name, ``#rrggbb``, or another of the ways that CSS has.

    Raises
    ------
    InvalidInputError
        If it is none.
    """
    try:
        red, green, blue = ImageColor.getrgb(text)[:3]
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r} is not a colour; write a name (white) or #rrggbb"
        ) from error
    return red, green, blue


def output_suffix(to: str | os.PathLike[str]) -> str:
    """Return the normalised suffix (``.png``) of a path, or of a bare suffix or format name.

    Raises
    ------
    InvalidInputError
        If no such pictures can be written; the message lists those that can.
    """
    text = os.fspath(to)
    suffix = "." + (Path(text).suffix or text).lower().lstrip(".")
    if suffix not in _OUTPUT_FORMATS:
        known = " ".join(_OUTPUT_FORMATS)
        raise InvalidInputError(f"{text}: cannot write this kind of picture; choose from {known}")
    return suffix


def _laid_on(pixels: Pixels, background: Colour) -> Pixels:
    """Lay pixels with alpha on a colour; gray ones stay gray on gray."""
    is_gray = pixels.shape[2] == 2 and len(set(background)) == 1
    below = np.array(background[:1] if is_gray else background, np.uint32)
    result = np.empty((*pixels.shape[:2], len(below)), np.uint8)
    for row, above in zip(result, pixels, strict=True):
        alpha = above[:, -1:].astype(np.uint32)
        row[:] = (above[:, :-1] * alpha + below * (255 - alpha) + 127) // 255
    return result[..., 0] if is_gray else result


def _with_metadata_of(target: _OutputFormat, picture: Picture) -> Picture:
    """Leave out, and name, the metadata that a format cannot hold."""
    left_out: dict[str, str] = {}
    for name, words in _METADATA.items():
        if (data := getattr(picture, name)) and (reason := _obstacle(target, name, data)):
            left_out[name] = f"{words} ({reason})"
    if picture.exif:
        exif = Exif(picture.exif)
        if target is _TIFF and (tags := carried_fields(exif)[1]):
            numbers = ", ".join(map(str, sorted(tags)))
            picture = picture.but(f"EXIF tags {numbers} (damaged, or with no place in TIFF)")
        resolution = exif.resolution() if "exif" in left_out and target.has_resolution else None
        if exif.is_resolution_only():
            left_out.pop("exif", None)
            if not target.has_resolution:
                picture = picture.but("resolution", exif=None)
        elif resolution:
            picture = picture.but(
                left_out.pop("exif"), exif=Exif.of(resolution_fields("<", resolution)).tobytes()
            )
    return picture.but(*left_out.values(), **dict.fromkeys(left_out))


def _obstacle(target: _OutputFormat, name: str, data: bytes) -> str | None:
    """Say why a format cannot hold some metadata, if so."""
    if not target.has_metadata:
        return f"{target.name} files have no place for it"
    most = _MOST_BYTES.get((target.name, name), len(data))
    if len(data) > most:
        return f"{len(data):,} bytes, of which a {target.name} holds {most:,}"
    if target.name == "PNG" and name == "xmp":
        try:
            data.decode()
        except UnicodeDecodeError:
            return "it is not UTF-8, which PNG asks for"
    return None


def _metadata_options(picture: Picture, format_name: str) -> dict[str, Any]:
    """Return what Pillow wants to be told; the picture is fitted to the format."""
    options: dict[str, Any] = {}
    exif, xmp = picture.exif, picture.xmp
    if exif:
        if (resolution := Exif(exif).resolution()) and max(resolution) < 65_535:
            options["dpi"] = resolution
        has_prefix = exif.startswith(PREFIX)
        options["exif"] = PREFIX + exif if format_name == "JPEG" and not has_prefix else exif
    if format_name == "PNG" and xmp:
        options["pnginfo"] = PngImagePlugin.PngInfo()
        options["pnginfo"].add_itxt("XML:com.adobe.xmp", xmp.decode())
    elif xmp:
        options["xmp"] = xmp
    if picture.icc_profile:
        options["icc_profile"] = picture.icc_profile
    return options
