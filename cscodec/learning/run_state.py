"""What a training run has learned so far, and what its checkpoint therefore keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.errors import ModelError
from cscodec.layout import PATCH_PIXELS
from cscodec.learning.corpus import START, checked_position
from cscodec.learning.online import OnlineLearner
from cscodec.learning.options import TrainingOptions
from cscodec.learning.saved import Saved
from cscodec.learning.start import learner_parameters
from cscodec.learning.systems import make_system
from cscodec.model import System


@dataclass
class Unfinished:
    """A channel that is being learned.

    Attributes
    ----------
    iteration : int
        Dictionary iterations done.
    learner : OnlineLearner
    positions : sequence of mapping
        How far each shard of the pictures has been used.
    """

    iteration: int
    learner: OnlineLearner
    positions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Matrices:
    """Φ, (M, 64) float64, and Ψ, (64, L), of a channel that has been learned."""

    sensing_matrix: npt.NDArray[Any]
    dictionary: npt.NDArray[Any]

    def system(self) -> System:
        """Make the system that they are the matrices of."""
        return make_system(self.sensing_matrix, self.dictionary)


@dataclass
class RunState:
    """What is known after a batch; all by channel but the pictures, which go by their names.

    Attributes
    ----------
    systems : dict
        Channels that are finished.
    history : dict
        Rows of iteration, psnr_db and ssim on held-out pictures.
    skipped_pictures : dict
        Why they could not be used.
    skipped_patches : dict
        How many could not.
    unfinished : Unfinished or None
        The channel that comes next, if it was begun.
    """

    systems: dict[str, Matrices] = field(default_factory=dict)
    history: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    skipped_pictures: dict[str, str] = field(default_factory=dict)
    skipped_patches: dict[str, int] = field(default_factory=dict)
    unfinished: Unfinished | None = None

    def as_mapping(self) -> dict[str, Any]:
        """Return it as a checkpoint holds it."""
        unfinished: dict[str, Any] = {}
        if self.unfinished is not None:
            unfinished = {
                "iteration": self.unfinished.iteration,
                "learner": self.unfinished.learner.state(),
                "positions": self.unfinished.positions,
            }
        return {
            "systems": {channel: vars(found) for channel, found in self.systems.items()},
            "history": self.history,
            "skipped_pictures": self.skipped_pictures,
            "skipped_patches": self.skipped_patches,
            "unfinished": unfinished,
        }

    @classmethod
    def from_mapping(cls, state: Any, options: TrainingOptions) -> RunState:
        """Inverse of :meth:`as_mapping`, for whatever a file has in its place.

        Raises
        ------
        InvalidInputError
            If it cannot be the state of a run with these options.
        """
        saved = Saved("state", state, tuple(vars(cls())))
        channels = ("luma", "chroma") if options.chroma else ("luma",)
        systems = _by_channel(saved, "systems", channels)
        history = _by_channel(saved, "history", channels)
        skipped_pictures = saved.mapping("skipped_pictures")
        skipped_patches = _by_channel(saved, "skipped_patches", channels)
        return cls(
            {channel: _matrices(systems, channel, options) for channel in systems.keys},
            {channel: _rows(history, channel) for channel in history.keys},
            {name: skipped_pictures.text(name) for name in skipped_pictures.keys},
            {channel: skipped_patches.integer(channel) for channel in skipped_patches.keys},
            _unfinished(saved, options) if saved.mapping("unfinished").keys else None,
        )


def _by_channel(saved: Saved, key: str, channels: Collection[str]) -> Saved:
    found = saved.mapping(key)
    if not set(found.keys) <= set(channels):
        saved.refuse(key, f"a mapping from {' and '.join(channels)}")
    return found


def _matrices(systems: Saved, channel: str, options: TrainingOptions) -> Matrices:
    saved = systems.mapping(channel, ("sensing_matrix", "dictionary"))
    matrices = Matrices(
        saved.array("sensing_matrix", np.float64, (options.measurements, PATCH_PIXELS)),
        saved.array("dictionary", np.float32, (PATCH_PIXELS, options.atoms)),
    )
    try:
        with np.errstate(all="ignore"):  # whatever overflows makes no system
            matrices.system()
    except ModelError as error:
        systems.refuse(channel, f"what makes a system ({error})")
    return matrices


def _rows(history: Saved, channel: str) -> list[dict[str, float]]:
    rows = history.mappings(channel, ("iteration", "psnr_db", "ssim"))
    return [
        {
            "iteration": row.integer("iteration", lowest=1),
            "psnr_db": row.number("psnr_db"),
            "ssim": row.number("ssim"),
        }
        for row in rows
    ]


def _unfinished(saved: Saved, options: TrainingOptions) -> Unfinished:
    found = saved.mapping("unfinished", ("iteration", "learner", "positions"))
    learner = OnlineLearner.from_state(found.value("learner"))
    if not learner.is_started or learner.parameters != learner_parameters(options):
        found.refuse("learner", "one that has begun with the parameters of this run")
    total = options.outer_iterations * options.dictionary_iterations
    iteration = found.integer("iteration", 1, total)
    positions = [checked_position(place) for place in found.mappings("positions", START)]
    if not 1 <= len(positions) <= options.shards:
        found.refuse("positions", f"a list of 1..{options.shards}")
    return Unfinished(iteration, learner, positions)
