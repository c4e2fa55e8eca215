"""Pillow reads and writes .csc files after ``cscodec.plugins.pillow.register()``.

    from PIL import Image
    from cscodec.plugins import pillow

    pillow.register()
    Image.open("photo.png").save("photo.csc", quality=75)
    Image.open("photo.csc").show()

Errors follow Pillow's customs: bytes that are not a .csc file are left to other plugins, and
damaged ones raise ``OSError``.
"""

from __future__ import annotations

import io
from typing import IO, Any

import numpy as np
from PIL import Image, ImageFile

import cscodec
from cscodec.bitstream.container import SIGNATURE
from cscodec.errors import BadMagicError, CscodecError

FORMAT = "CSC"
MIME_TYPE = "image/x-cscodec"
SUFFIX = ".csc"

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_ENCODE_OPTIONS = (
    "quality",
    "step",
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

    def _open(self) -> None:
        assert self.fp is not None
        self._data = self.fp.read()
        try:
            header = cscodec.info(self._data)
        except BadMagicError as error:
            raise SyntaxError(str(error)) from error  # Pillow's way to say: not mine
        except CscodecError as error:
            raise OSError(str(error)) from error
        self._size = header.width, header.height
        self._mode = _MODES[header.channels]
        for name in ("icc_profile", "exif", "xmp"):
            if value := getattr(header, name):
                self.info[name] = value

    def load(self) -> Any:
        """Decode the pixels, once.

        Raises
        ------
        OSError
            If the file is damaged or its model is missing.
        """
        if self._data:
            try:
                pixels = cscodec.decode(self._data)
            except CscodecError as error:
                raise OSError(str(error)) from error
            self._data = b""
            if self.fp is not None and self._exclusive_fp:
                self.fp.close()
            self.fp = io.BytesIO(pixels.tobytes())
            self.tile = [ImageFile._Tile("raw", (0, 0, *self.size), 0, self.mode)]
        return super().load()


def register() -> None:
    """Teach Pillow the format, in this process. Calling it again does no harm."""
    Image.register_open(FORMAT, CscImageFile, _accept)
    Image.register_save(FORMAT, _save)
    Image.register_extension(FORMAT, SUFFIX)
    Image.register_mime(FORMAT, MIME_TYPE)


def _accept(prefix: bytes) -> bool:
    return prefix.startswith(SIGNATURE)


def _save(image: Image.Image, file: IO[bytes], filename: str | bytes) -> None:
    given = image.encoderinfo
    options = {name: given[name] for name in _ENCODE_OPTIONS if name in given}
    exif = given.get("exif")
    try:
        data = cscodec.encode(
            np.asarray(_supported(image)),
            icc_profile=given.get("icc_profile", image.info.get("icc_profile")),
            exif=exif.tobytes() if isinstance(exif, Image.Exif) else exif,
            xmp=given.get("xmp"),
            **options,
        )
    except CscodecError as error:
        raise OSError(str(error)) from error
    file.write(data)


def _supported(image: Image.Image) -> Image.Image:
    """The image in a mode that loses nothing, as Pillow's own plugins convert on saving."""
    if image.mode in _MODES.values() and "transparency" not in image.info:
        return image
    base = {"1": "L", "L": "L", "P": "RGB", "PA": "RGB", "RGB": "RGB", "RGBX": "RGB"}
    if image.mode not in base:
        raise OSError(f"cannot write mode {image.mode} as {FORMAT}; convert to L or RGB first")
    return image.convert(base[image.mode] + ("A" if image.has_transparency_data else ""))
