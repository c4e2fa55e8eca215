"""All that a run does where its pictures are: listing, reading, validating, coding.

A :class:`Reader` answers, in this process or in a worker's on another machine, and stays there for
the next question. It is asked with names, positions and matrices, and answers with counts,
statistics and measurements: pictures do not travel.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cscodec.arrays import Pixels
from cscodec.errors import InvalidInputError
from cscodec.learning.corpus import (
    MAX_HELD_OUT,
    WINDOW_PATCHES,
    Channel,
    Corpus,
    chroma_planes,
    list_pictures,
    read_pixels,
    split_pictures,
)
from cscodec.learning.options import TrainingOptions
from cscodec.learning.start import start_learner
from cscodec.learning.validation import (
    Quality,
    measure_decoders,
    measure_quality,
    read_planes,
)
from cscodec.model import Model, System

Question = ParamSpec("Question")
Answer = TypeVar("Answer")

VALIDATION_SIDE = 256  #: pixels; centres of held-out pictures, so that a measurement takes moments
_LEAST_WINDOW = 1 << 16  # patches of a shard in memory
_MOST_READERS = 4  # in one process: of runs that ended without a word, too


@dataclass(frozen=True)
class PictureSet:
    """The pictures of a run, named so that any process that sees the folders can read them.

    Attributes
    ----------
    folders : tuple of str
    max_pixels : int
        Larger pictures are skipped.
    listing : str
        Digest of names and sizes, once it is known: whoever finds other pictures refuses.
    run : str
        Tells runs apart: what a process keeps of one is of no use to another.
    """

    folders: tuple[str, ...]
    max_pixels: int
    listing: str = ""
    run: str = field(default_factory=lambda: os.urandom(8).hex())


@dataclass(frozen=True)
class Survey:
    """How many pictures there are to train on and held out, and a digest of names and sizes."""

    num_training: int
    num_held_out: int
    listing: str


@dataclass(frozen=True)
class Shard:
    """One part of the pictures to train on: every ``num_shards``-th, from ``number``.

    Of its patches, ``share`` go into every batch.
    """

    channel: Channel
    number: int
    num_shards: int
    share: int
    seed: int


class Reader:
    """What a process knows of a run's pictures.

    Attributes
    ----------
    listing : str
        Digest of names and sizes of the pictures to train on.
    skipped : dict of str to str
        Names of the pictures that could not be used so far, and why.
    """

    def __init__(self, pictures: PictureSet) -> None:
        # For good, should this be a worker: sums keep their order, and so their last bits.
        threadpool_limits(1, "blas")
        self._training, self._held_out = split_pictures(list_pictures(pictures.folders))
        names = "\n".join(f"{p.name} {p.num_bytes}" for p in self._training)
        self.listing = hashlib.sha256(names.encode()).hexdigest()[:16]
        self.skipped: dict[str, str] = {}
        self._max_pixels = pictures.max_pixels
        self._planes: dict[Channel, list[Pixels]] = {}
        self._shards: dict[tuple[Channel, int], Corpus] = {}

    def survey(self, test_folder: str | None) -> Survey:
        """Count the pictures, and refuse a folder for the test that holds none."""
        if test_folder is not None:
            list_pictures([test_folder])  # refused now rather than after all the work
        return Survey(len(self._training), len(self._held_out), self.listing)

    def check_colour(self) -> None:
        """Refuse pictures without colour before luma is learned from them."""
        for pixels in self._pixels({}):
            if any(np.ptp(plane) for plane in chroma_planes(pixels) if plane.size):
                return
        raise InvalidInputError(
            f"none of the {len(self._training)} pictures to train on has colour; "
            "train without --chroma, or add pictures in colour"
        )

    def corpus(self, channel: Channel, seed: int, workers: int | None = None) -> Corpus:
        """Return the stream of patches of all pictures to train on."""
        return Corpus(
            self._training,
            channel=channel,
            seed=seed,
            max_pixels=self._max_pixels,
            workers=workers,
        )

    def begin(self, channel: Channel, options: TrainingOptions) -> dict[str, Any]:
        """Return the state of a learner with a first dictionary."""
        corpus = self.corpus(channel, options.seed)
        learner = start_learner(options, corpus)
        self.skipped.update(corpus.skipped)
        return learner.state()

    def shard(self, shard: Shard, position: Mapping[str, Any]) -> Corpus:
        """Return the stream of patches of one part of the pictures, where it stands there."""
        key = shard.channel, shard.number
        corpus = self._shards.get(key)
        if corpus is None or corpus.state() != position:
            corpus = Corpus(
                self._training[shard.number :: shard.num_shards],
                channel=shard.channel,
                seed=shard.seed + shard.number,
                window_patches=max(WINDOW_PATCHES // shard.num_shards, _LEAST_WINDOW, shard.share),
                max_pixels=self._max_pixels,
                workers=1,  # others work on other shards meanwhile
            )
            corpus.restore(position)
            self._shards[key] = corpus
        return corpus

    def planes(self, channel: Channel) -> list[Pixels]:
        """Return the centres of held-out pictures.

        Raises
        ------
        InvalidInputError
            If none will do.
        """
        if channel not in self._planes:
            self._planes[channel] = self._read_planes(channel)
        return self._planes[channel]

    def validate(self, channel: Channel, system: System, sparsity: int) -> Quality:
        """Measure a system on held-out pictures by the paper's decoder."""
        return measure_quality(self.planes(channel), system, sparsity=sparsity)

    def measure(
        self, channel: Channel, system: System, sparsity: int
    ) -> dict[str, dict[str, float]]:
        """Measure a system on held-out pictures by every decoder."""
        return measure_decoders(self.planes(channel), system, sparsity=sparsity)

    def complete(self, model: Model, seed: int, workers: int | None) -> Model:
        """Learn the entropy coder's tables of a model, and its filters."""
        from cscodec.learning.coding import learn_coding

        return learn_coding(model, self._pixels(self.skipped), seed=seed, workers=workers)

    def _pixels(self, skipped: dict[str, str]) -> Iterator[Pixels]:
        for picture in self._training:
            pixels = read_pixels(picture, self._max_pixels, skipped)
            if pixels is not None:
                yield pixels

    def _read_planes(self, channel: Channel) -> list[Pixels]:
        # Held-out pictures may all be broken, small or gray; then training pictures must do.
        for pictures in (self._held_out, self._training[:MAX_HELD_OUT]):
            planes = read_planes(
                pictures,
                channel,
                max_side=VALIDATION_SIDE,
                max_pixels=self._max_pixels,
                skipped=self.skipped,
            )
            if planes:
                return planes
        raise InvalidInputError(
            f"no picture to validate on has {channel} of 16 x 16 pixels or more; add larger ones"
        )


