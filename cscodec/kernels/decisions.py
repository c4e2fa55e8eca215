"""Kernel code of single decisions: a probability from contexts, the bit, and what is learned.

And of what contexts are made of: numbers put into bins.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from cscodec.kernels.declaration import (
    Array,
    Integer,
    helper,
    inline_here,
    int32,
    int64,
    uint8,
    uint32,
)
from cscodec.kernels.mixing import MAX_INPUTS, RECIPROCAL, SQUASH, STRETCH, learn, mix
from cscodec.kernels.range_coder import STATE_SIZE, code_bit
from cscodec.kernels.slots import NUM_SETS, NUM_SLOTS

EVEN = 32768  #: probability of a bit that nothing is known about


class Coder(NamedTuple):
    """The entropy coder at work on one plane of a tile.

    Attributes
    ----------
    registers, data
        Of the range coder: its state, and the bytes that it writes or reads.
    decoding : int
        Whether it reads.
    slots, weights
        What the plane's contexts have learned: see :mod:`cscodec.kernels.mixing`.
    logits
        Room for one decision.
    """

    registers: Annotated[Array, int64[STATE_SIZE].out]
    data: Annotated[Array, uint8["num_bytes"].out]
    decoding: Integer
    slots: Annotated[Array, uint32[NUM_SLOTS].out]
    weights: Annotated[Array, int32[NUM_SETS, MAX_INPUTS].out]
    logits: Annotated[Array, int32[MAX_INPUTS].out]


@helper
def probability_of(
    coder: Coder, contexts: Any, hint: Integer, first: Integer, second: Integer
) -> Integer:
    """Return the probability (of 65536) that a decision is 1; ``hint`` is a logit, or 0."""
    inline_here()
    logit = mix(STRETCH, coder.slots, coder.weights, coder.logits, contexts, hint, first, second)
    return np.int64(SQUASH[logit + 2048])


@helper
def learn_from(
    coder: Coder,
    contexts: Any,
    first: Integer,
    second: Integer,
    probability: Integer,
    bit: Integer,
) -> None:
    """Learn from a decision of known probability."""
    inline_here()
    error = (bit << 16) - probability
    learn(RECIPROCAL, coder.slots, coder.weights, coder.logits, contexts, first, second, error)


@helper
def settle(
    coder: Coder,
    contexts: Any,
    first: Integer,
    second: Integer,
    probability: Integer,
    bit: Integer,
) -> Integer:
    """Code a decision of known probability, and learn from it."""
    inline_here()
    bit = code_bit(coder.registers, coder.data, coder.decoding, probability, bit)
    learn_from(coder, contexts, first, second, probability, bit)
    return bit


@helper
def decide(
    coder: Coder, contexts: Any, hint: Integer, first: Integer, second: Integer, bit: Integer
) -> Integer:
    """Code a decision."""
    probability = probability_of(coder, contexts, hint, first, second)
    return settle(coder, contexts, first, second, probability, bit)


@helper
def code_escape(state: Array, data: Array, decoding: Integer, value: Integer) -> Integer:
    """Code a number >= 0 in exponential Golomb form, in bits at even odds."""
    length = bit_length(value + 1) - 1 if value >= 0 else 0
    reached = 0
    while reached < 16 and code_bit(state, data, decoding, EVEN, np.int64(reached < length)):
        reached += 1
    result = 1
    for k in range(reached):
        bit = ((value + 1) >> (reached - 1 - k)) & 1
        result = 2 * result + code_bit(state, data, decoding, EVEN, bit)
    return result - 1


def _half_octaves(size: int) -> Array:
    """Numbers to halves of octaves: 0 for 0, 1 for 1, 3 for 2, 4 for 3 ..."""
    table = np.zeros(size, np.uint8)
    for value in range(1, size):
        exponent = value.bit_length() - 1
        table[value] = 2 * exponent + 1 + ((2 * value >> exponent) & 1)
    return table


HALF_OCTAVES = _half_octaves(2049)  # ends where the last bin begins


@helper
def half_octaves(value: Integer) -> Integer:
    """Bin of a number >= 0, at most 23."""
    return np.int64(HALF_OCTAVES[min(value, 2048)])


@helper
def magnitude_bin(magnitude: Integer) -> Integer:
    """Bin of a predicted magnitude, at most 23."""
    return half_octaves(magnitude >> 6)


@helper
def bit_length(value: Integer) -> Integer:
    """Number of bits of a number >= 0."""
    length = 0
    while value > 0:
        value >>= 1
        length += 1
    return length


@helper
def clipped(value: Integer, limit: Integer) -> Integer:
    """Move a number into -limit..limit."""
    return min(max(value, -limit), limit)


@helper
def sign_class(value: Integer) -> Integer:
    """0 for zero, 1 for positive, 2 for negative numbers."""
    return 1 if value > 0 else (2 if value < 0 else 0)
