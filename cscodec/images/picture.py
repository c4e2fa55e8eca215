"""A picture in memory: pixels, the metadata that travel with them, and their luma."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cscodec.arrays import Pixels


@dataclass(frozen=True, eq=False)
class Picture:
    """Pixels and the metadata that travel with them.

    Attributes
    ----------
    pixels : ndarray, (H, W), (H, W, 2), (H, W, 3) or (H, W, 4) uint8
        Gray, gray with alpha, RGB, or RGB with alpha.
    icc_profile, exif, xmp : bytes or None
        As stored in the file, but for what :func:`~cscodec.images.metadata.upright` changes.
    left_out : tuple of str
        What the source had and this picture has not, each in a few words.
    """

    pixels: Pixels
    icc_profile: bytes | None = None
    exif: bytes | None = None
    xmp: bytes | None = None
    left_out: tuple[str, ...] = ()

    def but(self, *left_out: str, **changes: Any) -> Picture:
        """Return the picture with other fields, and more said to be left out."""
        return replace(self, **changes, left_out=(*self.left_out, *left_out))


def luma(pixels: Pixels) -> Pixels:
    """Return the BT.601 full-range luma of gray or RGB pixels, (H, W) uint8; alpha is ignored."""
    if pixels.ndim == 2:
        return pixels
    if pixels.shape[2] <= 2:
        return pixels[..., 0]
    red, green, blue = (pixels[..., channel].astype(np.uint32) for channel in range(3))
    # Integers, so that the result is exact and the same everywhere; halves are rounded up.
    return ((299 * red + 587 * green + 114 * blue + 500) // 1000).astype(np.uint8)
