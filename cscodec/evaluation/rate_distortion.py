"""Rate-distortion curves of any codec, and BD-rates.

A codec here is any callable from (pixels, setting) to (size or bytes, decoded pixels), so that a
prototype is measured like the released codec. Every size is that of the whole file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.evaluation.metrics import SSIM_WINDOW, bd_rate, bits_per_pixel, psnr_db, ssim
from cscodec.parallel import parallel_map
from cscodec.transform.colour import without_alpha

CodePicture = Callable[[Pixels, float], tuple[bytes | int, Pixels]]
Quality = Literal["psnr_y_db", "psnr_rgb_db", "ssim"]


@dataclass(frozen=True)
class Point:
    """One picture at one setting.

    Attributes
    ----------
    setting : float
        What the codec was asked for, in its own unit.
    num_bytes : int
        Size of the whole file.
    bits_per_pixel : float
    psnr_y_db : float
        Over the gray samples, or over the unrounded BT.601 luma of a colour picture.
    psnr_rgb_db : float
        Over all three channels of a colour picture; for gray the same as ``psnr_y_db``.
    ssim : float
        Of the same plane as ``psnr_y_db``; NaN if the picture is smaller than its window.
    """

    setting: float
    num_bytes: int
    bits_per_pixel: float
    psnr_y_db: float
    psnr_rgb_db: float
    ssim: float


def luma_plane(pixels: Pixels) -> npt.NDArray[np.float64]:
    """Gray samples as they are, or the unrounded full-range BT.601 luma of (H, W, 3) pixels."""
    if pixels.ndim == 2:
        return pixels.astype(np.float64)
    return np.asarray(pixels[..., :3] @ np.array([0.299, 0.587, 0.114]))


def measure_decoded(
    pixels: Pixels, decoded: Pixels, num_bytes: int, setting: float = math.nan
) -> Point:
    """Hold a decoded picture against the original.

    Parameters
    ----------
    pixels, decoded : ndarray, (H, W), or (H, W, 2..4), uint8
        Alpha is left out: it is lossless, and would only flatter the mean.
    num_bytes : int
        Size of the file; 0 if there is none.

    Raises
    ------
    InvalidInputError
        If the decoded picture has another shape or type than the original.
    """
    if decoded.shape != pixels.shape or decoded.dtype != np.uint8:
        raise InvalidInputError(
            f"decoded picture is {decoded.dtype} {decoded.shape}, original {pixels.shape}"
        )
    pixels, decoded = without_alpha(pixels), without_alpha(decoded)
    planes = luma_plane(pixels), luma_plane(decoded)
    return Point(
        setting=setting,
        num_bytes=num_bytes,
        bits_per_pixel=bits_per_pixel(num_bytes, pixels.shape),
        psnr_y_db=psnr_db(*planes),
        psnr_rgb_db=psnr_db(pixels, decoded),
        ssim=ssim(*planes) if min(planes[0].shape) >= SSIM_WINDOW else math.nan,
    )


def measure(
    pixels: Pixels, code: CodePicture, settings: Sequence[float], *, workers: int = 1
) -> list[Point]:
    """Code a picture at every setting and measure what comes back.

    Parameters
    ----------
    pixels : ndarray, (H, W) or (H, W, 3) uint8
    code : callable
        (pixels, setting) -> (file or its size, decoded pixels of the same shape).
    workers : int
        Settings measured at the same time; ``code`` must then be thread-safe.

    Raises
    ------
    InvalidInputError
        If the decoded picture has another shape or type than the original.
    """

    def point(setting: float) -> Point:
        file, decoded = code(pixels, setting)
        num_bytes = file if isinstance(file, int) else len(file)
        return measure_decoded(pixels, decoded, num_bytes, setting)

    if workers == 1:
        return [point(setting) for setting in settings]
    with ThreadPoolExecutor(workers) as pool:  # its own: the codec may use the shared one inside
        return list(parallel_map(point, settings, workers, pool))


def bd_rate_of(
    anchor: Sequence[Point],
    test: Sequence[Point],
    quality: Quality = "psnr_y_db",
    rate_range: tuple[float, float] | None = None,
) -> float:
    """BD-rate in per cent of one curve against another: see :func:`~.metrics.bd_rate`."""
    return bd_rate(
        [point.bits_per_pixel for point in anchor],
        [getattr(point, quality) for point in anchor],
        [point.bits_per_pixel for point in test],
        [getattr(point, quality) for point in test],
        rate_range,
    )


def mean_bd_rate(rates: Sequence[float]) -> float:
    """Mean of per-picture BD-rates; NaN if one of them is, so that a gap is never averaged away."""
    return math.fsum(rates) / len(rates) if rates else math.nan
