"""How good and how small: error, PSNR, SSIM, bits per pixel, and BD-rate between two curves.

Everything is measured on 8-bit pixels, as a viewer would see them, with an explicit peak; nothing
is guessed from the data. scipy and scikit-image are loaded only by the functions that need them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.errors import InvalidInputError

PEAK = 255.0  #: the largest value of an 8-bit sample

#: what a picture without error, whose PSNR is infinite, counts as in a mean; training does so too
EXACT_DB = 99.0

#: side of the window that scikit-image uses for sigma 1.5: pictures must be at least this large
SSIM_WINDOW = 11


def mean_squared_error(reference: npt.ArrayLike, test: npt.ArrayLike) -> float:
    """Mean of the squared differences over all samples.

    Parameters
    ----------
    reference, test : array_like
        Same shape, any real type; computed in float64.

    Raises
    ------
    InvalidInputError
        If the shapes differ or the arrays are empty.
    """
    first, second = _pair(reference, test)
    difference = first.astype(np.float64) - second.astype(np.float64)
    return float(np.mean(np.square(difference, out=difference)))


def psnr_db(reference: npt.ArrayLike, test: npt.ArrayLike, peak: float = PEAK) -> float:
    """Peak signal-to-noise ratio, 10 log10(peak² / MSE), in dB; infinite for equal arrays.

    Raises
    ------
    InvalidInputError
        As :func:`mean_squared_error`.
    """
    return psnr_db_of_strips([(reference, test)], peak)


def psnr_db_of_strips(
    pairs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]], peak: float = PEAK
) -> float:
    """PSNR in dB of a picture that comes in parts, as pairs of reference and test.

    Raises
    ------
    InvalidInputError
        As :func:`mean_squared_error`.
    """
    total, samples = 0.0, 0
    for reference, test in pairs:
        size = np.size(reference)
        total += mean_squared_error(reference, test) * size
        samples += size
    return math.inf if total == 0 else 10 * math.log10(peak * peak * samples / total)


def mean_psnr_db(values: Sequence[float]) -> float:
    """Mean of PSNRs in dB; a picture without error counts as `EXACT_DB`. NaN if there is none."""
    if not values:
        return math.nan
    return math.fsum(min(value, EXACT_DB) for value in values) / len(values)


def readable_db(value: float) -> float | str:
    """PSNR for people: a picture without error (or as good as) is ``exact``."""
    return "exact" if value >= EXACT_DB else value


def db_text(value: float, unit: str = "") -> str:
    """The same as text: ``31.42``, with the unit if there is a number."""
    readable = readable_db(value)
    return readable if isinstance(readable, str) else f"{readable:.2f}{unit}"


def ssim(reference: npt.ArrayLike, test: npt.ArrayLike) -> float:
    """Mean structural similarity of two single planes with values 0..255.

    The setting is that of Wang et al. 2004: a Gaussian window of sigma 1.5, biased covariances.

    Parameters
    ----------
    reference, test : array_like, (H, W)
        Both sides at least 11 pixels long.

    Raises
    ------
    InvalidInputError
        If the shapes differ, or are not planes of at least 11 x 11.
    """
    from skimage.metrics import structural_similarity

    first, second = _pair(reference, test)
    if first.ndim != 2 or min(first.shape) < SSIM_WINDOW:
        raise InvalidInputError(
            f"SSIM needs planes of at least {SSIM_WINDOW} x {SSIM_WINDOW} pixels, "
            f"not shape {first.shape}"
        )
    similarity = structural_similarity(
        first.astype(np.float64),
        second.astype(np.float64),
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        data_range=PEAK,
    )
    return float(similarity)


def bits_per_pixel(num_bytes: int, shape: Sequence[int]) -> float:
    """Bits of a file per pixel of its picture; channels share their pixel.

    Parameters
    ----------
    num_bytes : int
        Size of the whole file.
    shape : (H, W) or (H, W, C)
    """
    return 8 * num_bytes / (shape[0] * shape[1])


def bd_rate(
    anchor_rates: npt.ArrayLike,
    anchor_qualities: npt.ArrayLike,
    test_rates: npt.ArrayLike,
    test_qualities: npt.ArrayLike,
    rate_range: tuple[float, float] | None = None,
) -> float:
    """Bjøntegaard's mean difference in rate at equal quality, in per cent.

    Log rate is interpolated over quality by PCHIP, for each curve, and the difference is averaged
    over the qualities that both reach. Points that cost more than another and are no better are
    left out.

    Parameters
    ----------
    anchor_rates, test_rates : array_like, (n,)
        Positive and finite, bits per pixel or bytes, in any order.
    anchor_qualities, test_qualities : array_like, (n,)
        PSNR in dB, or SSIM: more is better. Points whose quality is not finite are left out.
    rate_range : (float, float), optional
        Cut both curves to these rates first; positive, finite, rising.

    Returns
    -------
    float
        -20 means that the test curve needs 20 % fewer bits than the anchor. NaN if the curves
        have no quality in common.

    Raises
    ------
    InvalidInputError
        If a rate cannot be one, or a curve has fewer than two usable points.
    """
    if rate_range is not None and not 0 < rate_range[0] < rate_range[1] < math.inf:
        raise InvalidInputError(f"rate_range is {rate_range}; allowed is 0 < low < high")
    anchor = _curve(anchor_rates, anchor_qualities)
    test = _curve(test_rates, test_qualities)
    low_anchor, high_anchor = _quality_range(anchor, rate_range)
    low_test, high_test = _quality_range(test, rate_range)
    low, high = max(low_anchor, low_test), min(high_anchor, high_test)
    if not low < high:
        return math.nan
    area = _integrate(test, low, high) - _integrate(anchor, low, high)
    return 100 * math.expm1(area / (high - low))


Curve = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]  # log rates, qualities; ascending


def _curve(rates: npt.ArrayLike, qualities: npt.ArrayLike) -> Curve:
    costs, values = _numbers(rates), _numbers(qualities)
    if costs.shape != values.shape or costs.ndim != 1:
        raise InvalidInputError(
            f"a curve needs as many rates as qualities, not {costs.shape} and {values.shape}"
        )
    if impossible := [rate for rate in costs.tolist() if not 0 < rate < math.inf]:
        raise InvalidInputError(f"a rate is {impossible[0]:g}; allowed are finite ones above 0")
    log_rates = np.log(costs)
    kept: list[int] = []
    for index in np.lexsort((-values, log_rates)):
        if math.isfinite(values[index]) and (not kept or values[index] > values[kept[-1]]):
            kept.append(int(index))
    if len(kept) < 2:
        raise InvalidInputError("a curve needs at least two points of rising rate and quality")
    return log_rates[kept], values[kept]


def _numbers(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"rates and qualities are lists of numbers: {error}") from error


def _quality_range(curve: Curve, rate_range: tuple[float, float] | None) -> tuple[float, float]:
    from scipy.interpolate import PchipInterpolator

    log_rates, qualities = curve
    if rate_range is None:
        return float(qualities[0]), float(qualities[-1])
    ends = np.clip(np.log(rate_range), log_rates[0], log_rates[-1])
    low, high = PchipInterpolator(log_rates, qualities)(ends)
    return float(low), float(high)


def _integrate(curve: Curve, low: float, high: float) -> float:
    from scipy.interpolate import PchipInterpolator

    log_rates, qualities = curve
    return float(PchipInterpolator(qualities, log_rates).integrate(low, high))


def _pair(reference: npt.ArrayLike, test: npt.ArrayLike) -> tuple[Any, Any]:
    first, second = np.asarray(reference), np.asarray(test)
    if first.shape != second.shape or first.size == 0:
        raise InvalidInputError(
            f"two pictures of one shape are needed, not {first.shape} and {second.shape}"
        )
    return first, second