_readers: dict[str, Reader] = {}
_lock = threading.Lock()


def reader_of(pictures: PictureSet) -> Reader:
    """Return this process's reader of a run's pictures.

    Raises
    ------
    InvalidInputError
        If a folder cannot be used, or holds other pictures than where the run was begun.
    """
    with _lock:
        if pictures.run not in _readers:
            while len(_readers) >= _MOST_READERS:
                del _readers[next(iter(_readers))]
            _readers[pictures.run] = Reader(pictures)
        reader = _readers[pictures.run]
    if pictures.listing not in ("", reader.listing):
        raise InvalidInputError(
            f"{', '.join(pictures.folders)}: {socket.gethostname()} sees other pictures than the "
            "run was begun with; all workers must see the same, and none may change meanwhile"
        )
    return reader


def consult(
    pictures: PictureSet,
    question: Callable[Concatenate[Reader, Question], Answer],
    *arguments: Question.args,
    **options: Question.kwargs,
) -> tuple[Answer, dict[str, str]]:
    """Call a method of this process's reader; return its answer, and the skipped pictures."""
    reader = reader_of(pictures)
    return question(reader, *arguments, **options), dict(reader.skipped)


def forget(run: str) -> None:
    """Drop this process's reader of a run."""
    with _lock:
        _readers.pop(run, None)
