"""What the network learns from: crops of photographs, seen through many sensing matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cscodec.layout import PATCH_PIXELS
from cscodec.learning.restorer.network import project
from cscodec.learning.restorer.photographs import Photographs
from cscodec.sensing.restorer import MIDDLE, TRAINED_FOR, inverse_and_projection

Float32Array = npt.NDArray[np.float32]

_OFTEN = 25  # up to so many measurements are drawn twice as often as more
_RANDOM_SHARE = 0.03  # of crops, sensed in a random space
_CONTRASTS, _SHIFT = (0.7, 1.2), 20.0  # of half of the crops
_GRAINY_SHARE, _GRAIN = 0.25, 4.0  # of crops, and its highest standard deviation


@dataclass(frozen=True)
class Batch:
    """Planes, and what the network is to make them from.

    Attributes
    ----------
    target, linear : Tensor, (B, 1, side, side) float32
        Less 128.
    projection : Tensor, (B, 64, 64) float32
    share : Tensor, (B,) float32
    """

    target: Tensor
    linear: Tensor
    projection: Tensor
    share: Tensor


class Projections:
    """Projections onto what is measured, for all sensing matrices and every m.

    Parameters
    ----------
    matrices : mapping of str to ndarray
        As ``training_matrices`` gives them.
    device : torch.device
    """

    def __init__(self, matrices: Mapping[str, Float32Array], device: torch.device) -> None:
        tables, odds = [], []
        self.num_measurements: list[int] = []
        for m in range(TRAINED_FOR[0], TRAINED_FOR[1] + 1):
            usable = {name: rows[:m] for name, rows in matrices.items() if len(rows) >= m}
            num_random = sum(name.startswith("random") for name in usable)
            for name, rows in usable.items():
                tables.append(inverse_and_projection(rows)[1])
                self.num_measurements.append(m)
                often = 1.0 if m <= _OFTEN else 0.5
                if name.startswith("random"):
                    odds.append(often * _RANDOM_SHARE / num_random)
                else:
                    odds.append(often * (1 - _RANDOM_SHARE) / (len(usable) - num_random))
        self.odds = np.array(odds) / np.sum(odds)
        self.table = torch.from_numpy(np.array(tables)).to(device)

    def draw(self, count: int, random: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return (count, 64, 64) projections and the shares that they let through."""
        chosen = random.choice(len(self.odds), count, p=self.odds)
        shares = (np.array(self.num_measurements, np.float32)[chosen] + 1) / PATCH_PIXELS
        device = self.table.device
        return self.table[torch.from_numpy(chosen).to(device)], torch.from_numpy(shares).to(device)


def draw_batches(
    photographs: Photographs,
    projections: Projections,
    num_batches: int,
    size: int,
    side: int,
    random: np.random.Generator,
) -> list[Batch]:
    """Return batches of crops with random contrast and grain, and their linear restorations.

    Several at a time, as on a GPU the many small steps take as long for one.
    """
    count, middle = num_batches * size, float(MIDDLE)
    target = photographs.crops(count, side, random)
    device = target.device
    altered = random.random(count) < 0.5
    contrasts = np.where(altered, random.uniform(*_CONTRASTS, count), 1)
    shifts = np.where(altered, random.uniform(-_SHIFT, _SHIFT, count), 0)
    grains = np.where(random.random(count) < _GRAINY_SHARE, random.uniform(0, _GRAIN, count), 0)
    numbers = np.stack([contrasts, shifts, grains]).astype(np.float32)
    contrast, shift, grain = torch.from_numpy(numbers).to(device)[..., None, None, None].unbind()
    target = (target - middle) * contrast + shift + grain * torch.randn_like(target)
    target = target.clamp(-middle, 255 - middle)
    projection, share = projections.draw(count, random)
    whole = Batch(target, project(target, projection), projection, share)
    pieces = [getattr(whole, field.name).split(size) for field in fields(Batch)]
    return [Batch(*piece) for piece in zip(*pieces, strict=True)]
