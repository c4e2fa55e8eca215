"""The alpha channel's PNG stream: lossless, and checked before it is unpacked."""

from __future__ import annotations

import io
import tracemalloc

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


def test_streams_cut_anywhere_are_refused_or_whole() -> None:
    alpha = texture(9, 20)
    data = pack_alpha(alpha)
    whole = 0
    for length in range(len(data)):
        try:
            restored = unpack_alpha(data[:length], 20, 9)
        except InvalidFieldError:
            continue
        whole += 1
        np.testing.assert_array_equal(restored, alpha)
    assert whole < 25  # only where no more than checksums and the empty last chunk are missing


def test_nothing_is_allocated_for_a_stream_of_another_size() -> None:
    large = pack_alpha(np.zeros((4000, 4000), np.uint8))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidFieldError, match="expected L"):
            unpack_alpha(large, 20, 9)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
