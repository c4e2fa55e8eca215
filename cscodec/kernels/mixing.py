"""Kernel code that gives decisions their probabilities: logistic mixing of contexts, in integers.

Each context of a decision owns a slot with an adaptive probability. *Mix*: the probabilities meet
as logits in a weighted sum. *Learn*: slots and weights move towards the bit. Numbers are small
enough for vectors of 32-bit integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.kernels.declaration import Array, Integer, intrinsic

MAX_INPUTS = 4  #: of a decision: its contexts, and a hint
LOGIT_LIMIT = 2047  #: logits are in 1/256, from -8 to 8
MIN_PROBABILITY = 24  #: of 65536
SLOT_LIMIT = 255  #: most decisions that a slot's adaptation rate looks back on
WEIGHT_ONE = 1 << 16
WEIGHT_LIMIT = 1 << 19
TOP = (1 << 22) - 1  #: largest probability of a slot

Table = npt.NDArray[Any]


def _squash_table() -> Table:
    """Probability of 65536 for every logit: the logistic function, linear between 33 knots."""
    half = [
        22, 36, 60, 98, 162, 267, 439, 720, 1179, 1921, 3108, 4971, 7812, 11955, 17625, 24743,
        32768,
    ]  # fmt: skip
    knots = np.array(half + [65536 - value for value in reversed(half[:-1])] + [0])
    left, offset = np.divmod(np.arange(4096), 128)
    exact = (knots[left] * (128 - offset) + knots[left + 1] * offset + 64) >> 7
    table: Table = np.clip(exact, MIN_PROBABILITY, 65536 - MIN_PROBABILITY).astype(np.uint16)
    return table


def _stretch_table(squash: Table) -> Table:
    """Logit for every probability of 4096: the first whose squash is at least its middle."""
    middles = np.arange(4096) * 16 + 8
    return np.minimum(np.searchsorted(squash, middles) - 2048, LOGIT_LIMIT).astype(np.int16)


def _cost_table() -> Table:
    """Cost in 1/256 bit of a decision of probability n / 4096, by repeated squaring."""
    chances = np.arange(1, 4097, dtype=np.int64)
    exponent = np.frexp(chances)[1] - 1
    mantissa = chances << (30 - exponent)  # 1 <= mantissa < 2, 30 fractional bits
    fraction = np.zeros_like(chances)  # of the logarithm to base 2, 8 bits
    for _ in range(8):
        mantissa = (mantissa * mantissa) >> 30
        two = mantissa >= 1 << 31
        mantissa = np.where(two, mantissa >> 1, mantissa)
        fraction = 2 * fraction + two
    costs = (12 - exponent) * 256 - fraction
    return np.concatenate([[12 * 256], costs]).astype(np.uint16)


SQUASH = _squash_table()
STRETCH = _stretch_table(SQUASH)
COST = _cost_table()
# 65536 / (n + 1.6): how far a slot moves towards a bit after n decisions.
RECIPROCAL = np.array([655360 // (10 * n + 16) for n in range(SLOT_LIMIT + 1)], np.uint16)


@intrinsic
def mix(
    stretch: Array,
    slots: Array,
    weights: Array,
    logits: Array,
    contexts: Any,
    hint: Integer,
    first: Integer,
    second: Integer,
) -> Integer:
    """Return the logit of a decision with these slots; weights are the sum of two rows.

    ``hint`` is one more logit, from elsewhere. What every context and it say is left in ``logits``,
    for :func:`learn`. ``stretch`` is STRETCH.
    """
    total: Integer = 0
    for k in range(MAX_INPUTS):
        logits[k] = 0
    for k in range(len(contexts)):
        logit = np.int64(stretch[np.int64(slots[contexts[k]]) >> 20])
        both = np.int64(weights[first, k]) + np.int64(weights[second, k])
        total += logit * (both >> 4)
        logits[k] = logit
    last = len(contexts)
    both = np.int64(weights[first, last]) + np.int64(weights[second, last])
    total += hint * (both >> 4)
    logits[last] = hint
    return min(max(total >> 12, -LOGIT_LIMIT), LOGIT_LIMIT)


@intrinsic
def learn(
    reciprocal: Array,
    slots: Array,
    weights: Array,
    logits: Array,
    contexts: Any,
    first: Integer,
    second: Integer,
    error: Integer,
) -> None:
    """Move the slots and weights of a decision towards its bit.

    ``error`` is 65536 times the bit, less the SQUASH of what :func:`mix` said: positive for a 1,
    negative for a 0. ``reciprocal`` is RECIPROCAL.
    """
    bit = error > 0
    pull = error >> 1
    for k in range(MAX_INPUTS):
        change = (np.int64(logits[k]) * pull + (1 << 13)) >> 14
        for row in (first, second):
            moved = np.int64(weights[row, k]) + change
            weights[row, k] = min(max(moved, -WEIGHT_LIMIT), WEIGHT_LIMIT)
    for k in range(len(contexts)):
        slot = np.int64(slots[contexts[k]])
        seen = slot & 1023
        chance = slot >> 10
        far = TOP - chance if bit else chance
        step = ((far >> 7) * np.int64(reciprocal[seen])) >> 9
        chance += step if bit else -step
        if seen < SLOT_LIMIT:
            seen += 1
        slots[contexts[k]] = (chance << 10) | seen
