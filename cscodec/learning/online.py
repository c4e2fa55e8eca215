"""Algorithms 1-3 of the paper: Φ and Ψ learned together from batches of patches.

:class:`OnlineLearner` takes patches as they come. Each batch is sparse-coded, its sufficient
statistics are folded into the running ones, and one pass over the atoms follows. From time to time
the sensing matrix is designed anew, and the statistics start again or go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array, Float64Array
from cscodec.errors import InvalidInputError
from cscodec.layout import PATCH_PIXELS
from cscodec.learning.atoms import UNDAMPED, damping_of_printed_update, update_atoms
from cscodec.learning.parameters import LearnerParameters
from cscodec.learning.running import RunningStatistics
from cscodec.learning.saved import Saved
from cscodec.learning.statistics import Coder, Statistics
from cscodec.learning.usable import distinct_rows, usable_patches, vary
from cscodec.sensing.design import design_sensing_matrix

__all__ = ["LearnerParameters", "OnlineLearner"]


class OnlineLearner:
    """Learns a sensing matrix and a dictionary from a stream of patches.

    Parameters
    ----------
    parameters : LearnerParameters, optional
        The paper's by default.
    dictionary : array_like, (64, L), optional
        Initial Ψ; random patches of the first that arrive by default.

    Attributes
    ----------
    parameters : LearnerParameters

    Raises
    ------
    InvalidInputError
        If the dictionary does not fit.
    """

    def __init__(
        self,
        parameters: LearnerParameters | None = None,
        *,
        dictionary: npt.ArrayLike | None = None,
    ) -> None:
        self.parameters = parameters or LearnerParameters()
        self._random = np.random.default_rng(self.parameters.seed)
        self._pending = np.empty((0, PATCH_PIXELS), np.float32)
        self._recent = self._pending
        self._atoms: Float32Array | None = None
        self._sensing_matrix = np.zeros((self.parameters.num_measurements, PATCH_PIXELS))
        self._metric = np.zeros((PATCH_PIXELS, PATCH_PIXELS), np.float32)
        self._damping = UNDAMPED
        self._num_skipped = 0
        self._num_replaced = 0
        self._forget()
        if dictionary is not None:
            self._start(np.asarray(dictionary, np.float64).T)

    @property
    def is_started(self) -> bool:
        """Whether enough patches have come for an initial dictionary."""
        return self._atoms is not None

    @property
    def dictionary(self) -> Float32Array:
        """Ψ, (64, L) float32, columns of unit norm: a copy."""
        return np.ascontiguousarray(self._started_atoms().T)

    @property
    def sensing_matrix(self) -> Float64Array:
        """φ(Ψ) of the present dictionary, (M, 64) float64."""
        return design_sensing_matrix(self.dictionary, self.parameters.num_measurements)

    @property
    def iteration(self) -> int:
        """Batches since the sensing matrix was designed last (t)."""
        return self._statistics.iteration

    @property
    def usage(self) -> Float64Array:
        """How often each atom was used, older uses forgotten as ρ says, (L,) float64."""
        return self._statistics.usage

    @property
    def num_samples(self) -> int:
        """Patches used since the sensing matrix was designed last."""
        return self._statistics.num_samples

    @property
    def num_skipped(self) -> int:
        """Patches passed over: constant, repeated in their batch, not finite, or varying by 1e6."""
        return self._num_skipped

    @property
    def num_replaced(self) -> int:
        """Atoms replaced by patches because they were seldom used."""
        return self._num_replaced

    def partial_fit(
        self, patches: npt.ArrayLike, *, executor: Executor | None = None, workers: int = 1
    ) -> OnlineLearner:
        """Learn from one batch (one iteration t of Algorithm 3).

        Parameters
        ----------
        patches : array_like, (n, 64)
            Any number of patches, with or without their means, which are removed. Until as many
            as atoms have come, patches are only collected; the first dictionary is drawn from
            them, so a first batch of several times L is best.
        executor : concurrent.futures.Executor, optional
            Where to code pieces of 1024 patches; processes serve as well as threads.
        workers : int
            Threads to use where no executor is given. The result depends on neither.

        Returns
        -------
        OnlineLearner
            Itself.

        Raises
        ------
        InvalidInputError
            If ``patches`` does not have shape (n, 64).
        """
        batch = usable_patches(patches)
        self._num_skipped += len(np.asarray(patches)) - len(batch)
        if self._atoms is None:
            batch = self._collected(batch)
            if len(batch) < self.parameters.num_atoms:
                self._pending = batch
                return self
            chosen = self._random.permutation(len(batch))[: self.parameters.num_atoms]
            self._start(batch[chosen])
        if len(batch) == 0:
            return self
        iterations = self.parameters.dictionary_iterations
        if iterations is not None and self.iteration >= iterations:
            self.update_sensing_matrix()
        self._statistics.add(batch, self._coder(), executor, workers)
        self._update_atoms()
        self._recent = batch[: self.parameters.num_atoms].copy()
        return self

    @property
    def coder_inputs(self) -> tuple[Float32Array, Float32Array, int]:
        """Ψᵀ, W and K, of which :meth:`Coder.of` makes what codes the next batch."""
        return self._started_atoms(), self._metric, self.parameters.sparsity

    def absorb(
        self, statistics: Statistics, candidates: Float32Array, *, num_skipped: int = 0
    ) -> None:
        """Learn from one batch that was coded elsewhere by what `coder_inputs` makes.

        Parameters
        ----------
        statistics : Statistics
            Sums over the batch; without patches, nothing is learned.
        candidates : ndarray, (n, 64) float32
            Zero-mean patches of it that may take the place of seldom used atoms.
        num_skipped : int
            Patches of it that were passed over.
        """
        self._num_skipped += num_skipped
        if statistics.num_samples == 0:
            return
        self._statistics.add_sums(statistics)
        self._update_atoms()
        self._recent = candidates[: self.parameters.num_atoms]

    def update_sensing_matrix(self, *, forget: bool = True) -> None:
        """Begin an outer iteration of Algorithm 1: Φ = φ(Ψ), t = 1, A = B = 0.

        Atoms that were seldom used in the last one are replaced first.

        Parameters
        ----------
        forget : bool
            With False, t, A and B go on, unlike in the paper, but for what they hold of replaced
            atoms.

        Raises
        ------
        InvalidInputError
            If no dictionary exists yet.
        """
        self._replace_seldom_used()
        self._sensing_matrix = self.sensing_matrix
        phi = self._sensing_matrix
        weight = self.parameters.gamma * np.eye(PATCH_PIXELS) + phi.T @ phi
        self._metric = np.ascontiguousarray(weight, np.float32)
        self._prepare_update()
        if forget:
            self._forget()

    def state(self) -> dict[str, Any]:
        """Everything that a resumed run needs: arrays, and values that JSON can hold."""
        atoms = np.empty((0, PATCH_PIXELS), np.float32) if self._atoms is None else self._atoms
        return {
            "parameters": asdict(self.parameters),
            "random": self._random.bit_generator.state,
            "num_skipped": self._num_skipped,
            "num_replaced": self._num_replaced,
            "atoms": atoms.copy(),
            "pending": self._pending.copy(),
            "recent": self._recent.copy(),
            "sensing_matrix": self._sensing_matrix.copy(),
            "metric": self._metric.copy(),
            **self._statistics.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> OnlineLearner:
        """Inverse of :meth:`state`: a learner that goes on bit for bit where the other stood.

        Raises
        ------
        InvalidInputError
            If an entry is missing or does not fit the parameters.
        """
        try:
            saved = Saved("state", state)
            names = [field.name for field in fields(LearnerParameters)]
            parameters = saved.mapping("parameters", names)
            learner = cls(LearnerParameters(**{name: parameters.value(name) for name in names}))
            learner._restore(saved)
        except InvalidInputError as error:
            raise InvalidInputError(f"not the state of a learner: {error}") from error
        return learner

    def _restore(self, saved: Saved) -> None:
        num_atoms = self.parameters.num_atoms
        self._random.bit_generator.state = saved.mapping("random").generator_state()
        self._num_skipped = saved.integer("num_skipped")
        self._num_replaced = saved.integer("num_replaced")
        atoms = saved.array("atoms", np.float32, (None, PATCH_PIXELS))
        norms = np.linalg.norm(atoms.astype(np.float64), axis=1)
        if len(atoms) not in (0, num_atoms) or np.any(np.abs(norms - 1) > 1e-3):
            saved.refuse("atoms", f"none, or {num_atoms} rows of unit norm")
        self._atoms = atoms if len(atoms) else None
        self._pending = saved.array("pending", np.float32, (None, PATCH_PIXELS))
        self._recent = saved.array("recent", np.float32, (None, PATCH_PIXELS))
        for name, rows in (("pending", self._pending), ("recent", self._recent)):
            if len(rows) > num_atoms or not vary(rows).all():
                saved.refuse(name, f"at most {num_atoms} rows that vary")
        shape = self.parameters.num_measurements, PATCH_PIXELS
        self._sensing_matrix = saved.array("sensing_matrix", np.float64, shape)
        self._metric = saved.array("metric", np.float32, (PATCH_PIXELS, PATCH_PIXELS))
        self._prepare_update()
        self._statistics.restore(saved)

    def _update_atoms(self) -> None:
        sums = self._statistics
        update_atoms(self._started_atoms(), sums.A, sums.B, self._damping)

    def _prepare_update(self) -> None:
        if self.parameters.update == "printed":
            gamma = self.parameters.gamma
            self._damping = damping_of_printed_update(self._sensing_matrix, gamma)

    def _started_atoms(self) -> Float32Array:
        if self._atoms is None:
            raise InvalidInputError(
                f"no dictionary yet: {len(self._pending)} usable patches have come, "
                f"{self.parameters.num_atoms} are needed"
            )
        return self._atoms

    def _start(self, atoms: npt.NDArray[Any]) -> None:
        if atoms.shape != (self.parameters.num_atoms, PATCH_PIXELS):
            raise InvalidInputError(
                f"dictionary has shape {atoms.T.shape}; allowed is "
                f"({PATCH_PIXELS}, {self.parameters.num_atoms})"
            )
        norms = np.linalg.norm(atoms.astype(np.float64), axis=1, keepdims=True)
        if not (np.isfinite(norms).all() and norms.min() > 0):
            raise InvalidInputError("dictionary holds zero columns, NaN or infinity")
        self._atoms = np.ascontiguousarray(atoms / norms, np.float32)
        self.update_sensing_matrix()

    def _collected(self, batch: Float32Array) -> Float32Array:
        together = np.concatenate([self._pending, batch])
        distinct = distinct_rows(together)
        self._num_skipped += len(together) - len(distinct)
        self._pending = self._pending[:0]
        return distinct

    def _forget(self) -> None:
        self._statistics = RunningStatistics(self.parameters.num_atoms, self.parameters.rho)

    def _coder(self) -> Coder:
        return Coder.of(*self.coder_inputs)

    def _replace_seldom_used(self) -> None:
        atoms = self._started_atoms()
        usage = self.usage
        seldom = np.flatnonzero(usage < self.parameters.replacement_share * usage.max())
        seldom = seldom[: len(self._recent)]
        if len(seldom) == 0:
            return
        chosen = self._random.permutation(len(self._recent))[: len(seldom)]
        patches = self._recent[chosen].astype(np.float64)
        atoms[seldom] = patches / np.linalg.norm(patches, axis=1, keepdims=True)
        self._statistics.forget_atoms(seldom)  # or the next update would bring the old ones back
        self._num_replaced += len(seldom)
