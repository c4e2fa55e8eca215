"""Rate-distortion curves of any codec, the anchors to hold them against, and BD-rates.

A codec here is any callable from (pixels, setting) to (size or bytes, decoded pixels), so that a
prototype is measured like the released codec. The anchors run through Pillow, as its users would
run them; every size is that of the whole file.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.evaluation.metrics import bd_rate, bits_per_pixel, psnr_db, ssim
from cscodec.parallel import parallel_map

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
        Of the same plane as ``psnr_y_db``.
    """

    setting: float
    num_bytes: int
    bits_per_pixel: float
    psnr_y_db: float
    psnr_rgb_db: float
    ssim: float


@dataclass(frozen=True)
class Codec:
    """A codec to measure.

    Attributes
    ----------
    name : str
    code : callable
        (pixels, setting) -> (file or its size, decoded pixels of the same shape).
    settings : tuple of float
        From the smallest file to the largest.
    description : str
        The options that the settings go with; results cached elsewhere depend on it.
    """

    name: str
    code: CodePicture
    settings: tuple[float, ...]
    description: str = ""


def luma_plane(pixels: Pixels) -> npt.NDArray[np.float64]:
    """Gray samples as they are, or the unrounded full-range BT.601 luma of (H, W, 3) pixels."""
    if pixels.ndim == 2:
        return pixels.astype(np.float64)
    return np.asarray(pixels[..., :3] @ np.array([0.299, 0.587, 0.114]))


def measure(
    pixels: Pixels, code: CodePicture, settings: Sequence[float], *, workers: int = 1
) -> list[Point]:
    """Code a picture at every setting and measure what comes back.

    Parameters
    ----------
    pixels : ndarray, (H, W) or (H, W, 3) uint8
    code : callable
        See :class:`Codec`.
    workers : int
        Settings measured at the same time; ``code`` must then be thread-safe.

    Raises
    ------
    InvalidInputError
        If the decoded picture has another shape or type than the original.
    """
    reference = luma_plane(pixels)

    def point(setting: float) -> Point:
        file, decoded = code(pixels, setting)
        if decoded.shape != pixels.shape or decoded.dtype != np.uint8:
            raise InvalidInputError(
                f"decoded picture is {decoded.dtype} {decoded.shape}, original {pixels.shape}"
            )
        num_bytes = file if isinstance(file, int) else len(file)
        plane = luma_plane(decoded)
        return Point(
            setting=setting,
            num_bytes=num_bytes,
            bits_per_pixel=bits_per_pixel(num_bytes, pixels.shape),
            psnr_y_db=psnr_db(reference, plane),
            psnr_rgb_db=psnr_db(pixels, decoded),
            ssim=ssim(reference, plane),
        )

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


def cscodec_codec(settings: Sequence[float], name: str = "cscodec", **options: Any) -> Codec:
    """This package's codec, its quality as the setting.

    Parameters
    ----------
    settings : sequence of float
        Qualities, 0..100.
    options
        Passed to :func:`cscodec.encode`; ``decoder`` goes to :func:`cscodec.decode`.
    """
    from cscodec.codec import decode, encode

    decoding = {"decoder": options.pop("decoder")} if "decoder" in options else {}
    if "model" in options:
        decoding["model"] = options["model"]

    def code(pixels: Pixels, setting: float) -> tuple[bytes, Pixels]:
        data = encode(pixels, quality=setting, workers=1, **options)
        return data, decode(data, workers=1, **decoding)

    return Codec(name, code, tuple(settings), f"{options | decoding}")


def anchors(channels: int) -> dict[str, Codec]:
    """JPEG, WebP, JPEG 2000 and AVIF as Pillow writes them, for gray (1) or colour (3) pictures.

    The settings reach from below 0.2 to above 1.5 bits per pixel on ordinary photographs.
    """
    raw_bits = 8.0 * channels
    rates = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2)
    return {
        "JPEG": _pillow_codec(
            "JPEG",
            (1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 65, 74, 81, 87, 91),
            lambda quality: {"quality": int(quality), "optimize": True},
        ),
        "WebP": _pillow_codec(
            "WEBP",
            (0, 2, 5, 10, 20, 30, 40, 52, 64, 76, 82, 88, 92, 95),
            lambda quality: {"quality": int(quality), "method": 6},
        ),
        "JPEG 2000": _pillow_codec(
            "JPEG2000",
            rates,
            lambda rate: {
                "irreversible": True,
                "quality_mode": "rates",
                "quality_layers": [raw_bits / rate],
                # Pillow codes R, G and B apart unless told otherwise: 4 dB worse, not a fair rival.
                "mct": int(channels == 3),
            },
        ),
        "AVIF": _pillow_codec(
            "AVIF",
            (4, 12, 20, 28, 36, 44, 52, 60, 68, 75, 82, 88, 93),
            lambda quality: {"quality": int(quality), "speed": 4, "max_threads": 2},
        ),
    }


def _pillow_codec(
    file_format: str, settings: Sequence[float], options: Callable[[float], dict[str, Any]]
) -> Codec:
    def code(pixels: Pixels, setting: float) -> tuple[bytes, Pixels]:
        buffer = io.BytesIO()
        picture = Image.fromarray(pixels)
        picture.save(buffer, file_format, **options(setting))
        buffer.seek(0)
        with Image.open(buffer) as coded:
            return buffer.getvalue(), np.asarray(coded.convert(picture.mode))

    return Codec(file_format, code, tuple(settings), f"{options(settings[0])}")
