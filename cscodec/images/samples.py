"""Pillow's pictures to arrays of 8-bit gray or RGB, with or without alpha: nothing else gets by."""

from __future__ import annotations

import io
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cscodec.arrays import Pixels
from cscodec.images.headers import Unsupported, jpeg_2000_depths

#: Pillow's modes that lose nothing as 8-bit gray or RGB (alpha is decided apart).
_COLOURS = dict.fromkeys(("1", "L", "LA", "La"), "L") | dict.fromkeys(
    ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "YCbCr"), "RGB"
)
_DEEP = ("I", "I;16", "I;16L", "I;16B", "I;16N")  #: gray of up to 16 bits
_REMEDIES = {
    "CMYK": "CMYK without an ICC profile says nothing of its colours; convert it to sRGB first",
    "LAB": "L*a*b* needs a colour-managed conversion; convert it to sRGB first",
    "F": "floating-point samples have no fixed range; convert it to 8 bits per sample first",
}
_STRIP_PIXELS = 1 << 22


def check_mode(image: Image.Image, bits: int, to_8bit: bool) -> None:
    """Refuse a picture whose samples cannot be kept.

    Raises
    ------
    Unsupported
        If it is of a mode or a depth that is not supported.
    """
    bits = max(bits, image.info.get("bit_depth", 8)) if image.format == "HEIF" else bits
    if bits > 16 or (bits > 8 and not to_8bit):
        remedy = "" if bits > 16 else " (--to-8bit keeps the high 8 bits)"
        raise Unsupported(
            f"{bits} bits per sample are not supported; convert it to 8 bits first{remedy}"
        )
    is_deep = bits > 8 and image.mode in _DEEP
    is_convertible = image.mode == "CMYK" and image.info.get("icc_profile")
    if not (image.mode in _COLOURS or is_deep or is_convertible):
        remedy = _REMEDIES.get(image.mode, "convert it to 8 bits per sample first")
        raise Unsupported(f"mode {image.mode} is not supported: {remedy}")
    if image.mode == "RGBX" and image.format == "TIFF":
        raise Unsupported("its fourth sample is not said to be alpha; convert it to RGB first")
    if bits > 8 and image.mode == "RGB" and "transparency" in image.info:
        raise Unsupported(
            f"its transparent colour has {bits} bits per sample; convert it to 8 bits first"
        )


def samples(
    image: Image.Image, file: IO[bytes], bits: int, icc_profile: bytes | None
) -> tuple[Pixels, bytes | None]:
    """Return the pixels of a loaded picture, and the ICC profile that they are in now.

    Raises
    ------
    Unsupported
        If the ICC profile of a CMYK picture cannot be used.
    """
    if image.mode in _DEEP:
        return _from_deep(image, bits), icc_profile
    _scale_transparency(image, bits)
    pixels, icc_profile = as_displayed(image, icc_profile)
    if image.format == "JPEG2000" and image.mode != "P":
        pixels = _full_range(pixels, jpeg_2000_depths(file)[0])
    return without_opaque_alpha(pixels), icc_profile


def as_displayed(image: Image.Image, icc_profile: bytes | None) -> tuple[Pixels, bytes | None]:
    """Return what the mode of a picture means, and the ICC profile that it is in now.

    Raises
    ------
    Unsupported
        If the ICC profile of a CMYK picture cannot be used.
    """
    if image.mode == "CMYK":
        return _rows(_from_cmyk(image, icc_profile or b"")), None
    mode = _COLOURS[image.mode] + ("A" if image.has_transparency_data else "")
    return _rows(image if image.mode == mode else image.convert(mode)), icc_profile


def without_opaque_alpha(pixels: Pixels) -> Pixels:
    """Return pixels without their alpha if it is 255 everywhere."""
    if pixels.ndim == 2 or pixels.shape[2] in (1, 3) or (pixels[..., -1] != 255).any():
        return pixels
    return np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 2 else pixels[..., :3])


def _rows(image: Image.Image) -> npt.NDArray[Any]:
    # In strips: np.asarray(image) would hold the whole picture two more times on the way.
    width, height = image.size
    first = np.asarray(image.crop((0, 0, 1, 1)))
    pixels = np.empty((height, width, *first.shape[2:]), first.dtype)
    rows = max(1, _STRIP_PIXELS // max(1, width))
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        pixels[top:bottom] = np.asarray(image.crop((0, top, width, bottom)))
    return pixels


def _scale_transparency(image: Image.Image, bits: int) -> None:
    # Pillow scales gray samples of 2 and 4 bits to 8, but not the value that is transparent.
    value = image.info.get("transparency")
    if image.format != "PNG" or value is None:
        return
    if image.mode == "L":
        most = (1 << bits) - 1
        image.info["transparency"] = (value & most) * 255 // most
    elif image.mode == "RGB":
        image.info["transparency"] = tuple(each & 255 for each in value)


def _from_deep(image: Image.Image, bits: int) -> Pixels:
    values = _rows(image)
    gray = (values >> (bits - 8)).clip(0, 255).astype(np.uint8)
    transparent = image.info.get("transparency")
    if transparent is None:
        return gray
    alpha = np.where(values == transparent, 0, 255).astype(np.uint8)
    return without_opaque_alpha(np.stack([gray, alpha], axis=2))


def _full_range(pixels: Pixels, depths: list[int]) -> Pixels:
    # Pillow shifts samples of fewer bits up, so that the highest is not 255.
    if min(depths) >= 8 or max(depths) > 8:
        return pixels
    most = np.array([((1 << depth) - 1) << (8 - depth) for depth in depths], np.uint16)
    if pixels.ndim == 2:
        most = most[0]
    return ((pixels.astype(np.uint16) * 255 + most // 2) // most).astype(np.uint8)


def _from_cmyk(image: Image.Image, icc_profile: bytes) -> Image.Image:
    from PIL import ImageCms

    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(icc_profile))
        srgb = ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, profile, srgb, outputMode="RGB")
    except (ImageCms.PyCMSError, OSError) as error:
        raise Unsupported(
            f"CMYK whose ICC profile cannot be used ({error}); convert it to sRGB first"
        ) from error
    assert converted is not None
    return converted
