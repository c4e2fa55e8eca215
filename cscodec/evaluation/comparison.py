"""Pictures coded by several codecs, all to the same size or all to the same quality.

What ``cscodec eval`` measures at given settings and what ``cscodec compare`` shows are made here:
one picture, one codec, one setting, and what came of it, with the seconds it took.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.evaluation.codecs import Codec
from cscodec.evaluation.metrics import EXACT_DB, bits_per_pixel, mean_psnr_db, psnr_db
from cscodec.evaluation.rate_distortion import Point, measure, measure_decoded

Given = ParamSpec("Given")
Result = TypeVar("Result")
Row = dict[str, Any]

#: What a row of results says, and what means are taken of.
MEASURED = ("num_bytes", "bits_per_pixel", "psnr_db", "psnr_luma_db", "ssim")
SECONDS = ("encode_s", "decode_s")


@dataclass(frozen=True)
class Coded:
    """One picture by one codec at one setting.

    Attributes
    ----------
    point : Point
        Size and quality.
    file : bytes
    pixels : ndarray, uint8
        What a viewer sees.
    encode_s, decode_s : float
        Seconds.
    """

    point: Point
    file: bytes
    pixels: Pixels
    encode_s: float
    decode_s: float

    def row(self) -> Row:
        """What is reported, by the names of `MEASURED` and `SECONDS`."""
        return quality_row(self.point) | {"encode_s": self.encode_s, "decode_s": self.decode_s}


@dataclass(frozen=True)
class Target:
    """What all files of a comparison shall have in common: one of the two is given.

    Attributes
    ----------
    bits_per_pixel : float, optional
        At most this, for each picture.
    psnr_db : float, optional
        At least this, over all colour samples.
    """

    bits_per_pixel: float | None = None
    psnr_db: float | None = None

    def met_by(self, point: Point) -> bool:
        """Whether a file has it."""
        if self.psnr_db is not None:
            return point.psnr_rgb_db >= self.psnr_db
        assert self.bits_per_pixel is not None
        return point.bits_per_pixel <= self.bits_per_pixel


@dataclass(frozen=True)
class Comparison:
    """One picture by several codecs.

    Attributes
    ----------
    target : Target
    original : ndarray, (H, W) or (H, W, 3) uint8
    coded : mapping of codec name to Coded
        Those that meet the target, or are as near to it as the codec can go.
    curves : mapping of codec name to list of Point
        From small files to large ones; empty if none were asked for.
    """

    target: Target
    original: Pixels
    coded: Mapping[str, Coded]
    curves: Mapping[str, list[Point]]

    def rows(self) -> list[Row]:
        """One for each codec; ``met`` says whether it could meet the target."""
        return [
            {"codec": name, "setting": coded.point.setting}
            | coded.row()
            | {"met": self.target.met_by(coded.point)}
            for name, coded in self.coded.items()
        ]


def quality_row(point: Point) -> Row:
    """Size and quality by the names of `MEASURED`."""
    return {
        "num_bytes": point.num_bytes,
        "bits_per_pixel": point.bits_per_pixel,
        "psnr_db": point.psnr_rgb_db,
        "psnr_luma_db": point.psnr_y_db,
        "ssim": None if math.isnan(point.ssim) else point.ssim,
    }


def mean_row(rows: Sequence[Row]) -> Row:
    """Means of what rows have measured, PSNR by `mean_psnr_db`; None where nothing was."""
    means: Row = {}
    for name in (*MEASURED, *SECONDS):
        values = [row[name] for row in rows if row[name] is not None]
        mean = mean_psnr_db if name.startswith("psnr") else lambda found: sum(found) / len(found)
        means[name] = mean(values) if values else None
    return means


def codec_means(rows: Sequence[Row]) -> list[Row]:
    """The mean of each codec's rows; ``met`` if all of them are."""
    by_codec: dict[str, list[Row]] = {}
    for row in rows:
        by_codec.setdefault(row["codec"], []).append(row)
    return [
        {"codec": codec, **mean_row(found), "met": all(row["met"] for row in found)}
        for codec, found in by_codec.items()
    ]


