"""Small functions that kernels call often, compiled from LLVM code: Numba has no words for it."""

from __future__ import annotations

import numpy as np

from cscodec.kernels.declaration import Array, Integer, intrinsic
from cscodec.layout import MAX_HIDDEN

BLOCK, WIDE_BLOCK = 32, 64  #: sums that are made at once
LANES = 8  #: numbers that are worked on at once; arrays handed over here are as long, or a multiple


@intrinsic
def lowest_bit(mask: Integer) -> Integer:
    """Return the number of the lowest bit that is set in a mask of 64 bits; one of them must be."""
    number = 0
    while (mask >> number) & 1 == 0:
        number += 1
    return number


@intrinsic
def count_bits(mask: Integer) -> Integer:
    """Return how many bits are set in a mask of 64 bits."""
    count = 0
    for number in range(64):
        count += (mask >> number) & 1
    return count


@intrinsic
def add_rows(
    sums: Array, weights: Array, offsets: Array, rows: Array, factors: Array, count: Integer
) -> None:
    """Make ``sums`` (n,) int32 ``offsets`` and ``weights[rows[k]] * factors[k]`` for k < ``count``.

    Weights are int8 (any, n), n a multiple of ``WIDE_BLOCK``, offsets int32 (n,); rows and factors
    int64, factors 0 to 32767; ``count`` is even.
    """
    for i in range(len(sums)):
        total = np.int64(offsets[i])
        for k in range(count):
            total += np.int64(weights[rows[k], i]) * factors[k]
        sums[i] = total


@intrinsic
def rectify(sums: Array, shift: Integer, hidden: Array) -> None:
    """Shift sums (n,) int32 right, and keep what is between 0 and ``MAX_HIDDEN``.

    ``hidden`` (n,) int16 gets that; n is a multiple of ``LANES``.
    """
    for k in range(len(sums)):
        hidden[k] = min(max(np.int64(sums[k]) >> shift, 0), MAX_HIDDEN)


@intrinsic
def multiply_pairs(hidden: Array, weights: Array, offsets: Array, product: Array) -> None:
    """Multiply ``hidden`` (2 * pairs,) int16 with weights (pairs, n, 2) int16.

    ``product`` (n,) int32 gets the offsets (n,) int32 and that. n is a multiple of ``LANES``;
    fastest is one of ``BLOCK``.
    """
    for i in range(len(product)):
        total = np.int64(offsets[i])
        for k in range(len(hidden)):
            total += np.int64(weights[k // 2, i, k % 2]) * np.int64(hidden[k])
        product[i] = total


@intrinsic
def multiply_sparse(hidden: Array, weights: Array, offsets: Array, product: Array) -> None:
    """As :func:`multiply_pairs`, for weights of int8: fast where many pairs are zeros.

    Numbers are a multiple of ``LANES``, too.
    """
    multiply_pairs(hidden, weights, offsets, product)


@intrinsic
def add_scaled(sums: Array, weights: Array, row: Integer, factor: Integer) -> None:
    """``sums += weights[row] * factor`` for int32 (n,), int16 (rows, n) and n a multiple of 8."""
    for i in range(len(sums)):
        sums[i] += np.int32(weights[row, i]) * np.int32(factor)
