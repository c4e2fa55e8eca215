"""Qualities, steps and the rounding between measurements and integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cscodec.bitstream.steps import (
    MAX_STEP,
    MIN_STEP,
    STEP_UNIT,
    WANTED_UNIT,
    dequantize,
    scaled,
    step_code,
    step_for_quality,
)
from cscodec.errors import InvalidInputError
from cscodec.layout import BANDS, LAYERS, NUM_LAYERS, NUM_MEASUREMENTS, num_layers


@given(st.floats(0, 100), st.floats(0, 100))
def test_better_quality_is_a_finer_step(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert step_for_quality(low) >= step_for_quality(high)
    assert MIN_STEP <= step_for_quality(high) <= MAX_STEP


def test_every_whole_quality_has_a_step_of_its_own() -> None:
    codes = [step_code(step_for_quality(quality)) for quality in range(101)]
    assert codes == sorted(codes, reverse=True)
    assert len(set(codes)) == 101


@pytest.mark.parametrize("quality", [-0.001, 100.001, float("nan"), float("inf")])
def test_other_qualities_are_refused(quality: float) -> None:
    with pytest.raises(InvalidInputError, match=r"quality is .*; allowed are 0 to 100"):
        step_for_quality(quality)


@given(st.floats(MIN_STEP, MAX_STEP))
def test_steps_are_stored_to_the_nearest_unit(step: float) -> None:
    assert abs(step_code(step) / STEP_UNIT - step) <= 0.5 / STEP_UNIT


@pytest.mark.parametrize("step", [0, -1, 0.249, 1000.1, float("nan"), float("inf")])
def test_other_steps_are_refused(step: float) -> None:
    with pytest.raises(InvalidInputError, match=r"step is .*; allowed are 0.25 to 1000"):
        step_code(step)


@given(st.integers(16, 64000), st.integers(0, 999))
def test_rounding_errs_by_half_a_step(code: int, seed: int) -> None:
    step = code / STEP_UNIT
    measured = np.random.default_rng(seed).uniform(-1024, 1024, (3, 64)).astype(np.float32)
    wanted = scaled(measured, step)
    assert wanted.dtype == np.int32
    np.testing.assert_allclose(wanted * (step / WANTED_UNIT), measured, atol=0.52 * step / 256)
    values = np.rint(wanted / WANTED_UNIT).astype(np.int16)
    np.testing.assert_allclose(dequantize(values, step), measured, atol=0.503 * step)


def test_layers_and_bands_cover_all_measurements() -> None:
    assert LAYERS[0] == 0
    assert LAYERS[-1] == BANDS[-1] == NUM_MEASUREMENTS
    assert list(LAYERS) == sorted(set(LAYERS))
    assert set(LAYERS[1:]) <= set(BANDS)  # no band lies in two layers
    assert [num_layers(measurements) for measurements in (1, 63)] == [2, NUM_LAYERS]
    for measurements in range(1, 64):
        layers = num_layers(measurements)
        assert LAYERS[layers - 1] <= measurements < LAYERS[layers]
