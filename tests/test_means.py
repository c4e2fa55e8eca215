"""Networks that predict patch means: gradients, what they know, and that coding agrees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import reference_decoder as reference
from strategies import sample
from threadpoolctl import threadpool_limits

from cscodec.bitstream.mean_networks import MeanWeights
from cscodec.bitstream.range_coder import RangeCoder
from cscodec.bitstream.tables import CoderTables, neutral_tables
from cscodec.bitstream.tiles import coded_means, fourfold_means
from cscodec.kernels.means import code_means
from cscodec.learning.descent import descend
from cscodec.learning.means import fit_means, known_of_means, surprise
from cscodec.learning.perceptron import HIDDEN_ONE, Perceptron

Array = npt.NDArray[Any]


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread() -> Iterator[None]:
    """As the trainer does: BLAS threads that wait for busy CPUs take many times longer."""
    with threadpool_limits(1, "blas"):
        yield


def planes_like(step: int, name: str = "fig") -> list[Array]:
    """Colours of a part of a photograph at half its size, in steps, as if they were means."""
    colours = sample(name, 200, 240)[::2, ::2].astype(np.int16) // step
    return [colours[..., 1], colours[::2, ::2, 0], colours[::2, ::2, 2]]


def fitted(number: int, seed: int = 0) -> MeanWeights:
    """The network of a plane, after pictures at two steps."""
    seen = [planes_like(step)[: number + 1] for step in (2, 5)]
    parts = [[part.reshape(-1, *part.shape[2:]) for part in known_of_means(some)] for some in seen]
    means = np.concatenate([some[-1].ravel() for some in seen])
    known = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    return fit_means(*known, means, np.random.default_rng(seed))


def tables_of(weights: list[MeanWeights]) -> CoderTables:
    arrays = {name: array.copy() for name, array in neutral_tables().as_mapping().items()}
    for number, of_plane in enumerate(weights):
        for name, array in of_plane._asdict().items():
            arrays[f"mean_{name}"][number] = array
    return CoderTables.from_mapping(arrays)


def test_gradient_is_that_of_the_nats() -> None:
    generator = np.random.default_rng(2)
    network = Perceptron((5, 7, 4, 2), generator)
    network.weights[-1][:] = generator.normal(0, 0.03, network.weights[-1].shape)
    shapes = [matrix.shape for matrix in network.weights]
    ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
    inputs = generator.normal(0, 2, (60, 5))
    middles = generator.integers(-40, 40, 60)
    spreads = generator.integers(0, 12, 60).astype(np.uint8)
    means = middles // 2 + generator.integers(-9, 10, 60)

    def at(flat: Array) -> tuple[float, Array]:
        parts = zip(np.split(flat, ends), shapes, strict=True)
        network.weights = [part.reshape(shape) for part, shape in parts]
        nats, by_outputs = surprise(network(inputs), middles, spreads, means)
        assert nats.shape == (60,)
        return float(nats.sum()), network.gradient(by_outputs)

    start = network.flat.astype(np.float64)
    gradient = at(start)[1]
    for _ in range(20):
        direction = generator.normal(0, 1e-6, start.size)
        difference = at(start + direction)[0] - at(start - direction)[0]
        assert difference == pytest.approx(2 * gradient @ direction, rel=1e-4, abs=1e-9)


def test_descent_finds_the_lowest_point() -> None:
    wanted = np.linspace(-3, 3, 20, dtype=np.float32)
    found = np.zeros(20, np.float32)

    def hold() -> None:
        np.clip(found, -2, 2, out=found)

    seen: list[float] = []
    descend(found, lambda _: found - wanted, 2000, decaying=0, hold=hold, report=seen.append)
    np.testing.assert_allclose(found, np.clip(wanted, -2, 2), atol=0.01)
    assert seen == sorted(seen)
    assert seen[-1] == 1


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (1, 6), (6, 1), (4, 5), (5, 4)])
@pytest.mark.parametrize("is_halved", [False, True])
@pytest.mark.parametrize("size", [3, 60, 32767])
def test_training_knows_what_the_format_says(
    shape: tuple[int, int], is_halved: bool, size: int
) -> None:
    generator = np.random.default_rng(1)
    small = tuple((side + 1) // 2 for side in shape) if is_halved else shape
    values = [
        generator.integers(-size, size + 1, of_plane).astype(np.int16)
        for of_plane in (shape, small, small)
    ]
    planes = [reference.Plane(*means.shape) for means in values]
    for plane, means in zip(planes, values, strict=True):
        for place, mean in np.ndenumerate(means):
            plane.at(*place)[0] = int(mean)
    for count in (1, 2, 3):
        known, middles, spreads = known_of_means(values[:count])
        for r, c in np.ndindex(values[count - 1].shape):
            # The reference looks at what is decoded: zeros from here on.
            own = reference.Plane(*values[count - 1].shape)
            for place, mean in np.ndenumerate(values[count - 1]):
                own.at(*place)[0] = int(mean) if place < (r, c) else 0
            k, t, w_and_n = reference.known_of_mean([*planes[: count - 1], own], r, c)
            assert k == known[r, c].tolist()
            assert (t, w_and_n) == (spreads[r, c], middles[r, c])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_coding_takes_the_bits_that_were_learned(number: int) -> None:
    """The kernel knows what training thinks it does, and is as sure."""
    weights = fitted(number)
    *before, means = planes_like(3)[: number + 1]
    known, *rest = (part.reshape(-1, *part.shape[2:]) for part in known_of_means([*before, means]))
    network = Perceptron((known.shape[1], 32, 32, 2), np.random.default_rng(0))
    rows = [*range(known.shape[1]), -1]
    for matrix, learned in zip(
        network.weights, (weights.inputs[rows], weights.hidden, weights.outputs), strict=True
    ):
        matrix[:] = learned / 1024
    nats, _ = surprise(network(known / np.float32(HIDDEN_ONE)), *rest, means.ravel())
    learned, neutral = (
        bits_of([*before, means], tables) - bits_of(before, tables)
        for tables in (tables_of([weights] * 3), neutral_tables())
    )
    assert learned == pytest.approx(nats.sum() / np.log(2), rel=0.02)
    assert learned < neutral


def bits_of(planes: list[Array], tables: CoderTables) -> int:
    coder = RangeCoder.writing(1 << 20)
    for coded, plane in zip(
        coded_means(coder, tables, [256 * plane.astype(np.int32) for plane in planes]),
        planes,
        strict=True,
    ):
        np.testing.assert_array_equal(coded, plane)
    return 8 * len(coder.finished())


def test_a_seed_gives_one_network() -> None:
    first, again, other = (fitted(0, seed) for seed in (3, 3, 4))
    for ours, same, different in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(ours, same)
        assert (ours != different).any()


@pytest.mark.parametrize("shape", [(3, 4), (5, 7), (6, 8), (1, 1)])
def test_means_of_other_planes_are_four_or_fourfold(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(0)
    means = generator.integers(-9, 9, shape).astype(np.int16)
    same = fourfold_means(means, shape)
    np.testing.assert_array_equal(same, np.pad(4 * means, 1, mode="edge"))
    half = tuple((side + 1) // 2 for side in shape)
    whole = np.pad(means, [(0, side % 2) for side in shape], mode="edge")
    sums = whole.reshape(half[0], 2, half[1], 2).sum(axis=(1, 3))
    if half != shape:
        np.testing.assert_array_equal(fourfold_means(means, half), np.pad(sums, 1, mode="edge"))


@pytest.mark.parametrize(
    ("network", "luma", "chroma", "others"),
    [
        (0, (5, 6), (5, 6), 1),
        (1, (5, 6), (5, 6), 2),
        (2, (4, 6), (5, 6), 1),
        (2, (5, 6), (5, 5), 2),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_segment(
    network: int, luma: tuple[int, int], chroma: tuple[int, int], others: int
) -> None:
    coder = RangeCoder.writing(1000)
    code_means(
        *coder,
        neutral_tables().mean_network(network),
        np.zeros((5, 8), np.int16),
        np.zeros(luma, np.int32),
        np.zeros(chroma, np.int32),
        others,
        np.zeros((3, 4), np.int32),
    )
    assert coder.has_failed
