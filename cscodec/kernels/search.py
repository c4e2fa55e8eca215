"""Kernel code of the encoder's search: values chosen by squared error plus rate.

Rates are estimates, in 1/256 bit; a weight of rate of 0 means plain rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cscodec.kernels.declaration import Array, Integer, helper
from cscodec.kernels.mixing import COST
from cscodec.layout import MAGNITUDE_ONE


class Search(NamedTuple):
    """What an encoder looks for.

    Attributes
    ----------
    rate_weight : int
        What it pays for 1/256 bit, in 1/65536 of a squared step; 0 for plain rounding.
    dead_zone : int
        Below this, in 1/256 of a step, a value is never kept.
    """

    rate_weight: Integer
    dead_zone: Integer


@helper
def _rate(probability: Integer) -> Integer:
    """Cost in 1/256 bit of a decision of this probability (of 65536)."""
    return np.int64(COST[probability >> 4])


@helper
def best_level(size: Integer, probability: Integer, magnitude: Integer, search: Search) -> Integer:
    """Choose a magnitude by squared error plus rate; ``probability`` is that of not being zero."""
    level = (size + 128) >> 8
    rate_weight = search.rate_weight
    if rate_weight == 0:
        return level
    if size < search.dead_zone:
        return 0
    if size < 512:
        rest = size - 256
        best = size * size + rate_weight * _rate(65536 - probability)
        one_rate = _rate(probability) + 256 + 77
        cost = rest * rest + rate_weight * one_rate
        level = 0
        if cost < best:
            level = 1
            best = cost
        if size > 384:
            rest = size - 512
            more = one_rate + 128 + _more_rate(magnitude)
            if rest * rest + rate_weight * more < best:
                level = 2
        return level
    lower = size >> 8
    rest = size - 256 * lower
    over = 256 - rest
    if rest * rest < over * over + rate_weight * _more_rate(magnitude):
        return lower
    return lower + 1


@helper
def nonzero_level(size: Integer, search: Search) -> Integer:
    """Choose the magnitude of a value that is known not to be zero."""
    return max(1, (size + (90 if search.rate_weight > 0 else 128)) >> 8)


@helper
def _more_rate(magnitude: Integer) -> Integer:
    """Rate of one more in magnitude, 1/256 bit, of a two-sided exponential of this mean."""
    return (256 * 23 * (MAGNITUDE_ONE // 16)) // (magnitude + (11 * MAGNITUDE_ONE) // 16)


@helper
def worth_coding(wanted: Array, magnitudes: Array, probability: Integer, search: Search) -> Integer:
    """Say whether a band is better coded than left out, by squared error plus estimated rate.

    ``magnitudes`` are those predicted for what is ``wanted``, and perhaps more; ``probability`` is
    that of the band's being coded.
    """
    rate_weight = search.rate_weight
    gain: Integer = 0
    rate: Integer = 0
    largest: Integer = 0
    for i in range(len(wanted)):
        size: Integer = abs(np.int64(wanted[i]))
        largest = max(largest, size)
        magnitude: Integer = max(np.int64(magnitudes[i]), 64)
        # Rate of "zero" and "not zero" for an exponential of the predicted mean.
        p = (magnitude << 12) // (magnitude + MAGNITUDE_ONE)
        zero_rate = np.int64(COST[4096 - p])
        if size >= max(search.dead_zone, 128):
            level = max(1, (size + 128) >> 8)
            rest = size - 256 * level
            more = np.int64(COST[max(p, 1)]) + 256 + 77
            if level > 1:
                more += 128 + (level - 1) * _more_rate(magnitude)
            if size * size + rate_weight * zero_rate > rest * rest + rate_weight * more:
                gain += size * size - rest * rest
                rate += more
                continue
        rate += zero_rate
    if rate_weight == 0:
        return largest >= 128
    if gain == 0:
        return False
    rate += _rate(probability) - _rate(65536 - probability)
    return gain > rate_weight * rate
