"""Shrinkage of cosines: against its definition, and what it must leave alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from strategies import sample

from cscodec.errors import InvalidInputError
from cscodec.restore.shrinkage import shrinkage_average
from cscodec.sensing.averages import cosine_basis

Plane = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def plane() -> Plane:
    return sample("cat", 40, 72, 300, 400)[..., 1].astype(np.float32)


Starts = tuple[tuple[int, int], ...]


def by_definition(plane: Plane, threshold: float, stride: int, starts: Starts = ((0, 0),)) -> Plane:
    basis = cosine_basis().astype(np.float64)
    total, weight = np.zeros(plane.shape), np.zeros(plane.shape)
    for top, left in starts:
        places = np.mgrid[top : plane.shape[0] - 7 : stride, left : plane.shape[1] - 7 : stride]
        for y, x in places.reshape(2, -1).T:
            coefficients = basis @ plane[y : y + 8, x : x + 8].ravel()
            kept = np.abs(coefficients) > threshold
            kept[0] = True
            estimate = (np.where(kept, coefficients, 0) @ basis).reshape(8, 8)
            total[y : y + 8, x : x + 8] += estimate / kept.sum() ** 1.5
            weight[y : y + 8, x : x + 8] += 1 / kept.sum() ** 1.5
    return (total / weight).astype(np.float32)


@pytest.mark.parametrize(
    ("stride", "starts"),
    [(1, ((0, 0),)), (2, ((0, 0),)), (4, ((0, 0),)), (8, ((0, 0),)), (2, ((0, 0), (1, 1))),
     (4, ((0, 0), (3, 1), (1, 3)))],
)  # fmt: skip
@pytest.mark.parametrize("threshold", [3.01, 25.01])  # no coefficient of whole samples is so large
def test_it_is_what_it_says(plane: Plane, stride: int, starts: Starts, threshold: float) -> None:
    ours = shrinkage_average(plane, threshold, stride, starts)
    expected = by_definition(plane, threshold, stride, starts)
    # A coefficient at the threshold may go the other way in float32.
    assert (np.abs(ours - expected) < 0.01).mean() > 0.98
    assert np.abs(ours - expected).max() < threshold
    assert np.abs(ours - plane).max() > 1


def test_nothing_is_lost_without_a_threshold(plane: Plane) -> None:
    np.testing.assert_allclose(shrinkage_average(plane, 0.0), plane, atol=0.01)


def test_an_infinite_threshold_leaves_means(plane: Plane) -> None:
    means = plane.reshape(5, 8, 9, 8).mean(axis=(1, 3))
    restored = shrinkage_average(plane, 1e9, 8)
    np.testing.assert_allclose(restored, np.kron(means, np.ones((8, 8))), atol=1e-3)


def test_noise_is_removed(plane: Plane) -> None:
    noise = np.random.default_rng(0).normal(0, 10, plane.shape).astype(np.float32)
    restored = shrinkage_average(plane + noise, 27.0)
    assert np.square(restored - plane).mean() < 0.6 * np.square(noise).mean()


@pytest.mark.parametrize("shape", [(8, 8), (8, 16), (24, 8), (8, 8 * 67)])
def test_planes_of_any_number_of_patches(shape: tuple[int, int]) -> None:
    noise = np.random.default_rng(1).normal(0, 30, shape).astype(np.float32)
    starts = ((0, 0), (1, 1))
    expected = by_definition(noise, 20.0, 2, starts)
    close = np.abs(shrinkage_average(noise, 20.0, 2, starts) - expected) < 0.01
    assert close.mean() > 0.9


@pytest.mark.parametrize(
    ("shape", "stride"), [((8, 9), 2), ((7, 8), 2), ((0, 8), 2), ((8, 8), 3), ((8, 8), 0)]
)
def test_other_sizes_and_strides_are_refused(shape: tuple[int, int], stride: int) -> None:
    with pytest.raises(InvalidInputError, match=f"stride is {stride}; allowed"):
        shrinkage_average(np.zeros(shape, np.float32), 1.0, stride)


@pytest.mark.parametrize("starts", [(), ((1, 1),), ((0, 0), (2, 0)), ((0, 0), (0, -1))])
def test_other_starts_are_refused(starts: Starts) -> None:
    with pytest.raises(InvalidInputError, match="starts are"):
        shrinkage_average(np.zeros((8, 8), np.float32), 1.0, 2, starts)
