"""Pillow reads and writes .csc files once this module is imported.

    from PIL import Image
    import cscodec.plugins.pillow

    Image.open("photo.png").save("photo.csc", quality=75)
    Image.open("photo.csc").show()

Pictures stand upright, with orientation 1: saving turns the pixels as EXIF or XMP ask for. Both
are saved by default, with resolution and ICC profile; ``exif=None`` and the like leave them out.
Errors follow Pillow's customs: bytes that are not a .csc file are left to other plugins, and
damaged ones raise ``OSError``.
"""

from __future__ import annotations

import warnings
from typing import IO, Any

import numpy as np
from PIL import Image, ImageFile

import cscodec
from cscodec.bitstream import container
from cscodec.bitstream.container import SIGNATURE
from cscodec.errors import BadMagicError, CscodecError
from cscodec.images import Picture, upright
from cscodec.images.carried import resolution, with_resolution
from cscodec.images.exif import DESCRIPTIVE, Exif
from cscodec.images.metadata import oriented, take_orientation, with_size

FORMAT = "CSC"
MIME_TYPE = "image/x-cscodec"
SUFFIX = ".csc"

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_ENCODE_OPTIONS = (
    "quality",
    "step",
    "tune",
    "measurements",
    "model",
    "subsampling",
    "effort",
    "target_bpp",
    "target_size",
    "target_psnr",
    "workers",
)


class CscImageFile(ImageFile.ImageFile):
    """A .csc file; pixels are decoded when they are first asked for."""

    format = FORMAT
    format_description = "cscodec compressive-sensing image"

    _data = b""  #: the file, until it is decoded; copies and unpickled pictures never have it
    _orientation = 1

    def _open(self) -> None:
        assert self.fp is not None
        try:
            self._data = container.read(self.fp)
            header = cscodec.info(self._data)
        except BadMagicError as error:
            raise SyntaxError(str(error)) from error  # Pillow's way to say: not mine
        except CscodecError as error:
            raise OSError(str(error)) from error
        stored = Picture(np.empty((0, 0), np.uint8), header.icc_profile, header.exif, header.xmp)
        self._orientation, stored = take_orientation(stored)
        size = header.width, header.height
        self._size = size[::-1] if self._orientation >= 5 else size
        self._mode = _MODES[header.channels]
        stored = with_size(stored, *self._size)
        for name in ("icc_profile", "exif", "xmp"):
            if value := getattr(stored, name):
                self.info[name] = value
        if stored.exif and (pixels_per_inch := Exif(stored.exif).resolution()):
            self.info["dpi"] = pixels_per_inch

    def load(self) -> Any:
        """Decode the pixels, once.

        Raises
        ------
        OSError
            If the file is damaged or its model is missing.
        """
        if self._data:
            try:
                pixels = oriented(cscodec.decode(self._data), self._orientation)
            except CscodecError as error:
                raise OSError(str(error)) from error
            self._data = b""
            if self.fp is not None and self._exclusive_fp:
                self.fp.close()
            self.fp = None
            self.im = Image.fromarray(pixels).im
        return super().load()


def register() -> None:
    """Teach Pillow the format, in this process, as importing this module does."""
    Image.register_open(FORMAT, CscImageFile, _accept)
    Image.register_save(FORMAT, _save)
    Image.register_save_all(FORMAT, _save_all)
    Image.register_extension(FORMAT, SUFFIX)
    Image.register_mime(FORMAT, MIME_TYPE)


def _accept(prefix: bytes) -> bool:
    return prefix.startswith(SIGNATURE)


def _save(image: Image.Image, file: IO[bytes], filename: str | bytes) -> None:
    given = image.encoderinfo
    if given.get("lossless"):
        raise OSError(f"lossless=True: {FORMAT} files are lossy; save as PNG or WebP instead")
    options = {name: given[name] for name in _ENCODE_OPTIONS if name in given}
    pixels = np.asarray(_supported(image))
    icc_profile = given.get("icc_profile", image.info.get("icc_profile"))
    picture = upright(Picture(pixels, icc_profile, _exif(image), _xmp(image)))
    for what in picture.left_out:
        warnings.warn(f"{SUFFIX}: left out: {what}", stacklevel=4)
    try:
        data = cscodec.encode(
            picture.pixels,
            icc_profile=picture.icc_profile,
            exif=picture.exif,
            xmp=picture.xmp,
            **options,
        )
    except CscodecError as error:
        raise OSError(str(error)) from error
    file.write(data)


def _save_all(image: Image.Image, file: IO[bytes], filename: str | bytes) -> None:
    frames = getattr(image, "n_frames", 1) + len(list(image.encoderinfo.get("append_images", ())))
    if frames > 1:
        raise OSError(f"save_all: a {SUFFIX} file holds one picture, not {frames}; save each alone")
    _save(image, file, filename)


def _exif(image: Image.Image) -> bytes | None:
    """The EXIF that was asked for, or the picture's, with the resolution in it."""
    given = image.encoderinfo
    if "exif" in given:
        asked = given["exif"]
        exif: bytes | None = asked.tobytes() if isinstance(asked, Image.Exif) else asked
    else:
        exif = image.info.get("exif") or _gathered(image.getexif())
    if "dpi" in given:
        across, down = given["dpi"]
        return with_resolution(exif or None, (float(across), float(down)))
    return exif if "exif" in given else with_resolution(exif or None, resolution(image))


def _gathered(found: Image.Exif) -> bytes | None:
    """What Pillow found elsewhere: in TIFF's tags, not all of which are EXIF, or in PNG's texts."""
    kept = Image.Exif()
    for tag in (*DESCRIPTIVE, 0x0112):
        if tag in found:
            kept[tag] = found.get_ifd(tag) if tag in (0x8769, 0x8825) else found[tag]
    try:
        return kept.tobytes() if len(kept) else None
    except Exception:  # Pillow raises nearly anything for values that are not of their kind
        return None


def _xmp(image: Image.Image) -> bytes | None:
    xmp = image.encoderinfo.get("xmp", image.info.get("xmp"))
    return xmp.encode() if isinstance(xmp, str) else xmp


def _supported(image: Image.Image) -> Image.Image:
    """The image in a mode that loses nothing, as Pillow's own plugins convert on saving."""
    if image.mode in _MODES.values() and "transparency" not in image.info:
        return image
    base = {"1": "L", "L": "L", "P": "RGB", "PA": "RGB", "RGB": "RGB", "RGBX": "RGB"}
    if image.mode not in base:
        raise OSError(f"cannot write mode {image.mode} as {FORMAT}; convert to L or RGB first")
    return image.convert(base[image.mode] + ("A" if image.has_transparency_data else ""))


register()
