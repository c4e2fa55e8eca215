"""What the learner is fed with: the paper's stream of patches, or rounds over shards of pictures.

In a round the dictionary goes out, every shard of the pictures codes its share of the batch
wherever it is, and sums come back. They are added in an order that depends on the number of shards
alone, so the learner cannot tell how many workers there were, or whether one died and its share
was coded again by another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.errors import InvalidInputError
from cscodec.learning.corpus import START, Channel, Corpus
from cscodec.learning.online import OnlineLearner
from cscodec.learning.options import TrainingOptions
from cscodec.learning.pictures import PictureSet, Reader, Shard, consult, reader_of
from cscodec.learning.start import start_learner
from cscodec.learning.statistics import Coder, Statistics
from cscodec.learning.usable import usable_patches
from cscodec.scheduler import Scheduler

_FAN_IN = 8  #: sums that are added by one piece of work
_FEW = 2  #: what is soonest sent, or added, without a detour


class Feed(Protocol):
    """Where batches come from."""

    @property
    def positions(self) -> Sequence[Mapping[str, Any]]:
        """How far the pictures have been used: all that a resumed run needs, JSON-able."""

    def begin(self) -> OnlineLearner:
        """Make a learner with a first dictionary."""

    def restore(self, positions: Sequence[Mapping[str, Any]]) -> None:
        """Go on from positions that were saved."""

    def learn(self, learner: OnlineLearner, *, is_last: bool) -> None:
        """Let the learner learn from the next batch, the last before a new sensing matrix or not.

        Learner and positions change after all has succeeded, or not at all.
        """


class Stream:
    """Batches of patches from a shuffled stream of all pictures, as in the paper."""

    def __init__(self, corpus: Corpus, options: TrainingOptions, workers: int | None) -> None:
        self._corpus = corpus
        self._options = options
        self._workers = workers or 1

    @property
    def positions(self) -> Sequence[Mapping[str, Any]]:
        return [self._corpus.state()]

    def begin(self) -> OnlineLearner:
        return start_learner(self._options, self._corpus)

    def restore(self, positions: Sequence[Mapping[str, Any]]) -> None:
        (position,) = positions
        self._corpus.restore(position)

    def learn(self, learner: OnlineLearner, *, is_last: bool) -> None:
        learner.partial_fit(
            self._corpus.next_batch(self._options.batch_size), workers=self._workers
        )


@dataclass(frozen=True, eq=False)
class Part:
    """What shards have made of their shares of a batch.

    Attributes
    ----------
    statistics : Statistics
    num_skipped : int
        Patches passed over.
    positions : mapping of int to mapping
        Where the shards stand now, by their numbers.
    candidates : ndarray, (n, 64) float32
        Patches of the first shard that may take the place of seldom used atoms; none but in the
        last batch before a new sensing matrix.
    """

    statistics: Statistics
    num_skipped: int
    positions: Mapping[int, Mapping[str, Any]]
    candidates: Float32Array


class Rounds:
    """Batches of which every shard of the pictures codes a share.

    Parameters
    ----------
    scheduler : Scheduler
        Does the work.
    pictures : PictureSet
    num_pictures : int
        To train on; there are no more shards than these.
    channel : {"luma", "chroma"}
    options : TrainingOptions
    """

    def __init__(
        self,
        scheduler: Scheduler,
        pictures: PictureSet,
        num_pictures: int,
        channel: Channel,
        options: TrainingOptions,
    ) -> None:
        num_shards = min(options.shards, num_pictures)
        share, larger = divmod(options.batch_size, num_shards)
        self._shards = [
            Shard(channel, number, num_shards, share + (number < larger), options.seed)
            for number in range(num_shards)
        ]
        self.positions: Sequence[Mapping[str, Any]] = [START] * num_shards
        self._parts: list[Any] = []
        self._scheduler = scheduler
        self._pictures = pictures
        self._options = options

    def begin(self) -> OnlineLearner:
        promise = self._scheduler.submit(
            consult,
            self._pictures,
            Reader.begin,
            self._shards[0].channel,
            self._options,
            name="begin",
        )
        state, _ = self._scheduler.result(promise)
        return OnlineLearner.from_state(state)

    def restore(self, positions: Sequence[Mapping[str, Any]]) -> None:
        if len(positions) != len(self._shards):
            raise InvalidInputError(
                f"it has {len(positions)} positions, and the pictures make {len(self._shards)} "
                "shards"
            )
        self.positions = positions

    def learn(self, learner: OnlineLearner, *, is_last: bool) -> None:
        submit = self._scheduler.submit
        candidates = learner.parameters.num_atoms if is_last else 0
        groups = self._groups()
        dictionary: Any = learner.coder_inputs
        if len(groups) > _FEW:
            dictionary = submit(tuple, dictionary, name="send")  # workers have it from each other
        shares = {
            group[0].number: (
                self._pictures,
                group,
                [self.positions[shard.number] for shard in group],
                dictionary,
                candidates if group[0].number == 0 else 0,
            )
            for group in groups
        }
        name = f"code-{self._shards[0].channel}"
        parts = self._scheduler.submit_parts(code_shares, shares, name=name)
        # Those of the last round are dropped now: telling Dask so before would hold this one up.
        self._parts = parts
        while len(parts) > _FEW:
            num_sums = -(-len(parts) // _FAN_IN)
            # Every num_sums-th: with as many workers, all of them are in one place.
            parts = [submit(add, parts[i::num_sums], name="add") for i in range(num_sums)]
        part = add([self._scheduler.result(promise) for promise in parts])
        learner.absorb(part.statistics, part.candidates, num_skipped=part.num_skipped)
        self.positions = [part.positions[shard.number] for shard in self._shards]

    def _groups(self) -> list[list[Shard]]:
        """Shards that are one piece of work: if workers then have equally much to do, those whose
        sums are added first. What is added to what does not depend on it."""
        num_sums = -(-len(self._shards) // _FAN_IN)
        if num_sums % self._scheduler.num_workers == 0:
            return [self._shards[i::num_sums] for i in range(num_sums)]
        return [[shard] for shard in self._shards]


def code_shares(
    pictures: PictureSet,
    shards: Sequence[Shard],
    positions: Sequence[Mapping[str, Any]],
    dictionary: tuple[Float32Array, Float32Array, int],
    num_candidates: int,
) -> Part:
    """Code the shares that shards have of a batch; candidates are of the first."""
    coder = Coder.of(*dictionary)
    return add(
        [
            code_share(pictures, shard, position, coder, 0 if i > 0 else num_candidates)
            for i, (shard, position) in enumerate(zip(shards, positions, strict=True))
        ]
    )


def code_share(
    pictures: PictureSet,
    shard: Shard,
    position: Mapping[str, Any],
    coder: Coder,
    num_candidates: int,
) -> Part:
    """Code a shard's share of a batch, or as many patches as it has."""
    corpus = reader_of(pictures).shard(shard, position)
    patches = corpus.next_batch(min(shard.share, corpus.window_size))
    usable = usable_patches(patches)
    return Part(
        coder(usable),
        len(patches) - len(usable),
        {shard.number: corpus.state()},
        usable[:num_candidates].copy(),
    )


def add(parts: Sequence[Part]) -> Part:
    """Add parts in their order."""
    return Part(
        reduce(Statistics.merge, (part.statistics for part in parts)),
        sum(part.num_skipped for part in parts),
        {number: place for part in parts for number, place in part.positions.items()},
        np.concatenate([part.candidates for part in parts]),
    )
