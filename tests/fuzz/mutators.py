"""Damage: to any bytes, to files of ours with checksums made right again, and to tensors.

A mutator takes bytes and a generator of random numbers. Those that know a format leave bytes that
are not of it as they are.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from strategies import START, join_chunks, split_chunks

Generator = np.random.Generator
Mutator = Callable[[bytes, Generator], bytes]


def flipped(data: bytes, generator: Generator) -> bytes:
    """Change one bit, or some."""
    damaged = bytearray(data)
    if damaged:
        for _ in range(int(generator.geometric(0.5))):
            damaged[generator.integers(len(damaged))] ^= 1 << int(generator.integers(8))
    return bytes(damaged)


def overwritten(data: bytes, generator: Generator) -> bytes:
    """Replace a few bytes by others, remove or insert some."""
    start, length = int(generator.integers(len(data) + 1)), int(generator.integers(9))
    new = generator.bytes(int(generator.integers(9)))
    if generator.integers(3) == 0:
        new = bytes([int(generator.choice([0, 127, 128, 255]))]) * len(new)
    return data[:start] + new + data[start + length :]


def cut(data: bytes, generator: Generator) -> bytes:
    """Leave out the end."""
    return data[: generator.integers(len(data) + 1)]


def repeated(data: bytes, generator: Generator) -> bytes:
    """Write a part again elsewhere."""
    start, end, place = sorted(int(n) for n in generator.integers(len(data) + 1, size=3))
    if generator.integers(2):
        start, end, place = end, place, start
    return data[:place] + data[start:end] + data[place:]


def noise(data: bytes, generator: Generator) -> bytes:
    """Write noise instead."""
    return generator.bytes(int(generator.integers(2 * len(data) + 2)))


ANY = (flipped, overwritten, cut, repeated, noise)


def any_damage(data: bytes, generator: Generator) -> bytes:
    """Damage bytes of no known format."""
    return _one_of(ANY, generator)(data, generator)


def with_payload(data: bytes, generator: Generator) -> bytes:
    """Change the payload of one chunk of a ``.csc`` file."""

    def change(chunks: list[tuple[bytes, bytes]]) -> None:
        number = int(generator.integers(len(chunks)))
        kind, payload = chunks[number]
        payload = any_damage(payload, generator)
        chunks[number] = kind, png_with_right_checksums(payload) if kind == b"A" else payload

    return _with_chunks(data, change)


def with_header(data: bytes, generator: Generator) -> bytes:
    """Change one or two bytes of a ``.csc`` file's header."""

    def change(chunks: list[tuple[bytes, bytes]]) -> None:
        kind, payload = chunks[0]
        header = bytearray(payload)
        for _ in range(generator.integers(1, 3) if header else 0):
            highest = int(generator.choice([3, 64, 256]))
            header[generator.integers(len(header))] = int(generator.integers(highest))
        chunks[0] = kind, bytes(header)

    return _with_chunks(data, change)


def with_chunks(data: bytes, generator: Generator) -> bytes:
    """Repeat, remove, exchange or add chunks of a ``.csc`` file."""

    def change(chunks: list[tuple[bytes, bytes]]) -> None:
        a, b = (int(value) for value in generator.integers(len(chunks), size=2))
        action = generator.integers(4)
        if action == 0:
            chunks.insert(b, chunks[a])
        elif action == 1:
            del chunks[a]
        elif action == 2:
            chunks[a], chunks[b] = chunks[b], chunks[a]
        else:
            kind = generator.choice([b"q", b"Q", b"S", b"A", b"i", b"e", b"x", b"H"])
            chunks.insert(a, (bytes(kind), generator.bytes(5)))

    return _with_chunks(data, change)


CODED = (
    flipped, overwritten, cut, with_payload, with_payload, with_header, with_chunks, noise,
)  # fmt: skip


def coded_damage(data: bytes, generator: Generator) -> bytes:
    """Damage a ``.csc`` file from outside or from within."""
    return _one_of(CODED, generator)(data, generator)


