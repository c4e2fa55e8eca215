"""The codecs to hold ours against, each at its strongest setting, and ours in the same form."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, features

from cscodec.arrays import Pixels

CodePicture = Callable[[Pixels, float], tuple[bytes, Pixels]]
Options = dict[str, Any]


@dataclass(frozen=True)
class Codec:
    """A codec to measure.

    Attributes
    ----------
    name : str
    code : callable
        (pixels, setting) -> (file, decoded pixels of the same shape).
    settings : tuple of float
        From the smallest file to the largest.
    description : str
        Library, version and options that the settings go with: cached points depend on it.
    """

    name: str
    code: CodePicture
    settings: tuple[float, ...]
    description: str = ""


def ours(name: str, settings: Sequence[float], *, decoder: str | None = None, **options: Any) -> Codec:
    """This package's codec, its quality as the setting, with options for :func:`cscodec.encode`."""
    import cscodec

    decoding: Options = {"decoder": decoder} if decoder else {}

    def code(pixels: Pixels, setting: float) -> tuple[bytes, Pixels]:
        data = cscodec.encode(pixels, quality=setting, workers=1, **options)
        return data, cscodec.decode(data, workers=1, **decoding)

    return Codec(name, code, tuple(settings), f"cscodec {cscodec.__version__} {options | decoding}")


def anchors(channels: int) -> dict[str, Codec]:
    """The anchors for gray (1) or colour (3) pictures, by name; one thread each.

    The settings reach from about 0.1 to 1.5 bits per pixel on ordinary photographs.
    """
    codecs = [*_avif(channels), _jpeg_xl(), _webp(), _jpeg_2000(channels), _heic(), _jpeg()]
    return {codec.name: codec for codec in codecs}


def _avif(channels: int) -> list[Codec]:
    settings = (6.0, 16.0, 26.0, 36.0, 46.0, 56.0, 67.0, 78.0, 90.0)
    common = {"speed": 4, "max_threads": 1}
    if channels == 1:
        common |= {"subsampling": "4:0:0"}
    tuned = common | {"advanced": {"tune": "psnr"}}
    version = f"libavif {features.version_module('avif')}"
    return [
        _pillow("AVIF psnr", "AVIF", settings, lambda q: tuned | {"quality": int(q)}, version),
        _pillow("AVIF iq", "AVIF", settings, lambda q: common | {"quality": int(q)}, version),
    ]


def _webp() -> Codec:
    def options(quality: float) -> Options:
        return {"quality": int(quality), "method": 6}

    settings = (0.0, 5.0, 15.0, 30.0, 48.0, 66.0, 80.0, 88.0, 94.0)
    version = f"libwebp {features.version_module('webp')}"
    return _pillow("WebP", "WEBP", settings, options, version)


def _jpeg_2000(channels: int) -> Codec:
    def options(rate: float) -> Options:
        return {
            "irreversible": True,
            "quality_mode": "rates",
            "quality_layers": [8 * channels / rate],
            # Pillow codes R, G and B apart unless told otherwise: 4 dB worse, not a fair rival.
            "mct": int(channels == 3),
        }

    rates = (0.1, 0.15, 0.22, 0.32, 0.47, 0.7, 1.0, 1.4, 1.9)
    version = f"OpenJPEG {features.version_codec('jpg_2000')}"
    return _pillow("JPEG 2000", "JPEG2000", rates, options, version)


def _jpeg() -> Codec:
    def options(quality: float) -> Options:
        return {"quality": int(quality), "optimize": True}

    settings = (3.0, 8.0, 14.0, 22.0, 33.0, 48.0, 65.0, 80.0, 89.0)
    version = f"libjpeg-turbo {features.version_feature('libjpeg_turbo')}"
    return _pillow("JPEG", "JPEG", settings, options, version)


def _pillow(
    name: str,
    file_format: str,
    settings: tuple[float, ...],
    options: Callable[[float], Options],
    version: str,
) -> Codec:
    def code(pixels: Pixels, setting: float) -> tuple[bytes, Pixels]:
        buffer = io.BytesIO()
        picture = Image.fromarray(pixels)
        picture.save(buffer, file_format, **options(setting))
        with Image.open(buffer) as coded:
            return buffer.getvalue(), np.asarray(coded.convert(picture.mode))

    fixed = {key: value for key, value in options(1).items() if value == options(2)[key]}
    return Codec(name, code, settings, f"{version}, {fixed}")


def _heic() -> Codec:
    import pillow_heif

    encoder = {"preset": "veryslow", "tune": "psnr", "chroma": "420"}

    def code(pixels: Pixels, setting: float) -> tuple[bytes, Pixels]:
        buffer = io.BytesIO()
        picture = Image.fromarray(pixels)
        file = pillow_heif.from_pillow(picture)
        file.save(buffer, quality=int(setting), enc_params=dict(encoder))
        coded = pillow_heif.open_heif(buffer).to_pillow()
        return buffer.getvalue(), np.asarray(coded.convert(picture.mode))

    info = pillow_heif.libheif_info()
    settings = (5.0, 10.0, 16.0, 23.0, 30.0, 38.0, 46.0, 55.0, 65.0)
    return Codec("HEIC", code, settings, f"{info['HEIF']}, libheif {info['libheif']}, {encoder}")


def _jpeg_xl() -> Codec:
    import imagecodecs

    def code(pixels: Pixels, setting: float) -> tuple[bytes, Pixels]:
        data = imagecodecs.jpegxl_encode(
            pixels, distance=setting, effort=7, lossless=False, numthreads=1
        )
        return bytes(data), np.asarray(imagecodecs.jpegxl_decode(data, numthreads=1))

    distances = (18.0, 12.0, 8.0, 5.6, 4.0, 2.8, 1.9, 1.3, 0.8)
    return Codec("JPEG XL", code, distances, f"{imagecodecs.jpegxl_version()}, effort 7")
