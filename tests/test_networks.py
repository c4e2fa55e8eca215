"""Networks that predict measurements: gradients, integers, and that they learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from threadpoolctl import threadpool_limits

from cscodec.bitstream.networks import NetworkWeights, for_kernel, kinds_of, widened
from cscodec.kernels.predictions import LOG
from cscodec.layout import (
    CONSTANT_HIDDEN,
    CONSTANT_INPUT,
    LAYERS,
    MAX_HIDDEN,
    NUM_SOURCES,
    WIDTHS,
)
from cscodec.learning.networks import (
    fit_network,
    initial_parameters,
    loss_and_gradient,
    network_inputs,
)

Array = npt.NDArray[Any]

LAST, NUM_OWN = 6, 5


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread() -> Iterator[None]:
    """As the trainer does: BLAS threads that wait for busy CPUs take many times longer."""
    with threadpool_limits(1, "blas"):
        yield


def patches(number: int, seed: int = 0) -> tuple[Array, Array]:
    """Sparse values of four sources, and measurements with the signs of the first's."""
    generator = np.random.default_rng(seed)
    values = np.zeros((number, NUM_SOURCES, LAST), np.int8)
    shape = (number, 4, LAST)
    values[:, :4] = generator.integers(-9, 10, shape) * (generator.random(shape) < 0.4)
    own = np.sign(values[:, 0, 1:]) * generator.integers(1, 4, (number, NUM_OWN))
    return values.reshape(number, -1), own.astype(np.int8)


