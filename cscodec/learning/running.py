"""The running statistics of Algorithm 3: sums over all batches so far, older ones forgotten.

Only ratios within the sums matter. So instead of shrinking what is known by (1 - 1/t)^ρ after every
batch, as the paper writes it, what is new is enlarged, until numbers get too large.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array, Float64Array
from cscodec.layout import PATCH_PIXELS
from cscodec.learning.saved import Saved
from cscodec.learning.statistics import Coder, Statistics
from cscodec.parallel import parallel_map

#: Patches per piece of work; fixed, as it determines the order of all sums.
_CHUNK = 1024
_LARGEST_WEIGHT = 1e100


class RunningStatistics:
    """A, B and uses of atoms, batch by batch.

    Parameters
    ----------
    num_atoms : int
        L.
    rho : float
        ρ of the forgetting factor. t is counted in samples, so that batches may differ in size.

    Attributes
    ----------
    A : ndarray, (L, L) float64
        Σθθᵀ, up to a factor common to all sums.
    B : ndarray, (L, 64) float64
        Σθxᵀ, up to the same factor: the transpose of the paper's.
    iteration : int
        Batches added.
    num_samples : int
        Patches added.
    """

    def __init__(self, num_atoms: int, rho: float) -> None:
        self.A = np.zeros((num_atoms, num_atoms))
        self.B = np.zeros((num_atoms, PATCH_PIXELS))
        self.iteration = 0
        self.num_samples = 0
        self._rho = rho
        self._enlarged_usage = np.zeros(num_atoms)
        self._weight = 1.0  # of the last batch

    @property
    def usage(self) -> Float64Array:
        """How often each atom was used, older uses forgotten, (L,) float64."""
        return self._enlarged_usage / self._weight

    def add(
        self, patches: Float32Array, coder: Coder, executor: Executor | None, workers: int
    ) -> None:
        """Code a batch of zero-mean patches, (n, 64), and add its sums; the result is the same
        whoever works."""
        weight = self._next_weight(len(patches))
        self.iteration += 1
        if len(patches) <= _CHUNK:
            coder.accumulate(patches, weight, self.A, self.B, self._enlarged_usage)
            return
        chunks = [patches[first : first + _CHUNK] for first in range(0, len(patches), _CHUNK)]
        for part in parallel_map(coder, chunks, workers, executor):
            self._add(weight, part)

    def add_sums(self, sums: Statistics) -> None:
        """Add the sums over a batch that was coded elsewhere."""
        self.iteration += 1
        self._add(self._next_weight(sums.num_samples), sums)

    def _add(self, weight: float, sums: Statistics) -> None:
        self.A += weight * sums.A
        self.B += weight * sums.B.T
        self._enlarged_usage += weight * sums.usage

    def forget_atoms(self, atoms: npt.NDArray[np.integer]) -> None:
        """Forget what is known of some atoms, which are others now."""
        self.A[atoms] = 0
        self.A[:, atoms] = 0
        self.B[atoms] = 0
        self._enlarged_usage[atoms] = 0

    def _next_weight(self, num_new: int) -> float:
        self.num_samples += num_new
        kept = (1 - num_new / self.num_samples) ** self._rho
        weight = self._weight / kept if kept > 0 else np.inf
        if weight > _LARGEST_WEIGHT:
            for sums in (self.A, self.B, self._enlarged_usage):
                sums *= kept / self._weight
            weight = 1.0
        self._weight = weight
        return weight

    def state(self) -> dict[str, Any]:
        """Everything that a resumed run needs: arrays, and values that JSON can hold."""
        return {
            "iteration": self.iteration,
            "num_samples": self.num_samples,
            "A": self.A.copy(),
            "B": self.B.copy(),
            "usage": np.append(self._enlarged_usage, self._weight),
        }

    def restore(self, saved: Saved) -> None:
        """Go on bit for bit where :meth:`state` was taken, with as many atoms and the same ρ.

        Raises
        ------
        InvalidInputError
            If an entry does not fit.
        """
        num_atoms = len(self.A)
        self.iteration, self.num_samples = saved.integer("iteration"), saved.integer("num_samples")
        self.A = saved.array("A", np.float64, (num_atoms, num_atoms))
        self.B = saved.array("B", np.float64, (num_atoms, PATCH_PIXELS))
        usage = saved.array("usage", np.float64, (num_atoms + 1,))
        if usage.min() < 0 or not 1 <= usage[-1] <= _LARGEST_WEIGHT:
            saved.refuse("usage", f"values >= 0, the last in 1..{_LARGEST_WEIGHT:g}")
        self._enlarged_usage, self._weight = usage[:-1].copy(), float(usage[-1])
