"""Segments: the bytes that the range coder writes and reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cscodec.errors import TruncatedError
from cscodec.kernels.range_coder import FAILED, HIGH, LOW, POSITION, STATE_SIZE, WINDOW


class RangeCoder(NamedTuple):
    """The state of one segment's coder.

    Attributes
    ----------
    registers : ndarray, (5,) int64
    data : ndarray, (num_bytes,) uint8
        What is written or read.
    decoding : bool
    """

    registers: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    decoding: bool

    @classmethod
    def writing(cls, most_bytes: int) -> RangeCoder:
        """Begin a segment of at most so many bytes."""
        return cls(_registers(), np.empty(most_bytes, np.uint8), False)

    @classmethod
    def reading(cls, segment: bytes | memoryview) -> RangeCoder:
        """Begin to read a segment."""
        registers = _registers()
        registers[WINDOW] = int.from_bytes(bytes(segment[:4]).ljust(4, b"\0"), "big")
        registers[POSITION] = 4
        # Writable: one kernel serves both ways.
        return cls(registers, np.frombuffer(segment, np.uint8).copy(), True)

    @property
    def has_failed(self) -> bool:
        """Whether a value was read that the format does not allow."""
        return bool(self.registers[FAILED])

    def finished(self) -> bytes:
        """Return the segment that was written.

        Raises
        ------
        TruncatedError
            If it did not fit.
        """
        if self.registers[POSITION] > len(self.data):
            raise TruncatedError("the entropy coder's buffer was too small")
        return self._ended(int(self.registers[POSITION]))

    @property
    def is_whole(self) -> bool:
        """Whether the segment that was read ends as encoders end it."""
        return self.data.tobytes() == self._ended(int(self.registers[POSITION]) - 4)

    def _ended(self, position: int) -> bytes:
        """End with the fewest bytes that, followed by zeros, lie in the last interval."""
        low, high = int(self.registers[LOW]), int(self.registers[HIGH])
        tail = b""
        for num_bytes in range(5):
            unit = 1 << (8 * (4 - num_bytes))
            value = -(-low // unit) * unit
            if value <= high:
                tail = value.to_bytes(4, "big")[:num_bytes]
                break
        start = self.data[:position].tobytes().ljust(position, b"\0")
        return (start + tail).rstrip(b"\0")


def _registers() -> npt.NDArray[Any]:
    registers = np.zeros(STATE_SIZE, np.int64)
    registers[HIGH] = 0xFFFFFFFF
    return registers
