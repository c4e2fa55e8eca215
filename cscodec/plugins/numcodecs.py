"""A codec for numcodecs, and so for Zarr 2, kerchunk and others: lossy, for chunks of uint8.

import zarr
from cscodec.plugins.numcodecs import CscCodec

codec = CscCodec(quality=60)  # or numcodecs.get_codec({"id": "cscodec", "quality": 60})
zarr.create_array("photo.zarr", data=pixels, chunks=(512, 512, 3), zarr_format=2, compressors=codec)
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from cscodec.arrays import Pixels
from cscodec.plugins.chunks import MISSING, NAME, ChunkCoder

try:
    from numcodecs.abc import Codec
    from numcodecs.registry import register_codec
except ImportError as error:
    raise ImportError(MISSING.format(__name__)) from error


class CscCodec(Codec):  # type: ignore[misc]
    """Lossy compression of chunks that are pictures: (H, W) or (H, W, C) uint8.

    Options are those of :class:`cscodec.plugins.chunks.ChunkCoder`.
    """

    codec_id = NAME
    lossy = True

    def __init__(self, **options: Any) -> None:
        self._coder = ChunkCoder(**options)

    def encode(self, buf: Any) -> bytes:
        """Compress a chunk, an array whose shape is that of a picture."""
        return self._coder.encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Pixels:
        """Restore a chunk, into ``out`` if it is given: a buffer of as many bytes."""
        if out is None:
            return self._coder.decode(buf)
        room = np.frombuffer(out, np.uint8)
        pixels = self._coder.decode(buf, room.size)
        room[:] = pixels.ravel()
        return out  # type: ignore[no-any-return]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Make the codec that metadata describe."""
        options = {name: value for name, value in config.items() if name != "id"}
        return cls(**ChunkCoder.from_metadata(options).config())

    def get_config(self) -> dict[str, Any]:
        """Return the options, JSON-able; the model by its id."""
        return {"id": NAME, **self._coder.config()}

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._coder.config().items())
        return f"{type(self).__name__}({options})"


register_codec(CscCodec)  # as its entry point does, where cscodec is installed
