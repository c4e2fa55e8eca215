"""The alpha channel, lossless: a gray PNG stream inside the file."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from cscodec.arrays import Pixels
from cscodec.errors import InvalidFieldError


def pack_alpha(alpha: npt.NDArray[Any]) -> bytes:
    """Return an (H, W) uint8 plane as a PNG stream."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(alpha)).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def unpack_alpha(data: bytes, width: int, height: int) -> Pixels:
    """Inverse of :func:`pack_alpha`; the size is checked before anything is allocated for it.

    Raises
    ------
    InvalidFieldError
        If the stream is not a gray 8-bit PNG of this size.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
                if picture.size != (width, height) or picture.mode != "L":
                    raise InvalidFieldError(
                        f"alpha is {picture.mode} {picture.size}, expected L {(width, height)}"
                    )
                return np.array(picture)
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise InvalidFieldError(f"the alpha channel cannot be decoded: {error}") from error
