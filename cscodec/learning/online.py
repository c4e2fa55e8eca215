"""Algorithms 1-3 of the paper: Φ and Ψ learned together from batches of patches.

:class:`OnlineLearner` takes patches as they come. Each batch is sparse-coded, its sufficient
statistics are folded into the running ones, and one pass over the atoms follows. From time to time
the sensing matrix is designed anew and the statistics start again. The printed atom update lacks a
factor; docs/algorithm.md derives the one used here.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.errors import InvalidInputError
from cscodec.learning.running import RunningStatistics
from cscodec.learning.statistics import Coder
from cscodec.learning.usable import distinct_rows, usable_patches
from cscodec.model import MAX_ATOMS, MAX_MEASUREMENTS
from cscodec.sensing.design import design_sensing_matrix
from cscodec.sensing.patches import PATCH_PIXELS

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]


class OnlineLearner:
    """Learns a sensing matrix and a dictionary from a stream of patches.

    Parameters
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
        by calling :meth:`update_sensing_matrix`.
    replacement_share : float
        At the end of an outer iteration, atoms used less often than this share of the most used
        one's uses are replaced by random patches of the last batch.
    dictionary : array_like, (64, L), optional
        Initial Ψ; random patches of the first that arrive by default.
    seed : int
        Of the random choices.

    Raises
    ------
    InvalidInputError
        If a parameter is out of range.
    """

    def __init__(
        self,
        *,
        num_measurements: int = 20,
        num_atoms: int = 256,
        sparsity: int = 4,
        gamma: float = 1 / 32,
        rho: float = 15.0,
        dictionary_iterations: int | None = None,
        replacement_share: float = 0.005,
        dictionary: npt.ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        _check_range("num_measurements", num_measurements, 1, MAX_MEASUREMENTS)
        _check_range("num_atoms", num_atoms, num_measurements, MAX_ATOMS)
        _check_range("sparsity", sparsity, 1, num_measurements)
        _check_range("gamma", gamma, np.nextafter(0.0, 1.0), 1e6)
        _check_range("rho", rho, 0, 1e6)
        _check_range("replacement_share", replacement_share, 0, 1)
        if dictionary_iterations is not None:
            _check_range("dictionary_iterations", dictionary_iterations, 1, np.inf)
        self._parameters: dict[str, Any] = {
            "num_measurements": int(num_measurements),
            "num_atoms": int(num_atoms),
            "sparsity": int(sparsity),
            "gamma": float(gamma),
            "rho": float(rho),
            "dictionary_iterations": dictionary_iterations,
            "replacement_share": float(replacement_share),
            "seed": int(seed),
        }
        self._random = np.random.default_rng(seed)
        self._pending = np.empty((0, PATCH_PIXELS), np.float32)
        self._recent = self._pending
        self._atoms: Float32Array | None = None
        self._sensing_matrix = np.empty((num_measurements, PATCH_PIXELS))
        self._metric = np.empty((PATCH_PIXELS, PATCH_PIXELS), np.float32)
        self._num_skipped = 0
        self._num_replaced = 0
        self._forget()
        if dictionary is not None:
            self._start(np.asarray(dictionary, np.float64).T)

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's keyword parameters, JSON-able."""
        return dict(self._parameters)

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
        return design_sensing_matrix(self.dictionary, self._parameters["num_measurements"])

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
            if len(batch) < self._parameters["num_atoms"]:
                self._pending = batch
                return self
            chosen = self._random.permutation(len(batch))[: self._parameters["num_atoms"]]
            self._start(batch[chosen])
        if len(batch) == 0:
            return self
        iterations = self._parameters["dictionary_iterations"]
        if iterations is not None and self.iteration >= iterations:
            self.update_sensing_matrix()
        self._statistics.add(batch, self._coder(), executor, workers)
        update_atoms(self._started_atoms(), self._statistics.A, self._statistics.B)
        self._recent = batch[: self._parameters["num_atoms"]].copy()
        return self

    def update_sensing_matrix(self, *, forget: bool = True) -> None:
        """Begin an outer iteration of Algorithm 1: Φ = φ(Ψ), t = 1, A = B = 0.

        Atoms that were seldom used in the last one are replaced first.

        Parameters
        ----------
        forget : bool
            With False, t, A and B go on as they are, unlike in the paper; no atoms are replaced.

        Raises
        ------
        InvalidInputError
            If no dictionary exists yet.
        """
        if forget:
            self._replace_seldom_used()
        self._sensing_matrix = self.sensing_matrix
        phi = self._sensing_matrix
        weight = self._parameters["gamma"] * np.eye(PATCH_PIXELS) + phi.T @ phi
        self._metric = np.ascontiguousarray(weight, np.float32)
        if forget:
            self._forget()

    def state(self) -> dict[str, Any]:
        """Everything that a resumed run needs: arrays, and values that JSON can hold."""
        atoms = np.empty((0, PATCH_PIXELS), np.float32) if self._atoms is None else self._atoms
        return {
            "parameters": dict(self._parameters),
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
            learner = cls(**state["parameters"])
            learner._random.bit_generator.state = state["random"]
            learner._num_skipped = int(state["num_skipped"])
            learner._num_replaced = int(state["num_replaced"])
            num_atoms = learner._parameters["num_atoms"]
            atoms = np.array(state["atoms"], np.float32)
            if len(atoms):
                learner._atoms = atoms.reshape(num_atoms, PATCH_PIXELS)
            learner._pending = np.array(state["pending"], np.float32).reshape(-1, PATCH_PIXELS)
            learner._recent = np.array(state["recent"], np.float32).reshape(-1, PATCH_PIXELS)
            learner._sensing_matrix = np.array(state["sensing_matrix"]).reshape(-1, PATCH_PIXELS)
            learner._metric = np.array(state["metric"], np.float32).reshape(-1, PATCH_PIXELS)
            learner._statistics.restore(state)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(f"not the state of a learner: {error}") from error
        return learner

    def _started_atoms(self) -> Float32Array:
        if self._atoms is None:
            raise InvalidInputError(
                f"no dictionary yet: {len(self._pending)} usable patches have come, "
                f"{self._parameters['num_atoms']} are needed"
            )
        return self._atoms

    def _start(self, atoms: npt.NDArray[Any]) -> None:
        if atoms.shape != (self._parameters["num_atoms"], PATCH_PIXELS):
            raise InvalidInputError(
                f"dictionary has shape {atoms.T.shape}; allowed is "
                f"({PATCH_PIXELS}, {self._parameters['num_atoms']})"
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
        self._statistics = RunningStatistics(self._parameters["num_atoms"], self._parameters["rho"])

    def _coder(self) -> Coder:
        from cscodec.learning import _online

        atoms = self._started_atoms()
        num_atoms, num_pixels = atoms.shape
        columns, projector = np.empty((2, num_pixels, num_atoms), np.float32)
        gram = np.empty((num_atoms, num_atoms), np.float32)
        _online.weigh_atoms(atoms, self._metric, columns, projector, gram)
        return Coder(projector, gram, self._parameters["sparsity"])

    def _replace_seldom_used(self) -> None:
        atoms = self._started_atoms()
        usage = self.usage
        seldom = np.flatnonzero(usage < self._parameters["replacement_share"] * usage.max())
        seldom = seldom[: len(self._recent)]
        if len(seldom) == 0:
            return
        chosen = self._random.permutation(len(self._recent))[: len(seldom)]
        patches = self._recent[chosen].astype(np.float64)
        atoms[seldom] = patches / np.linalg.norm(patches, axis=1, keepdims=True)
        self._num_replaced += len(seldom)


def update_atoms(atoms: Float32Array, a: Float64Array, b: Float64Array) -> None:
    """Make one pass of Algorithm 2, with its erratum mended, in place.

    Parameters
    ----------
    atoms : ndarray, (L, 64) float32
        Ψᵀ.
    a, b : ndarray, (L, L) and (L, 64) float64
        A and Bᵀ.
    """
    from cscodec.learning import _online

    num_atoms, num_pixels = atoms.shape
    _online.update_atoms(
        atoms,
        a,
        b,
        np.zeros((_online.BLOCK, num_atoms), np.float32),
        np.empty((_online.BLOCK, num_pixels), np.float32),
        np.empty((_online.BLOCK, num_pixels), np.float32),
        np.empty(num_pixels, np.float32),
    )


def _check_range(name: str, value: float, lowest: float, highest: float) -> None:
    if not lowest <= value <= highest:
        above = f"values >= {lowest:g}" if highest == np.inf else f"{lowest:g}..{highest:g}"
        raise InvalidInputError(f"{name} is {value}; allowed are {above}")
