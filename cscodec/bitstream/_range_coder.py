"""Kernels of the binary range coder and of the logistic mixing that gives it its probabilities.

A decision is coded in three moves. *Mix*: each of its contexts owns a slot with an adaptive
probability; the probabilities meet as logits in a weighted sum. *Refine*: an adaptive curve maps
the sum to the probability that is used. *Learn*: slots, weights and curve move towards the bit.
All of it is integers: a decoder elsewhere must repeat every number exactly.
"""

from __future__ import annotations

import numpy as np

from cscodec._jit import Array, Integer, helper, keep_apart

MAX_INPUTS = 8
LOGIT_LIMIT = 3071  #: logits are in 1/256, from -12 to 12
CURVE_POINTS = 25  #: one point per whole logit
MIN_PROBABILITY = 24  #: of 65536
SLOT_LIMIT = 255  #: most decisions that a slot's adaptation rate looks back on
CURVE_RATE = 6  #: shift of the curves' learning
WEIGHT_RATE = 10
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
    """Logit for every probability of 4096: the first whose squash is at least its middle."""
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


# Places in ``state``: the coder's registers, then room for the decision at hand. Arrays are handed
# to these kernels one by one: taking them out of a tuple costs more than coding a bit.
LOW, HIGH, POSITION, WINDOW, FAILED = range(5)
COUNT, FIRST, SECOND, CURVE = range(5, 9)  # of its contexts; its sets of weights, its curve
LOGIT, PROBABILITY = 9, 10  # what its contexts say of it together
INDEX = 16  # slots of its contexts
LOGITS = 24  # what each of them says
STATE_SIZE = 32


@helper
def code_bit(
    state: Array, data: Array, decoding: Integer, probability: Integer, bit: Integer
) -> Integer:
    """Code one bit whose probability of being 1 is ``probability`` / 65536."""
    low = state[LOW]
    high = state[HIGH]
    span = high - low
    middle = low + (span >> 16) * probability + (((span & 0xFFFF) * probability) >> 16)
    if decoding:
        bit = 1 if state[WINDOW] <= middle else 0
    if bit:
        high = middle
    else:
        low = middle + 1
    while (low ^ high) & 0xFF000000 == 0:
        position = state[POSITION]
        if decoding:
            byte: Integer = 0
            if position < len(data):
                byte = np.int64(data[position])
            state[WINDOW] = ((state[WINDOW] << 8) & 0xFFFFFFFF) | byte
        elif position < len(data):
            data[position] = high >> 24
        state[POSITION] = position + 1
        low = (low << 8) & 0xFFFFFFFF
        high = ((high << 8) & 0xFFFFFFFF) | 255
    state[LOW] = low
    state[HIGH] = high
    return bit


@helper
def predict(
    state: Array,
    slots: Array,
    weights: Array,
    curves: Array,
    count: Integer,
    first: Integer,
    second: Integer,
    curve: Integer,
) -> Integer:
    """Return the probability (of 65536) that a decision is 1.

    Its contexts are ``state[INDEX : INDEX + count]``, its weights the sum of two sets.
    """
    keep_apart()
    state[COUNT] = count
    state[FIRST] = first
    state[SECOND] = second
    state[CURVE] = curve
    total: Integer = 0
    for k in range(count):
        logit: Integer = np.int64(STRETCH[np.int64(slots[state[INDEX + k]]) >> 20])
        state[LOGITS + k] = logit
        total += logit * (np.int64(weights[first, k]) + np.int64(weights[second, k]))
    logit = min(max(total >> 16, -LOGIT_LIMIT), LOGIT_LIMIT)
    position = logit + 3072
    point = position >> 8
    offset = position & 255
    left = np.int64(curves[curve, point])
    right = np.int64(curves[curve, point + 1])
    adapted = (left * (256 - offset) + right * offset) >> 8
    # A quarter the logistic's, three the curve's.
    probability: Integer = (np.int64(SQUASH[position]) + 3 * adapted) >> 2
    probability = min(max(probability, MIN_PROBABILITY), 65536 - MIN_PROBABILITY)
    state[LOGIT] = logit
    state[PROBABILITY] = probability
    return probability


@helper
def _bounded(weight: Integer) -> Integer:
    return min(max(weight, -WEIGHT_LIMIT), WEIGHT_LIMIT)


@helper
def settle(
    state: Array,
    data: Array,
    decoding: Integer,
    slots: Array,
    weights: Array,
    curves: Array,
    bit: Integer,
) -> Integer:
    """Code the decision that was just predicted, and move slots, weights and curve towards it."""
    keep_apart()
    bit = code_bit(state, data, decoding, state[PROBABILITY], bit)
    first = state[FIRST]
    second = state[SECOND]
    position = state[LOGIT] + 3072
    error = ((bit << 16) - np.int64(SQUASH[position])) * WEIGHT_RATE
    target = (bit << 22) - bit
    for k in range(state[COUNT]):
        change = (state[LOGITS + k] * error + (1 << 17)) >> 18
        weights[first, k] = _bounded(np.int64(weights[first, k]) + change)
        weights[second, k] = _bounded(np.int64(weights[second, k]) + change)
        slot = np.int64(slots[state[INDEX + k]])
        seen = slot & 1023
        probability = slot >> 10
        probability += ((target - probability) * np.int64(RECIPROCAL[seen])) >> 16
        if seen < SLOT_LIMIT:
            seen += 1
        slots[state[INDEX + k]] = (probability << 10) | seen
    curve = state[CURVE]
    point = position >> 8
    offset = position & 255
    target = 65535 * bit
    left = np.int64(curves[curve, point])
    right = np.int64(curves[curve, point + 1])
    curves[curve, point] = left + (((target - left) * (256 - offset)) >> (8 + CURVE_RATE))
    curves[curve, point + 1] = right + (((target - right) * offset) >> (8 + CURVE_RATE))
    return bit
