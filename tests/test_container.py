"""The file's outer form: every violation has its own error, and nothing is allocated for it."""

from __future__ import annotations

import io
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import START, join_chunks, one_chunk, split_chunks

from cscodec.bitstream.container import (
    FORMAT_VERSION,
    HEADER,
    MAX_DIMENSION,
    MAX_UNKNOWN_CHUNKS,
    SIGNATURE,
    Container,
    Header,
    pack,
    read,
    unpack,
)
from cscodec.errors import (
    BadMagicError,
    BitstreamError,
    ChecksumError,
    InvalidFieldError,
    InvalidInputError,
    LimitExceededError,
    TruncatedError,
    UnsupportedVersionError,
)

_HEADER = Header(
    width=20,
    height=9,
    channels=4,
    full_chroma=True,
    measurements=20,
    step_code=640,
    chroma_step_code=700,
    tilt_code=34,
    chroma_tilt_code=56,
    zero_cell=48,
    model_id=b"12345678",
)
_PARTS = Container(
    _HEADER, [[b"first"], [b""], [b"x" * 300]], b"png", b"profile", b"exif", b"<xmp>"
)
_FIELDS = [
    "width",
    "height",
    "channels",
    "flags",
    "coder_id",
    "measurements",
    "step_code",
    "chroma_step_code",
    "tilt_code",
    "chroma_tilt_code",
    "zero_cell",
    "model_id",
]


def file_with_header(**fields: int) -> bytes:
    """The bytes of ``_PARTS`` with other header fields, whatever they say."""
    data = pack(_PARTS)
    chunks = split_chunks(data)
    values = dict(zip(_FIELDS, HEADER.unpack(chunks[0][1]), strict=True))
    assert set(fields) <= set(values)
    chunks[0] = (b"H", HEADER.pack(*{**values, **fields}.values()))
    return join_chunks(data[:START], chunks)


def file_with_chunks(*chunks: tuple[bytes, bytes]) -> bytes:
    return join_chunks(pack(_PARTS)[:START], list(chunks))


@st.composite
def containers(draw: st.DrawFn) -> Container:
    channels = draw(st.integers(1, 4))
    header = Header(
        width=draw(st.integers(1, 1100)),
        height=draw(st.integers(1, 1100)),
        channels=channels,
        full_chroma=channels >= 3 and draw(st.booleans()),
        unlapped=draw(st.booleans()),
        large_tiles=draw(st.booleans()),
        measurements=draw(st.integers(1, 63)),
        step_code=draw(st.integers(16, 64000)),
        chroma_step_code=draw(st.integers(16, 64000)),
        tilt_code=draw(st.integers(0, 255)),
        chroma_tilt_code=draw(st.integers(0, 255)),
        zero_cell=draw(st.integers(32, 64)),
        model_id=draw(st.binary(min_size=8, max_size=8)),
    )
    payloads = st.binary(max_size=200)
    segments = [[draw(payloads) for _ in range(header.num_tiles)] for _ in range(header.num_layers)]
    optional = st.none() | payloads
    alpha = draw(payloads) if header.has_alpha else None
    return Container(header, segments, alpha, draw(optional), draw(optional), draw(optional))


@given(containers())
def test_unpack_is_the_inverse_of_pack(parts: Container) -> None:
    data = pack(parts)
    again = unpack(data)
    assert again == parts
    assert data == pack(again)
    assert data[: len(SIGNATURE)] == SIGNATURE
    chunks = split_chunks(data)
    assert join_chunks(data[:START], chunks) == data
    segments = [len(one_chunk(kind, payload)) for kind, payload in chunks if kind == b"S"]
    assert sum(again.layer_bytes) == sum(segments)
    assert again.layer_bytes[0] == sum(segments[: parts.header.num_tiles])


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16383, 16384, 2_100_000])
def test_chunks_of_any_length(size: int) -> None:
    parts = replace(_PARTS, icc_profile=b"\xa5" * size)
    assert unpack(pack(parts)) == parts


@pytest.mark.parametrize(("large_tiles", "grid"), [(False, (2, 3)), (True, (1, 2))])
def test_tiles_cover_the_picture_without_overlap(large_tiles: bool, grid: tuple[int, int]) -> None:
    header = replace(_HEADER, width=1300, height=513, large_tiles=large_tiles)
    assert header.tile_grid == grid
    covered = np.zeros((513, 1300), int)
    for tile in range(header.num_tiles):
        x, y, width, height = header.tile_box(tile)
        covered[y : y + height, x : x + width] += 1
    assert (covered == 1).all()


