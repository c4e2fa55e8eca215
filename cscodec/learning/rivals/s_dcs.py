"""S-DCS: Duarte-Carvajalino & Sapiro, "Learning to sense sparse signals", IEEE TIP 2009.

Alternates one sweep over the rows of Φ, each row the leading eigenvector of what the others leave
of ΨΨᵀ, with sparse coding and coupled K-SVD for Ψ. Every step sweeps the whole training set.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from cscodec.arrays import Float64Array
from cscodec.learning.rivals.dictionary_updates import (
    error_weight,
    ksvd_update,
    objective,
    replace_weak_atoms,
    sparse_code,
)
from cscodec.learning.rivals.result import LearnedSystem, Observer
from cscodec.learning.rivals.training_set import (
    Sizes,
    check_sizes,
    dct_dictionary,
    gaussian_sensing_matrix,
    usable_patches,
)


def learn_s_dcs(
    patches: npt.ArrayLike,
    sizes: Sizes,
    *,
    gamma: float = 1 / 32,
    iterations: int = 50,
    seed: int = 0,
    observer: Observer | None = None,
) -> LearnedSystem:
    """Learn Φ and Ψ by S-DCS.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)
        Without their mean.
    sizes : Sizes
    gamma : float
        Weight of the representation error beside the projected one (α in their paper).
    iterations : int
        Rounds of: sweep over Φ, sparse coding, K-SVD.
    seed : int
        Of the first Φ and of the order of the atoms.
    observer : callable, optional
        Called as ``observer(iteration, sensing_matrix, dictionary)`` after every round.

    Returns
    -------
    LearnedSystem
        History rows: iteration, objective σ per patch after the round.

    Raises
    ------
    InvalidInputError
        If sizes or patches cannot work.
    """
    samples, _ = usable_patches(patches)
    check_sizes(samples, sizes)
    rng = np.random.default_rng(seed)
    sensing_matrix = gaussian_sensing_matrix(sizes.num_measurements, rng)
    dictionary = dct_dictionary(sizes.num_atoms)
    history = []
    for iteration in range(1, iterations + 1):
        sensing_matrix = sweep_sensing_matrix(sensing_matrix, dictionary)
        weight = error_weight(sensing_matrix, gamma)
        codes = sparse_code(samples, dictionary, weight, sizes.sparsity)
        dictionary, codes = ksvd_update(samples, dictionary, codes, weight, rng)
        history.append(
            {
                "iteration": float(iteration),
                "objective": objective(samples, dictionary, codes, weight),
            }
        )
        if iteration < iterations:  # a fresh patch as an atom helps only if it is learned from
            dictionary = replace_weak_atoms(samples, dictionary, codes, weight)
        if observer is not None:
            observer(iteration, sensing_matrix, dictionary)
    return LearnedSystem(sweep_sensing_matrix(sensing_matrix, dictionary), dictionary, history)


def sweep_sensing_matrix(sensing_matrix: Float64Array, dictionary: Float64Array) -> Float64Array:
    """Update every row of Φ once, each optimal for the others as they stand.

    With ΨΨᵀ = V diag(l) Vᵀ and Φ = ΓVᵀ, rows v_i = diag(l) γ_i: row j gets the best rank-one
    approximation of diag(l) - Σ_{i≠j} v_i v_iᵀ. No row raises :func:`sweep_objective`. Directions
    outside the range of Ψ cannot matter and are left out of Φ.

    Parameters
    ----------
    sensing_matrix : ndarray, (M, 64)
    dictionary : ndarray, (64, L)

    Returns
    -------
    ndarray, (M, 64) float64
    """
    eigenvalues, eigenvectors = _spectrum(dictionary)
    rows = sensing_matrix @ eigenvectors * eigenvalues
    rest = np.diag(eigenvalues) - rows.T @ rows
    last = len(eigenvalues) - 1
    for row in rows:
        rest += np.outer(row, row)
        value, vector = eigh(rest, subset_by_index=(last, last), check_finite=False)
        row[:] = np.sqrt(max(value[0], 0.0)) * vector[:, 0]
        rest -= np.outer(row, row)
    updated: Float64Array = rows / eigenvalues @ eigenvectors.T
    return updated


def sweep_objective(sensing_matrix: Float64Array, dictionary: Float64Array) -> float:
    """‖diag(l) - Σ v_i v_iᵀ‖², what the sweep lowers; smallest at Theorem 1's Φ."""
    eigenvalues, eigenvectors = _spectrum(dictionary)
    rows = sensing_matrix @ eigenvectors * eigenvalues
    return float(np.sum((np.diag(eigenvalues) - rows.T @ rows) ** 2))


def _spectrum(dictionary: Float64Array) -> tuple[Float64Array, Float64Array]:
    # Descending eigenvalues and eigenvectors of ΨΨᵀ, numerically zero ones left out.
    eigenvalues, eigenvectors = np.linalg.eigh(dictionary @ dictionary.T)
    keep = eigenvalues > 1e-10 * eigenvalues[-1]
    return eigenvalues[keep][::-1], eigenvectors[:, keep][:, ::-1]
