"""Kernels of tests, one for each function that has LLVM code of its own, and how to compile them.

``compiled()`` returns them as machine code; ``KERNEL.function`` is the same in Python.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np

from cscodec.kernels.convolution import LANES as CHANNELS
from cscodec.kernels.convolution import PERIOD, convolve_pixel, convolve_tile
from cscodec.kernels.declaration import (
    Array,
    Float32,
    Float64,
    Integer,
    _caller,
    float32,
    int8,
    int16,
    int32,
    int64,
    kernel,
    kernels,
    uint8,
    uint32,
)
from cscodec.kernels.estimates import add_estimate, mask_above
from cscodec.kernels.filters import NUM_TAPS, filter_block
from cscodec.kernels.intrinsics import (
    LANES,
    WIDE_BLOCK,
    add_rows,
    add_scaled,
    count_bits,
    lowest_bit,
    multiply_pairs,
    multiply_sparse,
    rectify,
)
from cscodec.kernels.lapping import turn_row
from cscodec.kernels.library import PREFIX, SUFFIX
from cscodec.kernels.mixing import MAX_INPUTS, RECIPROCAL, SQUASH, STRETCH, learn, mix
from cscodec.kernels.multiply import multiply_tile
from cscodec.kernels.range_coder import STATE_SIZE, code_bit
from cscodec.kernels.shrinkage import transform_column, transform_rows

HERE = Path(__file__).resolve().parent


@kernel
def run_lowest_bit(
    masks: Annotated[Array, int64["n"]], found: Annotated[Array, int64["n"].out]
) -> None:
    for i in range(len(masks)):
        found[i] = lowest_bit(masks[i])


@kernel
def run_count_bits(
    masks: Annotated[Array, int64["n"]], found: Annotated[Array, int64["n"].out]
) -> None:
    for i in range(len(masks)):
        found[i] = count_bits(masks[i])


@kernel
def run_add_scaled(
    sums: Annotated[Array, int32["n"].out],
    weights: Annotated[Array, int16["rows", "n"]],
    row: Integer,
    factor: Integer,
) -> None:
    add_scaled(sums, weights, row, factor)


@kernel
def run_add_rows(
    sums: Annotated[Array, int32[f"{WIDE_BLOCK} * blocks"].out],
    weights: Annotated[Array, int8["any", f"{WIDE_BLOCK} * blocks"]],
    offsets: Annotated[Array, int32[f"{WIDE_BLOCK} * blocks"]],
    rows: Annotated[Array, int64["room"]],
    factors: Annotated[Array, int64["room"]],
    count: Integer,
) -> None:
    add_rows(sums, weights, offsets, rows, factors, count)


@kernel
def run_rectify(
    sums: Annotated[Array, int32[f"{LANES} * eights"]],
    shift: Integer,
    hidden: Annotated[Array, int16[f"{LANES} * eights"].out],
) -> None:
    rectify(sums, shift, hidden)


@kernel
def run_multiply_pairs(
    hidden: Annotated[Array, int16[f"{LANES} * eights"]],
    weights: Annotated[Array, int16["pairs", f"{LANES} * lanes", 2]],
    offsets: Annotated[Array, int32[f"{LANES} * lanes"]],
    product: Annotated[Array, int32[f"{LANES} * lanes"].out],
) -> None:
    multiply_pairs(hidden, weights, offsets, product)


@kernel
def run_multiply_sparse(
    hidden: Annotated[Array, int16[f"{LANES} * eights"]],
    weights: Annotated[Array, int8["pairs", f"{LANES} * lanes", 2]],
    offsets: Annotated[Array, int32[f"{LANES} * lanes"]],
    product: Annotated[Array, int32[f"{LANES} * lanes"].out],
) -> None:
    multiply_sparse(hidden, weights, offsets, product)


@kernel
def run_multiply_tile(
    left: Annotated[Array, float32["rows", "depth"]],
    right: Annotated[Array, float32["depth", "columns"]],
    product: Annotated[Array, float32["rows", "columns"].out],
    row: Integer,
    column: Integer,
) -> None:
    multiply_tile(left, right, product, row, column)


@kernel
def run_convolve_pixel(
    source: Annotated[Array, int16["height", "width", "4 * fours"]],
    weights: Annotated[Array, int16["blocks", "pairs", CHANNELS, 2]],
    scales: Annotated[Array, float32["blocks", CHANNELS]],
    biases: Annotated[Array, float32[PERIOD, PERIOD, "blocks", CHANNELS]],
    target: Annotated[Array, int16["rows", "columns", f"{CHANNELS} * blocks"].out],
    places: Annotated[Array, int64[2, 3]],
    block: Integer,
    taps: Integer,
    ending: Integer,
) -> None:
    taken = (places[0, 0], places[0, 1], places[0, 2])
    made = (places[1, 0], places[1, 1], places[1, 2])
    convolve_pixel(source, weights, scales, biases, target, taken, made, block, taps, ending)


@kernel
def run_convolve_tile(
    source: Annotated[Array, int16["height", "width", "4 * fours"]],
    weights: Annotated[Array, int16["blocks", "pairs", CHANNELS, 2]],
    scales: Annotated[Array, float32["blocks", CHANNELS]],
    biases: Annotated[Array, float32[PERIOD, PERIOD, "blocks", CHANNELS]],
    target: Annotated[Array, int16["rows", "columns", f"{CHANNELS} * blocks"].out],
    places: Annotated[Array, int64[2, 3]],
    block: Integer,
    taps: Integer,
    ending: Integer,
) -> None:
    taken = (places[0, 0], places[0, 1], places[0, 2])
    made = (places[1, 0], places[1, 1], places[1, 2])
    convolve_tile(source, weights, scales, biases, target, taken, made, block, taps, ending)


@kernel
def run_turn_row(
    plane: Annotated[Array, float32["rows", "columns"].out],
    change: Annotated[Array, float32[4, 4]],
    y: Integer,
    x: Integer,
) -> None:
    turn_row(plane, change, y, x)


@kernel
def run_transform_column(
    plane: Annotated[Array, float32["rows", "columns"]],
    top: Integer,
    transformed: Annotated[Array, float32["columns", 8].out],
) -> None:
    for x in range(plane.shape[1]):
        transform_column(plane, top, x, transformed)


@kernel
def run_transform_rows(
    columns: Annotated[Array, float32["columns", 8]],
    left: Integer,
    coefficients: Annotated[Array, float32[64].out],
) -> None:
    transform_rows(columns, left, coefficients)


@kernel
def run_mask_above(
    numbers: Annotated[Array, float32["rows", 64]],
    threshold: Float32,
    found: Annotated[Array, int64["rows"].out],
) -> None:
    for row in range(len(numbers)):
        found[row] = mask_above(numbers[row], threshold)


@kernel
def run_add_estimate(
    coefficients: Annotated[Array, float32["rows", 64]],
    masks: Annotated[Array, int64["rows"]],
    synthesis: Annotated[Array, float32[64, 64]],
    share: Float32,
    total: Annotated[Array, float32["height", "width"].out],
    top: Integer,
    left: Integer,
) -> None:
    for row in range(len(masks)):
        add_estimate(coefficients[row], masks[row], synthesis, share, total, top, left)


@kernel
def run_filter_block(
    removed: Annotated[Array, float32["height", "width"]],
    clean: Annotated[Array, float32["height", "width"]],
    weights: Annotated[Array, float32["kinds", 16 * NUM_TAPS]],
    offsets: Annotated[Array, int64[4, NUM_TAPS]],
    filtered: Annotated[Array, float32["inner_height", "inner_width"].out],
    row: Integer,
    quarter: Integer,
    top: Integer,
    left: Integer,
) -> None:
    filter_block(removed, clean, weights, offsets, filtered, row, quarter, top, left)


@kernel
def run_mix(
    slots: Annotated[Array, uint32["slots"]],
    weights: Annotated[Array, int32["sets", MAX_INPUTS]],
    logits: Annotated[Array, int32[MAX_INPUTS].out],
    chosen: Annotated[Array, int64[3]],
    hint: Integer,
    first: Integer,
    second: Integer,
    found: Annotated[Array, int64[1].out],
) -> None:
    contexts = (chosen[0], chosen[1], chosen[2])
    found[0] = mix(STRETCH, slots, weights, logits, contexts, hint, first, second)


@kernel
def run_learn(
    slots: Annotated[Array, uint32["slots"].out],
    weights: Annotated[Array, int32["sets", MAX_INPUTS].out],
    logits: Annotated[Array, int32[MAX_INPUTS].out],
    chosen: Annotated[Array, int64[3]],
    first: Integer,
    second: Integer,
    error: Integer,
) -> None:
    contexts = (chosen[0], chosen[1], chosen[2])
    learn(RECIPROCAL, slots, weights, logits, contexts, first, second, error)


@kernel
def code_decision(
    state: Annotated[Array, int64[STATE_SIZE].out],
    data: Annotated[Array, uint8["num_bytes"].out],
    decoding: Integer,
    slots: Annotated[Array, uint32["slots"].out],
    weights: Annotated[Array, int32["sets", MAX_INPUTS].out],
    logits: Annotated[Array, int32[MAX_INPUTS].out],
    chosen: Annotated[Array, int64[3]],
    bits: Annotated[Array, int64[1].out],
) -> None:
    """Code a decision of three contexts, with rows 0 and 2 of the weights."""
    contexts = (chosen[0], chosen[1], chosen[2])
    logit = mix(STRETCH, slots, weights, logits, contexts, 0, 0, 2)
    probability = np.int64(SQUASH[logit + 2048])
    bits[0] = code_bit(state, data, decoding, probability, bits[0])
    error = (bits[0] << 16) - probability
    learn(RECIPROCAL, slots, weights, logits, contexts, 0, 2, error)


@kernel
def scale(values: Annotated[Array, float32["n"].out], factor: Float64, first: Integer) -> None:
    """Numbers of every kind arrive; products and sums are rounded apart."""
    for i in range(first, len(values)):
        values[i] = values[i] * np.float32(factor) + np.float32(1)


@kernel
def read_at(values: Annotated[Array, float32["n"].out], index: Integer) -> None:
    """What checks of bounds are to find."""
    values[0] = values[index]


OWN = [made for made in kernels if not made.function.__module__.startswith("cscodec")]


@lru_cache(maxsize=2)
def compiled(check_bounds: bool = False) -> dict[str, Callable[..., None]]:
    """Return the kernels of this file as machine code, by name."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Windows keeps what is open
        path = Path(folder) / f"kernels{SUFFIX}"
        # In a process of its own: Numba is not what is tested.
        code = f"import intrinsic_kernels as own; own.compile_to({str(path)!r}, {check_bounds})"
        command = [sys.executable, "-c", code]
        environment = {key: value for key, value in os.environ.items() if key[:6] != "NUMBA_"}
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), str(HERE)])
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        library = ctypes.CDLL(str(path))
    return {own.__name__: _caller(own, getattr(library, PREFIX + own.__name__)) for own in OWN}


def compile_to(name: str, check_bounds: bool) -> None:
    """Write the library of this file's kernels."""
    from building.compiler import Target, compile_kernel
    from building.libraries import PLATFORMS, link, own_level, own_platform

    path = Path(name)
    platform = PLATFORMS[own_platform()]
    level = own_level()
    target = Target(platform.triple, "generic" if level == "aarch64" else level)
    objects = []
    for own in OWN:
        objects.append(path.with_name(f"{own.__name__}.o"))
        objects[-1].write_bytes(compile_kernel(own.__name__, target, check_bounds=check_bounds))
    link(objects, path, platform)