def test_patches_of_tiles() -> None:
    header = replace(_HEADER, width=1300, height=513)  # tiles of 448 x 272 pixels
    assert header.patch_grids(5) == [(31, 51)] * 3
    assert replace(header, full_chroma=False).patch_grids(2) == [(34, 51), (17, 26), (17, 26)]
    assert replace(header, channels=2).patch_grids(0) == [(34, 56)]


@given(st.integers(1, MAX_DIMENSION), st.booleans())
def test_tiles_are_as_few_as_can_be_and_nearly_equal(length: int, large_tiles: bool) -> None:
    header = replace(_HEADER, width=length, large_tiles=large_tiles)
    most, (_, side) = 1024 if large_tiles else 512, header.tile_shape
    number = header.tile_grid[1]
    assert number == -(-length // most)
    assert side % 16 == 0
    assert side <= most
    assert length / number <= side < length / number + 16


class TestSignature:
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\x89PNG\r\n\x1a\n" + bytes(50),
            b"CSC",
            bytes(100),
            b"\x0bCSC\r\n\x1a" + pack(_PARTS)[7:],  # through a channel of 7 bits
            pack(_PARTS).replace(b"\r\n", b"\n"),  # through a text mode
        ],
    )
    def test_other_files_are_refused(self, data: bytes) -> None:
        with pytest.raises(BadMagicError, match="not a cscodec file"):
            unpack(data)

    @pytest.mark.parametrize("length", range(1, START))
    def test_a_file_that_ends_in_it_is_truncated(self, length: int) -> None:
        with pytest.raises(TruncatedError):
            unpack(pack(_PARTS)[:length])

    @pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 255])
    def test_other_versions_are_refused(self, version: int) -> None:
        data = pack(_PARTS)
        with pytest.raises(UnsupportedVersionError, match=f"version {version}; .* update cscodec"):
            unpack(data[: START - 1] + bytes([version]) + data[START:])


class TestHeader:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("width", 0),
            ("width", MAX_DIMENSION + 1),
            ("height", 0),
            ("height", (1 << 32) - 1),
            ("channels", 0),
            ("channels", 5),
            ("measurements", 0),
            ("measurements", 64),
            ("step_code", 0),
            ("step_code", 15),
            ("step_code", 64001),
            ("chroma_step_code", 15),
            ("chroma_step_code", 65535),
        ],
    )
    def test_fields_out_of_range_are_refused(self, field: str, value: int) -> None:
        name = field.removesuffix("_code").replace("_", " ")
        with pytest.raises(InvalidFieldError, match=f"{name} is {value}; allowed are"):
            unpack(file_with_header(**{field: value}), max_pixels=1 << 60)

    @pytest.mark.parametrize("bit", [64, 128])
    def test_reserved_flags_are_refused(self, bit: int) -> None:
        with pytest.raises(InvalidFieldError, match=f"reserved flags are set: 0x{bit:02x}"):
            unpack(file_with_header(flags=63 | bit))

    @pytest.mark.parametrize("channels", [1, 2])
    def test_gray_pictures_have_no_chroma(self, channels: int) -> None:
        with pytest.raises(InvalidFieldError, match="gray picture"):
            unpack(file_with_header(channels=channels))

    def test_unknown_coders_are_refused(self) -> None:
        with pytest.raises(UnsupportedVersionError, match="entropy coder 77"):
            unpack(file_with_header(coder_id=77))

    @pytest.mark.parametrize("change", [b"", b"\0"])
    def test_its_size_is_fixed(self, change: bytes) -> None:
        header, *rest = split_chunks(pack(_PARTS))
        payload = header[1] + change if change else header[1][:-1]
        with pytest.raises(InvalidFieldError, match=f"header has {len(payload)} bytes"):
            unpack(file_with_chunks((b"H", payload), *rest))

    def test_it_comes_first_and_once(self) -> None:
        header, *rest = split_chunks(pack(_PARTS))
        with pytest.raises(InvalidFieldError, match="first chunk is b'S'"):
            unpack(file_with_chunks(*rest))
        with pytest.raises(InvalidFieldError, match="b'H' is not expected"):
            unpack(file_with_chunks(header, header, *rest))

    def test_too_many_pixels_are_refused(self) -> None:
        data = pack(_PARTS)
        assert unpack(data, max_pixels=180).header == _HEADER
        with pytest.raises(LimitExceededError, match="20 x 9 pixels; the limit is 179"):
            unpack(data, max_pixels=179)

    @pytest.mark.parametrize("allow_partial", [False, True])
    def test_nothing_is_allocated_for_them(self, allow_partial: bool) -> None:
        data = file_with_header(width=MAX_DIMENSION, height=MAX_DIMENSION)
        tracemalloc.start()
        try:
            with pytest.raises(LimitExceededError):
                unpack(data, allow_partial=allow_partial)
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()


