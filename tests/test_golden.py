"""Files in which every later release must find the same values, or refuse for the same reason.

``make vectors`` writes those that are missing and touches no other. A test of them that fails says
that files out in the world would be read differently: that needs a new format version. What today's
encoder writes and today's restoration makes is kept too, as snapshots, which may be renewed.
"""

from __future__ import annotations

import json
from pathlib import Path

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


@pytest.mark.parametrize("name", make.SOURCES)
def test_valid_files_hold_the_same_values(name: str) -> None:
    assert make.hash_of_values(read(f"valid/{name}.csc")) == read(f"valid/{name}.values")
    pixels = cscodec.decode(read(f"valid/{name}.csc"), decoder="linear")
    read(f"valid/{name}.linear.png")
    with Image.open(FOLDER / f"valid/{name}.linear.png") as picture:
        np.testing.assert_array_equal(pixels, np.asarray(picture))


def test_the_encoder_and_the_decoders_do_what_they_did() -> None:
    """On every machine. Who makes one better on purpose renews them: 'make snapshots'."""
    kept = json.loads(read("snapshots.json"))
    assert make.snapshots(lambda name: read(f"valid/{name}.csc")) == kept


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
