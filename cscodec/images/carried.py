"""Metadata of picture files that Pillow opened: found wherever a format may carry them."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import IO

import numpy as np
from PIL import Image

from cscodec.images import xmp as xmp_properties
from cscodec.images.directories import Directories
from cscodec.images.exif import Exif, gathered, resolution_fields
from cscodec.images.headers import colour_description, jpeg_2000_metadata
from cscodec.images.picture import Picture

#: Texts of PNG in which ImageMagick and others store other things, as hexadecimal digits.
_RAW_PROFILES = {"exif": "exif", "APP1": "exif", "xmp": "xmp", "icc": "icc_profile"}
_RAW_PROFILES |= {"icm": "icc_profile"}
_GIF_EXTENSIONS = {b"!\xff\x0bICCRGBG1012": "its ICC profile", b"!\xff\x0bXMP DataXMP": "its XMP"}
_XMP_PREFIX = b"http://ns.adobe.com/xap/1.0/\0"
_EXTENDED_XMP = b"http://ns.adobe.com/xmp/extension/\0"


def carried_metadata(image: Image.Image, file: IO[bytes]) -> Picture:
    """Return a picture that has the metadata of ``image``, loaded from ``file``, and no pixels.

    The resolution is in the EXIF, whatever stated it. Nothing that metadata hold raises.
    """
    found: dict[str, bytes | None] = dict.fromkeys(("icc_profile", "exif", "xmp"))
    for name in found:
        value = image.info.get(name)
        found[name] = value if isinstance(value, bytes) and value else None
    left_out = list(_not_carried(image, file))
    extra = _raw_profiles(image) if image.format == "PNG" else {}
    if image.format == "JPEG2000":
        extra = jpeg_2000_metadata(file)
    for name, value in extra.items():
        found[name] = found[name] or value
    if image.format == "AVIF" and found["xmp"]:  # which its own orientation overrules
        found["xmp"] = xmp_properties.take_orientation(xmp_properties.as_utf8(found["xmp"]))[1]
    if image.format == "TIFF":
        found["exif"], damaged = gathered(Directories(file), image.tell())
        left_out += [f"damaged EXIF tags ({_numbers(damaged)})"] if damaged else []
    else:
        found["exif"] = with_resolution(found["exif"], resolution(image))
    return Picture(np.empty((0, 0), np.uint8), **found, left_out=tuple(left_out))


def _not_carried(image: Image.Image, file: IO[bytes]) -> list[str]:
    """Name what travels in the picture's file and has no place in a .csc file."""
    names = []
    if description := colour_description(image, file):
        names.append(description)
    names += _unread(image.format or "", file)
    if image.format == "MPO" and getattr(image, "n_frames", 1) > 1:
        names.append("the other pictures in it, such as a gain map or a preview")
    if image.format in ("JPEG", "MPO"):
        segments: list[tuple[str, bytes]] = getattr(image, "applist", [])
        if any(data.startswith(_EXTENDED_XMP) for _, data in segments):
            names.append("the part of its XMP beyond 64 KB")
    if 0x0404 in image.info.get("photoshop", {}):
        names.append("IPTC")
    if image.info.get("comment") and image.format != "JPEG2000":  # the encoder's name, mostly
        names.append("the comment")
    texts = [key for key in getattr(image, "text", {}) if not _is_known_text(key)]
    if texts:
        names.append(f"texts ({', '.join(sorted(texts)[:4])}{', ...' * (len(texts) > 4)})")
    if image.format == "HEIF" and (image.info.get("depth_images") or image.info.get("aux")):
        names.append("depth or gain maps")
    return names


def _unread(kind: str, file: IO[bytes]) -> list[str]:
    """Name metadata of GIF and BMP files that Pillow does not look for."""
    file.seek(0)
    if kind == "GIF":
        data = file.read()
        return [name for mark, name in _GIF_EXTENSIONS.items() if mark in data]
    if kind == "BMP":
        header = file.read(14 + 60)
        has_profile = header[14] == 124 and header[14 + 56 :] in (b"KNIL", b"DEBM")
        return ["its ICC profile"] if has_profile else []
    return []


def _is_known_text(key: str) -> bool:
    """Whether a text of PNG travels otherwise, or only says when its file was written."""
    return key.startswith(("XML:com.adobe.xmp", "Raw profile type ", "date:"))


def _raw_profiles(image: Image.Image) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for kind, name in _RAW_PROFILES.items():
        text = image.info.get(f"Raw profile type {kind}")
        if not isinstance(text, str):
            continue
        with suppress(ValueError):  # a line with the name, one with the length, then digits
            data = bytes.fromhex("".join(text.strip().split("\n")[2:]))
            if data.startswith(_XMP_PREFIX):
                name, data = "xmp", data[len(_XMP_PREFIX) :]
            found.setdefault(name, data)
    return found


def resolution(image: Image.Image) -> tuple[float, float] | None:
    """Return pixels per inch as a picture's own format states them."""
    # Pillow makes up 72 for a JPEG that says nothing.
    if image.format in ("JPEG", "MPO") and image.info.get("jfif_unit") not in (1, 2):
        return None
    with suppress(TypeError, ValueError, ArithmeticError):
        across, down = (float(value) for value in image.info.get("dpi", ()))
        return across, down
    return None


def with_resolution(
    exif: bytes | None, pixels_per_inch: tuple[float, float] | None
) -> bytes | None:
    """Put a format's own resolution into the EXIF, where it can travel."""
    if not pixels_per_inch or not all(0.1 <= value <= 400_000 for value in pixels_per_inch):
        return exif
    if exif is None:
        return Exif.of(resolution_fields("<", pixels_per_inch)).tobytes()
    with suppress(ValueError, struct.error):  # damaged EXIF is another's concern
        block = Exif(exif)
        block.set_resolution(pixels_per_inch)
        return block.tobytes()
    return exif


def _numbers(tags: list[int]) -> str:
    return ", ".join(map(str, sorted(set(tags))[:8]))