class TestChunks:
    def test_every_length_but_the_last_is_truncated(self) -> None:
        data = pack(_PARTS)
        for length in range(START, len(data)):
            with pytest.raises(TruncatedError):
                unpack(data[:length])

    def test_every_damaged_bit_is_noticed(self) -> None:
        data = pack(_PARTS)
        for bit in range(8 * START, 8 * len(data)):
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(BitstreamError):
                unpack(bytes(damaged))

    def test_damaged_payloads_and_checksums_fail_the_check(self) -> None:
        data = pack(_PARTS)
        for position in (START + 2, data.index(b"profile"), len(data) - 1):
            damaged = bytearray(data)
            damaged[position] ^= 1
            with pytest.raises(ChecksumError, match="chunk at byte"):
                unpack(bytes(damaged))

    def test_the_checksum_covers_the_kind(self) -> None:
        data = pack(_PARTS)
        position = data.index(b"i\x07profile")
        with pytest.raises(ChecksumError):
            unpack(data[:position] + b"j" + data[position + 1 :])

    @pytest.mark.parametrize("padding", [b"\x80", b"\x80\x80\x80"])
    def test_lengths_have_their_shortest_form(self, padding: bytes) -> None:
        data = pack(_PARTS)
        at = data.index(b"i\x07profile") + 1
        longer = data[:at] + b"\x87" + padding[1:] + b"\0" + data[at + 1 :]
        with pytest.raises(InvalidFieldError, match="shortest form"):
            unpack(longer)

    def test_lengths_are_limited(self) -> None:
        start = pack(_PARTS)[:START]
        with pytest.raises(LimitExceededError, match="more than 5 bytes"):
            unpack(start + b"H" + b"\xff" * 5 + b"\x01" + bytes(100))
        with pytest.raises(TruncatedError, match="needs 34359738377 bytes"):
            unpack(start + b"H" + b"\xff" * 4 + b"\x7f" + bytes(100))

    def test_unknown_ancillary_chunks_are_skipped_anywhere_after_the_header(self) -> None:
        chunks = split_chunks(pack(_PARTS))
        for at in range(1, len(chunks) + 1):
            data = file_with_chunks(*chunks[:at], (b"q", b"new"), (b"z", b""), *chunks[at:])
            assert unpack(data) == _PARTS

    @pytest.mark.parametrize("kind", [b"Q", b"1", b"\x00", b"\xe9"])
    def test_unknown_critical_chunks_are_refused(self, kind: bytes) -> None:
        chunks = split_chunks(pack(_PARTS))
        for at in range(1, len(chunks) + 1):
            with pytest.raises(UnsupportedVersionError, match="critical chunk"):
                unpack(file_with_chunks(*chunks[:at], (kind, b"new"), *chunks[at:]))

    def test_known_chunks_out_of_place_are_refused(self) -> None:
        chunks = split_chunks(pack(_PARTS))
        for chunk in chunks:
            with pytest.raises(InvalidFieldError, match="is not expected here"):
                unpack(file_with_chunks(*chunks, chunk))
        for kind in (b"S", b"A", b"i", b"e", b"x"):
            first = [payload for known, payload in chunks].index(dict(chunks)[kind])
            with pytest.raises(BitstreamError):
                unpack(file_with_chunks(*chunks[:first], *chunks[first + 1 :]))

    @pytest.mark.parametrize("flags", [1, 1 | 2 | 4, 1 | 8])
    def test_flags_and_chunks_agree(self, flags: int) -> None:
        with pytest.raises(InvalidFieldError, match="is not expected here"):
            unpack(file_with_header(flags=flags))

    @pytest.mark.parametrize("tail", [b"\0", b"q", b"q\x05abc", b"\r\n", bytes(64)])
    def test_trailing_bytes_are_refused(self, tail: bytes) -> None:
        with pytest.raises(BitstreamError):
            unpack(pack(_PARTS) + tail)

    def test_unknown_chunks_are_counted(self) -> None:
        data = pack(_PARTS)
        most = data + one_chunk(b"q", b"") * MAX_UNKNOWN_CHUNKS
        assert unpack(most) == _PARTS
        with pytest.raises(LimitExceededError, match="more than 1000 unknown chunks"):
            unpack(most + one_chunk(b"q", b""))


