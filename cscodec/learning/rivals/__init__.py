"""The systems that the paper compares itself with, under one interface.

Every method takes zero-mean training patches as rows and returns a :class:`LearnedSystem`; Φ and Ψ
make a model through :meth:`cscodec.model.System.from_matrices`. Sources and choices are in
docs/paper.md.
"""

from __future__ import annotations

from collections.abc import Callable

from cscodec.learning.rivals.bl import learn_bl
from cscodec.learning.rivals.result import LearnedSystem, Observer
from cscodec.learning.rivals.robust import learn_robust
from cscodec.learning.rivals.s_dcs import learn_s_dcs
from cscodec.learning.rivals.separate import learn_ksvd, learn_mod, learn_pca, learn_random

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

__all__ = ["METHODS", "NUM_PATCHES", "LearnedSystem", "Observer"]
