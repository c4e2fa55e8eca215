"""A picture read some rows at a time: an array in memory, or anything that is sliced like one.

`numpy.memmap`, arrays of Zarr, Dask, h5py and xarray, and the files of :mod:`cscodec.images` that
are larger than memory all come to the encoder this way.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.layout import MAX_DIMENSION

_ROUNDING = 1e-6  #: how far sums of floats of 0 to 1 may miss that range


class PictureRows:
    """A picture of which rows can be read.

    Parameters
    ----------
    image : array_like
        (H, W), or (H, W, 1..4) with channels last; uint8, or bool, or floats of 0 to 1, which
        become 0 to 255. What has a shape and a dtype of NumPy and can be sliced is sliced, anything
        else made an array.

    Attributes
    ----------
    shape : tuple of int
        (H, W), or (H, W, 2..4).

    Raises
    ------
    InvalidInputError
        If it is of another shape or type.
    """

    def __init__(self, image: Any) -> None:
        try:
            self._source: Any = image if _is_sliced(image) else np.asarray(image)
        except (TypeError, ValueError) as error:
            kind = type(image).__name__
            raise InvalidInputError(
                f"image is of type {kind}, which is no array: {error}"
            ) from None
        dtype, shape = self._source.dtype, tuple(self._source.shape)
        if dtype not in (np.uint8, np.bool_) and dtype.kind != "f":
            raise InvalidInputError(
                f"image has dtype {dtype}; allowed are uint8, bool, and floats of 0 to 1 (scale "
                "16-bit data to 0..255 first)"
            )
        if not (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 2, 3, 4))):
            raise InvalidInputError(
                f"image has shape {shape}; allowed are (H, W) and (H, W, 1..4), channels last"
            )
        if not all(1 <= side <= MAX_DIMENSION for side in shape[:2]):
            raise InvalidInputError(
                f"image is {shape[1]} x {shape[0]} pixels; allowed are 1 to {MAX_DIMENSION} "
                "each way"
            )
        self.shape = shape[:2] if shape[2:] == (1,) else shape

    @property
    def num_channels(self) -> int:
        """1 to 4, alpha included."""
        return 1 if len(self.shape) == 2 else self.shape[2]

    def __getitem__(self, rows: slice) -> Pixels:
        """Read rows.

        Raises
        ------
        InvalidInputError
            If they do not come as the shape of the picture promises, or floats lie outside 0..1.
        """
        read = np.asarray(self._source[rows])
        height = len(range(*rows.indices(self.shape[0])))
        if read.dtype != self._source.dtype or read.shape != (height, *self._source.shape[1:]):
            raise InvalidInputError(
                f"rows of the image came as {read.dtype} {read.shape}; expected is "
                f"{self._source.dtype} {(height, *self._source.shape[1:])}"
            )
        return _as_samples(read.reshape(height, *self.shape[1:]))

    def strips(self, height: int) -> Iterator[Pixels]:
        """Yield the picture from top to bottom, some rows at a time."""
        for top in range(0, self.shape[0], height):
            yield self[top : top + height]
            release_pages(self._source)


def _as_samples(values: npt.NDArray[Any]) -> Pixels:
    """Return values as samples of 8 bits, by the convention of scikit-image."""
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.bool_:
        return values * np.uint8(255)
    low, high = values.min(), values.max()
    if not (low >= -_ROUNDING and high <= 1 + _ROUNDING):
        raise InvalidInputError(
            f"image has floats from {low:g} to {high:g}; allowed are 0 to 1, which become 0 to "
            "255: scale them first, or make them uint8"
        )
    scaled = np.multiply(values, 255, dtype=np.result_type(values, np.float32))
    samples: Pixels = np.rint(scaled).astype(np.uint8)
    return samples


def release_pages(array: Any) -> None:
    """Let go of the pages of a file mapped into memory; what was written to them is kept.

    They would be taken back when memory is short, but until then count as this process's.
    """
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            file: Any = array._mmap  # type: ignore[attr-defined]
            # Changes to a private copy, mode "c", would be lost.
            if array.mode != "c" and hasattr(file, "madvise"):
                file.madvise(mmap.MADV_DONTNEED)
            return
        array = array.base


def _is_sliced(image: Any) -> bool:
    return (
        not isinstance(image, np.ndarray)
        and isinstance(getattr(image, "dtype", None), np.dtype)
        and isinstance(getattr(image, "shape", None), tuple)
        and hasattr(image, "__getitem__")
    )
