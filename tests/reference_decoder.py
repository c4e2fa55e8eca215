"""A second decoder, written from docs/format.md alone: bytes to quantised measurements.

It is slow and plain: Python integers, lists, arrays of 64-bit integers where networks are computed,
a function for every step and every decision of the page, the page's names. It shares no code with
the codec; tests hold the codec against it.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import exp, log2, prod
from typing import Any, NamedTuple

import numpy as np

SIGNATURE = b"\x8bCSC\r\n\x1a"
VERSION = 1
CODER = 1
TILE, LARGE_TILE = 512, 1024
LAYERS = (0, 1, 6, 21, 64)
BANDS = (1, 6, 13, 21, 31, 43, 64)
SIGNED = 21
OWN, LUMA, CB = 8, 9, 10  # sources of predictions, after the neighbours
NEIGHBOURS = ((0, -1), (-1, 0), (-1, -1), (-1, 1), (0, 1), (1, 0), (1, -1), (1, 1))
MAX_VALUE = 32767

HALF_SQUASH = (
    22, 36, 60, 98, 162, 267, 439, 720, 1179, 1921, 3108, 4971, 7812, 11955, 17625, 24743, 32768,
)  # fmt: skip

#: Groups of slots, in order: how many values each part of an index has.
SLOTS = {
    "ZERO_A": (64, 24),
    "ZERO_B": (6, 3, 3, 3, 12),
    "ZERO_C": (64, 8, 4),
    "ONE_A": (64, 24),
    "ONE_B": (6, 4, 24),
    "MORE_A": (16, 24),
    "MORE_B": (16, 64),
    "SIGN_A": (64, 33),
    "SIGN_B": (64, 3, 3),
    "SIGN_C": (64, 3, 3),
    "FLAG_A": (6, 24),
    "FLAG_B": (6, 5, 24),
    "FLAG_C": (6, 9, 3),
}
#: Groups of sets of weights, in order, and their sizes.
SETS = {
    "ZERO": 64, "ONE": 64, "MORE": 16, "SIGN": 21, "FLAG": 6,
    "ZERO_BIN": 24, "ONE_BIN": 24, "FLAG_BIN": 24, "OTHER": 2,
}  # fmt: skip

#: Arrays of the networks that predict: shapes for each plane.
NETWORKS = {
    "mean_inputs": (35, 32), "mean_hidden": (33, 32), "mean_outputs": (33, 2),
    "inputs_1": (132, 128), "hidden_1": (129, 64), "outputs_1": (65, 10), "own_1": (5, 5),
    "inputs_2": (462, 192), "hidden_2": (193, 64), "outputs_2": (65, 30), "own_2": (15, 15),
    "inputs_3": (1408, 64), "hidden_3": (65, 32), "outputs_3": (33, 43), "own_3": (43, 43),
    "offsets_1": (128,), "offsets_2": (192,), "offsets_3": (64,),
    "above_1": (12, 2), "above_2": (22, 2), "above_3": (50, 2),
}  # fmt: skip


def firsts(sizes: Mapping[str, int]) -> dict[str, int]:
    """Index of every group's first member."""
    return dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))


FIRST_SLOT = firsts({group: prod(radices) for group, radices in SLOTS.items()})
FIRST_SET = firsts(SETS)
NUM_SLOTS = sum(prod(radices) for radices in SLOTS.values())


#: A group of slots, and the parts of an index in it.
Context = tuple[str, tuple[int, ...]]


class FormatError(Exception):
    """The bytes are not a file of this format."""


# ---------------------------------------------------------------------------------- the file


