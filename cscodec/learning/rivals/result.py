"""What every method returns, and how it is watched while it learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Observer = Callable[[int, npt.NDArray[np.float64], npt.NDArray[np.float64]], None]


class LearnedSystem(NamedTuple):
    """A sensing matrix and a dictionary that were learned together or one after the other.

    Attributes
    ----------
    sensing_matrix : ndarray, (M, 64) float64
        Φ, rows of zero mean.
    dictionary : ndarray, (64, L) float64
        Ψ, columns of unit norm and zero mean.
    history : list of dict of str to float
        One row per iteration; every row has "iteration", and "objective" where the method has one.
    """

    sensing_matrix: npt.NDArray[np.float64]
    dictionary: npt.NDArray[np.float64]
    history: list[dict[str, float]]
