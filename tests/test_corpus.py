"""The stream of training patches: whole epochs, shuffled, reproducible, restorable, bounded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cscodec.errors import InvalidInputError
from cscodec.learning.corpus import (
    Corpus,
    PictureFile,
    chroma_planes,
    list_pictures,
    read_pixels,
    split_pictures,
)

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five pictures of 16 to 80 patches, some with an incomplete row, one in a subfolder."""
    folder = tmp_path / "pictures"
    (folder / "more").mkdir(parents=True)
    random = np.random.default_rng(0)
    for i, (height, width) in enumerate([(32, 32), (40, 35), (64, 64), (80, 64), (33, 47)]):
        pixels = random.integers(0, 256, (height, width), np.uint8)
        Image.fromarray(pixels).save(folder / ("more" if i == 4 else "") / f"{i}.png")
    return folder


def test_names_that_are_no_utf8_can_be_written(folder: Path) -> None:
    strange = os.fsencode(folder) + b"/caf\xe9"
    try:
        os.rename(folder / "more", strange)
    except OSError:
        pytest.skip("this file system has names of UTF-8 only")
    (Path(os.fsdecode(strange)) / "\udcff.png").write_bytes(b"no picture")
    pictures = list_pictures([folder])
    name = "pictures/caf\\udce9/\\udcff.png"
    assert name in [picture.name for picture in pictures]
    training, held_out = split_pictures(pictures)
    skipped: dict[str, str] = {}
    for picture in training + held_out:
        read_pixels(picture, 10**6, skipped)
    assert list(skipped) == [name]
    json.dumps(skipped, ensure_ascii=False).encode()


NUM_PATCHES = 16 + 20 + 64 + 80 + 20


def rows(batches: list[np.ndarray]) -> list[bytes]:
    return [row.tobytes() for batch in batches for row in batch]


