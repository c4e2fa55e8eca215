"""Crops of photographs, drawn where linear decoding leaves something to restore.

All pictures lie on the device as bytes. Every random number that chooses a crop comes from NumPy,
so the same seed gives the same crops on every device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from cscodec.errors import InvalidInputError
from cscodec.learning.corpus import PictureFile, luma_plane, read_pixels
from cscodec.learning.options import MAX_TRAINING_PIXELS

Uint8Array = npt.NDArray[np.uint8]
Float32Array = npt.NDArray[np.float32]

_BLOCK = 32  # pixels on each side of the blocks that crops are drawn by
_BLOCK_FLOOR = 2.0  # variance that every block has for that purpose
_NATIVE_SHARE = 0.5  # of crops, taken pixel by pixel
_SIZES = (0.65, 1.5)  # pixels of a picture for a pixel of the other crops
_GROUPS = 4  # of crops resized alike


class Photographs:
    """Crops of pictures, drawn where linear decoding leaves something to restore.

    Parameters
    ----------
    planes : list of ndarray, (H, W) uint8
    device : torch.device
    """

    def __init__(self, planes: list[Uint8Array], device: torch.device) -> None:
        self.pixels = torch.from_numpy(np.concatenate([plane.ravel() for plane in planes]))
        self.pixels = self.pixels.to(device)
        sizes = np.array([plane.shape for plane in planes], np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes.prod(axis=1))[:-1]])
        blocks, odds = [], []
        for (height, width), start, plane in zip(sizes, starts, planes, strict=True):
            rows, columns = height // _BLOCK, width // _BLOCK
            places = np.stack(np.meshgrid(range(rows), range(columns), indexing="ij"), axis=-1)
            picture = np.broadcast_to([start, height, width], (rows, columns, 3))
            blocks.append(np.concatenate([picture, _BLOCK * places], axis=-1).reshape(-1, 5))
            odds.append(np.sqrt(_BLOCK_FLOOR + _detail(plane, rows, columns)).ravel())
        self.blocks = np.concatenate(blocks)
        self.odds = np.cumsum(np.concatenate(odds))
        self.odds /= self.odds[-1]  # so that the last is 1, which no random number reaches

    def crops(self, count: int, side: int, random: np.random.Generator) -> Tensor:
        """Return (count, 1, side, side) float32 crops, a part of them resized, 0..255, shuffled."""
        resized = np.array_split(np.arange(round(count * (1 - _NATIVE_SHARE))), _GROUPS)
        groups = [self._taken(count - sum(map(len, resized)), side, random)]
        for group in resized:
            size = random.uniform(*_SIZES)
            taken = int(min(round(side * size), self.blocks[:, 1:3].min()))
            groups.append(
                functional.interpolate(
                    self._taken(len(group), taken, random),
                    (side, side),
                    mode="bicubic",
                    antialias=True,
                    align_corners=False,
                )
            )
        order = torch.from_numpy(random.permutation(count)).to(self.pixels.device)
        return torch.cat(groups)[order]

    def _taken(self, count: int, side: int, random: np.random.Generator) -> Tensor:
        start, height, width, top, left = self.blocks[
            np.searchsorted(self.odds, random.random(count), side="right")
        ].T
        centre = random.integers(0, _BLOCK, (2, count))
        top = np.clip(top + centre[0] - side // 2, 0, height - side)
        left = np.clip(left + centre[1] - side // 2, 0, width - side)
        turned = random.integers(0, 2, (3, count)).astype(bool)
        numbers = np.stack([start + top * width + left, width, *turned])
        first, width, upward, leftward, across = (
            torch.from_numpy(numbers).to(self.pixels.device)[..., None, None].unbind()
        )
        steps = torch.arange(side, device=self.pixels.device)
        rows = torch.where(upward.bool(), steps.flip(0), steps).transpose(1, 2)
        columns = torch.where(leftward.bool(), steps.flip(0), steps)
        indices = first + rows * width + columns
        indices = torch.where(across.bool(), indices.transpose(1, 2), indices)
        return self.pixels[indices][:, None].float()


def read_photographs(
    pictures: Sequence[PictureFile], smallest: int, skipped: dict[str, str]
) -> list[Uint8Array]:
    """Read the luma of pictures, without those that cannot be read or are too small.

    Raises
    ------
    InvalidInputError
        If none is left.
    """
    planes = []
    for picture in pictures:
        pixels = read_pixels(picture, MAX_TRAINING_PIXELS, skipped)
        if pixels is not None and min(pixels.shape[:2]) < smallest:
            skipped[picture.name] = f"smaller than {smallest} x {smallest} pixels"
        elif pixels is not None:
            planes.append(luma_plane(pixels))
    if not planes:
        name, reason = next(iter(sorted(skipped.items())))
        raise InvalidInputError(
            f"none of the {len(pictures)} pictures can be used; the first is {name}: {reason}"
        )
    return planes


def _detail(plane: Uint8Array, rows: int, columns: int) -> Float32Array:
    """Mean over each block of the squared Laplacian, a measure of what is hard to restore."""
    pixels = plane[: rows * _BLOCK, : columns * _BLOCK].astype(np.float32)
    edged = np.pad(pixels, 1, mode="edge")
    neighbours = edged[:-2, 1:-1] + edged[2:, 1:-1] + edged[1:-1, :-2] + edged[1:-1, 2:]
    energy = np.square(pixels - neighbours / 4)
    means: Float32Array = energy.reshape(rows, _BLOCK, columns, _BLOCK).mean(axis=(1, 3))
    return means
