"""Metrics against their definitions, and BD-rate against curves whose answer is known."""

import math

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from cscodec.errors import InvalidInputError
from cscodec.evaluation.metrics import (
    EXACT_DB,
    bd_rate,
    bits_per_pixel,
    db_text,
    mean_psnr_db,
    mean_squared_error,
    psnr_db,
    readable_db,
    ssim,
)

RATES = np.array([0.1, 0.2, 0.4, 0.8, 1.6])
QUALITIES = np.array([26.0, 29.0, 32.5, 36.0, 40.0])


def test_error_does_not_wrap_around_in_uint8():
    black, white = np.zeros((4, 4), np.uint8), np.full((4, 4), 255, np.uint8)
    assert mean_squared_error(black, white) == 255**2
    assert mean_squared_error(white, black) == 255**2


def test_psnr_of_known_errors():
    reference = np.full((10, 10, 3), 100, np.uint8)
    assert psnr_db(reference, reference) == math.inf
    assert psnr_db(reference, reference + 1) == pytest.approx(48.1308, abs=1e-4)
    one_wrong = reference.copy()
    one_wrong[0, 0, 0] = 110  # 100 / 300 samples
    assert psnr_db(reference, one_wrong) == pytest.approx(10 * math.log10(255**2 * 3))
    assert psnr_db(reference, one_wrong, peak=1.0) == pytest.approx(10 * math.log10(3))


def test_ssim_is_the_mean_of_its_definition(gray_photo):
    rng = np.random.default_rng(1)
    x = gray_photo[:96, :112].astype(float)
    y = np.clip(np.rint(x + rng.normal(0, 12, x.shape)), 0, 255)

    def blur(plane):
        return gaussian_filter(plane, 1.5, truncate=3.5)

    mean_x, mean_y = blur(x), blur(y)
    var_x, var_y = blur(x * x) - mean_x**2, blur(y * y) - mean_y**2
    covariance = blur(x * y) - mean_x * mean_y
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    similarity = ((2 * mean_x * mean_y + c1) * (2 * covariance + c2)) / (
        (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    )
    inside = similarity[5:-5, 5:-5]
    assert ssim(x, y) == pytest.approx(inside.mean(), abs=1e-9)
    assert ssim(x.astype(np.uint8), y.astype(np.uint8)) == pytest.approx(ssim(x, y))
    assert ssim(x, x) == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(10, 40), (40, 10), (40, 40, 3), (0, 0)])
def test_ssim_refuses_what_it_cannot_measure(shape):
    picture = np.zeros(shape, np.uint8)
    with pytest.raises(InvalidInputError, match=r"11 x 11|one shape"):
        ssim(picture, picture)


def test_shapes_must_agree():
    with pytest.raises(InvalidInputError, match=r"\(2, 3\) and \(3, 2\)"):
        psnr_db(np.zeros((2, 3)), np.zeros((3, 2)))


def test_bits_per_pixel_counts_pixels_not_samples():
    assert bits_per_pixel(100, (10, 20)) == 4.0
    assert bits_per_pixel(100, (10, 20, 3)) == 4.0


def test_bd_rate_of_a_curve_at_a_constant_factor():
    assert bd_rate(RATES, QUALITIES, RATES, QUALITIES) == pytest.approx(0, abs=1e-9)
    assert bd_rate(RATES, QUALITIES, 0.8 * RATES, QUALITIES) == pytest.approx(-20)
    assert bd_rate(RATES, QUALITIES, 1.5 * RATES, QUALITIES) == pytest.approx(50)


def test_bd_rate_of_straight_lines_in_log_rate():
    # Quality 10 log10(rate) against 10 log10(rate / f): f = 2 everywhere, on different points.
    anchor, test = np.array([0.1, 0.3, 1.0, 2.0]), np.array([0.15, 0.9, 3.0])
    rate = bd_rate(anchor, 10 * np.log10(anchor), test, 10 * np.log10(test / 2))
    assert rate == pytest.approx(100)


def test_bd_rate_does_not_depend_on_order_or_dominated_points():
    expected = bd_rate(RATES, QUALITIES, 0.7 * RATES, QUALITIES)
    shuffled = [3, 0, 4, 2, 1]
    rates = np.append(0.7 * RATES[shuffled], [0.7, 0.5])
    qualities = np.append(QUALITIES[shuffled], [30.0, math.nan])
    assert bd_rate(RATES, QUALITIES, rates, qualities) == pytest.approx(expected)


def test_bd_rate_within_a_range_ignores_what_lies_outside():
    better_below = np.array([27.5, 30.0, 32.5, 36.0, 40.0])
    everywhere = bd_rate(RATES, QUALITIES, RATES, better_below)
    above = bd_rate(RATES, QUALITIES, RATES, better_below, rate_range=(0.8, 1.6))
    assert everywhere < -2
    assert above == pytest.approx(0, abs=0.2)


def test_bd_rate_without_common_quality_is_nan():
    assert math.isnan(bd_rate(RATES, QUALITIES, RATES, QUALITIES + 50))


def test_bd_rate_needs_curves():
    with pytest.raises(InvalidInputError, match="two points"):
        bd_rate(RATES, QUALITIES, [1.0, 2.0], [30.0, 29.0])
    with pytest.raises(InvalidInputError, match="as many rates"):
        bd_rate(RATES, QUALITIES, RATES, QUALITIES[:-1])


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("curve", ["anchor", "test"])
def test_bd_rate_refuses_rates_that_cannot_be(rate, curve):
    wrong = [rate, *RATES[1:]]
    rates = (wrong, RATES) if curve == "anchor" else (RATES, wrong)
    with pytest.raises(InvalidInputError, match=r"a rate is (0|-1|inf|nan); allowed are finite"):
        bd_rate(rates[0], QUALITIES, rates[1], QUALITIES)


@pytest.mark.parametrize("given", [[[1, 2], [3]], ["a", "b"], [None, {}], 3.0, []])
def test_bd_rate_refuses_what_is_no_list_of_numbers(given):
    with pytest.raises(InvalidInputError):
        bd_rate(given, given, RATES, QUALITIES)


@pytest.mark.parametrize("rates", [(0, 1), (2, 1), (1, 1), (-1, 2), (0.1, math.inf), (math.nan, 1)])
def test_bd_rate_refuses_ranges_that_are_none(rates):
    with pytest.raises(InvalidInputError, match="0 < low < high"):
        bd_rate(RATES, QUALITIES, RATES, QUALITIES, rate_range=rates)


def test_points_without_error_do_not_break_a_curve():
    lossless = bd_rate(np.append(RATES, 9.0), np.append(QUALITIES, math.inf), RATES, QUALITIES)
    assert lossless == pytest.approx(0, abs=1e-9)


def test_rates_that_differ_by_one_bit_are_a_curve():
    close = [1.0, math.nextafter(1.0, 2.0), 2.0]
    assert math.isfinite(bd_rate(close, [30.0, 31.0, 32.0], close, [30.0, 31.0, 32.0]))


def test_a_picture_without_error_leaves_the_mean_finite():
    assert mean_psnr_db([math.inf, 31.0]) == (EXACT_DB + 31.0) / 2
    assert mean_psnr_db([math.inf]) == EXACT_DB
    assert math.isnan(mean_psnr_db([]))


def test_psnr_in_words():
    assert readable_db(31.416) == 31.416
    assert readable_db(EXACT_DB) == readable_db(math.inf) == "exact"
    assert (db_text(31.416), db_text(31.416, " dB"), db_text(math.inf, " dB")) == (
        "31.42",
        "31.42 dB",
        "exact",
    )
