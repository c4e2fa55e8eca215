"""Batch methods of learning, called on one random set of patches with the options of a run."""

from __future__ import annotations

import inspect
from typing import Any

import numpy.typing as npt

from cscodec.errors import InvalidInputError
from cscodec.learning.corpus import Corpus
from cscodec.learning.options import TrainingOptions
from cscodec.learning.rivals import METHODS, NUM_PATCHES, LearnedSystem
from cscodec.sensing.patches import remove_mean

#: Arguments of the methods that are options of every run, where a method has them.
_COMMON = {
    "num_measurements": "measurements",
    "num_atoms": "atoms",
    "sparsity": "sparsity",
    "gamma": "gamma",
    "iterations": "iterations",
    "seed": "seed",
}
_GIVEN = {"patches", "validation_patches", "observer"}


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
    method = METHODS[options.method]
    known = inspect.signature(method).parameters
    own = sorted(set(known) - {*_COMMON, *_GIVEN})
    for name in options.parameters:
        if name not in own:
            raise InvalidInputError(
                f"--method {options.method} has no parameter {name!r}; "
                f"its own are: {', '.join(own) or 'none'}"
            )
    arguments: dict[str, Any] = dict(options.parameters)
    for name, option in _COMMON.items():
        if name in known and getattr(options, option) is not None:
            arguments[name] = getattr(options, option)
    if "validation_patches" in known:
        arguments["validation_patches"], _ = remove_mean(validation_patches)
    wanted = options.patches or NUM_PATCHES[options.method]
    patches = corpus.next_batch(min(wanted, max(1, corpus.window_size)))
    return method(patches, **arguments)
