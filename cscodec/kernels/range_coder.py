"""Kernel code of the binary range coder: bits of known probability to bytes and back.

All of it is integers: a decoder elsewhere must repeat every number exactly.
"""

from __future__ import annotations

import numpy as np

from cscodec.kernels.declaration import Array, Integer, helper

# Places in ``state``: the coder's registers.
LOW, HIGH, POSITION, WINDOW, FAILED = range(5)
STATE_SIZE = 5


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
        bit = np.int64(state[WINDOW] <= middle)
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
