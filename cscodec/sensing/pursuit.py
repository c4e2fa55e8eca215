"""Orthogonal Matching Pursuit: signals as sums of few atoms of a dictionary.

Three forms of one algorithm: :func:`omp` on signals, :func:`omp_gram` on correlations and a Gram
matrix (Batch-OMP; also for weighted or stacked systems), and :func:`omp_reference`, which is slow
and meant to be read. Atoms need not have unit norm: the next atom is the one with the highest
``|<residual, atom>| / ||atom||``, and coefficients belong to the atoms as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.errors import InvalidInputError
from cscodec.kernels.pursuit import Codes, PursuitRoom, pursue_correlations
from cscodec.parallel import parallel_map
from cscodec.transform.product import multiplied

#: Signals per kernel call: their correlations with 256 atoms stay in a core's cache.
_CHUNK = 256
#: Squares of larger magnitudes do not fit in float32 with room to sum.
_LARGEST_MAGNITUDE = 1e15
#: Squared norms of atoms below this are too coarse in float32 for what is computed from them.
_LEAST_SQUARE = 1e-30
#: Atoms whose largest value is beyond 2^±20 are scaled, by a power of two, so that nothing is lost.
_MODERATE_EXPONENT = 20


@dataclass(frozen=True, eq=False)
class SparseCodes:
    """Sparse coefficients of n signals, at most K atoms each.

    Attributes
    ----------
    indices : ndarray, (n, K) int32
        Atoms in the order in which they were chosen, padded with -1.
    values : ndarray, (n, K) float32
        Their coefficients, padded with 0.
    counts : ndarray, (n,) int32
        Number of atoms of each signal.
    """

    indices: npt.NDArray[np.int32]
    values: Float32Array
    counts: npt.NDArray[np.int32]

    def to_dense(self, num_atoms: int) -> Float32Array:
        """Return Θᵀ: the coefficients as a (n, num_atoms) float32 array."""
        dense = np.zeros((len(self.indices), num_atoms), np.float32)
        rows, columns = np.nonzero(self.indices >= 0)
        dense[rows, self.indices[rows, columns]] = self.values[rows, columns]
        return dense

    def reconstruct(self, dictionary: npt.ArrayLike) -> Float32Array:
        """Return the signals that the codes stand for.

        Parameters
        ----------
        dictionary : array_like, (N, L)
            Any dictionary with as many atoms as the one that the codes were made with.

        Returns
        -------
        ndarray, (n, N) float32
        """
        atoms = np.ascontiguousarray(np.asarray(dictionary, np.float32).T)
        signals = np.zeros((len(self.indices), atoms.shape[1]), np.float32)
        for k in range(self.indices.shape[1]):
            signals += self.values[:, k, None] * atoms[self.indices[:, k]]
        return signals


def omp(
    signals: npt.ArrayLike,
    dictionary: npt.ArrayLike,
    *,
    sparsity: int | None = None,
    error: float | None = None,
    workers: int = 1,
) -> SparseCodes:
    """Code signals by Orthogonal Matching Pursuit.

    Parameters
    ----------
    signals : array_like, (n, N)
        One signal per row; n may be 0. Computed in float32.
    dictionary : array_like, (N, L)
        One atom per column, of any norm that a float64 can hold. Zero, duplicate and dependent
        columns are allowed: they are not chosen beside the atoms that they depend on.
    sparsity : int, optional
        K, the most atoms per signal, at least 1; values above min(N, L) act as min(N, L).
    error : float, optional
        A signal is done when its squared residual norm is at most this. At least one of
        ``sparsity`` and ``error`` is needed; with both, the first that is met stops.
    workers : int
        Threads. The result does not depend on it.

    Returns
    -------
    SparseCodes

    Raises
    ------
    InvalidInputError
        If shapes do not fit, no stopping rule is given or one is out of range, values are NaN,
        infinite or larger in magnitude than 1e15, or a coefficient, of a large signal by a small
        atom, is too large for float32.

    Notes
    -----
    A zero signal has no atoms. A signal that the dictionary represents exactly gets no more atoms
    than it takes.
    """
    atoms, exponents = _moderate(_checked("dictionary", dictionary), dictionary)
    rows = _checked("signals", signals)
    if rows.shape[1] != atoms.shape[0]:
        raise InvalidInputError(
            f"signals have {rows.shape[1]} values each, the atoms of the dictionary "
            f"{atoms.shape[0]}: they must be equal"
        )
    limit = _checked_sparsity(sparsity, error, min(atoms.shape))
    gram = multiplied(np.ascontiguousarray(atoms.T), atoms)
    energies = None if error is None else _energies(rows)

    def correlate(part: slice) -> Float32Array:
        return multiplied(rows[part], atoms)

    codes = _pursue_in_chunks(correlate, len(rows), gram, limit, energies, error, workers)
    return _scaled_back(codes, exponents) if exponents.any() else codes


def omp_gram(
    correlations: npt.ArrayLike,
    gram: npt.ArrayLike,
    *,
    sparsity: int | None = None,
    error: float | None = None,
    energies: npt.ArrayLike | None = None,
    workers: int = 1,
) -> SparseCodes:
    """Code signals that are known by their products with the atoms alone.

    Parameters
    ----------
    correlations : array_like, (n, L)
        Products of every signal with every atom.
    gram : array_like, (L, L)
        Products of the atoms with each other; the squared norms, 0 or at least 1e-30, on its
        diagonal.
    sparsity, error, workers
        As in :func:`omp`.
    energies : array_like, (n,), optional
        Squared norms of the signals; needed with ``error``.

    Returns
    -------
    SparseCodes

    Raises
    ------
    InvalidInputError
        As :func:`omp`, or if ``error`` is given without ``energies``.
    """
    products = _checked("gram", gram)
    rows = _checked("correlations", correlations)
    num_atoms = len(products)
    if products.shape != (num_atoms, num_atoms) or rows.shape[1] != num_atoms:
        raise InvalidInputError(
            f"gram has shape {products.shape} and correlations {rows.shape}; "
            "allowed are (L, L) and (n, L)"
        )
    squared_norms = np.diagonal(np.asarray(gram, np.float64))
    if np.any((squared_norms > 0) & (squared_norms < _LEAST_SQUARE)):
        raise InvalidInputError(
            f"gram holds squared norms below {_LEAST_SQUARE:g}: scale the atoms up"
        )
    limit = _checked_sparsity(sparsity, error, num_atoms)
    squares = None
    if error is not None:
        if energies is None:
            raise InvalidInputError("error is given without energies: give the squared norms too")
        squares = np.ascontiguousarray(energies, np.float64)
        if squares.shape != (len(rows),) or not np.isfinite(squares).all():
            raise InvalidInputError(
                f"energies have shape {squares.shape}; allowed are ({len(rows)},) finite values"
            )

    return _pursue_in_chunks(rows.__getitem__, len(rows), products, limit, squares, error, workers)


def omp_reference(
    signals: npt.ArrayLike,
    dictionary: npt.ArrayLike,
    *,
    sparsity: int | None = None,
    error: float | None = None,
) -> SparseCodes:
    """Do what :func:`omp` does, plainly, in float64: for tests and for reading.

    Parameters, result and errors are those of :func:`omp`.
    """
    atoms = np.asarray(dictionary, np.float64)
    rows = np.asarray(signals, np.float64)
    limit = _checked_sparsity(sparsity, error, min(atoms.shape))
    norms = np.linalg.norm(atoms, axis=0)
    indices = np.full((len(rows), limit), -1, np.int32)
    values = np.zeros((len(rows), limit), np.float32)
    counts = np.zeros(len(rows), np.int32)
    for n, signal in enumerate(rows):
        chosen: list[int] = []
        coefficients = np.zeros(0)
        residual = signal
        allowed = norms > 0
        floor: float | None = None
        while len(chosen) < limit and (error is None or residual @ residual > error):
            scores = np.zeros(len(norms))
            np.divide(np.abs(residual @ atoms), norms, out=scores, where=allowed)
            atom = int(np.argmax(scores))
            floor = 1e-6 * scores[atom] if floor is None else floor
            if scores[atom] <= floor:
                break
            allowed[atom] = False
            outside = atoms[:, atom]
            if chosen:
                span = atoms[:, chosen]
                outside = outside - span @ np.linalg.lstsq(span, outside, rcond=None)[0]
            if outside @ outside <= 1e-5 * norms[atom] ** 2:
                continue
            chosen.append(atom)
            coefficients = np.linalg.lstsq(atoms[:, chosen], signal, rcond=None)[0]
            residual = signal - atoms[:, chosen] @ coefficients
        counts[n] = len(chosen)
        indices[n, : len(chosen)] = chosen
        values[n, : len(chosen)] = coefficients
    return SparseCodes(indices, values, counts)


def pursue_unchecked(
    correlations: Float32Array,
    gram: Float32Array,
    limit: int,
    energies: npt.NDArray[np.float64] | None = None,
    error: float = 0.0,
) -> SparseCodes:
    """Do what :func:`omp_gram` does for arguments that are known to be good.

    Parameters
    ----------
    correlations : ndarray, (n, L) float32, C-contiguous
    gram : ndarray, (L, L) float32, C-contiguous
    limit : int
        Most atoms per signal, 1..L.
    energies : ndarray, (n,) float64, optional
        Squared norms of the signals; without, ``error`` is not looked at.
    error : float
    """
    num_signals, num_atoms = correlations.shape
    codes = Codes(
        np.full((num_signals, limit), -1, np.int32),
        np.zeros((num_signals, limit), np.float32),
        np.zeros(num_signals, np.int32),
    )
    squares = np.full(num_signals, np.inf) if energies is None else energies
    room = PursuitRoom.of(num_atoms, limit)
    pursue_correlations(correlations, gram, squares, error, room, codes)
    return SparseCodes(*codes)


def _pursue_in_chunks(
    correlate: Callable[[slice], Float32Array],
    num_signals: int,
    gram: Float32Array,
    limit: int,
    energies: npt.NDArray[np.float64] | None,
    error: float | None,
    workers: int,
) -> SparseCodes:
    def code(first: int) -> SparseCodes:
        part = slice(first, first + _CHUNK)
        squares = None if energies is None else energies[part]
        return pursue_unchecked(correlate(part), gram, limit, squares, error or 0.0)

    parts = list(parallel_map(code, range(0, max(num_signals, 1), _CHUNK), workers))
    if len(parts) == 1:
        return parts[0]
    return SparseCodes(
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )


def _moderate(
    atoms: Float32Array, given: npt.ArrayLike
) -> tuple[Float32Array, npt.NDArray[np.int32]]:
    """Return the columns times powers of two that make them moderate, and those powers' exponents.

    ``given`` is what ``atoms`` was rounded from: in float32, small values are coarse, or zero.
    """
    values = np.asarray(given, np.float64)
    exponents = -np.frexp(np.abs(values).max(axis=0, initial=0))[1]
    exponents[np.abs(exponents) <= _MODERATE_EXPONENT] = 0
    if exponents.any():
        atoms = np.ldexp(values, exponents).astype(np.float32)
    return atoms, exponents


def _scaled_back(codes: SparseCodes, exponents: npt.NDArray[np.int32]) -> SparseCodes:
    """Return the coefficients of the atoms as they were before they were scaled."""
    with np.errstate(over="ignore"):  # refused below
        values = np.ldexp(codes.values, exponents[codes.indices])
    if not np.isfinite(values).all():
        raise InvalidInputError(
            "coefficients are too large for float32: scale the atoms up or the signals down"
        )
    return SparseCodes(codes.indices, values, codes.counts)


def _energies(rows: Float32Array) -> npt.NDArray[np.float64]:
    energies: npt.NDArray[np.float64] = np.square(rows, dtype=np.float64).sum(axis=1)
    return energies


def _checked(name: str, values: npt.ArrayLike) -> Float32Array:
    with np.errstate(over="ignore"):  # infinity is refused below
        array = np.ascontiguousarray(values, np.float32)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidInputError(f"{name} has shape {array.shape}; allowed is a matrix")
    # min and max carry NaN, which fails both comparisons.
    if array.size and not (
        array.min() >= -_LARGEST_MAGNITUDE and array.max() <= _LARGEST_MAGNITUDE
    ):
        raise InvalidInputError(
            f"{name} holds NaN, infinity or magnitudes above {_LARGEST_MAGNITUDE:g}"
        )
    return array


def _checked_sparsity(sparsity: int | None, error: float | None, highest: int) -> int:
    if sparsity is None and error is None:
        raise InvalidInputError("neither sparsity nor error is given: one of them must stop OMP")
    if error is not None and not error >= 0:
        raise InvalidInputError(f"error is {error}; allowed are values >= 0")
    if sparsity is None:
        return highest
    if sparsity < 1:
        raise InvalidInputError(f"sparsity is {sparsity}; allowed are values >= 1")
    return min(sparsity, highest)
