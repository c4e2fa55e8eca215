"""How a training run begins: a learner with a first dictionary."""

from __future__ import annotations

from cscodec.errors import InvalidInputError
from cscodec.learning.corpus import Corpus
from cscodec.learning.online import LearnerParameters, OnlineLearner
from cscodec.learning.options import GAMMAS, TrainingOptions

_START_PATCHES = 8  # per atom, to choose the first dictionary from
_MAX_START_BATCHES = 100


def learner_parameters(options: TrainingOptions) -> LearnerParameters:
    """Return what a run with these options asks of its learner."""
    return LearnerParameters(
        num_measurements=options.measurements,
        num_atoms=options.atoms,
        sparsity=options.chosen_sparsity,
        gamma=GAMMAS["online"] if options.gamma is None else options.gamma,
        rho=options.rho,
        update=options.update,
        seed=options.seed,
    )


def start_learner(options: TrainingOptions, corpus: Corpus) -> OnlineLearner:
    """Make a learner and give it the patches that its first dictionary is drawn from.

    Raises
    ------
    InvalidInputError
        If the pictures do not hold enough usable patches.
    """
    learner = OnlineLearner(learner_parameters(options))
    size = max(options.batch_size, min(_START_PATCHES * options.atoms, corpus.window_size))
    for _ in range(_MAX_START_BATCHES):
        learner.partial_fit(corpus.next_batch(size))
        if learner.is_started:
            return learner
        if corpus.window_size < options.atoms:
            raise InvalidInputError(
                f"the pictures hold {corpus.window_size} patches, fewer than --atoms "
                f"{options.atoms}; add pictures or lower --atoms"
            )
    raise InvalidInputError(
        f"{learner.num_skipped} patches were constant or repeated and fewer than --atoms "
        f"{options.atoms} can be used; train on pictures with some texture"
    )
