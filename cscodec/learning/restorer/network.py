"""The restorer as a PyTorch module; :mod:`cscodec.sensing.restorer` is what uses its weights.

A plane comes as the linear decoder left it. In every stage residual blocks at half of its size and
at a quarter of it propose a change, and what was measured is put back. Features go on from stage to
stage, so that each begins where the last one ended.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from cscodec.kernels.convolution import PERIOD
from cscodec.layout import PATCH_PIXELS, PATCH_SIZE
from cscodec.sensing.network import (
    COARSE_BLOCKS,
    COARSE_CHANNELS,
    FINE_BLOCKS,
    FINE_CHANNELS,
    NUM_STAGES,
    PLACE_PIXELS,
    PLACE_SIZE,
)
from cscodec.sensing.restorer import UNIT


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """Two convolutions whose result is added to what they began with."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        with torch.no_grad():
            self.second.weight.mul_(0.3)

    def forward(self, features: Tensor) -> Tensor:
        """Return features of the same shape, (B, C, H, W)."""
        change: Tensor = self.second(functional.relu(self.first(features), inplace=True))
        return features + change


class Stage(nn.Module):  # type: ignore[misc]
    """One stage: the plane into the features, blocks at both sizes, a change of the plane."""

    def __init__(self) -> None:
        super().__init__()
        fine, coarse = FINE_CHANNELS, COARSE_CHANNELS
        self.enter = nn.Conv2d(PLACE_PIXELS, fine, 3, padding=1, bias=False)
        # What the place in a patch adds to the features: by itself, and per share measured.
        self.places = nn.Parameter(torch.zeros(2, PERIOD, PERIOD, fine))
        self.down = nn.Conv2d(fine, coarse, 2, stride=2)
        self.up = nn.Conv2d(coarse, 4 * fine, 1)
        self.fine = _blocks(fine, FINE_BLOCKS)
        self.coarse = _blocks(coarse, COARSE_BLOCKS)
        self.leave = nn.Conv2d(fine, PLACE_PIXELS, 3, padding=1)
        with torch.no_grad():  # at first, little is changed
            self.leave.weight.mul_(0.05)
            self.down.weight.mul_(0.5)
            self.up.weight.mul_(0.5)

    def forward(
        self, plane: Tensor, share: Tensor, fine: Tensor | None, coarse: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Propose a change of the plane.

        Parameters
        ----------
        plane : Tensor, (B, 1, H, W)
            In units of the network.
        share : Tensor, (B,)
        fine, coarse : Tensor, (B, C, H / 2, W / 2) and (B, D, H / 4, W / 4), or None
            Features of the stage before.

        Returns
        -------
        change : Tensor, (B, 1, H, W)
        fine, coarse : Tensor
            Features for the next stage.
        """
        entered = self.enter(functional.pixel_unshuffle(plane, PLACE_SIZE))
        entered = add_places(entered, self.places[0] + share[:, None, None, None] * self.places[1])
        fine = self.fine(entered if fine is None else fine + entered)
        lowered = self.down(fine)
        coarse = self.coarse(lowered if coarse is None else coarse + lowered)
        fine = fine + spread(self.up(coarse))
        return functional.pixel_shuffle(self.leave(fine), PLACE_SIZE), fine, coarse


class Restorer(nn.Module):  # type: ignore[misc]
    """The whole network: planes from the linear decoder's."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(Stage() for _ in range(NUM_STAGES))

    def forward(self, linear: Tensor, projection: Tensor, share: Tensor) -> Tensor:
        """Restore planes.

        Parameters
        ----------
        linear : Tensor, (B, 1, H, W) float32
            The linear decoder's planes less 128, H and W multiples of 8.
        projection : Tensor, (B, 64, 64) float32
            Onto what was measured of a patch, its mean included.
        share : Tensor, (B,) float32
            (m + 1) / 64.

        Returns
        -------
        Tensor, (B, 1, H, W) float32
        """
        start = linear / float(UNIT)
        plane = start
        fine, coarse = None, None
        for stage in self.stages:
            change, fine, coarse = stage(plane, share, fine, coarse)
            plane = put_back(plane + change.float(), start, projection)
        return plane * float(UNIT)


def add_places(features: Tensor, places: Tensor) -> Tensor:
    """Add (B, PERIOD, PERIOD, C) to the features, (B, C, H, W), of every patch."""
    batch, channels, height, width = features.shape
    tiles = features.permute(0, 2, 3, 1).reshape(
        batch, height // PERIOD, PERIOD, width // PERIOD, PERIOD, channels
    )
    tiles = tiles + places.to(features.dtype)[:, None, :, None]
    return tiles.reshape(batch, height, width, channels).permute(0, 3, 1, 2)


def spread(features: Tensor) -> Tensor:
    """Make (B, C, 2 H, 2 W) of (B, 4 C, H, W): channels of 2x2 places, in raster order."""
    batch, channels, height, width = features.shape
    tiles = features.permute(0, 2, 3, 1).reshape(batch, height, width, 2, 2, channels // 4)
    tiles = tiles.transpose(2, 3).reshape(batch, 2 * height, 2 * width, channels // 4)
    return tiles.permute(0, 3, 1, 2)


def put_back(plane: Tensor, linear: Tensor, projection: Tensor) -> Tensor:
    """Give every patch of a plane its measurements again, those of ``linear``."""
    with torch.autocast(plane.device.type, enabled=False):
        return plane + project(linear - plane, projection)


def project(plane: Tensor, projection: Tensor) -> Tensor:
    """Keep of every patch of (B, 1, H, W) planes what (B, 64, 64) projections let through."""
    batch, _, height, width = plane.shape
    rows, columns = height // PATCH_SIZE, width // PATCH_SIZE
    blocks = plane.reshape(batch, rows, PATCH_SIZE, columns, PATCH_SIZE).transpose(2, 3)
    kept = blocks.reshape(batch, -1, PATCH_PIXELS) @ projection
    blocks = kept.reshape(batch, rows, columns, PATCH_SIZE, PATCH_SIZE).transpose(2, 3)
    return blocks.reshape(batch, 1, height, width)


def _blocks(channels: int, count: int) -> nn.Sequential:
    return nn.Sequential(*(ResidualBlock(channels) for _ in range(count)))
