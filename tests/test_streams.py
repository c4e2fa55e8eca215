"""Streams that give less than they are asked for, go on without end, or give no bytes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from strategies import Pixels, sample

import cscodec
from cscodec.images import read_picture
from cscodec.streams import read_up_to


class Drips(io.BytesIO):
    """A pipe into which somebody writes slowly."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(3, size) if size is not None and size >= 0 else 3)


@pytest.mark.parametrize("size", [0, 1, 7, 10, 11])
def test_as_many_as_wanted_or_there(size: int) -> None:
    assert read_up_to(Drips(b"0123456789"), size) == b"0123456789"[:size]


def test_no_more_is_read_than_is_wanted() -> None:
    stream = Drips(b"0123456789")
    assert read_up_to(stream, 5) + read_up_to(stream, 5) == b"0123456789"


def test_text_is_no_stream_of_bytes() -> None:
    for text in ("", "words"):
        with pytest.raises(TypeError, match="bytes"):
            read_up_to(io.StringIO(text), 10)  # type: ignore[arg-type]


def test_files_and_pictures_come_whole_through_slow_pipes(tmp_path: Path) -> None:
    pixels: Pixels = sample("cat", 30, 40)
    data = cscodec.encode(pixels)
    np.testing.assert_array_equal(cscodec.decode(Drips(data)), cscodec.decode(data))
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path)
    np.testing.assert_array_equal(read_picture(Drips(path.read_bytes())).pixels, pixels)