def fitted(values: Array, own: Array, signed: bool = True, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return fit_network(values, own, signed, (16, 8), generator, most_inputs=24)


def log_odds(network: dict[str, Array], values: Array, own: Array) -> tuple[Array, Array]:
    """What the coder makes of a network: log-odds in 1/64 that values are not zero, and signs."""

    def logarithms(values: Array) -> Array:
        return np.rint(16 * np.log2(1 + np.abs(values.astype(np.int64)))).astype(np.int64)

    weights = {name: array.astype(np.int64) for name, array in network.items()}
    inputs = np.concatenate(
        [logarithms(np.maximum(values, 0)), logarithms(np.minimum(values, 0))], axis=1
    )
    first = 2 * weights["offsets"] + inputs @ weights["inputs"]
    first = np.clip(first >> 4, 0, 4095)
    second = 256 * weights["hidden"][-1] + first @ weights["hidden"][:-1]
    second = np.clip(second >> 6, 0, 4095)
    outputs = 256 * weights["outputs"][-1] + second @ weights["outputs"][:-1]
    sizes = outputs[:, : own.shape[1]] + logarithms(own) @ weights["own"]
    return sizes >> 11, outputs[:, own.shape[1] :] >> 5


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_sums_whose_weights_are_bytes_cannot_overflow(layer: int) -> None:
    """As docs/format.md says, so that a model need not be asked."""
    inputs = NUM_SOURCES * LAYERS[layer + 1]  # one sign of each at most
    assert 128 * int(LOG[-1]) * inputs + CONSTANT_INPUT * 32768 < 1 << 24
    assert 128 * (MAX_HIDDEN * WIDTHS[layer - 1][0] + CONSTANT_HIDDEN) < 1 << 27


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_a_narrow_network_is_widened_for_files_and_narrow_for_the_kernel(layer: int) -> None:
    generator = np.random.default_rng(0)
    kinds = kinds_of(layer)
    wide, narrow = WIDTHS[layer - 1]
    whole = NetworkWeights(
        *(generator.integers(1, 90, shape).astype(dtype) for shape, dtype in kinds.values())
    )
    small = whole._replace(
        inputs=whole.inputs[:, :16],
        offsets=whole.offsets[:16],
        hidden=whole.hidden[:17, :8],
        outputs=whole.outputs[:9],
    )
    widened_small = widened(small, layer)
    shapes = [array.shape for array in widened_small]
    assert shapes == [shape for shape, _ in kinds.values()]
    assert [array.dtype for array in widened_small] == [dtype for _, dtype in kinds.values()]
    assert widened_small.hidden[-1].tolist() == [*small.hidden[-1], *[0] * (narrow - 8)]
    kernel = for_kernel(widened_small, layer)
    assert kernel.inputs.shape[1] == len(kernel.input_offsets) == 64
    assert len(kernel.hidden_offsets) == 32
    expected = for_kernel(small, layer)
    for name in ("inputs", "input_offsets", "hidden", "hidden_offsets", "outputs", "own"):
        np.testing.assert_array_equal(getattr(kernel, name), getattr(expected, name))
    assert for_kernel(whole, layer).inputs.shape[1] == -(-wide // 64) * 64


@pytest.mark.parametrize("signed", [True, False])
def test_gradient_is_that_of_the_loss(signed: bool) -> None:
    values, own = patches(64)
    own[::3, 0] = 12  # beyond all levels
    generator = np.random.default_rng(1)
    columns = np.flatnonzero(values.any(axis=0))
    parameters = initial_parameters(len(columns) * (1 + signed), own, signed, (7, 4))
    flat = parameters["flat"].astype(np.float64) + generator.normal(0, 0.3, parameters["flat"].size)
    shapes = {name: array.shape for name, array in parameters.items() if name != "flat"}
    inputs = network_inputs(values[:, columns], signed).astype(np.float64)

    def at(flat: Array) -> tuple[float, Array]:
        parts = np.split(flat, np.cumsum([np.prod(shape) for shape in shapes.values()])[:-1])
        views = {n: p.reshape(shapes[n]) for n, p in zip(shapes, parts, strict=True)}
        return loss_and_gradient(views, inputs, own)

    gradient = at(flat)[1]
    for _ in range(20):
        direction = generator.normal(0, 1e-6, flat.size)
        difference = at(flat + direction)[0] - at(flat - direction)[0]
        np.testing.assert_allclose(difference, 2 * gradient @ direction, rtol=1e-4, atol=1e-10)


def test_a_seed_gives_one_network() -> None:
    values, own = patches(64)
    first, again, other = (fitted(values, own, seed=seed) for seed in (3, 3, 4))
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
    assert any((array != other[name]).any() for name, array in first.items())


@pytest.mark.parametrize("number", [0, 50])
@pytest.mark.parametrize("signed", [True, False])
def test_zeros_are_expected_to_go_on(number: int, signed: bool) -> None:
    values = np.zeros((number, NUM_SOURCES * LAST), np.int8)
    own = np.zeros((number, NUM_OWN), np.int8)
    network = fitted(values, own, signed)
    assert {name: array.shape for name, array in network.items()} == {
        "inputs": (2 * NUM_SOURCES * LAST, 16),
        "offsets": (16,),
        "hidden": (17, 8),
        "outputs": (9, NUM_OWN * (1 + signed)),
        "own": (NUM_OWN, NUM_OWN),
        "above": (NUM_OWN + 7, 2),
    }
    types = {name: array.dtype for name, array in network.items()}
    assert types == dict.fromkeys(network, np.int16) | dict.fromkeys(("inputs", "hidden"), np.int8)
    assert not any(network[name].any() for name in ("inputs", "hidden", "own"))
    assert not network["outputs"][:-1].any()
    empty = np.zeros((1, NUM_SOURCES * LAST), np.int8)
    sizes, signs = log_odds(network, empty, np.zeros((1, NUM_OWN), np.int8))
    assert (sizes <= -5 * 64).all()
    assert not signs.any()


def test_a_pattern_is_learned() -> None:
    network = fitted(*patches(50000))
    assert np.abs(network["outputs"]).max() <= 4095
    assert np.abs(network["inputs"].astype(int)).max() == 127  # a pattern so clear is at the limit
    values, own = patches(1000, seed=1)
    sizes, signs = log_odds(network, values, own)
    assert np.mean((sizes > 0) == (own != 0)) > 0.97
    assert np.mean((np.sign(signs) == np.sign(own))[own != 0]) > 0.97


def test_negatives_of_pictures_are_expected_too() -> None:
    values, own = patches(3000)
    network = fitted(np.abs(values), np.abs(own))
    _, signs = log_odds(network, -np.abs(values), own)
    assert np.mean(signs[own != 0] < 0) > 0.97


def test_own_values_before_it_predict_a_measurement() -> None:
    values = np.zeros((80000, NUM_SOURCES * LAST), np.int8)
    own = np.zeros((80000, 3), np.int8)
    own[::2, [0, 2]] = 4
    network = fitted(values, own, signed=False)
    assert not np.tril(network["own"]).any()
    sizes, _ = log_odds(network, values[:2], own[:2])
    assert sizes[0, 2] > 64
    assert sizes[1, 2] < -64


def test_magnitudes_alone_count_where_signs_do_not() -> None:
    values, own = patches(3000)
    weights = fitted(values, own, signed=False)["inputs"]
    positive, negative = weights[: len(weights) // 2], weights[len(weights) // 2 :]
    np.testing.assert_array_equal(positive, negative)
    unused = ~values.any(axis=0)
    assert unused.any()
    assert not positive[unused].any()
    assert positive[~unused].any(axis=1).all()


def test_progress_ends_at_one() -> None:
    seen: list[float] = []
    values, own = patches(100)
    generator = np.random.default_rng(0)
    fit_network(values, own, True, (4, 4), generator, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1


def test_inputs_of_little_weight_are_left_out() -> None:
    generator = np.random.default_rng(3)
    values = generator.integers(-1, 2, (20000, NUM_SOURCES * LAST)).astype(np.int8)
    values[values == 0] = 1
    own = np.repeat(values[:, :1], NUM_OWN, axis=1)  # one of 66 inputs tells it all
    weights = fitted(values, own)["inputs"].reshape(2, NUM_SOURCES * LAST, -1)
    used = weights.any(axis=(0, 2))
    assert used[0]
    assert used.sum() == 24
