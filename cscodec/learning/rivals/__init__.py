"""The systems that the paper compares itself with, under one interface.

Every method takes zero-mean training patches as rows and :class:`Sizes`, and returns a
:class:`LearnedSystem`; Φ and Ψ make a model through :meth:`cscodec.model.System.from_matrices`.
Sources and choices are in docs/paper.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy.typing as npt

from cscodec.learning.rivals.bl import BlOptions, learn_bl
from cscodec.learning.rivals.result import LearnedSystem, Observer
from cscodec.learning.rivals.robust import learn_robust
from cscodec.learning.rivals.s_dcs import learn_s_dcs
from cscodec.learning.rivals.separate import learn_ksvd, learn_mod, learn_pca, learn_random
from cscodec.learning.rivals.training_set import Sizes

#: Methods by the names that ``cscodec train --method`` knows.
METHODS: dict[str, Callable[..., LearnedSystem]] = {
    "s-dcs": learn_s_dcs,
    "bl": learn_bl,
    "robust": learn_robust,
    "random": learn_random,
    "ksvd": learn_ksvd,
    "mod": learn_mod,
    "pca": learn_pca,
}

#: Methods that have options besides, as a record: its class.
_OPTIONS: dict[str, type[Any]] = {"bl": BlOptions}

#: Patches that each method is given unless told otherwise. Batch methods sweep all of them in every
#: round: the first two are the paper's numbers, what K-SVD and MOD get is S-DCS's.
NUM_PATCHES: dict[str, int] = {
    "s-dcs": 80_000,
    "bl": 6_000,
    "robust": 80_000,
    "random": 80_000,
    "ksvd": 80_000,
    "mod": 80_000,
    "pca": 1_000_000,
}


def learn(method: str, patches: npt.ArrayLike, sizes: Sizes, **parameters: Any) -> LearnedSystem:
    """Call a method by its name.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    patches : array_like, (num_patches, 64)
        Without their mean.
    sizes : Sizes
    **parameters
        Of :func:`parameter_names`.
    """
    if method in _OPTIONS:
        given = _option_names(method) & set(parameters)
        options = {name: parameters.pop(name) for name in given}
        parameters["options"] = _OPTIONS[method](**options)
    return METHODS[method](patches, sizes, **parameters)


def parameter_names(method: str) -> set[str]:
    """Names of what a method takes besides patches and sizes, options among them."""
    own = set(inspect.signature(METHODS[method]).parameters) - {"patches", "sizes", "options"}
    return own | _option_names(method)


def _option_names(method: str) -> set[str]:
    return {field.name for field in fields(_OPTIONS[method])} if method in _OPTIONS else set()


__all__ = [
    "METHODS",
    "NUM_PATCHES",
    "LearnedSystem",
    "Observer",
    "Sizes",
    "learn",
    "parameter_names",
]
