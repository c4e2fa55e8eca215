"""Files that every later release must decode to the same pixels, or refuse for the same reason.

``make vectors`` writes those that are missing and touches no other. A test that fails here says
that files out in the world would be read differently: that needs a new format version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from vectors import make

import cscodec
from cscodec import errors

FOLDER = make.FOLDER


def read(name: str) -> bytes:
    path = FOLDER / name
    assert path.is_file(), f"{name} is missing: write it by 'make vectors' and commit it"
    return path.read_bytes()


def test_the_vectors_are_those_that_are_listed() -> None:
    found = {
        path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*valid/*") if path.is_file()
    }
    assert found == set(make.vectors()), "run 'make vectors'; remove what is no longer listed"


@pytest.mark.parametrize(
    ("name", "decoder"),
    [(name, decoder) for name in make.SOURCES for decoder in make.decoders(name)],
)
def test_valid_files_are_decoded_to_the_same_pixels(name: str, decoder: Any) -> None:
    pixels = cscodec.decode(read(f"valid/{name}.csc"), decoder=decoder)
    read(f"valid/{name}.{decoder}.png")
    with Image.open(FOLDER / f"valid/{name}.{decoder}.png") as picture:
        np.testing.assert_array_equal(pixels, np.asarray(picture))


@pytest.mark.parametrize("name", make.SOURCES)
def test_valid_files_show_what_they_are_made_of(name: str) -> None:
    source = make.SOURCES[name]()
    pixels = cscodec.decode(read(f"valid/{name}.csc"))
    assert pixels.shape == source.shape
    if source.ndim == 3 and source.shape[2] in (2, 4):
        np.testing.assert_array_equal(pixels[..., -1], source[..., -1])
        pixels, source = pixels[..., :-1], source[..., :-1]
    error = np.square(pixels.astype(float) - source).mean()
    assert error < (900 if "lowest" in name else 150)


@pytest.mark.parametrize("name", make.SOURCES)
def test_the_encoder_writes_the_same_files(name: str) -> None:
    """On every machine. An encoder that chooses better may differ: then renew these vectors."""
    assert make.valid(name) == read(f"valid/{name}.csc")


def test_metadata_are_read() -> None:
    info = cscodec.info(read("valid/rgb-metadata.csc"))
    for key, value in make.OPTIONS["rgb-metadata"].items():
        assert getattr(info, key) == value


@pytest.mark.parametrize("name", make.INVALID)
def test_invalid_files_are_refused_for_their_reason(name: str) -> None:
    with pytest.raises(cscodec.CscodecError) as caught:
        cscodec.decode(read(f"invalid/{name}.csc"))
    assert type(caught.value) is getattr(errors, name.split("-")[0])


def test_existing_vectors_are_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        make, "vectors", lambda: {"valid/a.csc": lambda: b"new", "valid/b.csc": lambda: b"new"}
    )
    (tmp_path / "valid").mkdir()
    (tmp_path / "valid/a.csc").write_bytes(b"old")
    assert make.write_missing(tmp_path) == ["valid/b.csc"]
    assert (tmp_path / "valid/a.csc").read_bytes() == b"old"
    assert (tmp_path / "valid/b.csc").read_bytes() == b"new"
    assert make.write_missing(tmp_path) == []
