"""How well a system restores planes that it was not trained on, by the paper's protocol.

Unquantised: every 8x8 patch is sensed as its mean and M measurements in floats (so a patch costs
1 + M numbers), decoded, clipped and rounded to 8 bits. PSNR and SSIM are averages over planes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from cscodec.arrays import Pixels
from cscodec.choices import DECODERS
from cscodec.layout import PATCH_SIZE
from cscodec.learning.corpus import (
    Channel,
    PictureFile,
    chroma_planes,
    luma_plane,
    read_pixels,
)
from cscodec.model import System
from cscodec.sensing.network import load_network
from cscodec.sensing.reconstruct import decode_measurements, measure_plane, refine_unquantised
from cscodec.sensing.restorer import restore_learned
from cscodec.transform.patches import assemble_patches

PROTOCOL = (
    "unquantised: patch mean and M measurements in floats; 8-bit output; "
    "mean over pictures, of held-out ones the centres"
)
_MIN_SIDE = 2 * PATCH_SIZE  # SSIM's window needs 11 pixels


@dataclass(frozen=True)
class Quality:
    """Mean PSNR (dB, peak 255) and mean SSIM over planes."""

    psnr_db: float
    ssim: float


def read_planes(
    pictures: Iterable[PictureFile],
    channel: Channel,
    *,
    max_side: int,
    max_pixels: int,
    skipped: dict[str, str],
) -> list[Pixels]:
    """Read the centres, at most ``max_side`` pixels wide and high, of the planes of pictures.

    Pictures that cannot be read are noted in ``skipped``; they, and those that are smaller than
    16 x 16 or lack the channel, are left out. Sides are multiples of 8.
    """
    planes: list[Pixels] = []
    for picture in pictures:
        pixels = read_pixels(picture, max_pixels, skipped)
        if pixels is None:
            continue
        found = (luma_plane(pixels),) if channel == "luma" else chroma_planes(pixels)
        planes += [_centre(plane, max_side) for plane in found if min(plane.shape) >= _MIN_SIDE]
    return planes


def sense_and_restore(
    plane: Pixels, system: System, decoder: str = "omp", *, sparsity: int = 4
) -> Pixels:
    """Sense a plane without quantisation and decode it again.

    Parameters
    ----------
    plane : ndarray, (H, W) uint8
    decoder : {"omp", "linear", "consistent", "refine", "learned"}
    sparsity : int
        K of the ``omp`` and ``consistent`` decoders.

    Returns
    -------
    ndarray, (H, W) uint8
    """
    shape = plane.shape[0], plane.shape[1]
    measurements = measure_plane(plane, system)
    if decoder == "refine":
        restored = refine_unquantised(measurements, system, shape)
    elif decoder == "learned":
        restored = restore_learned(measurements, system, shape, load_network())
    else:
        means, rest = np.split(measurements.reshape(-1, measurements.shape[-1]), [1], axis=1)
        patches = decode_measurements(rest, system, decoder, sparsity)
        restored = assemble_patches(patches + means, shape)
    pixels: Pixels = np.clip(np.rint(restored), 0, 255).astype(np.uint8)
    return pixels


def measure_quality(
    planes: Sequence[Pixels], system: System, decoder: str = "omp", *, sparsity: int = 4
) -> Quality:
    """Return the mean quality of planes restored by one decoder."""
    from cscodec.evaluation.metrics import psnr_db, ssim

    restored = [sense_and_restore(plane, system, decoder, sparsity=sparsity) for plane in planes]
    pairs = list(zip(planes, restored, strict=True))
    # A plane restored without error (a constant one) has infinite PSNR; it counts as 99 dB.
    return Quality(
        psnr_db=float(np.mean([min(psnr_db(*pair), 99.0) for pair in pairs])),
        ssim=float(np.mean([ssim(*pair) for pair in pairs])),
    )


def measure_decoders(
    planes: Sequence[Pixels], system: System, *, sparsity: int
) -> dict[str, dict[str, float]]:
    """Return the mean quality by every decoder, as a model records it."""
    return {
        decoder: asdict(measure_quality(planes, system, decoder, sparsity=sparsity))
        for decoder in DECODERS
    }


def _centre(plane: Pixels, max_side: int) -> Pixels:
    sides = [min(side, max_side) // PATCH_SIZE * PATCH_SIZE for side in plane.shape]
    top, left = ((have - want) // 2 for have, want in zip(plane.shape, sides, strict=True))
    return plane[top : top + sides[0], left : left + sides[1]]
