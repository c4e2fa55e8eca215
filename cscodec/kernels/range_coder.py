"""Kernel code of the binary range coder: bits of known probability to bytes and back.

All of it is integers: a decoder elsewhere must repeat every number exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cscodec.kernels.declaration import Array, Integer, helper, inline_here

# Places in ``state``: the coder's registers.
LOW, HIGH, POSITION, WINDOW, FAILED = range(5)
STATE_SIZE = 5


class Registers(NamedTuple):
    """The coder's registers, for kernels that keep them at hand."""

    low: Integer
    high: Integer
    position: Integer
    window: Integer


@helper
def loaded(state: Array) -> Registers:
    """Return the registers that ``state`` holds."""
    return Registers(state[LOW], state[HIGH], state[POSITION], state[WINDOW])


@helper
def store(registers: Registers, state: Array) -> None:
    """Let ``state`` hold the registers."""
    state[LOW] = registers.low
    state[HIGH] = registers.high
    state[POSITION] = registers.position
    state[WINDOW] = registers.window


@helper
def code_next(
    registers: Registers, data: Array, decoding: Integer, probability: Integer, bit: Integer
) -> tuple[Integer, Registers]:
    """Code one bit whose probability of being 1 is ``probability`` / 65536."""
    inline_here()
    low, high, position, window = registers
    span = high - low
    middle = low + (span >> 16) * probability + (((span & 0xFFFF) * probability) >> 16)
    if decoding:
        bit = np.int64(window <= middle)
    if bit:
        high = middle
    else:
        low = middle + 1
    while (low ^ high) & 0xFF000000 == 0:
        if decoding:
            byte: Integer = 0
            if position < len(data):
                byte = np.int64(data[position])
            window = ((window << 8) & 0xFFFFFFFF) | byte
        elif position < len(data):
            data[position] = high >> 24
        position += 1
        low = (low << 8) & 0xFFFFFFFF
        high = ((high << 8) & 0xFFFFFFFF) | 255
    return bit, Registers(low, high, position, window)


@helper
def code_bit(
    state: Array, data: Array, decoding: Integer, probability: Integer, bit: Integer
) -> Integer:
    """Code one bit with the registers that ``state`` holds."""
    bit, registers = code_next(loaded(state), data, decoding, probability, bit)
    store(registers, state)
    return bit