def timed(
    function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> tuple[Result, float]:
    """Return what a function returns, and the seconds that it took."""
    started = time.perf_counter()
    result = function(*args, **kwargs)
    return result, time.perf_counter() - started


def code(pixels: Pixels, codec: Codec, setting: float) -> Coded:
    """Encode a picture, decode it, and measure what came back.

    Raises
    ------
    InvalidInputError
        As :func:`~.rate_distortion.measure_decoded`.
    """
    return restore(pixels, codec, setting, *timed(codec.encode, pixels, setting))


def restore(pixels: Pixels, codec: Codec, setting: float, file: bytes, encode_s: float) -> Coded:
    """The second half of :func:`code`, for files that are there."""
    decoded, decode_s = timed(codec.decode, file)
    point = measure_decoded(pixels, decoded, len(file), setting)
    return Coded(point, file, decoded, encode_s, decode_s)


def at_size(pixels: Pixels, codec: Codec, most_bpp: float) -> Coded:
    """The finest setting with at most these bits per pixel, or the smallest file there is."""
    encoded: dict[float, tuple[bytes, float]] = {}

    def is_too_large(setting: float) -> bool:
        encoded[setting] = timed(codec.encode, pixels, setting)
        return bits_per_pixel(len(encoded[setting][0]), pixels.shape) > most_bpp

    first_too_large = bisect_left(codec.scale, True, key=is_too_large)
    setting = codec.scale[max(0, first_too_large - 1)]
    return restore(pixels, codec, setting, *encoded[setting])


def at_quality(pixels: Pixels, codec: Codec, wanted_db: float) -> Coded:
    """The coarsest setting with at least this PSNR over all samples, or the finest there is."""
    tried: dict[float, Coded] = {}

    def reaches(setting: float) -> bool:
        tried[setting] = code(pixels, codec, setting)
        return psnr_db(pixels, tried[setting].pixels) >= wanted_db

    first = bisect_left(codec.scale, True, key=reaches)
    return tried[codec.scale[min(first, len(codec.scale) - 1)]]


def compare_picture(
    pixels: Pixels,
    codecs: Iterable[Codec],
    target: Target,
    *,
    curves: bool = True,
    workers: int = 1,
) -> Comparison:
    """Code a picture by every codec to the same size, or to the same quality.

    Parameters
    ----------
    pixels : ndarray, (H, W) or (H, W, 3) uint8
    target : Target
    curves : bool
        Also code it at a few settings of each codec.
    workers : int
        Settings of a curve at the same time; what is timed runs alone.

    Raises
    ------
    InvalidInputError
        If a codec returns something else than the picture.
    """
    coded: dict[str, Coded] = {}
    found: dict[str, list[Point]] = {}
    for codec in codecs:
        coded[codec.name] = _meet(pixels, codec, target)
        if curves:
            points = measure(pixels, codec.code, codec.settings[::2], workers=workers)
            points.append(coded[codec.name].point)
            found[codec.name] = sorted(points, key=lambda point: point.num_bytes)
    return Comparison(target, pixels, coded, found)


def target_of(coded: Coded, *, quality: bool) -> Target:
    """What the files of the others shall have in common with this one: its size or its quality."""
    if not quality:
        return Target(bits_per_pixel=coded.point.bits_per_pixel)
    if math.isinf(coded.point.psnr_rgb_db):
        raise InvalidInputError("the picture is coded without error: no quality to compare at")
    return Target(psnr_db=coded.point.psnr_rgb_db)


def mean_curves(
    curves: Sequence[Mapping[str, list[Point]]], quality: str, num_points: int = 12
) -> dict[str, list[tuple[float, float]]]:
    """Mean quality over pictures at rates that every picture's curve of a codec has.

    Parameters
    ----------
    curves : sequence of mapping
        For each picture, points by codec.
    quality : str
        Attribute of Point.

    Returns
    -------
    dict
        codec -> (bits per pixel, mean quality), rates ascending; a codec without common rates
        is left out.
    """
    means = {}
    for name in curves[0] if curves else ():
        found = []
        for by_codec in curves:
            points = sorted(by_codec[name], key=lambda point: point.bits_per_pixel)
            rates = np.array([point.bits_per_pixel for point in points])
            values = np.array([min(getattr(point, quality), EXACT_DB) for point in points])
            found.append((np.log(rates), values))
        low, high = max(rates[0] for rates, _ in found), min(rates[-1] for rates, _ in found)
        if low < high:
            common = np.linspace(low, high, num_points)
            mean = np.mean([np.interp(common, *curve) for curve in found], axis=0)
            means[name] = list(zip(np.exp(common).tolist(), mean.tolist(), strict=True))
    return means


def _meet(pixels: Pixels, codec: Codec, target: Target) -> Coded:
    if target.psnr_db is not None:
        return at_quality(pixels, codec, target.psnr_db)
    assert target.bits_per_pixel is not None
    return at_size(pixels, codec, target.bits_per_pixel)