class Endless(io.RawIOBase):
    """A stream that begins with some bytes and never ends; it counts what is read of it."""

    def __init__(self, start: bytes) -> None:
        self.start = start
        self.num_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self.start[self.num_read : self.num_read + len(buffer)]
        buffer[:] = piece.ljust(len(buffer), b"\0")
        self.num_read += len(buffer)
        return len(buffer)


class TestRead:
    def test_a_file_comes_whole(self) -> None:
        data = pack(replace(_PARTS, xmp=bytes(3_000_000)))
        assert read(io.BytesIO(data)) == data

    @pytest.mark.parametrize(
        ("start", "error"),
        [
            (b"", BadMagicError),
            (SIGNATURE + bytes([FORMAT_VERSION + 1]), UnsupportedVersionError),
            (SIGNATURE + bytes([FORMAT_VERSION]) + one_chunk(b"S", b""), InvalidFieldError),
            (SIGNATURE + bytes([FORMAT_VERSION]) + b"H\xff\xff\x7f", TruncatedError),
            (pack(replace(_PARTS, header=replace(_HEADER, width=10**6))), LimitExceededError),
        ],
    )
    def test_no_more_is_read_than_what_shows_that_it_is_none(
        self, start: bytes, error: type[BitstreamError]
    ) -> None:
        stream = Endless(start)
        with pytest.raises(error):
            read(io.BufferedReader(stream), max_pixels=10**6)
        assert stream.num_read < 20_000

    def test_no_more_is_read_than_the_header_allows(self) -> None:
        stream = Endless(pack(_PARTS))
        with pytest.raises(LimitExceededError, match="more than a picture of 20 x 9 pixels"):
            read(io.BufferedReader(stream))
        assert stream.num_read < 70_000_000


class TestBytes:
    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_come_in_several_types(self, kind: Any) -> None:
        assert unpack(kind(pack(_PARTS))) == _PARTS

    @pytest.mark.parametrize("data", [500_000_000, "text", None, [1, 2], Path("a.csc"), 1.5])
    def test_anything_else_is_refused(self, data: Any) -> None:
        with pytest.raises(InvalidInputError, match=r"data is of type .*; allowed are bytes"):
            unpack(data)


class TestPartial:
    def test_whatever_is_whole_is_kept(self) -> None:
        data = pack(_PARTS)
        header_end = len(join_chunks(data[:START], split_chunks(data)[:1]))
        found = []
        for length in range(len(data) + 1):
            if length < header_end:
                with pytest.raises(BitstreamError):
                    unpack(data[:length], allow_partial=True)
                continue
            parts = unpack(data[:length], allow_partial=True)
            assert parts.header == _HEADER
            kept = [segment for layer in parts.segments for segment in layer]
            kept += [
                part
                for part in (parts.alpha, parts.icc_profile, parts.exif, parts.xmp)
                if part is not None
            ]
            found.append(len(kept))
            whole = [segment for layer in _PARTS.segments for segment in layer]
            whole += [b"png", b"profile", b"exif", b"<xmp>"]
            assert kept == whole[: len(kept)]
        assert found == sorted(found)
        assert set(found) == set(range(8))

    def test_damage_ends_what_is_read(self) -> None:
        data = bytearray(pack(_PARTS))
        data[data.index(b"x" * 300) + 7] ^= 4
        parts = unpack(bytes(data), allow_partial=True)
        assert parts.segments == [[b"first"], [b""], []]
        assert parts.icc_profile is None

    def test_the_header_must_be_whole(self) -> None:
        for data in (file_with_header(width=0), file_with_header(flags=128)):
            with pytest.raises(InvalidFieldError):
                unpack(data, allow_partial=True)
