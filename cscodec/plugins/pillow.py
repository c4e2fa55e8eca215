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
from cscodec.images.carried import with_resolution
from cscodec.images.exif import Exif
from cscodec.images.headers import Unsupported
from cscodec.images.metadata import oriented, take_orientation, with_size
from cscodec.images.pillow import exif_of
from cscodec.images.samples import as_displayed, check_mode

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
    _reduction = 1  #: of width and height, by `draft`

    def _open(self) -> None:
        assert self.fp is not None
        try:
            self._data = container.read(self.fp)
            partial = ImageFile.LOAD_TRUNCATED_IMAGES
            header = cscodec.info(self._data, allow_partial=partial)
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

    def draft(  # type: ignore[override]
        self, mode: str | None, size: tuple[float, float] | None
    ) -> tuple[str, tuple[float, float, float, float]] | None:
        """Prepare to decode a smaller picture, at a part of the time, as `thumbnail` asks for.

        Returns
        -------
        tuple or None
            The mode, and the box of the smaller picture that the whole one fills; None if the
            picture stays whole: it is not 2, 4 or 8 times as large as ``size``, or loaded already.
        """
        if not self._data or not size or self._reduction > 1:
            return None
        width, height = self.size
        fits = min(width // max(size[0], 1), height // max(size[1], 1))
        self._reduction = max((by for by in (2, 4, 8) if by <= fits), default=1)
        if self._reduction == 1:
            return None
        self._size = -(-width // self._reduction), -(-height // self._reduction)
        return self.mode, (0, 0, width / self._reduction, height / self._reduction)

    def load(self) -> Any:
        """Decode the pixels, once.

        Raises
        ------
        OSError
            If the file is damaged or its model is missing.
        """
        if self._data:
            try:
                partial = ImageFile.LOAD_TRUNCATED_IMAGES
                scale = 1 / self._reduction
                reduced = cscodec.decode(self._data, scale=scale, allow_partial=partial)
                pixels = oriented(reduced, self._orientation)
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
    icc_profile = given.get("icc_profile", image.info.get("icc_profile"))
    try:
        check_mode(image, 8, to_8bit=False)
        pixels, icc_profile = as_displayed(image, icc_profile)
    except Unsupported as error:
        raise OSError(f"cannot write mode {image.mode} as {FORMAT}: {error}") from error
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
    asked = given["exif"] if "exif" in given else exif_of(image)
    exif: bytes | None = asked.tobytes() if isinstance(asked, Image.Exif) else asked
    return with_resolution(exif or None, given.get("dpi"))


def _xmp(image: Image.Image) -> bytes | None:
    xmp = image.encoderinfo.get("xmp", image.info.get("xmp"))
    return xmp.encode() if isinstance(xmp, str) else xmp


register()
