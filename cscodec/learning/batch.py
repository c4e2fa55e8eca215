"""Batch methods of learning, called on one random set of patches with the options of a run."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from cscodec.errors import InvalidInputError
from cscodec.learning.corpus import Corpus
from cscodec.learning.options import TrainingOptions
from cscodec.learning.rivals import (
    NUM_PATCHES,
    LearnedSystem,
    Sizes,
    learn,
    parameter_names,
)
from cscodec.transform.patches import remove_mean

#: Parameters of methods that are options of every run, where a method has them.
_COMMON = {"gamma", "iterations", "seed"}
_GIVEN = {"validation_patches", "observer"}


def learn_from_batch(
    options: TrainingOptions, corpus: Corpus, validation_patches: npt.ArrayLike
) -> LearnedSystem:
    """Run the method that ``options`` names.

    Parameters
    ----------
    options : TrainingOptions
    corpus : Corpus
        Gives as many patches as the options say, or as the method is usually given, or as it has.
    validation_patches : array_like, (n, 64)
        For the methods that choose a parameter by validation.

    Raises
    ------
    InvalidInputError
        If the method has no such parameter, or cannot work with these values.
    """
    known = parameter_names(options.method)
    own = sorted(known - _COMMON - _GIVEN)
    for name in options.parameters:
        if name not in own:
            raise InvalidInputError(
                f"--method {options.method} has no parameter {name!r}; "
                f"its own are: {', '.join(own) or 'none'}"
            )
    parameters: dict[str, Any] = dict(options.parameters)
    for name in _COMMON & known:
        if getattr(options, name) is not None:
            parameters[name] = getattr(options, name)
    if "validation_patches" in known:
        parameters["validation_patches"], _ = remove_mean(validation_patches)
    wanted = options.patches or NUM_PATCHES[options.method]
    patches = corpus.next_batch(min(wanted, max(1, corpus.window_size)))
    sizes = Sizes(options.measurements, options.atoms, options.chosen_sparsity)
    return learn(options.method, patches, sizes, **parameters)
