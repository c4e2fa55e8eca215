"""Small functions that kernels call often, compiled from LLVM code: Numba has no words for it."""

from __future__ import annotations

import numpy as np

from cscodec.kernels.declaration import Array, Integer, intrinsic

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
def add_scaled(sums: Array, weights: Array, row: Integer, factor: Integer) -> None:
    """``sums += weights[row] * factor`` for int32 (n,), int16 (rows, n) and n a multiple of 8."""
    for i in range(len(sums)):
        sums[i] += np.int32(weights[row, i]) * np.int32(factor)
