"""The codecs to hold ours against, each at its strongest settings; one thread each.

Settings reach from about 0.1 to 1.5 bits per pixel on ordinary photographs.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image, features

from cscodec.arrays import Pixels
from cscodec.evaluation.codecs import Codec, codec_named, pillow_codec

AVIF_SETTINGS = (6.0, 16.0, 26.0, 36.0, 46.0, 56.0, 67.0, 78.0, 90.0)
X265 = {"preset": "veryslow", "tune": "psnr", "chroma": "420"}


def anchors(channels: int) -> dict[str, Codec]:
    """Anchors for gray (1) or colour (3) pictures, by name."""
    import imagecodecs

    codecs = [
        _avif("AVIF psnr", channels, {"advanced": {"tune": "psnr"}}),
        _avif("AVIF iq", channels),  # the encoder's own choice
        _usual("jpegxl", channels, imagecodecs.jpegxl_version(),
               (18.0, 12.0, 8.0, 5.6, 4.0, 2.8, 1.9, 1.3, 0.8)),
        _usual("webp", channels, f"libwebp {features.version_module('webp')}",
               (0.0, 5.0, 15.0, 30.0, 48.0, 66.0, 80.0, 88.0, 94.0)),
        _usual("jpeg2000", channels, f"OpenJPEG {features.version_codec('jpg_2000')}",
               (0.1, 0.15, 0.22, 0.32, 0.47, 0.7, 1.0, 1.4, 1.9)),
        _heic(channels),
        _usual("jpeg", channels, f"libjpeg-turbo {features.version_feature('libjpeg_turbo')}",
               (3.0, 8.0, 14.0, 22.0, 33.0, 48.0, 65.0, 80.0, 89.0)),
    ]  # fmt: skip
    return {codec.name: codec for codec in codecs}


def _usual(name: str, channels: int, library: str, settings: Sequence[float]) -> Codec:
    """A codec as ``cscodec compare`` runs it, which is at its strongest."""
    codec = codec_named(name, channels)
    description = f"{library}, {codec.description}"
    return replace(codec, settings=tuple(settings), description=description)


def _avif(name: str, channels: int, tuning: dict[str, Any] | None = None) -> Codec:
    fixed = {"speed": 4, "max_threads": 1} | (tuning or {})
    if channels == 1:
        fixed["subsampling"] = "4:0:0"
    codec = pillow_codec(
        (name, "AVIF", channels),
        AVIF_SETTINGS,
        range(101),
        lambda quality: fixed | {"quality": int(quality)},
    )
    library = f"libavif {features.version_module('avif')}"
    return replace(codec, description=f"{library}, {codec.description}")


def _heic(channels: int) -> Codec:
    import pillow_heif

    def encode(pixels: Pixels, quality: float) -> bytes:
        buffer = io.BytesIO()
        picture = pillow_heif.from_pillow(Image.fromarray(pixels))
        picture.save(buffer, quality=int(quality), enc_params=dict(X265))
        return buffer.getvalue()

    def decode(file: bytes) -> Pixels:
        picture = pillow_heif.open_heif(io.BytesIO(file)).to_pillow()
        return np.asarray(picture.convert("L" if channels == 1 else "RGB"))

    libraries = pillow_heif.libheif_info()
    options = ", ".join(f"{key}={value}" for key, value in X265.items())
    return Codec(
        "HEIC",
        encode,
        decode,
        (5.0, 10.0, 16.0, 23.0, 30.0, 38.0, 46.0, 55.0, 65.0),
        tuple(range(101)),
        f"{libraries['HEIF']}, libheif {libraries['libheif']}, {options}",
    )
