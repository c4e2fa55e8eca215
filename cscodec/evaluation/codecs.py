"""The codecs that are compared: this package's, and others as their users would run them.

A codec is a pair of functions, so that a prototype is measured like what is released. The others
run through Pillow, and JPEG XL through imagecodecs, at the strongest settings that their users have
the patience for; every file is whole, with its container.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, features

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError


@dataclass(frozen=True)
class Codec:
    """A codec to measure.

    Attributes
    ----------
    name : str
        As people write it.
    encode : callable
        (pixels, setting) -> file.
    decode : callable
        file -> pixels, of the shape that was encoded.
    settings : tuple of float
        A few, from the smallest file to the largest: for curves.
    scale : tuple of float
        All that can be asked for, in the same order: to meet a size or a quality.
    description : str
        The options that the settings go with; results cached elsewhere depend on it.
    """

    name: str
    encode: Callable[[Pixels, float], bytes]
    decode: Callable[[bytes], Pixels]
    settings: tuple[float, ...]
    scale: tuple[float, ...] = ()
    description: str = ""

    def code(self, pixels: Pixels, setting: float) -> tuple[bytes, Pixels]:
        """Encode and decode."""
        file = self.encode(pixels, setting)
        return file, self.decode(file)


def cscodec_codec(settings: Sequence[float], name: str = "cscodec", **options: Any) -> Codec:
    """This package's codec, its quality as the setting.

    Parameters
    ----------
    settings : sequence of float
        Qualities, 0..100.
    options
        Passed to :func:`cscodec.encode`; ``decoder``, ``sparsity`` and ``max_pixels`` go to
        :func:`cscodec.decode`, ``model`` and ``workers`` (one by default) to both.
    """
    from cscodec.codec import decode, encode

    both = {"workers": 1} | {
        key: options.pop(key) for key in ("model", "workers") if key in options
    }
    decoding = {
        key: options.pop(key) for key in ("decoder", "sparsity", "max_pixels") if key in options
    }
    shown = options | both | decoding
    return Codec(
        name,
        lambda pixels, setting: encode(pixels, quality=setting, **options, **both),
        lambda file: decode(file, **decoding, **both),
        tuple(settings),
        tuple(quarter / 4 for quarter in range(401)),
        _described({key: getattr(value, "name", value) for key, value in shown.items()}),
    )


def _jpeg(channels: int) -> Codec:
    return pillow_codec(
        ("JPEG", "JPEG", channels),
        (1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 65, 74, 81, 87, 91),
        range(1, 101),
        lambda quality: {"quality": int(quality), "optimize": True},
    )


def _webp(channels: int) -> Codec:
    return pillow_codec(
        ("WebP", "WEBP", channels),
        (0, 2, 5, 10, 20, 30, 40, 52, 64, 76, 82, 88, 92, 95),
        range(101),
        lambda quality: {"quality": int(quality), "method": 6},
    )


def _jpeg_2000(channels: int) -> Codec:
    raw_bits = 8.0 * channels
    return pillow_codec(
        ("JPEG 2000", "JPEG2000", channels),
        (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2),
        np.geomspace(0.02, raw_bits, 400).tolist(),
        lambda rate: {
            "irreversible": True,
            "quality_mode": "rates",
            "quality_layers": [raw_bits / rate],
            # Pillow codes R, G and B apart unless told otherwise: 4 dB worse, not a fair rival.
            "mct": int(channels == 3),
        },
    )


def _avif(channels: int, speed: int = 6) -> Codec:
    if not features.check("avif"):
        raise InvalidInputError(
            "AVIF needs a Pillow that can write it, as its wheels from 11.3 on can: "
            "pip install --upgrade pillow"
        )
    return pillow_codec(
        ("AVIF", "AVIF", channels),
        (4, 12, 20, 28, 36, 44, 52, 60, 68, 75, 82, 88, 93),
        range(101),
        lambda quality: {"quality": int(quality), "speed": speed, "max_threads": 2},
    )


def _jpeg_xl(channels: int) -> Codec:
    try:
        import imagecodecs
    except ImportError:
        raise InvalidInputError(
            "JPEG XL needs the package imagecodecs: pip install imagecodecs"
        ) from None

    def encode(pixels: Pixels, distance: float) -> bytes:
        file = imagecodecs.jpegxl_encode(np.ascontiguousarray(pixels), distance=distance, effort=7)
        return bytes(file)

    return Codec(
        "JPEG XL",
        encode,
        lambda file: np.asarray(imagecodecs.jpegxl_decode(file), np.uint8),
        (25.0, 18.0, 13.0, 9.5, 7.0, 5.0, 3.7, 2.7, 2.0, 1.5, 1.1, 0.8),  # Butteraugli distances
        tuple(np.geomspace(25.0, 0.05, 200).tolist()),
        "effort=7",
    )


_OTHERS: dict[str, Callable[[int], Codec]] = {
    "jpeg": _jpeg,
    "webp": _webp,
    "avif": _avif,
    "jpegxl": _jpeg_xl,
    "jpeg2000": _jpeg_2000,
}
NAMES = ("cscodec", *_OTHERS)  #: as a command line takes them


def codec_named(name: str, channels: int, **options: Any) -> Codec:
    """Return a codec of `NAMES`, for gray (1) or colour (3) pictures; ``options`` are for ours.

    Raises
    ------
    InvalidInputError
        If there is none of this name, or what it needs is not installed.
    """
    if name == "cscodec":
        return cscodec_codec((3, 10, 18, 27, 37, 48, 58, 68, 77, 85, 91), **options)
    if name not in _OTHERS:
        raise InvalidInputError(f"{name!r} is no codec to compare; known are {', '.join(NAMES)}")
    return _OTHERS[name](channels)


def pillow_codec(
    what: tuple[str, str, int],
    settings: Sequence[float],
    scale: Sequence[float],
    options: Callable[[float], dict[str, Any]],
) -> Codec:
    """A codec of Pillow's.

    Parameters
    ----------
    what : (name, Pillow's name of the format, 1 for gray or 3 for colour)
    settings, scale : sequence of float
        See :class:`Codec`.
    options : callable
        setting -> keyword arguments of ``Image.save``.
    """
    name, file_format, channels = what

    def encode(pixels: Pixels, setting: float) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, file_format, **options(setting))
        return buffer.getvalue()

    def decode(file: bytes) -> Pixels:
        with Image.open(io.BytesIO(file)) as coded:
            return np.asarray(coded.convert("L" if channels == 1 else "RGB"))

    first, last = options(settings[0]), options(settings[-1])
    fixed = {key: value for key, value in first.items() if value == last[key]}
    return Codec(name, encode, decode, tuple(settings), tuple(scale), _described(fixed))


def _described(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items())