def test_an_epoch_gives_every_whole_patch_once(folder: Path) -> None:
    corpus = Corpus(list_pictures([folder]), seed=1)
    epochs = [rows([corpus.next_batch(10) for _ in range(NUM_PATCHES // 10)]) for _ in range(2)]
    assert corpus.window_size == NUM_PATCHES
    assert len(set(epochs[0])) == NUM_PATCHES
    assert set(epochs[0]) == set(epochs[1])
    assert epochs[0] != epochs[1]


def test_patches_are_those_of_the_pictures_without_their_mean(folder: Path) -> None:
    corpus = Corpus([PictureFile(folder / "0.png", "0")], seed=0)
    pixels = np.asarray(Image.open(folder / "0.png"), np.float64)
    expected = {
        tuple(np.round(block - block.mean(), 3).ravel() + 0.0)
        for block in (pixels[i : i + 8, j : j + 8] for i in (0, 8, 16, 24) for j in (0, 8, 16, 24))
    }
    batch = corpus.next_batch(16)
    assert batch.dtype == np.float32
    assert {tuple(np.round(row.astype(np.float64), 3) + 0.0) for row in batch} == expected


def test_small_windows_visit_every_picture_too(folder: Path) -> None:
    corpus = Corpus(list_pictures([folder]), seed=2, window_patches=50)
    seen = set(rows([corpus.next_batch(10) for _ in range(20 * NUM_PATCHES // 10)]))
    assert len(seen) == NUM_PATCHES  # pictures are cut at a window's end, at random
    assert corpus.window_size <= 50


@pytest.mark.parametrize("window_patches", [50, 10_000])
def test_stream_depends_on_the_seed_alone(folder: Path, window_patches: int) -> None:
    def stream(seed: int, workers: int) -> np.ndarray:
        corpus = Corpus(
            list_pictures([folder]), seed=seed, window_patches=window_patches, workers=workers
        )
        return np.concatenate([corpus.next_batch(7) for _ in range(60)])

    np.testing.assert_array_equal(stream(3, 1), stream(3, 4))
    assert not np.array_equal(stream(3, 1), stream(4, 1))


@pytest.mark.parametrize("window_patches", [50, 10_000])
@pytest.mark.parametrize("taken", [0, 1, 5, 33, 61])
def test_position_is_restored(folder: Path, window_patches: int, taken: int) -> None:
    first = Corpus(list_pictures([folder]), seed=5, window_patches=window_patches)
    for _ in range(taken):
        first.next_batch(7)
    second = Corpus(list_pictures([folder]), seed=5, window_patches=window_patches)
    second.restore(first.state())
    for _ in range(40):
        np.testing.assert_array_equal(first.next_batch(7), second.next_batch(7))


def test_unusable_pictures_are_skipped_and_listed(folder: Path) -> None:
    (folder / "broken.png").write_bytes((folder / "3.png").read_bytes()[:200])
    (folder / "empty.jpg").touch()
    Image.fromarray(np.full((7, 90), 5, np.uint8)).save(folder / "flat.png")
    Image.fromarray(np.full((16, 16), 999, np.uint16)).save(folder / "deep.png")
    corpus = Corpus(list_pictures([folder]), seed=0)
    corpus.next_batch(10)
    assert corpus.window_size == NUM_PATCHES
    assert set(corpus.skipped) == {
        f"pictures/{name}" for name in ("broken.png", "empty.jpg", "flat.png", "deep.png")
    }
    assert "8 x 8" in corpus.skipped["pictures/flat.png"]
    assert "16" in corpus.skipped["pictures/deep.png"]
    assert not any(str(folder) in reason for reason in corpus.skipped.values())


def test_large_pictures_are_skipped(folder: Path) -> None:
    corpus = Corpus(list_pictures([folder]), max_pixels=64 * 64)
    corpus.next_batch(10)
    assert list(corpus.skipped) == ["pictures/3.png"]


def test_folders_without_pictures_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    with pytest.raises(InvalidInputError, match="no pictures"):
        list_pictures([tmp_path])
    with pytest.raises(InvalidInputError, match="not a folder"):
        list_pictures([tmp_path / "missing"])
    with pytest.raises(InvalidInputError, match="no training folder"):
        list_pictures([])


def test_folder_of_broken_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"not a picture")
    with pytest.raises(InvalidInputError, match=r"none of the 1 pictures can be used.*a\.png"):
        Corpus(list_pictures([tmp_path])).next_batch(1)


def test_batch_larger_than_the_data_is_refused(folder: Path) -> None:
    corpus = Corpus(list_pictures([folder]))
    corpus.next_batch(NUM_PATCHES)
    with pytest.raises(InvalidInputError, match=f"hold {NUM_PATCHES} patches.*--batch-size"):
        corpus.next_batch(NUM_PATCHES + 1)


def test_a_picture_given_twice_counts_once(folder: Path) -> None:
    both = list_pictures([folder, folder / "more"])
    assert [picture.name for picture in both] == [p.name for p in list_pictures([folder])]


def test_split_is_stable() -> None:
    pictures = [PictureFile(Path(f"{i}.png"), f"set/{i}.png") for i in range(100)]
    training, held_out = split_pictures(pictures)
    assert len(held_out) == 6
    assert sorted(p.name for p in training + held_out) == sorted(p.name for p in pictures)
    moved = [PictureFile(Path("elsewhere") / p.path, p.name) for p in reversed(pictures)]
    assert {p.name for p in split_pictures(moved)[1]} == {p.name for p in held_out}
    assert split_pictures(pictures[:1]) == (pictures[:1], pictures[:1])
    assert len(split_pictures(pictures[:2])[1]) == 1


def test_chroma_planes_are_the_jpeg_ones() -> None:
    random = np.random.default_rng(1)
    small = random.integers(0, 256, (9, 11, 3), np.uint8)
    pixels = small.repeat(2, axis=0).repeat(2, axis=1)  # constant over 2x2, so nothing to average
    planes = chroma_planes(pixels)
    reference = np.asarray(Image.fromarray(small).convert("YCbCr"), np.int64)
    for plane, expected in zip(planes, (reference[..., 1], reference[..., 2]), strict=True):
        assert np.abs(plane.astype(np.int64) - expected).max() <= 1
    assert [plane.shape for plane in chroma_planes(pixels[:-1, :-1])] == [(8, 10), (8, 10)]
    assert chroma_planes(pixels[..., 0]) == ()


def test_chroma_of_gray_pictures_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="colour"):
        Corpus(list_pictures([folder]), channel="chroma").next_batch(1)


_MEASURE = """
import resource, sys
from pathlib import Path
from cscodec.learning.corpus import Corpus, PictureFile
pictures = [PictureFile(Path(sys.argv[1]), str(i)) for i in range(int(sys.argv[2]))]
corpus = Corpus(pictures, window_patches=1 << 14, workers=2)
for _ in range(1 << 9):
    corpus.next_batch(1 << 7)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
def test_memory_does_not_grow_with_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    pixels = np.random.default_rng(0).integers(0, 256, (512, 512), np.uint8)
    Image.fromarray(pixels).save(path, compress_level=1)

    def peak_kib(num_pictures: int) -> int:
        command = [sys.executable, "-c", _MEASURE, str(path), str(num_pictures)]
        run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        return int(run.stdout)

    # 5 pictures fill the window; 30,000 hold 7.9 GB of pixels.
    few, many = peak_kib(5), peak_kib(30_000)
    assert many < 500 * 1024
    assert many < few + 30 * 1024
