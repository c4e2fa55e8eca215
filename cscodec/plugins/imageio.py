"""imageio reads and writes .csc files once this module is imported.

    import imageio.v3 as iio
    import cscodec.plugins.imageio

    iio.imwrite("photo.csc", pixels, quality=75)
    pixels = iio.imread("photo.csc", decoder="refine")

Pictures stand upright, with orientation 1: pixels are turned as ``exif`` or ``xmp`` ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt
from imageio.config import FileExtension, known_extensions, known_plugins
from imageio.config.plugins import PluginConfig
from imageio.core.request import URI_BYTES, InitializationError, IOMode, Request
from imageio.core.v3_plugin_api import ImageProperties, PluginV3

import cscodec
from cscodec.arrays import Pixels
from cscodec.bitstream import container
from cscodec.bitstream.container import SIGNATURE
from cscodec.images import Picture
from cscodec.images.metadata import oriented, take_orientation, with_size
from cscodec.layout import DEFAULT_MAX_PIXELS

NAME = "cscodec"
SUFFIX = ".csc"
_METADATA = ("icc_profile", "exif", "xmp")


class CscPlugin(PluginV3):  # type: ignore[misc]
    """One .csc file, which holds one picture.

    Raises
    ------
    InitializationError
        If the resource is not a .csc file, so that imageio tries other plugins.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._data = b""  # no more than the signature, until it is asked for
        self._is_written = False
        if request.mode.io_mode == IOMode.read:
            self._data = request.get_file().read(len(SIGNATURE))
            if self._data != SIGNATURE:
                raise InitializationError("not a cscodec file")
        elif (request.extension or request.format_hint or SUFFIX).lower() != SUFFIX:
            raise InitializationError(f"cscodec writes {SUFFIX} files only")

    def read(self, *, index: int | EllipsisType | None = 0, **options: Any) -> Pixels:
        """Decode the picture; keywords are those of `cscodec.decode`.

        Returns
        -------
        ndarray, (H, W) or (H, W, C) uint8
            With a leading axis of 1 if ``index`` is ``...``.

        Raises
        ------
        ValueError
            If ``index`` is neither 0, None nor ``...``.
        """
        _check_index(index)
        header = self._info(options.get("max_pixels", DEFAULT_MAX_PIXELS))
        pixels = oriented(cscodec.decode(self._data, **options), _stored(header)[0])
        return pixels[np.newaxis] if index is ... else pixels

    def write(self, ndimage: npt.ArrayLike | list[npt.ArrayLike], **options: Any) -> bytes | None:
        """Encode one picture; keywords are those of `cscodec.encode`.

        Raises
        ------
        ValueError
            If several pictures are given: a .csc file holds one.
        """
        if isinstance(ndimage, list):
            if len(ndimage) != 1:
                raise ValueError(f"a {SUFFIX} file holds one picture, not {len(ndimage)}")
            ndimage = ndimage[0]
        if self._is_written:
            raise ValueError(f"a {SUFFIX} file holds one picture, which is written")
        data = cscodec.encode(np.asarray(ndimage), **options)
        self.request.get_file().write(data)
        self._is_written = True
        return data if self.request._uri_type == URI_BYTES else None

    def iter(self, **options: Any) -> Iterator[Pixels]:
        """Yield the picture."""
        yield self.read(**options)

    def properties(self, index: int | EllipsisType | None = 0) -> ImageProperties:
        """Shape and type, without decoding."""
        _check_index(index)
        header = self._info()
        shape: tuple[int, ...] = header.height, header.width
        if _stored(header)[0] >= 5:
            shape = shape[::-1]
        if header.channels > 1:
            shape = (*shape, header.channels)
        batch = index is ...
        return ImageProperties(
            shape=(1, *shape) if batch else shape,
            dtype=np.dtype(np.uint8),
            n_images=1 if batch else None,
            is_batch=batch,
        )

    def metadata(
        self, index: int | EllipsisType | None = 0, exclude_applied: bool = True
    ) -> dict[str, Any]:
        """What `cscodec.info` tells, and the ICC profile, EXIF and XMP as bytes."""
        _check_index(index)
        header = self._info()
        height, width = self.properties().shape[:2]
        picture = with_size(_stored(header)[1], width, height)
        stored = {name: getattr(picture, name) for name in _METADATA}
        return {**header.as_dict(), "width": width, "height": height, **stored}

    def _info(self, max_pixels: int = DEFAULT_MAX_PIXELS) -> cscodec.Info:
        """Read the file, no further than its header allows, and describe it."""
        if self._data == SIGNATURE:
            file = self.request.get_file()
            self._data = container.read(file, max_pixels=max_pixels, begun=self._data)
        return cscodec.info(self._data, allow_partial=True, max_pixels=max_pixels)


def _stored(header: cscodec.Info) -> tuple[int, Picture]:
    """Orientation and metadata, without pixels."""
    stored = {name: getattr(header, name) for name in _METADATA}
    return take_orientation(Picture(np.empty((0, 0), np.uint8), **stored))


def register() -> None:
    """Teach imageio the format, in this process, as importing this module does."""
    known_plugins[NAME] = PluginConfig(
        name=NAME, class_name=CscPlugin.__name__, module_name=__name__, install_name=NAME
    )
    known_extensions[SUFFIX] = [
        FileExtension(extension=SUFFIX, priority=[NAME], name="cscodec compressive-sensing image")
    ]


def _check_index(index: int | EllipsisType | None) -> None:
    if index not in (0, None, ...):
        raise ValueError(f"a {SUFFIX} file holds one picture: index 0, not {index}")


register()
