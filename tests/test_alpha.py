"""The alpha channel's PNG stream: lossless, and checked before it is unpacked."""

from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given
from PIL import Image
from strategies import pictures, texture

from cscodec.bitstream.alpha import pack_alpha, unpack_alpha
from cscodec.errors import InvalidFieldError


def png(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


@given(pictures())
def test_alpha_comes_back(picture: np.ndarray) -> None:
    alpha = picture if picture.ndim == 2 else picture[..., -1]  # not contiguous
    again = unpack_alpha(pack_alpha(alpha), alpha.shape[1], alpha.shape[0])
    np.testing.assert_array_equal(again, alpha)
    assert again.dtype == np.uint8


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n",
        bytes(100),
        png(texture(9, 20), "JPEG"),
        png(texture(20, 9)),
        png(texture(9, 21)),
        png(texture(9, 20, 3)),
        png(texture(9, 20, 2)),
        png(texture(9, 20).astype(np.uint16)),
        png(texture(9, 20) > 99),
    ],
    ids=["empty", "start", "zeros", "jpeg", "turned", "wide", "colour", "alpha", "deep", "bits"],
)
def test_other_streams_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidFieldError, match="alpha"):
        unpack_alpha(data, 20, 9)


def chunk(kind: bytes, payload: bytes = b"") -> bytes:
    checksum = zlib.crc32(kind + payload)
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", checksum)


def stream_of(header: bytes, *chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join([chunk(b"IHDR", header), *chunks])


SAMPLES = zlib.compress(bytes(21 * 9))  # filter and samples of each row
HEADER = struct.pack(">II5B", 20, 9, 8, 0, 0, 0, 0)
DATA, END = chunk(b"IDAT", SAMPLES), chunk(b"IEND")


@pytest.mark.parametrize(
    "data",
    [
        stream_of(b"", DATA, END),
        stream_of(HEADER[:12], DATA, END),
        stream_of(HEADER, END),
        stream_of(HEADER, DATA),
        stream_of(HEADER, DATA, END, b"\0"),
        stream_of(HEADER, chunk(b"PLTE", bytes(3)), DATA, END),
        stream_of(HEADER, chunk(b"IHDR", HEADER), DATA, END),
        stream_of(HEADER, chunk(b"IDAT", zlib.compress(bytes(21 * 8))), END),
        stream_of(HEADER, chunk(b"IDAT", SAMPLES[:-3]), END),
        stream_of(HEADER, chunk(b"IDAT", SAMPLES + b"\0"), END),
        stream_of(HEADER, chunk(b"IDAT", zlib.compress(b"\7" * 21 * 9)), END),
        stream_of(HEADER, chunk(b"IDAT", b"no zlib stream"), END),
        stream_of(HEADER, DATA[:-1] + b"\0", END),
        stream_of(HEADER[:10] + b"\1" + HEADER[11:], DATA, END),
        stream_of(HEADER[:12] + b"\1", DATA, END),
        b"\x89PNG\r\n\x1a\n" + DATA + END,
        b"\x89PNG\r\n\x1a\n" + END,
    ],
    ids=[
        "no-header", "short-header", "no-samples", "no-end", "bytes-after-end", "palette",
        "two-headers", "too-few-samples", "half-a-checksum",
        "bytes-after-samples", "unknown-filter", "no-zlib-stream", "bad-checksum", "compression",
        "interlacing", "samples-first", "end-only",
    ],
)  # fmt: skip
def test_malformed_streams_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidFieldError, match="alpha"):
        unpack_alpha(data, 20, 9)


@pytest.mark.parametrize("kind", [b"iCCP", b"tEXt", b"zTXt", b"iTXt", b"tRNS", b"eXIf", b"acTL"])
@pytest.mark.parametrize("payload", [b"", b"\0", b"x", b"a\0\0" + zlib.compress(bytes(10**6))])
def test_what_makes_no_pixels_is_not_looked_at(kind: bytes, payload: bytes) -> None:
    """Before the samples, between them and after them."""
    other = chunk(kind, payload)
    parts = chunk(b"IDAT", SAMPLES[:5]), chunk(b"IDAT", SAMPLES[5:])
    data = stream_of(HEADER, other, parts[0], other, parts[1], other, END)
    assert not unpack_alpha(data, 20, 9).any()


def test_pillows_limit_and_warnings_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the whole process's, and other threads'."""
    data = pack_alpha(texture(9, 20))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5)
    monkeypatch.setattr(warnings, "catch_warnings", None)
    np.testing.assert_array_equal(unpack_alpha(data, 20, 9), texture(9, 20))


def test_a_bomb_is_not_unpacked() -> None:
    bomb = stream_of(HEADER, chunk(b"IDAT", zlib.compress(bytes(10**8))), END)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidFieldError, match="does not inflate to 189 bytes"):
            unpack_alpha(bomb, 20, 9)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_streams_cut_anywhere_are_refused() -> None:
    data = pack_alpha(texture(9, 20))
    for length in range(len(data)):
        with pytest.raises(InvalidFieldError, match="alpha"):
            unpack_alpha(data[:length], 20, 9)


def test_nothing_is_allocated_for_a_stream_of_another_size() -> None:
    large = pack_alpha(np.zeros((4000, 4000), np.uint8))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidFieldError, match="picture is 20 x 9"):
            unpack_alpha(large, 20, 9)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
