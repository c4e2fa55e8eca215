"""Curves of a picture by a codec: sizes, and how alike is what comes back, by several measures."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from perceptual import ms_ssim, ssimulacra2

from cscodec.arrays import Pixels
from cscodec.evaluation.codecs import Codec
from cscodec.evaluation.comparison import code
from cscodec.evaluation.metrics import bd_rate
from cscodec.evaluation.rate_distortion import luma_plane

MEASURES = {
    "psnr_y_db": "PSNR of Y'",
    "psnr_rgb_db": "PSNR over RGB",
    "ssim": "SSIM of Y'",
    "ms_ssim": "MS-SSIM of Y'",
    "ssimulacra2": "SSIMULACRA2",
}
GRAY_MEASURES = {"psnr_y_db": "PSNR", "ssim": "SSIM", "ms_ssim": "MS-SSIM"}
SIMILARITIES = ("ssim", "ms_ssim")  # at most 1, compared in dB
RATE_RANGE = (0.2, 1.5)  # bits per pixel, where curves are compared

Point = dict[str, float]  # setting, num_bytes, bits_per_pixel, and each measure


def measure(pixels: Pixels, codec: Codec, setting: float) -> Point:
    """Code a picture at one setting and measure what comes back."""
    coded = code(pixels, codec, setting)
    point: Point = asdict(coded.point)
    point["ms_ssim"] = ms_ssim(luma_plane(pixels), luma_plane(coded.pixels))
    if pixels.ndim == 3:
        point["ssimulacra2"] = ssimulacra2(pixels, coded.pixels)
    return point


def curve(
    pixels: Pixels,
    codec: Codec,
    *,
    cache: Path | None = None,
    workers: int = 1,
    most: float = RATE_RANGE[1],
) -> list[Point]:
    """Points at the codec's settings, up to the first that is large enough.

    Parameters
    ----------
    pixels : ndarray, (H, W) or (H, W, 3) uint8
        Both sides at least 176 pixels long.
    codec : Codec
    cache : Path, optional
        Folder where points are kept, by the picture's content and the codec's description.
    workers : int
        Settings measured at the same time.
    most : float
        Bits per pixel; of the points beyond, one ends the curve.
    """
    file = None if cache is None else cache / f"{_key(pixels, codec)}.json"
    known: dict[str, Point] = json.loads(file.read_text()) if file and file.exists() else {}
    points: list[Point] = []
    with ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(codec.settings), workers):
            settings = codec.settings[start : start + workers]
            missing = [setting for setting in settings if str(setting) not in known]
            for point in pool.map(lambda setting: measure(pixels, codec, setting), missing):
                known[str(point["setting"])] = point
            if file and missing:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(known))
            for setting in settings:
                points.append(known[str(setting)])
                if points[-1]["bits_per_pixel"] > most:
                    return points
    return points


def _key(pixels: Pixels, codec: Codec) -> str:
    key = f"{codec.name}: {codec.description}: {pixels.shape}"
    return hashlib.sha256(key.encode() + pixels.tobytes()).hexdigest()[:24]


def quality(point: Point, name: str) -> float:
    """A measure as it is compared: similarities in dB, -10 log10(1 - s)."""
    if name in SIMILARITIES:
        return -10 * math.log10(max(1 - point[name], 1e-12))
    return point[name]


def bd_rate_of(anchor: Sequence[Point], test: Sequence[Point], name: str) -> float:
    """BD-rate in per cent of one curve against another, by one measure, over `RATE_RANGE`."""
    return bd_rate(
        [point["bits_per_pixel"] for point in anchor],
        [quality(point, name) for point in anchor],
        [point["bits_per_pixel"] for point in test],
        [quality(point, name) for point in test],
        RATE_RANGE,
    )
