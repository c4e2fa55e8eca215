"""Kernels of the binary range coder and of the logistic mixing that gives it its probabilities.

A decision is coded in three moves. *Mix*: each of its contexts owns a slot with an adaptive
probability; the probabilities meet as logits in a weighted sum. *Refine*: an adaptive curve maps
the sum to the probability that is used. *Learn*: slots, weights and curve move towards the bit.
All of it is integers: a decoder elsewhere must repeat every number exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cscodec._jit import inline_kernel

Array = npt.NDArray[Any]

MAX_INPUTS = 8
LOGIT_LIMIT = 3071  #: logits are in 1/256, from -12 to 12
CURVE_POINTS = 25  #: one point per whole logit
MIN_PROBABILITY = 24  #: of 65536
SLOT_LIMIT = 255  #: most decisions that a slot's adaptation rate looks back on
CURVE_RATE = 6
WEIGHT_ONE = 1 << 16
WEIGHT_LIMIT = 1 << 22


def _squash_table() -> Array:
    """Probability of 65536 for every logit: the logistic function, linear between 49 knots."""
    half = [
        0, 1, 1, 2, 3, 5, 8, 13, 22, 36, 60, 98, 162, 267, 439, 720, 1179, 1921, 3108, 4971,
        7812, 11955, 17625, 24743, 32768,
    ]  # fmt: skip
    knots = half + [65536 - value for value in reversed(half[:-1])]
    table = []
    for logit in range(-3072, 3072):
        left, offset = divmod(logit + 3072, 128)
        value = (knots[left] * (128 - offset) + knots[left + 1] * offset + 64) >> 7
        table.append(min(max(value, MIN_PROBABILITY), 65536 - MIN_PROBABILITY))
    return np.array(table, np.int32)


def _stretch_table(squash: Array) -> Array:
    """Logit for every probability of 4096: the first logit whose squash exceeds it."""
    middles = np.arange(4096) * 16 + 8
    return (np.searchsorted(squash, middles) - 3072).astype(np.int32)


def _cost_table() -> Array:
    """Cost in 1/256 bit of a decision of probability n / 4096, by repeated squaring."""
    costs = [12 * 256]
    for n in range(1, 4097):
        value, bits = n << 18, 0  # 30 fractional bits: 1.0 is 4096 << 18
        exponent = value.bit_length() - 1
        mantissa = value << (30 - exponent)
        for _ in range(8):
            mantissa = (mantissa * mantissa) >> 30
            bits *= 2
            if mantissa >= 1 << 31:
                mantissa >>= 1
                bits += 1
        costs.append((30 - exponent) * 256 - bits)
    return np.array(costs, np.int32)


SQUASH = _squash_table()
STRETCH = _stretch_table(SQUASH)
COST = _cost_table()
# 65536 / (n + 1.6): how far a slot moves towards a bit after n decisions.
RECIPROCAL = np.array([655360 // (10 * n + 16) for n in range(SLOT_LIMIT + 1)], np.int32)


class Coder(NamedTuple):
    """Registers (low, high, position in ``data``, decoder's window, failed) and the bytes."""

    registers: Array  # (5,) int64
    data: Array  # (n,) uint8


class Mixer(NamedTuple):
    """Adaptive state of one plane, and room for the decision at hand."""

    slots: Array  # (num_slots,) uint32: 22 bits of probability, 10 bits of count
    weights: Array  # (num_sets, MAX_INPUTS) int32
    curves: Array  # (num_curves, CURVE_POINTS) int32
    rates: Array  # (2,) int64: learning rate of the weights, shift of the curves
    index: Array  # (MAX_INPUTS,) int64: the slots of the decision's contexts
    logits: Array  # (MAX_INPUTS,) int64


@inline_kernel
def code_bit(coder: Coder, decoding: bool, probability: int, bit: int) -> int:
    """Code one bit whose probability of being 1 is ``probability`` / 65536."""
    registers = coder.registers
    low = registers[0]
    high = registers[1]
    span = high - low
    middle = low + (span >> 16) * probability + (((span & 0xFFFF) * probability) >> 16)
    if decoding:
        bit = 1 if registers[3] <= middle else 0
    if bit:
        high = middle
    else:
        low = middle + 1
    while (low ^ high) & 0xFF000000 == 0:
        position = registers[2]
        if decoding:
            byte = 0
            if position < len(coder.data):
                byte = np.int64(coder.data[position])
            registers[3] = ((registers[3] << 8) & 0xFFFFFFFF) | byte
        elif position < len(coder.data):
            coder.data[position] = high >> 24
        registers[2] = position + 1
        low = (low << 8) & 0xFFFFFFFF
        high = ((high << 8) & 0xFFFFFFFF) | 255
    registers[0] = low
    registers[1] = high
    return bit


@inline_kernel
def mix(mixer: Mixer, count: int, first: int, second: int) -> int:
    """Return the weighted sum of the logits of the first ``count`` contexts."""
    total = 0
    for k in range(count):
        logit = np.int64(STRETCH[np.int64(mixer.slots[mixer.index[k]]) >> 20])
        mixer.logits[k] = logit
        total += logit * (np.int64(mixer.weights[first, k]) + np.int64(mixer.weights[second, k]))
    return min(max(total >> 16, -LOGIT_LIMIT), LOGIT_LIMIT)


@inline_kernel
def refined(mixer: Mixer, curve: int, logit: int) -> int:
    """Return the probability that is coded: a quarter the logistic's, three the curve's."""
    position = logit + 3072
    point = position >> 8
    offset = position & 255
    left = np.int64(mixer.curves[curve, point])
    right = np.int64(mixer.curves[curve, point + 1])
    adapted = (left * (256 - offset) + right * offset) >> 8
    probability = (np.int64(SQUASH[position]) + 3 * adapted) >> 2
    return min(max(probability, MIN_PROBABILITY), 65536 - MIN_PROBABILITY)


@inline_kernel
def _bounded(weight: int) -> int:
    return min(max(weight, -WEIGHT_LIMIT), WEIGHT_LIMIT)


@inline_kernel
def learn(
    mixer: Mixer, count: int, first: int, second: int, curve: int, logit: int, bit: int
) -> None:
    """Move slots, weights and curve towards ``bit``."""
    position = logit + 3072
    error = ((bit << 16) - np.int64(SQUASH[position])) * mixer.rates[0]
    target = (bit << 22) - bit
    for k in range(count):
        change = (mixer.logits[k] * error + (1 << 17)) >> 18
        mixer.weights[first, k] = _bounded(np.int64(mixer.weights[first, k]) + change)
        mixer.weights[second, k] = _bounded(np.int64(mixer.weights[second, k]) + change)
        slot = np.int64(mixer.slots[mixer.index[k]])
        seen = slot & 1023
        probability = slot >> 10
        probability += ((target - probability) * np.int64(RECIPROCAL[seen])) >> 16
        if seen < SLOT_LIMIT:
            seen += 1
        mixer.slots[mixer.index[k]] = (probability << 10) | seen
    point = position >> 8
    offset = position & 255
    target = 65535 * bit
    left = np.int64(mixer.curves[curve, point])
    right = np.int64(mixer.curves[curve, point + 1])
    shift = 8 + mixer.rates[1]
    mixer.curves[curve, point] = left + (((target - left) * (256 - offset)) >> shift)
    mixer.curves[curve, point + 1] = right + (((target - right) * offset) >> shift)


@inline_kernel
def probability_of_one(mixer: Mixer, count: int, first: int, second: int, curve: int) -> int:
    """Return the probability that the next decision is 1, without coding it."""
    return refined(mixer, curve, mix(mixer, count, first, second))


@inline_kernel
def code_mixed(
    coder: Coder,
    decoding: bool,
    mixer: Mixer,
    count: int,
    first: int,
    second: int,
    curve: int,
    bit: int,
) -> int:
    """Code a decision with the contexts in ``mixer.index[:count]`` and learn from it."""
    logit = mix(mixer, count, first, second)
    bit = code_bit(coder, decoding, refined(mixer, curve, logit), bit)
    learn(mixer, count, first, second, curve, logit, bit)
    return bit
