"""Colour planes: there and back within rounding, and the interpolation of chroma."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cscodec.errors import InvalidInputError
from cscodec.transform.colour import double, halve, join_colours, split_colours


def test_every_gray_and_a_grid_of_all_colours_come_back() -> None:
    levels = np.r_[0:256:15, 255].astype(np.uint8)
    colours = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, len(levels), 3)
    np.testing.assert_array_equal(join_colours(split_colours(colours), colours.shape[:2]), colours)
    gray = np.arange(256, dtype=np.uint8).reshape(16, 16)
    np.testing.assert_array_equal(join_colours(split_colours(gray), gray.shape), gray)


def test_planes_are_those_of_bt_601() -> None:
    colours = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [90, 90, 90]]], np.uint8)
    luma, blue, red = split_colours(colours)
    np.testing.assert_allclose(luma[0] + 128, [76.245, 149.685, 29.07, 90], atol=1e-3)
    np.testing.assert_allclose(blue[0], [-43.028, -84.472, 127.5, 0], atol=1e-3)
    np.testing.assert_allclose(red[0], [127.5, -106.765, -20.735, 0], atol=1e-3)


def test_planes_out_of_range_are_clipped() -> None:
    np.testing.assert_array_equal(
        join_colours([np.array([[-1e9, -128.6, -127.6, 126.6, 172]], np.float32)], (1, 5)),
        [[0, 0, 0, 255, 255]],
    )


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_halving_keeps_the_mean_of_each_four_samples(height: int, width: int, seed: int) -> None:
    plane = np.random.default_rng(seed).uniform(-128, 128, (height, width)).astype(np.float32)
    half = halve(plane)
    assert half.shape == ((height + 1) // 2, (width + 1) // 2)
    for (row, column), value in np.ndenumerate(half):
        rows = [min(2 * row + k, height - 1) for k in (0, 1)]
        columns = [min(2 * column + k, width - 1) for k in (0, 1)]
        assert value == pytest.approx(plane[np.ix_(rows, columns)].mean(), abs=1e-4)


def test_doubling_interpolates_where_samples_lie() -> None:
    # A slope stays a slope: old samples lie at 0.5, 2.5, ... of the new grid's units.
    positions = 2 * np.arange(6) + 0.5
    plane = np.add.outer(3 * positions[:4], positions).astype(np.float32)
    doubled = double(plane)
    assert doubled.shape == (8, 12)
    expected = np.add.outer(3 * np.arange(8), np.arange(12))
    np.testing.assert_allclose(doubled[1:-1, 1:-1], expected[1:-1, 1:-1], atol=1e-4)
    np.testing.assert_array_equal(doubled[0, 0], plane[0, 0])  # beyond its edge, the edge goes on
    np.testing.assert_array_equal(double(np.full((1, 1), 7, np.float32)), np.full((2, 2), 7))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_doubling_and_halving_keep_flat_planes_and_types(h: int, w: int, seed: int) -> None:
    value = np.float32(np.random.default_rng(seed).uniform(-128, 128))
    plane = np.full((h, w), value, np.float32)
    for result in (double(plane), halve(plane)):
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, value, rtol=1e-6)


@pytest.mark.parametrize("shape", [(4, 4, 2), (4, 4, 4), (4,)])
def test_pixels_of_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="allowed are"):
        split_colours(np.zeros(shape, np.uint8))


def test_colours_of_other_types_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="float64"):
        split_colours(np.zeros((4, 4, 3)))


@pytest.mark.parametrize("origin", [(-1, 0), (0, 1), (5, 0)])
def test_pixels_outside_a_plane_are_refused(origin: tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError, match="not all in a plane"):
        join_colours([np.zeros((4, 4), np.float32)], (4, 4), origin)
