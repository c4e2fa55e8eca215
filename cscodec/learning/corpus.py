"""Training patches from folders of pictures: an endless, shuffled stream in bounded memory.

Pictures are visited in a new random order in every epoch. They are read a *window* at a time (at
most `WINDOW_PATCHES` patches, kept as bytes), and batches are drawn from a random permutation of
the window, so a batch mixes patches of many pictures whatever the size of the folder. Every
random choice is a function of the seed and of the position alone; the position is three integers,
which is all that a resumed run needs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cscodec import locations
from cscodec.arrays import Pixels
from cscodec.errors import CscodecError, InvalidInputError
from cscodec.images import PICTURE_SUFFIXES, find_pictures, luma, read_picture, stream_bytes
from cscodec.layout import PATCH_PIXELS, PATCH_SIZE
from cscodec.learning.options import MAX_TRAINING_PIXELS
from cscodec.learning.saved import Saved
from cscodec.parallel import parallel_map
from cscodec.transform.colour import halve, split_colours, to_bytes
from cscodec.transform.patches import remove_mean

WINDOW_PATCHES = 3 << 19  #: patches in memory at a time: 96 MiB
MAX_PATCHES_PER_PICTURE = 1 << 17  #: most that one picture gives per visit, drawn at random
HELD_OUT_SHARE = 1 / 16  #: of the pictures, kept from training
MAX_HELD_OUT = 32
_STRIP_ROWS = 256  # colour conversion in strips: its temporaries stay small

Channel = Literal["luma", "chroma"]

#: State of a corpus of which nothing was used.
START: Mapping[str, Any] = {"window": -1, "visit": 0, "offset": 0, "skipped": {}}


@dataclass(frozen=True)
class PictureFile:
    """A picture of a training folder: where it is, and its name relative to the folder's parent.

    The name can be written anywhere, whatever bytes the path holds. ``path`` may be a URL.
    """

    path: Path | str
    name: str
    num_bytes: int = 0


def list_pictures(folders: Sequence[str | os.PathLike[str]]) -> list[PictureFile]:
    """List the pictures of all folders, recursively, sorted by name, each file once.

    Raises
    ------
    InvalidInputError
        If a path or URL is not that of a folder, or a folder holds no picture file.
    """
    if not folders:
        raise InvalidInputError("no training folder given")
    found: dict[Path | str, PictureFile] = {}
    for folder in [os.fspath(folder) for folder in folders]:
        pictures = _below_url(folder) if locations.is_url(folder) else _below(Path(folder))
        if not pictures:
            raise InvalidInputError(f"{folder}: no pictures in this folder or below it")
        for picture in pictures:
            path = picture.path
            found.setdefault(path.resolve() if isinstance(path, Path) else path, picture)
    return sorted(found.values(), key=lambda picture: (picture.name, str(picture.path)))


def _below(folder: Path) -> list[PictureFile]:
    if not folder.is_dir():
        raise InvalidInputError(f"{folder}: not a folder; give folders that hold pictures")
    parent = folder.resolve().name
    return [
        PictureFile(
            path,
            writable(f"{parent}/{path.relative_to(folder).as_posix()}"),
            path.stat().st_size,
        )
        for path in find_pictures(folder)
    ]


def _below_url(url: str) -> list[PictureFile]:
    return [
        PictureFile(locations.join(url, name), f"{Path(url).name}/{name}", num_bytes)
        for name, num_bytes in locations.list_files(url).items()
        if os.path.splitext(name)[1].lower() in PICTURE_SUFFIXES
    ]


def split_pictures(
    pictures: Sequence[PictureFile],
) -> tuple[list[PictureFile], list[PictureFile]]:
    """Split pictures in those to train on and those held out for validation.

    One in 16 is held out (at least one, at most 32): those whose names have the lowest SHA-256.
    The choice does not depend on the seed, and adding pictures to a folder hardly changes it.
    A single picture serves as both.
    """
    if len(pictures) == 1:
        return list(pictures), list(pictures)
    ranked = sorted(pictures, key=lambda p: hashlib.sha256(p.name.encode()).digest())
    num_held_out = min(max(1, round(len(pictures) * HELD_OUT_SHARE)), MAX_HELD_OUT)
    held_out = set(ranked[:num_held_out])
    return [p for p in pictures if p not in held_out], [p for p in pictures if p in held_out]


def read_pixels(picture: PictureFile, max_pixels: int, skipped: dict[str, str]) -> Pixels | None:
    """Read a picture; if it cannot be used, note the reason in ``skipped`` and return None."""
    try:
        if isinstance(picture.path, Path):
            return read_picture(picture.path, max_pixels=max_pixels).pixels
        with locations.opened(picture.path) as file:
            data = stream_bytes(file, max_pixels)
        return read_picture(data, max_pixels=max_pixels).pixels
    except (CscodecError, OSError) as error:
        text = getattr(error, "strerror", None) or str(error)
        skipped[picture.name] = writable(
            text.removeprefix(f"{picture.path}: ").removeprefix("picture: ")
        )
        return None


def writable(name: str) -> str:
    """Return a file's name as text that any file can hold: what is no UTF-8 as ``\\udce9``."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def luma_plane(pixels: Pixels) -> Pixels:
    """BT.601 luma of a picture of any mode, (H, W) uint8, computed in strips."""
    if pixels.ndim == 2:
        return pixels
    strips = [luma(pixels[i : i + _STRIP_ROWS]) for i in range(0, len(pixels), _STRIP_ROWS)]
    return np.concatenate(strips)