def png_damage(data: bytes, generator: Generator) -> bytes:
    """Damage a PNG stream; mostly its checksums are right."""
    damaged = any_damage(data, generator)
    return png_with_right_checksums(damaged) if generator.integers(8) else damaged


def png_with_right_checksums(data: bytes) -> bytes:
    """Make the checksums of a PNG stream right as far as its chunks can be followed."""
    fixed, position = bytearray(data), 8
    while position + 12 <= len(fixed):
        end = position + 8 + int.from_bytes(fixed[position : position + 4], "big")
        if end + 4 > len(fixed):
            break
        fixed[end : end + 4] = zlib.crc32(fixed[position + 4 : end]).to_bytes(4, "big")
        position = end + 4
    return bytes(fixed)


def tensors_damage(data: bytes, generator: Generator) -> bytes:
    """Damage a safetensors file: its header, what is said in there as JSON, its numbers, or all."""
    end = 8 + int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8:end])
        action = generator.integers(8)
        if action == 0:
            return any_damage(data, generator)
        if action <= 2:
            return data[:end] + _with_number(data[end:], generator)
        if action == 3:
            header = _with_value(header, generator)
        else:
            key = next(iter(header["__metadata__"]))
            record = json.loads(header["__metadata__"][key])
            for _ in range(generator.integers(1, 3)):
                record = _with_value(record, generator)
            header["__metadata__"][key] = json.dumps(record)
        text = json.dumps(header).encode()
    except (ValueError, LookupError, TypeError, StopIteration, RecursionError):
        return any_damage(data, generator)
    return len(text).to_bytes(8, "little") + text + data[end:]


_ODD_VALUES = (
    None, True, -1, 0, 1, 2, 3, 1.5, 2**31, 2**63, -(2**63), 2**300, 1e308, float("nan"),
    float("inf"), "", "x", "nan", [], [0], {}, {"a": 1}, [[[[]]]], {"__array__": "x"},
    "F32", "F64", "I16", "x" * 1000, [1, 64], [64, 64], [2**40, 2**40],
)  # fmt: skip


def _with_value(value: Any, generator: Generator) -> Any:
    """Put something else in the place of one value, or leave it out."""
    odd = _ODD_VALUES[generator.integers(len(_ODD_VALUES))]
    if not isinstance(value, dict | list) or not value or generator.integers(12) == 0:
        return odd
    if isinstance(value, list):
        place = int(generator.integers(len(value)))
        changed = _with_value(value[place], generator)
        return [*value[:place], changed, *value[place + 1 :]]
    key = list(value)[generator.integers(len(value))]
    if generator.integers(8) == 0:
        return {name: item for name, item in value.items() if name != key}
    if generator.integers(8) == 0:
        return {**value, str(odd): odd}
    return {**value, key: _with_value(value[key], generator)}


def _with_number(data: bytes, generator: Generator) -> bytes:
    """Put odd numbers of 2, 4 or 8 bytes in the place of some."""
    damaged = bytearray(data)
    kind = [np.float32, np.float64, np.int16, np.int64][generator.integers(4)]
    odd: Any = [0.0, 1.0, -1.0, 1e30, -1e30, 1e-30, np.nan, np.inf, 32767.0][generator.integers(9)]
    with np.errstate(all="ignore"):
        number = np.array(odd).astype(kind).tobytes()
    if len(damaged) < 8:
        return bytes(damaged)
    count = int(generator.choice([1, 1, 4, 64]))
    start = int(generator.integers(len(damaged) // 8)) * 8
    part = (number * count)[: len(damaged) - start]
    damaged[start : start + len(part)] = part
    return bytes(damaged)


def _with_chunks(data: bytes, change: Callable[[list[tuple[bytes, bytes]]], None]) -> bytes:
    try:
        chunks = split_chunks(data)
    except (IndexError, AssertionError):  # no file of ours any more
        return data
    if chunks:
        change(chunks)
    return join_chunks(data[:START], chunks)


def _one_of(mutators: tuple[Mutator, ...], generator: Generator) -> Mutator:
    return mutators[generator.integers(len(mutators))]
