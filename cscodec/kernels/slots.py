"""Which slot and which set of weights a decision uses: the format's table of groups.

A group of slots has one for every combination of the parts of a context; groups lie one after the
other, in the order of docs/format.md.
"""

from __future__ import annotations

from math import prod
from typing import Any

from cscodec.kernels.declaration import Integer, helper
from cscodec.layout import NUM_BANDS, SIGNED

BINS = 24  #: of a magnitude: half octaves from 1/256
LEVELS = 16  #: magnitudes up to here are coded in unary

#: First slot of a group, and how many values each part of its contexts has.
Group = tuple[int, tuple[int, ...]]


class _Numbering:
    """Numbers given out in order."""

    def __init__(self) -> None:
        self.used = 0

    def group(self, *radices: int) -> Group:
        first = self.take(prod(radices))
        return first, radices

    def take(self, count: int) -> int:
        self.used += count
        return self.used - count


_slots = _Numbering()
ZERO_A = _slots.group(64, BINS)  # measurement, magnitude
ZERO_B = _slots.group(NUM_BANDS, 3, 3, 3, BINS // 2)  # band, previous three, coarse magnitude
ZERO_C = _slots.group(64, 8, 4)  # measurement, non-zeros so far, neighbours' next
ONE_A = _slots.group(64, BINS)  # measurement, magnitude
ONE_B = _slots.group(NUM_BANDS, 4, BINS)  # band, previous two, magnitude
MORE_A = _slots.group(LEVELS, BINS)  # level, magnitude
MORE_B = _slots.group(LEVELS, 64)  # level, measurement
SIGN_A = _slots.group(64, 33)  # measurement, signed prediction
SIGN_B = _slots.group(64, 3, 3)  # measurement, signs W, N
SIGN_C = _slots.group(64, 3, 3)  # measurement, sign of the other chroma plane, magnitude
FLAG_A = _slots.group(NUM_BANDS, BINS)  # band, sum of magnitudes
FLAG_B = _slots.group(NUM_BANDS, 5, BINS)  # band, non-zeros of the band before, largest magnitude
FLAG_C = _slots.group(NUM_BANDS, 9, 3)  # band, other planes, non-zeros so far
NUM_SLOTS = _slots.used

# First set of weights: by what is decided, and again by how large the value may be.
_sets = _Numbering()
SET_ZERO = _sets.take(64)
SET_ONE = _sets.take(64)
SET_MORE = _sets.take(LEVELS)
SET_SIGN = _sets.take(SIGNED)
SET_FLAG = _sets.take(NUM_BANDS)
SET_ZERO_BIN = _sets.take(BINS)
SET_ONE_BIN = _sets.take(BINS)
SET_FLAG_BIN = _sets.take(BINS)
SET_OTHER = _sets.take(2)
NUM_SETS = _sets.used


@helper
def slot(group: Any, parts: Any) -> Integer:
    """Return the number of a context's slot: ``parts`` are digits in the group's radices."""
    first, radices = group
    index: Integer = 0
    for k in range(len(parts)):
        index = index * radices[k] + parts[k]
    return first + index
