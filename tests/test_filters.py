"""Restoration filters: what they do, which are used, and that fitting finds what there is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from strategies import odd_model, sample

from cscodec.errors import InvalidInputError
from cscodec.restore.filters import (
    FILTER_STEPS,
    WEIGHT_ONE,
    apply_filters,
    arranged,
    filter_shape,
    filters_for,
    fit_filters,
)
from cscodec.restore.shrinkage import shrinkage_average

Plane = npt.NDArray[np.float32]
Example = tuple[Plane, Plane, Plane]
STEP = 18.0


def example(name: str, top: int, left: int, side: int = 96, seed: int = 0) -> Example:
    """A noisy plane, the same cleaned, and the original."""
    original = sample(name, side, side, top, left)[..., 1].astype(np.float32) - 128
    noise = np.random.default_rng(seed).normal(0, 6, original.shape)
    plane = (original + noise).astype(np.float32)
    return plane, shrinkage_average(plane, 2.7 * 6), original


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    names = ("fig", "cat", "gates", "stream", "dandelions", "chapel")
    return [example(name, 0, 0, 384, seed=k) for k, name in enumerate(names)]


@pytest.fixture(scope="module")
def fitted(examples: list[Example]) -> npt.NDArray[np.int16]:
    return fit_filters(examples, STEP)


def error(plane: Plane, original: Plane) -> float:
    return float(np.square(plane - original).mean())


def as_weights(filters: npt.NDArray[np.int16]) -> Plane:
    return arranged(filters.astype(np.float32) / np.float32(WEIGHT_ONE))


def test_fitted_filters_restore_what_they_are_fitted_to(
    fitted: npt.NDArray[np.int16], examples: list[Example]
) -> None:
    assert fitted.shape == filter_shape()[2:]
    assert fitted.dtype == np.int16
    before, after = 0.0, 0.0
    for plane, clean, original in examples:
        before += error(clean, original)
        after += error(apply_filters(plane, clean, as_weights(fitted), STEP), original)
    assert after < 0.95 * before


def test_fitted_filters_restore_other_pictures(fitted: npt.NDArray[np.int16]) -> None:
    before, after = 0.0, 0.0
    for name in ("fig", "cat", "gates"):
        plane, clean, original = example(name, 384, 384, 112, seed=9)
        before += error(clean, original)
        after += error(apply_filters(plane, clean, as_weights(fitted), STEP), original)
    assert after < 0.98 * before


def test_filters_of_zeros_change_nothing() -> None:
    plane, clean, _ = example("fig", 100, 100)
    none = arranged(np.zeros(filter_shape()[2:], np.float32))
    np.testing.assert_array_equal(apply_filters(plane, clean, none, STEP), clean)


def test_filters_are_linear_in_their_weights() -> None:
    """The classes depend on the cleaned plane only."""
    plane, clean, _ = example("fig", 100, 100)
    a, b = (as_weights(odd_model().filters[name][0, 3]) for name in ("luma", "chroma"))
    changes = [apply_filters(plane, clean, weights, STEP) - clean for weights in (a, b, a + b)]
    np.testing.assert_allclose(changes[0] + changes[1], changes[2], atol=1e-2)
    assert np.abs(changes[2]).max() > 0.1


def test_filters_are_mirrored_with_the_picture() -> None:
    """A picture of whole patches turned over is restored as the picture is, turned over."""
    plane, clean, _ = example("fig", 200, 300)
    weights = as_weights(odd_model().filters["luma"][0, 3])
    restored = apply_filters(plane, clean, weights, STEP)
    for turn in (np.fliplr, np.flipud):
        turned = apply_filters(
            *(np.ascontiguousarray(turn(part)) for part in (plane, clean)), weights, STEP
        )
        same = np.abs(turn(turned) - restored) < 1e-2
        assert same.mean() > 0.7  # a block's class looks one pixel further to one side


def test_nothing_to_learn_gives_no_correction() -> None:
    plane, clean, _ = example("fig", 100, 100)
    np.testing.assert_array_equal(fit_filters([(plane, clean, clean)], STEP), 0)
    np.testing.assert_array_equal(fit_filters([], STEP), 0)


def test_fitting_finds_what_was_removed_by_mistake() -> None:
    """Where the original is the plane before cleaning, the correction is what was removed."""
    examples = [example("fig", 96 * k, 96 * k, seed=k) for k in range(5)]
    filters = as_weights(fit_filters([(plane, clean, plane) for plane, clean, _ in examples], STEP))
    plane, clean, _ = example("fig", 300, 500, seed=7)
    restored = apply_filters(plane, clean, filters, STEP)
    assert error(restored, plane) < 0.1 * error(clean, plane)


@pytest.mark.parametrize("step", [0.25, 1000.0, *FILTER_STEPS])
def test_the_nearest_steps_filters_are_used(step: float) -> None:
    filters = np.zeros(filter_shape(), np.int16)
    filters += np.arange(len(FILTER_STEPS), dtype=np.int16)[:, None, None] * WEIGHT_ONE
    filters[1] *= -1
    nearest = min(range(len(FILTER_STEPS)), key=lambda k: abs(np.log(step / FILTER_STEPS[k])))
    np.testing.assert_array_equal(filters_for(filters, step, 0), nearest)
    np.testing.assert_array_equal(filters_for(filters, step * 1.05, 0), nearest)
    np.testing.assert_array_equal(filters_for(filters, step, 1.0), -nearest)


def test_shapes_that_do_not_fit_are_refused() -> None:
    plane, clean, original = example("fig", 100, 100)
    weights = as_weights(odd_model().filters["luma"][0, 3])
    for arguments in (
        (plane[:-8], clean, weights),
        (plane[:-1], clean[:-1], weights),
        (plane, clean, weights[1:]),
    ):
        with pytest.raises(InvalidInputError, match="allowed"):
            apply_filters(*(np.ascontiguousarray(array) for array in arguments), STEP)
    with pytest.raises(InvalidInputError, match="original has shape"):
        fit_filters([(plane, clean, original[8:])], STEP)
