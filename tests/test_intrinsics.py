"""Functions whose LLVM code is written by hand do what their Python twins say, on any input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import intrinsic_kernels as own
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from building.intrinsics import CODE
from cscodec.kernels import convolution, declaration, filters
from cscodec.kernels.intrinsics import LANES, WIDE_BLOCK
from cscodec.kernels.mixing import (
    LOGIT_LIMIT,
    MAX_INPUTS,
    MIN_PROBABILITY,
    SLOT_LIMIT,
    TOP,
    WEIGHT_LIMIT,
)
from cscodec.kernels.multiply import COLUMNS, ROWS

Array = npt.NDArray[Any]
seeds = st.integers(0, 2**32 - 1)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # Python's twins overflow aloud


def assert_alike(name: str, make: Callable[[], list[Any]]) -> None:
    """Machine code and Python leave the same in every array, bit for bit."""
    native, python = make(), make()
    own.compiled()[name](*native)
    getattr(own, name).function(*python)
    for ours, theirs in zip(native, python, strict=True):
        if isinstance(ours, np.ndarray):
            assert ours.tobytes() == theirs.tobytes()


def extreme_floats(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of all magnitudes, with zeros, denormals and, seldom, infinity; never NaN."""
    numbers = generator.standard_normal(shape) * 10.0 ** generator.integers(-12, 12, shape)
    special = generator.choice([0.0, -0.0, 1e-42, -1e-42, 3e38, -3e38, np.inf], shape)
    return np.where(generator.random(shape) < 0.05, special, numbers).astype(np.float32)


def test_every_intrinsic_has_code_and_a_kernel_here() -> None:
    names = {function.__name__ for function in declaration.intrinsics}
    assert names == set(CODE)
    attributes = {"keep_apart", "inline_here"}  # of the function they stand in; they do nothing
    assert {f"run_{name}" for name in names - attributes} <= set(own.compiled())


