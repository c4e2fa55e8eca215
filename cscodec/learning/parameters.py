"""What an online learner is asked to do: the parameters of Algorithms 1-3, and their ranges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from cscodec.errors import InvalidInputError
from cscodec.layout import MAX_ATOMS, MAX_MEASUREMENTS
from cscodec.learning.options import UPDATES
from cscodec.learning.saved import shown


@dataclass(frozen=True)
class LearnerParameters:
    """What a learner does with its patches.

    Attributes
    ----------
    num_measurements : int
        M, 1..63, without the mean.
    num_atoms : int
        L, M..4096.
    sparsity : int
        K, atoms per patch while learning, 1..M.
    gamma : float
        γ > 0, weight of the patch's own error beside that of its measurements (eq. 10).
    rho : float
        ρ >= 0: when t batches of equal size were seen, all but the last are weighted by
        (1 - 1/t)^ρ. Batches of other sizes count by their samples.
    dictionary_iterations : int, optional
        Begin a new outer iteration by itself after this many batches. Left out, the caller decides
        by calling :meth:`OnlineLearner.update_sensing_matrix`.
    update : {"exact", "printed"}
        The update of an atom: the minimiser, or the formula that the paper prints.
    replacement_share : float
        At the end of an outer iteration, atoms used less often than this share of the most used
        one's uses are replaced by random patches of the last batch.
    seed : int
        Of the random choices.

    Raises
    ------
    InvalidInputError
        If a parameter is out of range.
    """

    num_measurements: int = 20
    num_atoms: int = 256
    sparsity: int = 4
    gamma: float = 1 / 32
    rho: float = 15.0
    dictionary_iterations: int | None = None
    update: str = "exact"
    replacement_share: float = 0.005
    seed: int = 0

    def __post_init__(self) -> None:
        self._check("num_measurements", Integral, 1, MAX_MEASUREMENTS)
        self._check("num_atoms", Integral, self.num_measurements, MAX_ATOMS)
        self._check("sparsity", Integral, 1, self.num_measurements)
        self._check("gamma", Real, math.nextafter(0.0, 1.0), 1e6)
        self._check("rho", Real, 0, 1e6)
        self._check("replacement_share", Real, 0, 1)
        self._check("seed", Integral, 0, math.inf)
        if self.update not in UPDATES:
            allowed = ", ".join(UPDATES)
            raise InvalidInputError(f"update is {shown(self.update)}; allowed are {allowed}")
        if self.dictionary_iterations is not None:
            self._check("dictionary_iterations", Integral, 1, math.inf)

    def _check(self, name: str, kind: type, lowest: float, highest: float) -> None:
        value: Any = getattr(self, name)
        is_number: bool = isinstance(value, kind)
        if not (is_number and lowest <= value <= highest):
            above = f"values >= {lowest:g}" if highest == math.inf else f"{lowest:g}..{highest:g}"
            raise InvalidInputError(f"{name} is {shown(value)}; allowed are {above}")
        # NumPy's numbers become Python's, which JSON can hold.
        object.__setattr__(self, name, int(value) if kind is Integral else float(value))
