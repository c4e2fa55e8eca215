"""A second decoder, written from docs/format.md alone: bytes to quantised measurements.

It is slow and plain: Python integers, lists, one function per section of the page, the page's
names. It shares no code with the codec; tests hold the codec against it.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any

SIGNATURE = b"\x8bCSC\r\n\x1a"
VERSION = 1
CODER = 1
TILE = 512
LAYERS = (0, 1, 6, 21, 64)
BANDS = (1, 6, 13, 21, 31, 43, 64)
SIGNED = 21
W, N, NW, NE, E, S, SW, SE, OWN, LUMA, CB = range(11)
NEIGHBOURS = ((0, -1), (-1, 0), (-1, -1), (-1, 1), (0, 1), (1, 0), (1, -1), (1, 1))
MAX_VALUE = 32767

HALF_SQUASH = (
    22, 36, 60, 98, 162, 267, 439, 720, 1179, 1921, 3108, 4971, 7812, 11955, 17625, 24743, 32768,
)  # fmt: skip

#: Groups of slots, in order: how many values each part of an index has.
SLOTS = {
    "ZERO_A": (64, 24),
    "ZERO_B": (64, 8, 8),
    "ZERO_C": (64, 3, 3, 3),
    "ZERO_D": (6, 3, 3, 3, 12),
    "ZERO_E": (64, 8, 4),
    "ZERO_F": (8, 72),
    "ZERO_G": (64, 6, 3),
    "ONE_A": (64, 24),
    "ONE_B": (64, 4, 4),
    "ONE_C": (6, 4, 24),
    "ONE_D": (64, 8, 4),
    "ONE_E": (64, 6, 3),
    "MORE_A": (16, 24),
    "MORE_B": (16, 64),
    "MORE_C": (16, 16),
    "SIGN_A": (64, 33),
    "SIGN_B": (64, 3, 3),
    "SIGN_C": (64, 3, 3),
    "FLAG_A": (6, 24),
    "FLAG_B": (6, 8, 8),
    "FLAG_C": (6, 5, 24),
    "FLAG_D": (6, 9, 3),
    "MEAN_ZERO_A": (16, 12),
    "MEAN_ZERO_B": (16, 9, 2),
    "MEAN_ZERO_C": (64,),
    "MEAN_SIGN_A": (9, 3, 3),
    "MEAN_SIGN_B": (8, 9),
    "MEAN_SIZE_A": (16, 16),
    "MEAN_SIZE_B": (16, 12),
    "MEAN_SIZE_C": (16, 5),
    "MEAN_BITS_A": (16, 2, 2),
    "MEAN_BITS_B": (16, 2, 16),
}
#: Groups of sets of weights, in order, and their sizes.
SETS = {
    "ZERO": 64, "ONE": 64, "MORE": 16, "SIGN": 21, "FLAG": 6, "MEAN": 20,
    "ZERO_BIN": 24, "ONE_BIN": 24, "FLAG_BIN": 24, "MEAN_BIN": 16, "OTHER": 3,
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
        for top in range(0, self.height, TILE):
            for left in range(0, self.width, TILE):
                height, width = min(TILE, self.height - top), min(TILE, self.width - left)
                unit = 8 if self.flags & 1 else 16
                luma, chroma = (
                    (-(-height // 8), -(-width // 8)),
                    (-(-height // unit), -(-width // unit)),
                )
                tiles.append([luma, chroma, chroma][: self.num_planes])
        return tiles


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
    if len(payload) != 25:
        raise FormatError("size of the header")
    header = Header(*struct.unpack(">IIBBBBHHB8s", payload))
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
    if header.flags & 0xF0 or (header.flags & 1 and header.channels < 3):
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


class Mixer:
    """Adaptive state of one plane of a tile."""

    def __init__(self, tables: Mapping[str, Any], plane: int) -> None:
        self.probabilities = [64 * p + 32 for p in tables["slots"][plane]]
        self.counts = list(tables["counts"][plane])
        self.weights = [list(row) for row in tables["weights"][plane]]

    def decide(
        self,
        coder: RangeDecoder,
        contexts: Sequence[Context],
        first: tuple[str, int],
        second: tuple[str, int],
    ) -> int:
        slots = [slot(group, parts) for group, parts in contexts]
        one = self.weights[FIRST_SET[first[0]] + first[1]]
        two = self.weights[FIRST_SET[second[0]] + second[1]]

        logits = [STRETCH[self.probabilities[k] >> 10] for k in slots]
        total = sum(logit * ((one[k] + two[k]) >> 4) for k, logit in enumerate(logits))
        probability = SQUASH[clip(total >> 12, 2047) + 2048]
        bit = coder.bit(probability)

        error = (10 * (65536 * bit - probability)) >> 4
        for k, logit in enumerate(logits):
            change = (logit * error + 8192) >> 14
            one[k] = clip(one[k] + change, 2**19)
            two[k] = clip(two[k] + change, 2**19)
        for k in slots:
            p, n = self.probabilities[k], self.counts[k]
            rate = 655360 // (10 * n + 16)
            far = 4194303 - p if bit else p
            step = ((far >> 7) * rate) >> 9
            self.probabilities[k] = p + step if bit else p - step
            self.counts[k] = min(n + 1, 255)
        return bit


def slot(group: str, parts: tuple[int, ...]) -> int:
    index = 0
    for part, radix in zip(parts, SLOTS[group], strict=True):
        assert 0 <= part < radix, (group, parts)
        index = index * radix + part
    return FIRST_SLOT[group] + index


# ---------------------------------------------------------------------------- the contexts


def half_octaves(value: int, last: int = 23) -> int:
    if value <= 0:
        return 0
    e = value.bit_length() - 1
    return min(2 * e + 1 + ((2 * value >> e) & 1), last)


def eighth_octaves(value: int, last: int = 71) -> int:
    if value <= 0:
        return 0
    e = value.bit_length() - 1
    return min(8 * e + 1 + ((8 * value >> e) & 7), last)


def sign_class(value: int) -> int:
    return 1 if value > 0 else 2 if value < 0 else 0


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


def decode_means(coder: RangeDecoder, mixer: Mixer, weights: Sequence[int], plane: Plane) -> None:
    """Layer 0 of a plane."""
    residuals: dict[tuple[int, int], int] = {}

    def mean(r: int, c: int, otherwise: int) -> int:
        return plane.at(r, c)[0] if plane.has(r, c) else otherwise

    for r in range(plane.rows):
        for c in range(plane.columns):
            n = mean(r - 1, c, mean(r, c - 1, 0))
            w = mean(r, c - 1, n)
            nw = mean(r - 1, c - 1, n)
            ne = mean(r - 1, c + 1, n)
            ww = mean(r, c - 2, w)
            nn = mean(r - 2, c, n)
            nne = mean(r - 2, c + 1, ne)
            offset = sum(
                weight * (value - n)
                for weight, value in zip(weights, (w, nw, ne, ww, nn, nne), strict=True)
            )
            fine = clip(16 * n + (offset >> 8), 16 * MAX_VALUE)
            prediction = (fine + 8) >> 4
            rounding = fine - 16 * prediction
            activity = half_octaves(
                abs(w - nw) + abs(n - nw) + abs(n - ne) + ((abs(w - ww) + abs(n - nn)) >> 1), 15
            )
            west, north = residuals.get((r, c - 1), 0), residuals.get((r - 1, c), 0)
            around = 2 * abs(west) + 2 * abs(north)
            around += abs(residuals.get((r - 1, c + 1), 0)) + abs(residuals.get((r - 1, c - 1), 0))
            nearby = half_octaves(around, 11)
            median = sorted((w, n, w + n - nw))[1]
            difference = 16 * median - fine
            size = sum(abs(difference) >= bound for bound in (6, 16, 48, 128))
            delta = 4 + size if difference > 0 else 4 - size

            length = 0
            while length < 16:
                if length == 0:
                    contexts: list[Context] = [
                        ("MEAN_ZERO_A", (activity, nearby)),
                        ("MEAN_ZERO_B", (activity, delta, int(rounding < 0))),
                        ("MEAN_ZERO_C", (min(around, 63),)),
                    ]
                else:
                    contexts = [
                        ("MEAN_SIZE_A", (length - 1, activity)),
                        ("MEAN_SIZE_B", (length - 1, nearby)),
                        ("MEAN_SIZE_C", (length - 1, abs(delta - 4))),
                    ]
                if not mixer.decide(coder, contexts, ("MEAN", length), ("MEAN_BIN", activity)):
                    break
                length += 1
            residual = 0
            if length > 0:
                negative = mixer.decide(
                    coder,
                    [
                        ("MEAN_SIGN_A", (delta, sign_class(west), sign_class(north))),
                        ("MEAN_SIGN_B", ((rounding + 8) >> 1, delta)),
                    ],
                    ("MEAN", 16),
                    ("OTHER", 0),
                )
                residual = 1
                for k in range(length - 1):
                    if k < 2:
                        bit = mixer.decide(
                            coder,
                            [
                                ("MEAN_BITS_A", (length - 1, k, residual & 1)),
                                ("MEAN_BITS_B", (length - 1, k, activity)),
                            ],
                            ("MEAN", 17 + k),
                            ("OTHER", 0),
                        )
                    else:
                        bit = coder.bit(32768)
                    residual = 2 * residual + bit
                residual = -residual if negative else residual
            residuals[r, c] = residual
            if abs(prediction + residual) > MAX_VALUE:
                raise FormatError("a mean is too large")
            plane.at(r, c)[0] = prediction + residual


@dataclass
class Predictor:
    """Linear predictions for one patch: weights, and the values they are multiplied with."""

    signs: list[tuple[Sequence[int], int]]
    magnitudes: list[tuple[Sequence[int], int]]
    offsets: Sequence[int]

    def sign(self, i: int) -> int:
        return sum(row[i] * value for row, value in self.signs)

    def magnitude(self, i: int) -> int:
        return max(0, self.offsets[i] + sum(row[i] * size for row, size in self.magnitudes))


def predictor(
    tables: Mapping[str, Any], planes: Sequence[Plane], luma: Plane, number: int, r: int, c: int
) -> Predictor:
    """Predictions from all that is decoded when a layer of the patch at (r, c) begins."""
    sign_weights = tables["sign_predictors"][number]
    magnitude_weights = tables["magnitude_predictors"][number]
    plane = planes[number]
    own = plane.at(r, c)
    sources = [
        (source, plane.at(r + dr, c + dc))
        for source, (dr, dc) in enumerate(NEIGHBOURS)
        if plane.has(r + dr, c + dc)
    ]
    found = Predictor([], [], tables["magnitude_offsets"][number])
    for source, patch in sources:
        step = clip(patch[0] - own[0], 64)
        found.signs.append((sign_weights[source][0], step))
        found.magnitudes.append((magnitude_weights[source][0], abs(step)))
    sources.append((OWN, own))
    if number > 0:
        sources.append((LUMA, luma.at(r, c)))
    if number == 2:
        sources.append((CB, planes[1].at(r, c)))
    for source, patch in sources:
        for j in range(1, 64):
            value = clip(patch[j], 32)
            if value:
                found.magnitudes.append((magnitude_weights[source][j], abs(value)))
                if j < SIGNED and source != LUMA:
                    found.signs.append((sign_weights[source][j], value))
    return found


def count(patch: Patch, start: int, stop: int) -> int:
    """Values that are not zero."""
    return sum(value != 0 for value in patch[start:stop])


def decode_layer(
    coder: RangeDecoder,
    mixer: Mixer,
    tables: Mapping[str, Any],
    planes: Sequence[Plane],
    luma: Plane,
    number: int,
    first: int,
    last: int,
) -> None:
    """Measurements ``first`` to ``last`` - 1 of a plane."""
    plane = planes[number]
    for r in range(plane.rows):
        for c in range(plane.columns):
            prediction = predictor(tables, planes, luma, number, r, c)
            before = 0
            for band in range(6):
                start, stop = BANDS[band], min(BANDS[band + 1], last)
                if start >= last:
                    break
                if start < first:
                    before = count(plane.at(r, c), start, BANDS[band + 1])
                    continue
                before = decode_band(
                    coder, mixer, tables, planes, luma, prediction, number, (r, c), band,
                    start, stop, last, before,
                )  # fmt: skip


def decode_band(
    coder: RangeDecoder,
    mixer: Mixer,
    tables: Mapping[str, Any],
    planes: Sequence[Plane],
    luma: Plane,
    prediction: Predictor,
    number: int,
    place: tuple[int, int],
    band: int,
    start: int,
    stop: int,
    last: int,
    before: int,
) -> int:
    """One band of one patch; returns how many of its values are not zero."""
    r, c = place
    plane = planes[number]
    own, west, north = plane.at(r, c), plane.at(r, c - 1), plane.at(r - 1, c)
    north_west, north_east = plane.at(r - 1, c - 1), plane.at(r - 1, c + 1)
    luma_patch = luma.at(r, c) if number > 0 else NOTHING
    cb_patch = planes[1].at(r, c) if number == 2 else NOTHING
    own_weights = tables["magnitude_predictors"][number][OWN]

    sizes = [prediction.magnitude(i) for i in range(start, stop)]
    west_count, north_count = count(west, start, stop), count(north, start, stop)
    others = min(count(luma_patch, start, stop), 2)
    if number == 2:
        others = 3 * others + min(count(cb_patch, start, stop), 2)
    nonzero = count(own, 1, start)
    total = half_octaves(sum(sizes) >> 6)
    if not mixer.decide(
        coder,
        [
            ("FLAG_A", (band, total)),
            ("FLAG_B", (band, min(west_count, 7), min(north_count, 7))),
            ("FLAG_C", (band, min(before, 4), half_octaves(max(sizes) >> 6))),
            ("FLAG_D", (band, others, min(nonzero, 2))),
        ],
        ("FLAG", band),
        ("FLAG_BIN", total),
    ):
        return 0

    found = 0
    for i in range(start, stop):
        m = prediction.magnitude(i)
        s = prediction.sign(i) if i < SIGNED else 0
        size = half_octaves(m >> 6)
        lean = min((abs(s) + 1024) >> 11, 7)
        wi, ni = abs(west[i]), abs(north[i])
        b1, b2, b3 = (abs(own[i - k]) if i > k else 0 for k in (1, 2, 3))
        y, cb = min(abs(luma_patch[i]), 5), min(abs(cb_patch[i]), 2)
        if i < stop - 1 or found > 0:
            following = int(west_count + north_count > 1)
            if i + 1 < last:
                following += (west[i + 1] != 0) + (north[i + 1] != 0)
            diagonal = abs(north_west[i]) + abs(north_east[i])
            if not mixer.decide(
                coder,
                [
                    ("ZERO_A", (i, size)),
                    ("ZERO_B", (i, lean, size // 3)),
                    ("ZERO_C", (i, min(wi, 2), min(ni, 2), min(diagonal, 2))),
                    ("ZERO_D", (band, min(b1, 2), min(b2, 2), min(b3, 2), size // 2)),
                    ("ZERO_E", (i, min(nonzero, 7), following)),
                    ("ZERO_F", (i // 8, eighth_octaves(m >> 7))),
                    ("ZERO_G", (i, y, cb)),
                ],
                ("ZERO", i),
                ("ZERO_BIN", size),
            ):
                continue
        found += 1
        nonzero += 1
        level = 1
        if mixer.decide(
            coder,
            [
                ("ONE_A", (i, size)),
                ("ONE_B", (i, min(wi, 3), min(ni, 3))),
                ("ONE_C", (band, min(max(b1, b2), 3), size)),
                ("ONE_D", (i, lean, min(size // 6, 3))),
                ("ONE_E", (i, y, cb)),
            ],
            ("ONE", i),
            ("ONE_BIN", size),
        ):
            level = 2
            while level < 16 and mixer.decide(
                coder,
                [
                    ("MORE_A", (level - 1, size)),
                    ("MORE_B", (level - 1, i)),
                    ("MORE_C", (level - 1, min(wi + ni + b1, 15))),
                ],
                ("MORE", level - 1),
                ("OTHER", 1),
            ):
                level += 1
            if level == 16:
                level += decode_escape(coder)
            if level > MAX_VALUE:
                raise FormatError("a measurement is too large")
        if i < SIGNED:
            negative = mixer.decide(
                coder,
                [
                    ("SIGN_A", (i, 16 + clip((s + 512) >> 10, 16))),
                    ("SIGN_B", (i, sign_class(west[i]), sign_class(north[i]))),
                    ("SIGN_C", (i, sign_class(cb_patch[i]), min(level - 1, 2))),
                ],
                ("SIGN", i),
                ("OTHER", 2),
            )
        else:
            negative = coder.bit(32768)
        own[i] = -level if negative else level
        prediction.magnitudes.append((own_weights[i], min(level, 32)))
    return found


def decode_escape(coder: RangeDecoder) -> int:
    length = 0
    while length < 16 and coder.bit(32768):
        length += 1
    value = 1
    for _ in range(length):
        value = 2 * value + coder.bit(32768)
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
            if first == 0:
                weights = tables["mean_predictors"][number]
                decode_means(coder, mixers[number], weights, plane)
            else:
                luma = mean_magnitudes(planes[0], plane.rows, plane.columns)
                decode_layer(coder, mixers[number], tables, planes, luma, number, first, last)
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
    """A model's tables as lists of integers; the neutral ones for a model without."""
    if tables:
        return {name: array.tolist() for name, array in tables.items()}
    magnitudes = [[[0] * 64 for _ in range(64)] for _ in range(11)]
    for i in range(1, 64):
        magnitudes[W][i][i] = magnitudes[N][i][i] = 4096
        magnitudes[NW][i][i] = magnitudes[NE][i][i] = 1966
        for j in range(max(1, i - 3), i):
            magnitudes[OWN][j][i] = 1365
    return {
        "slots": [[32768] * NUM_SLOTS] * 3,
        "counts": [[0] * NUM_SLOTS] * 3,
        "weights": [[[11468] * 8] * sum(SETS.values())] * 3,
        "sign_predictors": [[[[0] * 21] * 21] * 11] * 3,
        "magnitude_predictors": [magnitudes] * 3,
        "magnitude_offsets": [[819] * 64] * 3,
        "mean_predictors": [[3072, -2048, 1024, 0, 0, 0]] * 3,
    }
