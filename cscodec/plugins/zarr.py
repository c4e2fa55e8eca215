"""A codec for Zarr 3: lossy, for chunks of uint8 that are pictures.

import zarr
from cscodec.plugins.zarr import CscCodec

zarr.create_array(
    "photo.zarr", shape=pixels.shape, dtype="uint8", chunks=(512, 512, 3),
    serializer=CscCodec(quality=60), compressors=None,
)
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from cscodec.errors import InvalidFieldError, InvalidInputError
from cscodec.plugins.chunks import MISSING, NAME, ChunkCoder, picture_shape

try:
    from zarr.abc.codec import ArrayBytesCodec
    from zarr.registry import register_codec
except ImportError as error:
    raise ImportError(MISSING.format(__name__)) from error


@dataclass(frozen=True, init=False)
class CscCodec(ArrayBytesCodec):  # type: ignore[misc]  # zarr is not analysed
    """Lossy compression of chunks that are pictures: (H, W) or (H, W, C) uint8.

    Options are those of :class:`cscodec.plugins.chunks.ChunkCoder`. Chunks may have axes of length
    1 before those of the picture.
    """

    coder: ChunkCoder

    is_fixed_size = False
    lossy = True

    def __init__(self, **options: Any) -> None:
        object.__setattr__(self, "coder", ChunkCoder(**options))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make the codec that metadata describe."""
        coder = ChunkCoder.from_metadata(data.get("configuration", {}))
        return cls(**coder.config())

    def to_dict(self) -> dict[str, Any]:
        """Describe the codec for metadata; the model by its id."""
        return {"name": NAME, "configuration": self.coder.config()}

    def validate(self, *, shape: Any, dtype: Any, chunk_grid: Any) -> None:
        """Refuse arrays that cannot be coded, before they are made.

        Raises
        ------
        InvalidInputError
            If they are not uint8, or their chunks are not pictures.
        """
        native = getattr(dtype, "to_native_dtype", lambda: dtype)()
        if native != np.uint8:
            raise InvalidInputError(f"the array has dtype {native}; allowed is uint8")
        picture_shape(tuple(getattr(chunk_grid, "chunk_shape", shape)))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Sizes depend on the picture.

        Raises
        ------
        NotImplementedError
            Always, as Zarr wants it.
        """
        raise NotImplementedError

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        pixels = np.ascontiguousarray(chunk_data.as_numpy_array())  # orders are those of memory
        data = await asyncio.to_thread(self.coder.encode, pixels)
        return chunk_spec.prototype.buffer.from_bytes(data)

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        size = int(np.prod(chunk_spec.shape))
        pixels = await asyncio.to_thread(self.coder.decode, chunk_data.to_bytes(), size)
        if pixels.shape not in ((shape := picture_shape(chunk_spec.shape)), shape[:2]):
            raise InvalidFieldError(
                f"the chunk holds a picture of shape {pixels.shape}, not the {chunk_spec.shape} "
                "that the array's metadata promise"
            )
        return chunk_spec.prototype.nd_buffer.from_numpy_array(pixels.reshape(chunk_spec.shape))


register_codec(NAME, CscCodec)  # as its entry point does, where cscodec is installed
