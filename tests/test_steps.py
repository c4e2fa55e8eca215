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
    TILT_UNIT,
    WANTED_UNIT,
    dequantize,
    measurement_steps,
    scaled,
    step_code,
)
from cscodec.errors import InvalidInputError
from cscodec.layout import BANDS, LAYERS, NUM_LAYERS, NUM_MEASUREMENTS, num_layers


@given(st.floats(MIN_STEP, MAX_STEP))
def test_steps_are_stored_to_the_nearest_unit(step: float) -> None:
    assert abs(step_code(step) / STEP_UNIT - step) <= 0.5 / STEP_UNIT


@pytest.mark.parametrize("step", [0, -1, 0.249, 1000.1, float("nan"), float("inf")])
def test_other_steps_are_refused(step: float) -> None:
    with pytest.raises(InvalidInputError, match=r"step is .*; allowed are 0.25 to 1000"):
        step_code(step)


def test_steps_grow_from_the_means_to_the_last_measurement() -> None:
    steps = measurement_steps(20, 1.5)
    assert steps.dtype == np.float32
    assert (steps[0], steps[7], steps[63]) == (20, 30, 50)
    assert (np.diff(steps) > 0).all()
    np.testing.assert_array_equal(measurement_steps(20, 0), np.full(64, 20, np.float32))


@given(st.integers(16, 64000), st.integers(0, 255), st.integers(0, 999))
def test_rounding_errs_by_half_a_step(code: int, tilt: int, seed: int) -> None:
    steps = measurement_steps(code / STEP_UNIT, tilt / TILT_UNIT)
    measured = np.random.default_rng(seed).uniform(-1024, 1024, (3, 64)).astype(np.float32)
    wanted = scaled(measured, steps)
    assert wanted.dtype == np.int32
    assert (np.abs(wanted * (steps / WANTED_UNIT) - measured) <= 0.65 * steps / 256).all()
    values = np.rint(wanted / WANTED_UNIT).astype(np.int16)
    assert (np.abs(dequantize(values, steps) - measured) <= 0.503 * steps).all()


def test_layers_and_bands_cover_all_measurements() -> None:
    assert LAYERS[0] == 0
    assert LAYERS[-1] == BANDS[-1] == NUM_MEASUREMENTS
    assert list(LAYERS) == sorted(set(LAYERS))
    assert set(LAYERS[1:]) <= set(BANDS)  # no band lies in two layers
    assert [num_layers(measurements) for measurements in (1, 63)] == [2, NUM_LAYERS]
    for measurements in range(1, 64):
        layers = num_layers(measurements)
        assert LAYERS[layers - 1] <= measurements < LAYERS[layers]
