"""Kernel code that gives decisions their probabilities: logistic mixing of contexts, in integers.

Each context of a decision owns a slot with an adaptive probability. *Mix*: the probabilities meet
as logits in a weighted sum. *Learn*: slots and weights move towards the bit. Numbers are small
enough for vectors of 32-bit integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec._intrinsics import LANES
from cscodec._jit import Array, Integer, generated_by
from cscodec._llvm import arrays, splat

MAX_INPUTS = LANES  #: most contexts of a decision
LOGIT_LIMIT = 2047  #: logits are in 1/256, from -8 to 8
MIN_PROBABILITY = 24  #: of 65536
SLOT_LIMIT = 255  #: most decisions that a slot's adaptation rate looks back on
WEIGHT_RATE = 10
WEIGHT_ONE = 1 << 16
WEIGHT_LIMIT = 1 << 19
_TOP = (1 << 22) - 1  # largest probability of a slot

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


def _generate_mix(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    int32, int64, vector = ir.IntType(32), ir.IntType(64), ir.VectorType(ir.IntType(32), LANES)
    stretch, slots, weights, logits = (
        array.data for array in arrays(context, builder, signature, arguments)
    )
    heard = vector([0] * LANES)
    for k, place in enumerate(_slot_places(context, builder, signature, arguments, slots, 4)):
        twelve_bits = builder.lshr(builder.load(place), int32(20))
        logit = builder.load(builder.gep(stretch, [builder.zext(twelve_bits, int64)]))
        heard = builder.insert_element(heard, builder.sext(logit, int32), int32(k))
    first, second = (_row(builder, weights, row, vector) for row in arguments[5:])
    both = builder.add(builder.load(first, align=4), builder.load(second, align=4))
    products = builder.mul(heard, builder.ashr(both, vector([4] * LANES)))
    total = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(int32, [vector]), f"llvm.vector.reduce.add.v{LANES}i32"
    )
    logit = builder.ashr(builder.call(total, [products]), int32(12))
    logit = _clamped(builder, logit, int32(-LOGIT_LIMIT), int32(LOGIT_LIMIT))
    builder.store(heard, builder.bitcast(logits, vector.as_pointer()), align=4)
    return builder.sext(logit, int64)


@generated_by(_generate_mix, "int64")
def mix(
    stretch: Array,
    slots: Array,
    weights: Array,
    logits: Array,
    contexts: Any,
    first: Integer,
    second: Integer,
) -> Integer:
    """Return the logit of a decision with these slots; weights are the sum of two rows.

    What every context says is left in ``logits``, for :func:`learn`. ``stretch`` is STRETCH.
    """
    total: Integer = 0
    for k in range(LANES):
        logits[k] = 0
    for k in range(len(contexts)):
        logit = np.int64(stretch[np.int64(slots[contexts[k]]) >> 20])
        both = np.int64(weights[first, k]) + np.int64(weights[second, k])
        total += logit * (both >> 4)
        logits[k] = logit
    return min(max(total >> 12, -LOGIT_LIMIT), LOGIT_LIMIT)


def _generate_learn(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    from llvmlite import ir

    int32, int64, vector = ir.IntType(32), ir.IntType(64), ir.VectorType(ir.IntType(32), LANES)
    reciprocal, slots, weights, logits = (
        array.data for array in arrays(context, builder, signature, arguments)
    )
    first, second, probability, bit = arguments[5:]
    bit, probability = builder.trunc(bit, int32), builder.trunc(probability, int32)
    error = builder.sub(builder.shl(bit, int32(16)), probability)
    error = builder.ashr(builder.mul(error, int32(WEIGHT_RATE)), int32(4))
    heard = builder.load(builder.bitcast(logits, vector.as_pointer()), align=4)
    change = builder.mul(heard, splat(builder, error, LANES))
    change = builder.add(change, vector([1 << 13] * LANES))
    change = builder.ashr(change, vector([14] * LANES))
    low, high = vector([-WEIGHT_LIMIT] * LANES), vector([WEIGHT_LIMIT] * LANES)
    for row in (first, second):
        place = _row(builder, weights, row, vector)
        moved = builder.add(builder.load(place, align=4), change)
        builder.store(_clamped(builder, moved, low, high), place, align=4)
    sign = builder.neg(bit)  # all bits of it are those of the bit
    for place in _slot_places(context, builder, signature, arguments, slots, 4):
        slot = builder.load(place)
        seen, chance = builder.and_(slot, int32(1023)), builder.lshr(slot, int32(10))
        far = builder.xor(chance, builder.and_(sign, int32(_TOP)))
        rate = builder.load(builder.gep(reciprocal, [builder.zext(seen, int64)]))
        step = builder.mul(builder.lshr(far, int32(7)), builder.zext(rate, int32))
        step = builder.lshr(step, int32(9))
        # Towards 1 or towards 0: the negative of a number is its complement and one more.
        step = builder.sub(builder.xor(step, builder.not_(sign)), builder.not_(sign))
        chance = builder.add(chance, step)
        fresh = builder.zext(builder.icmp_unsigned("<", seen, int32(SLOT_LIMIT)), int32)
        moved = builder.or_(builder.shl(chance, int32(10)), builder.add(seen, fresh))
        builder.store(moved, place)
    return context.get_dummy_value()


@generated_by(_generate_learn)
def learn(
    reciprocal: Array,
    slots: Array,
    weights: Array,
    logits: Array,
    contexts: Any,
    first: Integer,
    second: Integer,
    probability: Integer,
    bit: Integer,
) -> None:
    """Move the slots and weights of a decision towards its bit.

    ``probability`` is the SQUASH of what :func:`mix` said; ``reciprocal`` is RECIPROCAL.
    """
    error = (((bit << 16) - probability) * WEIGHT_RATE) >> 4
    for k in range(LANES):
        change = (np.int64(logits[k]) * error + (1 << 13)) >> 14
        for row in (first, second):
            moved = np.int64(weights[row, k]) + change
            weights[row, k] = min(max(moved, -WEIGHT_LIMIT), WEIGHT_LIMIT)
    for k in range(len(contexts)):
        slot = np.int64(slots[contexts[k]])
        seen = slot & 1023
        chance = slot >> 10
        far = _TOP - chance if bit else chance
        step = ((far >> 7) * np.int64(reciprocal[seen])) >> 9
        chance += step if bit else -step
        if seen < SLOT_LIMIT:
            seen += 1
        slots[contexts[k]] = (chance << 10) | seen


def _slot_places(
    context: Any, builder: Any, signature: Any, arguments: Any, slots: Any, where: int
) -> Any:
    """Pointers to the slots of a tuple of contexts, which is argument ``where``."""
    from numba.core import types

    for k, kind in enumerate(signature.args[where]):
        index = builder.extract_value(arguments[where], k)
        yield builder.gep(slots, [context.cast(builder, index, kind, types.int64)])


def _row(builder: Any, weights: Any, row: Any, vector: Any) -> Any:
    """Pointer to a row of weights, as a vector."""
    place = builder.gep(weights, [builder.mul(row, row.type(LANES))])
    return builder.bitcast(place, vector.as_pointer())


def _clamped(builder: Any, value: Any, low: Any, high: Any) -> Any:
    value = builder.select(builder.icmp_signed("<", value, low), low, value)
    return builder.select(builder.icmp_signed(">", value, high), high, value)