def chroma_planes(pixels: Pixels) -> tuple[Pixels, ...]:
    """Cb and Cr of a colour picture at 4:2:0, each (H // 2, W // 2) uint8; () for a gray one.

    An odd last row or column is left out: half of its samples would be invented.
    """
    if pixels.ndim == 2 or pixels.shape[2] < 3:
        return ()
    height, width = pixels.shape[0] // 2, pixels.shape[1] // 2
    planes = np.empty((2, height, width), np.uint8)
    for top in range(0, 2 * height, _STRIP_ROWS):
        strip = pixels[top : min(top + _STRIP_ROWS, 2 * height), : 2 * width, :3]
        for plane, colour in zip(planes, split_colours(strip)[1:], strict=True):
            half = to_bytes(halve(colour) + 128)
            plane[top // 2 : top // 2 + len(half)] = half
    return planes[0], planes[1]


class Corpus:
    """An endless stream of shuffled, zero-mean patches.

    Parameters
    ----------
    pictures : sequence of PictureFile
        What to read.
    channel : {"luma", "chroma"}
        Patches of luma, or of Cb and Cr at 4:2:0 (gray pictures then have none).
    seed : int
        Determines the stream.
    window_patches : int
        Patches in memory at a time.
    max_pixels : int
        Larger pictures are skipped.
    workers : int, optional
        Threads that read pictures; the stream does not depend on it.

    Attributes
    ----------
    skipped : dict of str to str
        Names of the pictures that could not be used so far, and why.
    """

    def __init__(
        self,
        pictures: Sequence[PictureFile],
        *,
        channel: Channel = "luma",
        seed: int = 0,
        window_patches: int = WINDOW_PATCHES,
        max_pixels: int = MAX_TRAINING_PIXELS,
        workers: int | None = None,
    ) -> None:
        if not pictures:
            raise InvalidInputError("no pictures to train on")
        self.skipped: dict[str, str] = {}
        self._pictures = list(pictures)
        self._channel = channel
        self._seed = seed
        self._window_patches = window_patches
        self._max_pixels = max_pixels
        self._workers = workers
        self._pool: Pixels = np.empty((0, PATCH_PIXELS), np.uint8)
        self._pool_is_whole = False  # it holds every patch of every picture
        self._canonical: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._order: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._window = -1  # number of the current window
        self._visit = 0  # pictures visited before the current window, over all epochs
        self._next_visit = 0
        self._offset = 0  # patches of the window that were given out

    def next_batch(self, size: int) -> npt.NDArray[np.float32]:
        """Return the next ``size`` patches, (size, 64) float32 with zero mean.

        As in the paper's Algorithm 2 (steps 3 to 8), what is left of a shuffled window and too
        small for a batch is passed over.

        Raises
        ------
        InvalidInputError
            If the pictures hold fewer than ``size`` patches, or none of them can be read.
        """
        if self._offset + size > len(self._order):
            self._advance()
            if size > len(self._order):
                self._refuse_batch(size)
        rows = self._order[self._offset : self._offset + size]
        self._offset += size
        patches, _ = remove_mean(self._pool[rows].astype(np.float32))
        return patches

    @property
    def window_size(self) -> int:
        """Patches in the present window: all there are, if they fit."""
        if self._window < 0:
            self._advance()
        return len(self._order)

    def state(self) -> dict[str, Any]:
        """Position in the stream, as JSON-able values."""
        return {
            "window": self._window,
            "visit": self._visit,
            "offset": self._offset,
            "skipped": dict(self.skipped),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue where :meth:`state` was taken, in a corpus of the same pictures and seed.

        Raises
        ------
        InvalidInputError
            If it is no such state.
        """
        position = checked_position(Saved("corpus", state))
        self.skipped = position["skipped"]
        self._window, self._visit = position["window"], position["visit"]
        if self._window >= 0:
            self._load_window()
        self._offset = position["offset"]

    def _advance(self) -> None:
        self._window += 1
        self._visit = self._next_visit
        self._load_window()
        self._offset = 0

    def _load_window(self) -> None:
        num_pictures = len(self._pictures)
        if self._pool_is_whole:
            self._next_visit = self._visit + num_pictures
        else:
            self._fill_pool(range(self._visit, self._visit + num_pictures))
        permutation = _generator(self._seed, _ORDER, self._window).permutation(len(self._pool))
        self._order = self._canonical[permutation]

    def _fill_pool(self, visits: range) -> None:
        """Read pictures into the pool until it is full or each was visited once."""
        pool = np.empty((self._window_patches, PATCH_PIXELS), np.uint8)  # touched as it fills
        filled = 0
        slices: dict[int, npt.NDArray[np.int64]] = {}
        whole = True
        reads = parallel_map(self._read, visits, self._workers)
        for visit, (picture, patches, num_patches) in zip(visits, reads, strict=True):
            self._next_visit = visit + 1
            taken = self._thin(patches, len(pool) - filled, visit)
            pool[filled : filled + len(taken)] = taken
            # A picture that comes again, from the next epoch, stands beside its first visit.
            rows = np.arange(filled, filled + len(taken))
            slices[picture] = np.concatenate([slices.get(picture, rows[:0]), rows])
            filled += len(taken)
            whole &= len(taken) == num_patches
            if filled == len(pool):
                break
        self._pool = pool[:filled]
        self._pool_is_whole = whole and self._next_visit == visits.stop
        # The permutation acts on pictures in listed order, so that a pool which holds all of them
        # can serve every epoch, whatever the order of its first reading.
        self._canonical = np.concatenate([slices[picture] for picture in sorted(slices)])

    def _read(self, visit: int) -> tuple[int, Pixels, int]:
        """Return the picture's index, the patches it gives at this visit, and how many it has."""
        epoch, place = divmod(visit, len(self._pictures))
        index = int(_epoch_order(self._seed, epoch, len(self._pictures))[place])
        patches = self._read_patches(self._pictures[index])
        return index, self._thin(patches, MAX_PATCHES_PER_PICTURE, visit), len(patches)

    def _thin(self, patches: Pixels, limit: int, visit: int) -> Pixels:
        """Return at most ``limit`` patches, random ones if there are more."""
        if len(patches) <= limit:
            return patches
        return patches[_generator(self._seed, _VISIT, visit).permutation(len(patches))[:limit]]

    def _read_patches(self, picture: PictureFile) -> Pixels:
        pixels = read_pixels(picture, self._max_pixels, self.skipped)
        if pixels is None:
            return np.empty((0, PATCH_PIXELS), np.uint8)
        luma_channel = self._channel == "luma"
        planes = (luma_plane(pixels),) if luma_channel else chroma_planes(pixels)
        smallest = PATCH_SIZE if luma_channel else 2 * PATCH_SIZE
        if min(pixels.shape[:2]) < smallest:
            self.skipped[picture.name] = f"smaller than {smallest} x {smallest} pixels"
        return np.concatenate([np.empty((0, PATCH_PIXELS), np.uint8), *map(_whole_patches, planes)])

    def _refuse_batch(self, size: int) -> None:
        count = len(self._pictures)
        if len(self.skipped) == count:
            name, reason = next(iter(sorted(self.skipped.items())))
            raise InvalidInputError(
                f"none of the {count} pictures can be used; the first is {name}: {reason}"
            )
        if len(self._order) == 0:
            raise InvalidInputError(f"none of the {count} pictures has colour to train chroma on")
        raise InvalidInputError(
            f"a batch of {size} patches is larger than the data: {count} pictures hold "
            f"{len(self._order)} patches; lower --batch-size or add pictures"
        )


def checked_position(saved: Saved) -> dict[str, Any]:
    """Return a state of a corpus that was saved, or refuse it."""
    skipped = saved.mapping("skipped")
    return {
        "window": saved.integer("window", lowest=-1),
        "visit": saved.integer("visit"),
        "offset": saved.integer("offset"),
        "skipped": {name: skipped.text(name) for name in skipped.keys},
    }


_EPOCH, _VISIT, _ORDER = range(3)  # purposes of random numbers


def _generator(seed: int, *position: int) -> np.random.Generator:
    # A generator of its own for every choice: no state to carry, so none to restore.
    return np.random.default_rng([seed, *position])


@lru_cache(maxsize=2)
def _epoch_order(seed: int, epoch: int, num_pictures: int) -> npt.NDArray[np.int64]:
    return _generator(seed, _EPOCH, epoch).permutation(num_pictures)


def _whole_patches(plane: Pixels) -> Pixels:
    """Non-overlapping patches of a plane, (num_patches, 64) uint8, without incomplete ones.

    The codec pads incomplete patches; invented pixels are nothing to learn from.
    """
    rows, columns = plane.shape[0] // PATCH_SIZE, plane.shape[1] // PATCH_SIZE
    whole = plane[: rows * PATCH_SIZE, : columns * PATCH_SIZE]
    blocks = whole.reshape(rows, PATCH_SIZE, columns, PATCH_SIZE).swapaxes(1, 2)
    return blocks.reshape(-1, PATCH_PIXELS)