@dataclass(frozen=True)
class Header:
    width: int
    height: int
    channels: int
    flags: int
    coder: int
    measurements: int
    step: int
    chroma_step: int
    tilt: int
    chroma_tilt: int
    zero_cell: int
    model_id: bytes

    @property
    def num_planes(self) -> int:
        return 3 if self.channels >= 3 else 1

    @property
    def num_layers(self) -> int:
        return sum(first <= self.measurements for first in LAYERS[:-1])

    def grids(self) -> list[list[tuple[int, int]]]:
        """Rows and columns of patches, by tile and plane."""
        tiles = []
        for height in self._sides(self.height):
            for width in self._sides(self.width):
                unit = 8 if self.flags & 1 else 16
                luma, chroma = (
                    (-(-height // 8), -(-width // 8)),
                    (-(-height // unit), -(-width // unit)),
                )
                tiles.append([luma, chroma, chroma][: self.num_planes])
        return tiles

    def _sides(self, length: int) -> list[int]:
        n = -(-length // (LARGE_TILE if self.flags & 32 else TILE))
        side = 16 * -(-length // (16 * n))
        return [*[side] * (n - 1), length - side * (n - 1)]


def read_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Kinds and payloads of all chunks."""
    if data[:7] != SIGNATURE or data[7:8] != bytes([VERSION]):
        raise FormatError("signature or version")
    chunks, position = [], 8
    while position < len(data):
        kind = data[position : position + 1]
        length, digits = 0, 0
        while True:
            position += 1
            if digits == 5 or position >= len(data):
                raise FormatError("length")
            length |= (data[position] & 127) << (7 * digits)
            digits += 1
            if data[position] < 128:
                break
        if digits > 1 and data[position] == 0:
            raise FormatError("length is not in its shortest form")
        begin, end = position + 1, position + 1 + length
        payload = data[begin:end]
        if data[end : end + 4] != zlib.crc32(kind + payload).to_bytes(4, "big"):
            raise FormatError("checksum")
        chunks.append((kind, payload))
        position = end + 4
    return chunks


def read_header(payload: bytes) -> Header:
    if len(payload) != 27:
        raise FormatError("size of the header")
    header = Header(*struct.unpack(">IIBBBBHHBBB8s", payload))
    for value, low, high in (
        (header.width, 1, 2**24 - 1),
        (header.height, 1, 2**24 - 1),
        (header.channels, 1, 4),
        (header.coder, CODER, CODER),
        (header.measurements, 1, 63),
        (header.step, 16, 64000),
        (header.chroma_step, 16, 64000),
    ):
        if not low <= value <= high:
            raise FormatError("a field of the header is out of range")
    if header.flags & 0xC0 or (header.flags & 1 and header.channels < 3):
        raise FormatError("flags")
    return header


def read_file(data: bytes) -> tuple[Header, list[list[bytes]], dict[bytes, bytes]]:
    """Header, segments by layer and tile, and the other chunks by kind."""
    chunks = read_chunks(data)
    if not chunks or chunks[0][0] != b"H":
        raise FormatError("no header")
    header = read_header(chunks[0][1])
    num_tiles = len(header.grids())
    expected = [b"S"] * (header.num_layers * num_tiles)
    expected += [b"A"] if header.channels in (2, 4) else []
    expected += [kind for flag, kind in ((2, b"i"), (4, b"e"), (8, b"x")) if header.flags & flag]
    known = [chunk for chunk in chunks[1:] if chunk[0] in b"HSAiex"]
    if any(not b"a" <= kind <= b"z" for kind, _ in chunks[1:] if kind not in b"HSAiex"):
        raise FormatError("unknown critical chunk")
    if [kind for kind, _ in known] != expected:
        raise FormatError("order of chunks")
    segments = [payload for kind, payload in known if kind == b"S"]
    layers = [segments[k : k + num_tiles] for k in range(0, len(segments), num_tiles)]
    return header, layers, {kind: payload for kind, payload in known if kind != b"S"}


# ------------------------------------------------------------------- the entropy decoder


class RangeDecoder:
    """Binary decisions of one segment."""

    def __init__(self, segment: bytes) -> None:
        self.segment = segment
        self.low, self.high = 0, 2**32 - 1
        self.window = int.from_bytes(segment[:4].ljust(4, b"\0"), "big")
        self.shifted = 0

    def bit(self, probability: int) -> int:
        span = self.high - self.low
        middle = self.low + (span >> 16) * probability + (((span & 0xFFFF) * probability) >> 16)
        bit = int(self.window <= middle)
        if bit:
            self.high = middle
        else:
            self.low = middle + 1
        while self.low >> 24 == self.high >> 24:
            next_byte = self.segment[self.shifted + 4 : self.shifted + 5] or b"\0"
            self.low = (self.low << 8) & 0xFFFFFFFF
            self.high = ((self.high << 8) & 0xFFFFFFFF) | 0xFF
            self.window = ((self.window << 8) & 0xFFFFFFFF) | next_byte[0]
            self.shifted += 1
        return bit

    def shortest(self) -> bytes:
        """The one segment that may stand for the decisions read so far."""
        for num_bytes in range(5):
            unit = 1 << (32 - 8 * num_bytes)
            value = -(-self.low // unit) * unit
            if value <= self.high:
                break
        start = self.segment[: self.shifted].ljust(self.shifted, b"\0")
        return (start + value.to_bytes(4, "big")[:num_bytes]).rstrip(b"\0")

    def finish(self) -> None:
        if self.segment != self.shortest():
            raise FormatError("end of a segment")


def clip(value: int, limit: int) -> int:
    return max(-limit, min(value, limit))


def _squash_table() -> list[int]:
    knots = [*HALF_SQUASH, *(65536 - value for value in HALF_SQUASH[-2::-1])]
    table = []
    for x in range(4096):
        a, b = divmod(x, 128)
        value = (knots[a] * (128 - b) + knots[a + 1] * b + 64) >> 7
        table.append(max(24, min(value, 65512)))
    return table


SQUASH = _squash_table()  # of logit x at x + 2048
STRETCH = [min(bisect_left(SQUASH, 16 * n + 8) - 2048, 2047) for n in range(4096)]


class Decision(NamedTuple):
    """A row of the page's table of decisions: contexts, two sets of weights by group, a hint."""

    contexts: Sequence[Context]
    first: tuple[str, int]
    second: tuple[str, int]
    hint: int = 0


class Mixer:
    """Adaptive state of one plane of a tile."""

    def __init__(self, tables: Mapping[str, Any], plane: int) -> None:
        self.probabilities = [64 * p + 32 for p in tables["slots"][plane]]
        self.counts = list(tables["counts"][plane])
        self.weights = [list(row) for row in tables["weights"][plane]]

    def decide(self, coder: RangeDecoder, decision: Decision) -> int:
        slots = [slot(group, parts) for group, parts in decision.contexts]
        sets = (decision.first, decision.second)
        u, v = (self.weights[FIRST_SET[group] + k] for group, k in sets)

        logits = [STRETCH[self.probabilities[place] >> 10] for place in slots] + [decision.hint]
        total = sum(t * ((u[k] + v[k]) >> 4) for k, t in enumerate(logits))
        probability = SQUASH[clip(total >> 12, 2047) + 2048]
        bit = coder.bit(probability)

        error = (65536 * bit - probability) >> 1
        for k, t in enumerate(logits):
            change = (t * error + 8192) >> 14
            u[k] = clip(u[k] + change, 2**19)
            v[k] = clip(v[k] + change, 2**19)
        for place in slots:
            p, n = self.probabilities[place], self.counts[place]
            rate = 655360 // (10 * n + 16)
            far = 4194303 - p if bit else p
            step = ((far >> 7) * rate) >> 9
            self.probabilities[place] = p + step if bit else p - step
            self.counts[place] = min(n + 1, 255)
        return bit


@dataclass(frozen=True)
class Reader:
    """One plane's part of a segment."""

    coder: RangeDecoder
    mixer: Mixer

    def decide(self, decision: Decision) -> int:
        return self.mixer.decide(self.coder, decision)

    def even_odds(self) -> int:
        return self.coder.bit(32768)


def slot(group: str, parts: tuple[int, ...]) -> int:
    index = 0
    for part, radix in zip(parts, SLOTS[group], strict=True):
        assert 0 <= part < radix, (group, parts)
        index = index * radix + part
    return FIRST_SLOT[group] + index


# ---------------------------------------------------------------------------- the contexts


def half(v: int) -> int:
    if v <= 0:
        return 0
    e = v.bit_length() - 1
    return min(2 * e + 1 + ((2 * v >> e) & 1), 23)


def sgn(a: int) -> int:
    return 1 if a > 0 else 2 if a < 0 else 0


Patch = list[int]
NOTHING: Patch = [0] * 64  # what lies outside a plane


class Plane:
    """Quantised measurements of one plane of a tile, as far as they are decoded."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.patches = [[[0] * 64 for _ in range(columns)] for _ in range(rows)]

    def has(self, r: int, c: int) -> bool:
        return 0 <= r < self.rows and 0 <= c < self.columns

    def at(self, r: int, c: int) -> Patch:
        return self.patches[r][c] if self.has(r, c) else NOTHING


# ---------------------------------------------------------------------------------- layer 0


#: The means that a prediction looks at, by rows and columns from the one at hand.
MEANS_AROUND = (
    (0, -1), (-1, -1), (-1, 0), (-1, 1), (0, -2), (-2, 0), (-2, 1), (-2, -1), (-1, -2), (-1, 2),
    (-2, 2), (-2, -2),
)  # fmt: skip
U = [round(256 * 2 ** ((t - 5) / 2)) for t in range(24)]
V = [round(65536 * 2 ** ((5 - t) / 2)) for t in range(24)]


@dataclass(frozen=True)
class Expected:
    """Where a mean is expected, and how surely."""

    place: int
    scale: int

    @property
    def s(self) -> int:
        """Bits that are read as they are."""
        return max(self.scale - 37, 0) >> 3

    @property
    def h(self) -> int:
        return (self.place + 128) >> (8 + self.s)

    def below(self, h: int) -> int:
        w = round(65536 * 2 ** ((32 - self.scale) / 8))
        distance = (h << (8 + self.s)) - 128 - self.place
        return SQUASH[clip((distance * w) >> 16, 2047) + 2048]


def decode_means(
    reader: Reader, tables: Mapping[str, Any], planes: Sequence[Plane], number: int
) -> None:
    plane = planes[number]
    network = [tables[f"mean_{name}"][number] for name in ("inputs", "hidden", "outputs")]
    for r in range(plane.rows):
        for c in range(plane.columns):
            plane.at(r, c)[0] = read_mean(reader, expect_mean(network, planes[: number + 1], r, c))


def expect_mean(network: Sequence[Any], planes: Sequence[Plane], row: int, column: int) -> Expected:
    k, t, w_and_n = known_of_mean(planes, row, column)
    f, g, outputs = network
    a = 256 * f[-1] + (f[: len(k)] * np.array(k)[:, None]).sum(axis=0)
    b = np.clip(a >> 10, 0, 4095)
    d = np.clip((256 * g[-1] + (g[:-1] * b[:, None]).sum(axis=0)) >> 10, 0, 4095)
    e = (256 * outputs[-1] + (outputs[:-1] * d[:, None]).sum(axis=0)).tolist()
    place = clip(128 * w_and_n + ((e[0] * U[t]) >> 17), 256 * MAX_VALUE)
    return Expected(place, min(max((e[1] >> 14) + 4 * (t - 5) + 32, 0), 95))


def known_of_mean(planes: Sequence[Plane], row: int, column: int) -> tuple[list[int], int, int]:
    """The numbers k of a mean of the last plane, t, and W + N."""
    *before, plane = planes

    def m(r: int, c: int) -> int:
        if c >= plane.columns:
            return m(r, plane.columns - 1)
        if c < 0 and r >= 0:
            if r > 0:
                return m(r - 1, 0)
            return plane.at(0, 0)[0] if (row, column) != (0, 0) else 0
        if r < 0:
            if row == 0:
                return m(0, column - 1)
            return m(0, c)
        return plane.at(r, c)[0]

    w, nw, n, ne, ww, nn, *_ = around = [m(row + r, column + c) for r, c in MEANS_AROUND]
    t = half(2 * (abs(w - nw) + abs(n - nw) + abs(n - ne)) + abs(w - ww) + abs(n - nn) + 3)
    k = [clip(((2 * x - w - n) * V[t]) >> 10, 1023) for x in around]
    is_edge = (row == 0, column == 0, column == plane.columns - 1)
    k += [64 * (t - 12), *(512 * condition for condition in is_edge)]
    for other in before:
        steps = steps_of(other, plane, row, column)
        bin_of_steps = half((sum(map(abs, steps)) >> 3) + 3)
        k += [clip((d * V[bin_of_steps]) >> 11, 1023) for d in steps]
        k.append(64 * (bin_of_steps - 12))
    return k, t, w + n


def steps_of(other: Plane, plane: Plane, row: int, column: int) -> list[int]:
    """How the M around differ from the one at (row, column), for a plane before this one."""
    same = (other.rows, other.columns) == (plane.rows, plane.columns)

    def fourfold(r: int, c: int) -> int:
        r, c = min(max(r, 0), plane.rows - 1), min(max(c, 0), plane.columns - 1)
        if same:
            return 4 * other.at(r, c)[0]
        rows = [min(2 * r + k, other.rows - 1) for k in (0, 1)]
        columns = [min(2 * c + k, other.columns - 1) for k in (0, 1)]
        return sum(other.at(y, x)[0] for y in rows for x in columns)

    return [fourfold(row + r, column + c) - fourfold(row, column) for r, c in NEIGHBOURS]


def read_mean(reader: Reader, expected: Expected) -> int:
    bit = reader.coder.bit
    unit, s = expected.h, expected.s
    lower, upper = expected.below(unit), 65536 - expected.below(unit + 1)
    if bit(min(lower + upper, 65535)):
        is_below = bit((lower << 16) // (lower + upper))
        far = read_distance(reader, expected, lower if is_below else upper, bool(is_below))
        unit += -far if is_below else far
    for _ in range(s):
        unit = 2 * unit + reader.even_odds()
    if abs(unit) > MAX_VALUE:
        raise FormatError("a mean is too large")
    return unit


def read_distance(reader: Reader, expected: Expected, left: int, is_below: bool) -> int:
    h = expected.h
    j = 1
    while True:
        beyond = expected.below(h - j) if is_below else 65536 - expected.below(h + j + 1)
        if beyond <= 24:
            return j + read_excess(reader)
        if not reader.coder.bit(min((beyond << 16) // left, 65535)):
            return j
        j, left = j + 1, beyond


# ----------------------------------------------------------------------------- layers 1 to 3


@dataclass(frozen=True)
class Around:
    """A patch of a plane, and what its contexts look at."""

    plane: int
    x: Patch
    w: Patch
    n: Patch
    y: Patch
    u: Patch


@dataclass(frozen=True)
class Prediction:
    """What a network says of one patch: ``e``, to which own values of the layer are added."""

    first: int
    end: int
    e: Sequence[int]
    own: Sequence[Sequence[int]]
    above: Sequence[Sequence[int]]
    x: Patch  # its values of this layer come in while the layer is decoded

    def logit(self, i: int) -> int:
        values = enumerate(self.x[self.first : i])
        said = sum(self.own[j][i - self.first] * LOG[min(abs(value), 32)] for j, value in values)
        return (self.e[i - self.first] + said) >> 9

    def m(self, i: int) -> int:
        return EXP[max(-384, min(self.logit(i) >> 2, 255)) + 384]

    def more(self, i: int, k: int) -> int:
        """The hint on whether measurement i is more than k."""
        row = i - self.first if k == 1 else self.end - self.first + min(k, 8) - 2
        offset, slope = self.above[row]
        return clip(offset + ((slope * self.logit(i)) >> 12), 2047)

    def s(self, i: int) -> int:
        return self.e[self.end - self.first + i - self.first] >> 5 if i < SIGNED else 0


LOG = [round(16 * log2(1 + v)) for v in range(65)]
EXP = [round(16384 * exp(v / 64)) for v in range(-384, 256)]  # of v at v + 384


def decode_layer(
    reader: Reader,
    tables: Mapping[str, Any],
    planes: Sequence[Plane],
    luma: Plane,
    number: int,
    first: int,
    last: int,
) -> None:
    """Measurements ``first`` to ``last`` - 1 of a plane; ``luma`` has y."""
    plane = planes[number]
    for r in range(plane.rows):
        for c in range(plane.columns):
            around = Around(
                plane=number,
                x=plane.at(r, c),
                w=plane.at(r, c - 1),
                n=plane.at(r - 1, c),
                y=luma.at(r, c) if number > 0 else NOTHING,
                u=planes[1].at(r, c) if number == 2 else NOTHING,
            )
            prediction = predict(tables, plane, around, first, r, c)
            for band in range(6):
                if first <= BANDS[band] < last:
                    decode_band(reader, around, prediction, band, last)


def predict(
    tables: Mapping[str, Any], plane: Plane, around: Around, first: int, r: int, c: int
) -> Prediction:
    """Predictions from all that is decoded when a layer of the patch at (r, c) begins."""
    layer = LAYERS.index(first)
    end = LAYERS[layer + 1]
    inputs, offsets, hidden, outputs, own, above = (
        tables[f"{name}_{layer}"][around.plane]
        for name in ("inputs", "offsets", "hidden", "outputs", "own", "above")
    )
    a = 2 * offsets
    for source, values in known(plane, around, end, r, c):
        for j, v in enumerate(values):
            if v != 0:
                a = a + inputs[(11 * (v < 0) + source) * end + j] * LOG[abs(v)]
    b = np.clip(a >> 4, 0, 4095)
    sums = 256 * hidden[-1] + (hidden[:-1] * b[:, None]).sum(axis=0)
    d = np.clip(sums >> 6, 0, 4095)
    e = 256 * outputs[-1] + (outputs[:-1] * d[:, None]).sum(axis=0)
    return Prediction(first, end, e.tolist(), own.tolist(), above.tolist(), around.x)


def known(
    plane: Plane, around: Around, end: int, r: int, c: int
) -> Iterator[tuple[int, list[int]]]:
    """Sources, and what comes from each."""
    for source, (dr, dc) in enumerate(NEIGHBOURS):
        if plane.has(r + dr, c + dc):
            patch = plane.at(r + dr, c + dc)
            step = clip(patch[0] - around.x[0], 64)
            yield source, [step, *(clip(value, 32) for value in patch[1:end])]
    # y and u are 0 where they are no sources.
    for source, patch in ((OWN, around.x), (LUMA, around.y), (CB, around.u)):
        yield source, [0, *(clip(value, 32) for value in patch[1:end])]


def count(patch: Patch, start: int, stop: int) -> int:
    """Values that are not 0."""
    return sum(value != 0 for value in patch[start:stop])


def decode_band(
    reader: Reader, around: Around, prediction: Prediction, band: int, last: int
) -> None:
    start, stop = BANDS[band], min(BANDS[band + 1], last)
    if not reader.decide(band_flag(around, prediction, band, stop)):
        return
    x = around.x
    for i in range(start, stop):
        here = letters(around, prediction, band, i, last)
        is_known = i == stop - 1 and count(x, start, i) == 0
        if is_known or reader.decide(is_not_zero(here)):
            size = read_size(reader, here)
            negative = reader.decide(is_negative(here, size)) if i < SIGNED else reader.even_odds()
            x[i] = -size if negative else size


def band_flag(around: Around, prediction: Prediction, band: int, stop: int) -> Decision:
    start = BANDS[band]
    y, u = (count(patch, start, stop) for patch in (around.y, around.u))
    before = count(around.x, BANDS[band - 1], start) if band > 0 else 0
    z = count(around.x, 1, start)
    sizes = [prediction.m(i) for i in range(start, stop)]
    t = half(sum(sizes) >> 6)
    o = (0, min(y, 2), 3 * min(y, 2) + min(u, 2))[around.plane]
    contexts = [
        ("FLAG_A", (band, t)),
        ("FLAG_B", (band, min(before, 4), half(max(sizes) >> 6))),
        ("FLAG_C", (band, o, min(z, 2))),
    ]
    return Decision(contexts, ("FLAG", band), ("FLAG_BIN", t))


@dataclass(frozen=True)
class Here:
    """What the page's letters stand for at measurement i."""

    i: int
    band: int
    w: int
    n: int
    u: int
    h: int
    logit: int
    s: int
    more: Sequence[int]  # by k from 1 to 15
    x1: int
    x2: int
    x3: int
    z: int
    f: int


def letters(around: Around, prediction: Prediction, band: int, i: int, last: int) -> Here:
    start, stop = BANDS[band], min(BANDS[band + 1], last)
    w, n = around.w, around.n
    f = int(count(w, start, stop) + count(n, start, stop) > 1)
    if i + 1 < last:
        f += (w[i + 1] != 0) + (n[i + 1] != 0)
    x1, x2, x3 = (abs(around.x[i - k]) if i > k else 0 for k in (1, 2, 3))
    return Here(
        i=i,
        band=band,
        w=w[i],
        n=n[i],
        u=around.u[i],
        h=half(prediction.m(i) >> 6),
        logit=prediction.logit(i),
        s=prediction.s(i),
        more=[prediction.more(i, k) for k in range(1, 16)],
        x1=x1,
        x2=x2,
        x3=x3,
        z=count(around.x, 1, i),
        f=f,
    )


def is_not_zero(here: Here) -> Decision:
    i, h = here.i, here.h
    contexts = [
        ("ZERO_A", (i, h)),
        ("ZERO_B", (here.band, min(here.x1, 2), min(here.x2, 2), min(here.x3, 2), h // 2)),
        ("ZERO_C", (i, min(here.z, 7), here.f)),
    ]
    return Decision(contexts, ("ZERO", i), ("ZERO_BIN", h), clip(here.logit, 2047))


def is_more_than_1(here: Here) -> Decision:
    i, h = here.i, here.h
    contexts = [
        ("ONE_A", (i, h)),
        ("ONE_B", (here.band, min(max(here.x1, here.x2), 3), h)),
    ]
    return Decision(contexts, ("ONE", i), ("ONE_BIN", h), here.more[0])


def is_more_than(here: Here, k: int) -> Decision:
    contexts = [
        ("MORE_A", (k - 1, here.h)),
        ("MORE_B", (k - 1, here.i)),
    ]
    return Decision(contexts, ("MORE", k - 1), ("OTHER", 0), here.more[k - 1])


def is_negative(here: Here, size: int) -> Decision:
    contexts = [
        ("SIGN_A", (here.i, clip((here.s + 512) >> 10, 16) + 16)),
        ("SIGN_B", (here.i, sgn(here.w), sgn(here.n))),
        ("SIGN_C", (here.i, sgn(here.u), min(size - 1, 2))),
    ]
    hint = clip(-(here.s >> 4) * min(size, 2), 2047)
    return Decision(contexts, ("SIGN", here.i), ("OTHER", 1), hint)


def read_size(reader: Reader, here: Here) -> int:
    k = 1
    while k < 16 and reader.decide(is_more_than_1(here) if k == 1 else is_more_than(here, k)):
        k += 1
    size = k if k < 16 else 16 + read_excess(reader)
    if size > MAX_VALUE:
        raise FormatError("a measurement is too large")
    return size


def read_excess(reader: Reader) -> int:
    j = 0
    while j < 16 and reader.even_odds():
        j += 1
    value = 1
    for _ in range(j):
        value = 2 * value + reader.even_odds()
    return value - 1


# ------------------------------------------------------------------------- tiles and files


def mean_magnitudes(luma: Plane, rows: int, columns: int) -> Plane:
    """Magnitudes of the luma patches that each chroma patch covers."""
    result = Plane(rows, columns)
    same = (rows, columns) == (luma.rows, luma.columns)
    for r in range(rows):
        for c in range(columns):
            if same:
                result.patches[r][c] = [abs(value) for value in luma.at(r, c)]
                continue
            four = [luma.at(2 * r + dr, 2 * c + dc) for dr in (0, 1) for dc in (0, 1)]
            result.patches[r][c] = [
                (sum(map(abs, values)) + 2) >> 2 for values in zip(*four, strict=True)
            ]
    return result


def decode_tile(
    segments: Sequence[bytes],
    grids: Sequence[tuple[int, int]],
    tables: Mapping[str, Any],
    measurements: int,
) -> list[list[list[Patch]]]:
    """Quantised measurements by plane, row, column; ``tables`` as of ``plain_tables``."""
    planes = [Plane(*grid) for grid in grids]
    mixers = [Mixer(tables, number) for number in range(len(planes))]
    for (first, end), segment in zip(pairwise(LAYERS), segments, strict=False):
        coder = RangeDecoder(segment)
        last = min(end, measurements + 1)
        for number, plane in enumerate(planes):
            reader = Reader(coder, mixers[number])
            if first == 0:
                decode_means(reader, tables, planes, number)
            else:
                luma = mean_magnitudes(planes[0], plane.rows, plane.columns)
                decode_layer(reader, tables, planes, luma, number, first, last)
        coder.finish()
    return [plane.patches for plane in planes]


def decode_file(data: bytes, tables: Mapping[str, Any]) -> list[list[list[list[Patch]]]]:
    """Quantised measurements by tile, plane, row and column."""
    header, layers, _ = read_file(data)
    return [
        decode_tile([layer[tile] for layer in layers], grids, tables, header.measurements)
        for tile, grids in enumerate(header.grids())
    ]


def plain_tables(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """A model's tables as integers that do not overflow; the neutral ones for a model without."""
    if tables:
        return {
            name: array.astype(np.int64) if name in NETWORKS else array.tolist()
            for name, array in tables.items()
        }
    return neutral_networks() | {
        "slots": [[32768] * NUM_SLOTS] * 3,
        "counts": [[0] * NUM_SLOTS] * 3,
        "weights": [[[16384] * 4] * sum(SETS.values())] * 3,
    }


def neutral_networks() -> dict[str, Any]:
    """The networks of a model without tables."""
    networks = {name: np.zeros((3, *shape), np.int64) for name, shape in NETWORKS.items()}
    networks["mean_inputs"][:, [1, 3, -1], 0] = -512, 256, 4096
    networks["mean_hidden"][:, 0, 0] = 1024
    networks["mean_outputs"][:, 0, 0] = 1024
    networks["mean_outputs"][:, -1] = -4096, -1024
    for layer in (1, 2, 3):
        first, end = LAYERS[layer : layer + 2]
        inputs, hidden, outputs, own, above = (
            networks[f"{name}_{layer}"] for name in ("inputs", "hidden", "outputs", "own", "above")
        )
        above[:] = -128, 3072
        p = 2 if layer == 3 else 1
        for i in range(first, end):
            u = (i - first) // p
            for source, weight in enumerate((77, 77, 32, 32)):  # W, N, NW, NE
                for sign in (0, 1):
                    inputs[:, (11 * sign + source) * end + i, u] = weight // p
            hidden[:, u, u] = 64
            outputs[:, u, i - first] = 1024
            outputs[:, -1, i - first] = -1280
            for j in range(max(first, i - 3), i):
                own[:, j - first, i - first] = 2048
    return networks