@given(masks=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_bits(masks: list[int]) -> None:
    extremes = [1, -1, -(2**63), 2**62, 2**63 - 1]
    for name in ("run_lowest_bit", "run_count_bits"):
        given_masks = np.array([mask or 1 for mask in masks] + extremes, np.int64)
        assert_alike(
            name, lambda given_masks=given_masks: [given_masks, np.zeros_like(given_masks)]
        )


@given(seed=seeds, vectors=st.integers(0, 6), factor=st.integers(-64, 64))
def test_add_scaled(seed: int, vectors: int, factor: int) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        weights = generator.integers(-32768, 32768, (3, LANES * vectors)).astype(np.int16)
        sums = generator.integers(-(2**30), 2**30, LANES * vectors).astype(np.int32)
        return [sums, weights, 2, factor]

    assert_alike("run_add_scaled", make)


@given(seed=seeds, blocks=st.integers(1, 4), pairs=st.integers(0, 8), spare=st.integers(0, 3))
def test_add_rows(seed: int, blocks: int, pairs: int, spare: int) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        weights = generator.integers(-128, 128, (5, WIDE_BLOCK * blocks)).astype(np.int8)
        weights[0] = -128
        offsets = generator.integers(-65536, 65536, WIDE_BLOCK * blocks).astype(np.int32)
        rows = generator.integers(0, 5, 2 * pairs + spare)
        factors = generator.choice([0, 1, 32767], 2 * pairs + spare)
        sums = np.full(WIDE_BLOCK * blocks, 7, np.int32)
        return [sums, weights, offsets, rows, factors, 2 * pairs]

    assert_alike("run_add_rows", make)


@given(
    seed=seeds,
    eights=st.integers(1, 4),
    shift=st.sampled_from([4, 7, 10]),
    size=st.sampled_from([1, 1 << 8, 1 << 19, (1 << 31) - 1]),
)
def test_rectify(seed: int, eights: int, shift: int, size: int) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        sums = generator.integers(-size - 1, size, LANES * eights, np.int32, endpoint=True)
        sums[0] = size
        return [sums, shift, np.full(LANES * eights, 7, np.int16)]

    assert_alike("run_rectify", make)


@given(
    seed=seeds,
    eights=st.integers(1, 4),
    lanes=st.integers(1, 13),
    most_hidden=st.sampled_from([1, 4095]),
)
def test_multiply_pairs(seed: int, eights: int, lanes: int, most_hidden: int) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        pairs = LANES * eights // 2
        hidden = generator.integers(0, most_hidden, 2 * pairs, np.int16, endpoint=True)
        hidden[0] = most_hidden
        most = 524416 // (2 * pairs) - 64  # of weights, as all hidden numbers may be 4095
        weights = generator.integers(-most, most, (pairs, LANES * lanes, 2)).clip(-32768, 32767)
        offsets = generator.integers(-(1 << 17), 1 << 17, LANES * lanes).astype(np.int32)
        product = np.full(LANES * lanes, 7, np.int32)
        return [hidden, weights.astype(np.int16), offsets, product]

    assert_alike("run_multiply_pairs", make)


@given(
    seed=seeds,
    eights=st.integers(1, 40),
    lanes=st.integers(1, 9),
    present=st.sampled_from([0, 0.1, 0.5, 1]),
)
def test_multiply_sparse(seed: int, eights: int, lanes: int, present: float) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        pairs = LANES * eights // 2
        hidden = generator.choice(np.int16([1, 7, 4095]), 2 * pairs)
        hidden[generator.random(2 * pairs) >= present] = 0
        weights = generator.integers(-128, 128, (pairs, LANES * lanes, 2)).astype(np.int8)
        offsets = generator.integers(-(1 << 17), 1 << 17, LANES * lanes).astype(np.int32)
        product = np.full(LANES * lanes, 7, np.int32)
        return [hidden, weights, offsets, product]

    assert_alike("run_multiply_sparse", make)


@given(seed=seeds, depth=st.integers(0, 13), more=st.integers(0, 3))
def test_multiply_tile(seed: int, depth: int, more: int) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        left = extreme_floats(generator, (ROWS + more, depth))
        right = extreme_floats(generator, (depth, COLUMNS + more))
        left[~np.isfinite(left)] = 1  # infinity times zero is NaN, of either sign
        right[~np.isfinite(right)] = 1
        product = np.full((ROWS + more, COLUMNS + more), 7, np.float32)
        return [left * np.float32(1e-20), right * np.float32(1e-20), product, more, more]

    assert_alike("run_multiply_tile", make)


@given(
    seed=seeds,
    fours=st.integers(1, 3),
    taps=st.integers(1, 3),
    steps=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    ending=st.sampled_from([convolution.WRITE, convolution.RECTIFY, convolution.ADD]),
)
def test_convolve_tile_and_pixel(
    seed: int, fours: int, taps: int, steps: tuple[int, int], ending: int
) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        width = 2 * convolution.PIXELS + 3

        def whole(*shape: int) -> Any:
            return generator.integers(-32767, 32768, shape, np.int16)

        arrays = [
            whole(5, width, 4 * fours),
            whole(2, 2 * fours * taps * taps, convolution.LANES, 2),  # sums wrap
            generator.choice([0, 1e-6, 1e-5, 1e-4, 1e6], (2, convolution.LANES)).astype(np.float32),
            generator.normal(
                0, 1000, (convolution.PERIOD, convolution.PERIOD, 2, convolution.LANES)
            ).astype(np.float32),
            whole(3, width, 2 * convolution.LANES),
        ]
        places = np.zeros((2, 3), np.int64)
        places[:, 0], places[:, 1] = generator.integers(0, 3, 2), generator.integers(0, 2, 2)
        places[:, 2] = steps
        return [*arrays, places, 1, taps, ending]

    assert_alike("run_convolve_tile", make)
    assert_alike("run_convolve_pixel", make)


@given(seed=seeds, y=st.integers(0, 2), x=st.integers(4, 9))
def test_turn_row(seed: int, y: int, x: int) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        plane = generator.normal(0, 100, (3, 13)).astype(np.float32)
        return [plane, generator.standard_normal((4, 4), np.float32), y, x]

    assert_alike("run_turn_row", make)


@given(seed=seeds, top=st.integers(0, 2), columns=st.integers(1, 9))
def test_transform_column(seed: int, top: int, columns: int) -> None:
    def make() -> list[Any]:
        plane = np.random.default_rng(seed).normal(0, 100, (10, columns)).astype(np.float32)
        return [plane, top, np.full((columns, 8), 7, np.float32)]

    assert_alike("run_transform_column", make)


@given(seed=seeds, left=st.integers(0, 3))
def test_transform_rows(seed: int, left: int) -> None:
    def make() -> list[Any]:
        columns = np.random.default_rng(seed).normal(0, 100, (11, 8)).astype(np.float32)
        return [columns, left, np.full(64, 7, np.float32)]

    assert_alike("run_transform_rows", make)


@given(seed=seeds, threshold=st.sampled_from([0.0, 1e-42, 0.5, 3e38]))
def test_mask_above(seed: int, threshold: float) -> None:
    def make() -> list[Any]:
        numbers = extreme_floats(np.random.default_rng(seed), (5, 64))
        numbers[1, 3] = np.nan
        return [numbers, np.float32(threshold), np.zeros(5, np.int64)]

    assert_alike("run_mask_above", make)


@given(seed=seeds, mask=st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1]))
def test_add_estimate(seed: int, mask: int) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        coefficients = generator.standard_normal((2, 64), np.float32)
        synthesis = generator.standard_normal((64, 64), np.float32)
        total = generator.standard_normal((11, 13), np.float32)
        masks = np.array([mask, ~mask], np.int64)
        return [coefficients, masks, synthesis, np.float32(0.3), total, 3, 5]

    assert_alike("run_add_estimate", make)


