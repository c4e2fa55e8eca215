"""Points of rate-distortion curves: a picture, a codec, a setting, and what came back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from anchors import Codec
from perceptual import ms_ssim, ssimulacra2

from cscodec.arrays import Pixels
from cscodec.evaluation.metrics import bits_per_pixel, psnr_db, ssim
from cscodec.evaluation.rate_distortion import luma_plane


@dataclass(frozen=True)
class Measure:
    """How alike two pictures are; more is better."""

    label: str
    between: Callable[[Pixels, Pixels], float]
    is_similarity: bool = False  # up to 1, compared in dB


def _of_luma(function: Callable[..., float]) -> Callable[[Pixels, Pixels], float]:
    """The function of two planes, for the luma of two pictures."""
    return lambda original, decoded: function(luma_plane(original), luma_plane(decoded))


MEASURES = {
    "psnr_y_db": Measure("PSNR of Y'", _of_luma(psnr_db)),
    "psnr_rgb_db": Measure("PSNR over RGB", psnr_db),
    "ssim": Measure("SSIM of Y'", _of_luma(ssim), is_similarity=True),
    "ms_ssim": Measure("MS-SSIM of Y'", _of_luma(ms_ssim), is_similarity=True),
    "ssimulacra2": Measure("SSIMULACRA2", ssimulacra2),
}
ENOUGH = 1.5  # bits per pixel; of what lies beyond, one point ends the curve
GRAY_MEASURES = ("psnr_y_db", "ssim", "ms_ssim")  # the others judge colour


@dataclass(frozen=True)
class Point:
    """One picture at one setting; qualities by the name of their measure."""

    setting: float
    num_bytes: int
    bits_per_pixel: float
    qualities: dict[str, float]


def measures_of(pixels: Pixels) -> Sequence[str]:
    """Names of the measures that a picture is judged by."""
    return GRAY_MEASURES if pixels.ndim == 2 else tuple(MEASURES)


def measure(pixels: Pixels, codec: Codec, setting: float) -> Point:
    """Code a picture at one setting and measure what comes back."""
    file, decoded = codec.code(pixels, setting)
    if decoded.shape != pixels.shape or decoded.dtype != np.uint8:
        raise ValueError(f"{codec.name} decodes {pixels.shape} to {decoded.dtype} {decoded.shape}")
    return Point(
        setting=setting,
        num_bytes=len(file),
        bits_per_pixel=bits_per_pixel(len(file), pixels.shape),
        qualities={name: MEASURES[name].between(pixels, decoded) for name in measures_of(pixels)},
    )


def cached_points(codec: Codec, pixels: Pixels, cache: Path) -> list[Point]:
    """Points of a codec at its settings, up to the first beyond `ENOUGH`; each measured once.

    They are kept by the picture's content, the codec's description and the measures.
    """
    key = f"{codec.name} {codec.description} {' '.join(measures_of(pixels))} {pixels.shape}"
    digest = hashlib.sha256(key.encode() + pixels.tobytes())
    file = cache / f"{digest.hexdigest()[:24]}.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    points: list[Point] = []
    for setting in codec.settings:
        if str(setting) not in known:
            known[str(setting)] = asdict(measure(pixels, codec, setting))
            cache.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(known))
        points.append(Point(**known[str(setting)]))
        if points[-1].bits_per_pixel > ENOUGH:
            break
    return points