@given(seed=seeds, quarter=st.integers(0, 3))
def test_filter_block(seed: int, quarter: int) -> None:
    width = 8 + 2 * filters.RADIUS

    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        planes = [generator.standard_normal((width, width), np.float32) for _ in range(2)]
        weights = generator.standard_normal((3, 16 * filters.NUM_TAPS), np.float32)
        reach = generator.integers(-filters.RADIUS, filters.RADIUS + 1, (4, filters.NUM_TAPS, 2))
        offsets = np.asarray(reach @ [width, 1], np.int64)
        return [*planes, weights, offsets, np.zeros((8, 8), np.float32), 2, quarter, 4, 4]

    assert_alike("run_filter_block", make)


def adaptive_state(generator: np.random.Generator) -> list[Array]:
    """Slots, weights and logits, many of them at their limits."""
    chances = generator.choice([0, 1, 127, TOP >> 1, TOP - 127, TOP], 40)
    chances = np.where(generator.random(40) < 0.5, chances, generator.integers(0, TOP + 1, 40))
    counts = generator.integers(0, SLOT_LIMIT + 1, 40)
    slots = ((chances << 10) | counts).astype(np.uint32)
    limits = generator.choice([-WEIGHT_LIMIT, -1, 0, WEIGHT_LIMIT], (4, MAX_INPUTS))
    drawn = generator.integers(-WEIGHT_LIMIT, WEIGHT_LIMIT + 1, (4, MAX_INPUTS))
    weights = np.where(generator.random((4, MAX_INPUTS)) < 0.3, limits, drawn).astype(np.int32)
    logits = generator.integers(-LOGIT_LIMIT - 1, LOGIT_LIMIT + 1, MAX_INPUTS).astype(np.int32)
    return [slots, weights, logits]


@given(seed=seeds, hint=st.integers(-LOGIT_LIMIT, LOGIT_LIMIT))
def test_mix(seed: int, hint: int) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        state = adaptive_state(generator)
        chosen = generator.integers(0, 40, MAX_INPUTS - 1)
        first, second = (int(row) for row in generator.permutation(4)[:2])
        return [*state, chosen, hint, first, second, np.zeros(1, np.int64)]

    assert_alike("run_mix", make)


@settings(max_examples=200)
@given(
    seed=seeds,
    bit=st.integers(0, 1),
    probability=st.integers(MIN_PROBABILITY, 65536 - MIN_PROBABILITY),
)
def test_learn(seed: int, bit: int, probability: int) -> None:
    def make() -> list[Any]:
        generator = np.random.default_rng(seed)
        state = adaptive_state(generator)
        chosen = generator.permutation(40)[: MAX_INPUTS - 1]  # groups of slots do not overlap
        first, second = (int(row) for row in generator.permutation(4)[:2])
        return [*state, chosen, first, second, (bit << 16) - probability]

    assert_alike("run_learn", make)
