"""BL-style: after Bai, Li, Li, Li, Jiang & Chang, "Alternating optimization of sensing matrix and
sparsifying dictionary for compressed sensing", IEEE TSP 2015.

Φ brings the Gram of ΦΨ near a target Gram and, unlike S-DCS, also keeps the projected
representation error small; Ψ is the closed-form minimiser over the whole batch. Their exact
dictionary update could not be read in public: docs/paper.md says what was chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float64Array
from cscodec.errors import InvalidInputError
from cscodec.learning.rivals.dictionary_updates import (
    PLAIN_WEIGHT,
    error_weight,
    mod_update,
    objective,
    replace_weak_atoms,
    residuals,
    sparse_code,
)
from cscodec.learning.rivals.result import LearnedSystem, Observer
from cscodec.learning.rivals.training_set import (
    Sizes,
    check_sizes,
    dct_dictionary,
    gaussian_sensing_matrix,
    scatter_matrix,
    usable_patches,
)

TargetGram = Literal["identity", "equiangular"]


@dataclass(frozen=True)
class BlOptions:
    """What the source leaves open.

    Attributes
    ----------
    dictionary_rounds : int
        Rounds of sparse coding and Ψ for each Φ.
    gram_rounds : int
        Rounds of target Gram and Φ, where the target moves ("equiangular").
    target_gram : {"identity", "equiangular"}
        The Gram that ΨᵀΦᵀΦΨ should resemble.
    robustness : float
        λ of the projected error, as a fraction (0 to below 1) of the largest λ that leaves Φ of
        full rank for the identity target. Halved for another target until Φ has full rank.

    Raises
    ------
    InvalidInputError
        If a parameter is out of range.
    """

    dictionary_rounds: int = 3
    gram_rounds: int = 5
    target_gram: TargetGram = "identity"
    robustness: float = 0.5

    def __post_init__(self) -> None:
        if self.target_gram not in get_args(TargetGram):
            raise InvalidInputError(
                f"target_gram is {self.target_gram!r}; allowed are 'identity' and 'equiangular'"
            )
        if not isinstance(self.robustness, int | float) or not 0 <= self.robustness < 1:
            raise InvalidInputError(f"robustness is {self.robustness!r}; allowed is 0 to below 1")
        for name in ("dictionary_rounds", "gram_rounds"):
            if not isinstance(rounds := getattr(self, name), int) or rounds < 1:
                raise InvalidInputError(f"{name} is {rounds!r}; allowed are whole numbers from 1")


def learn_bl(
    patches: npt.ArrayLike,
    sizes: Sizes,
    options: BlOptions | None = None,
    *,
    gamma: float = 1 / 256,
    iterations: int = 50,
    seed: int = 0,
    observer: Observer | None = None,
) -> LearnedSystem:
    """Learn Φ and Ψ by alternating closed forms.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)
        Without their mean.
    sizes : Sizes
    options : BlOptions, optional
    gamma : float
        Weight of the representation error beside the projected one.
    iterations : int
        Rounds of: Φ, then sparse coding and Ψ.
    seed : int
        Of the first Φ.
    observer : callable, optional
        Called as ``observer(iteration, sensing_matrix, dictionary)`` after every round.

    Returns
    -------
    LearnedSystem
        History rows: iteration, objective σ per patch after the round.

    Raises
    ------
    InvalidInputError
        If sizes, patches or parameters cannot work.
    """
    samples, _ = usable_patches(patches)
    check_sizes(samples, sizes)
    options = options or BlOptions()
    num_measurements = sizes.num_measurements
    is_moving = options.target_gram == "equiangular"
    sensing_matrix = gaussian_sensing_matrix(num_measurements, np.random.default_rng(seed))
    dictionary = dct_dictionary(sizes.num_atoms)
    codes = sparse_code(samples, dictionary, PLAIN_WEIGHT, sizes.sparsity)
    history = []
    for iteration in range(1, iterations + 1):
        # The error that Ψ makes by itself. Codes made with the present Φ err least where Φ
        # measures, so an error taken from them keeps Φ where it happens to be.
        free = sparse_code(samples, dictionary, PLAIN_WEIGHT, sizes.sparsity)
        error = scatter_matrix(residuals(samples, dictionary, free))
        penalty = options.robustness * largest_penalty(dictionary, error, num_measurements)
        gram = np.eye(sizes.num_atoms)
        for _ in range(options.gram_rounds if is_moving else 1):
            if is_moving:
                gram = equiangular_gram(sensing_matrix, dictionary)
            sensing_matrix = _full_rank_sensing_matrix(
                dictionary, gram, error, penalty, num_measurements
            )
        weight = error_weight(sensing_matrix, gamma)
        for _ in range(options.dictionary_rounds):
            dictionary = replace_weak_atoms(samples, dictionary, codes, weight)
            codes = sparse_code(samples, dictionary, weight, sizes.sparsity)
            dictionary, codes = mod_update(samples, dictionary, codes)
        history.append(
            {
                "iteration": float(iteration),
                "objective": objective(samples, dictionary, codes, weight),
            }
        )
        if observer is not None:
            observer(iteration, sensing_matrix, dictionary)
    return LearnedSystem(sensing_matrix, dictionary, history)


def gram_sensing_matrix(
    dictionary: Float64Array,
    target: Float64Array,
    error_scatter: Float64Array,
    penalty: float,
    num_measurements: int,
) -> Float64Array:
    """Minimise ‖G_t - ΨᵀΦᵀΦΨ‖² + λ‖ΦE‖² over Φ in closed form.

    With Ψ = UΛVᵀ and A = ΦUΛ the objective is, up to a constant,
    ‖(VᵀG_tV - λ/2 Λ⁻¹UᵀEEᵀUΛ⁻¹) - AᵀA‖²: AᵀA is the best positive approximation of rank M, from
    the leading positive eigenpairs. For G_t = I these belong to the smallest eigenvalues of the
    second term.

    Parameters
    ----------
    dictionary : ndarray, (64, L)
        Ψ.
    target : ndarray, (L, L)
        G_t.
    error_scatter : ndarray, (64, 64)
        EEᵀ, E the representation errors as columns.
    penalty : float
        λ.
    num_measurements : int
        M.

    Returns
    -------
    ndarray, (M, 64) float64
        Φ, its rows by falling eigenvalue; rows without a positive one are zero.
    """
    left, singular, right = _svd(dictionary)
    whitener = left / singular
    matrix = right @ target @ right.T - penalty / 2 * whitener.T @ error_scatter @ whitener
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1][:num_measurements], vectors[:, ::-1][:, :num_measurements]
    sensing_matrix = np.zeros((num_measurements, len(dictionary)))
    rows = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    sensing_matrix[: len(rows)] = rows @ whitener.T
    return sensing_matrix


def _full_rank_sensing_matrix(
    dictionary: Float64Array,
    target: Float64Array,
    error_scatter: Float64Array,
    penalty: float,
    num_measurements: int,
) -> Float64Array:
    # λ below `largest_penalty` leaves all M rows for the identity; for other targets it may not.
    for _ in range(60):
        sensing_matrix = gram_sensing_matrix(
            dictionary, target, error_scatter, penalty, num_measurements
        )
        if sensing_matrix[-1].any():
            break
        penalty /= 2
    return sensing_matrix


def gram_objective(
    sensing_matrix: Float64Array,
    dictionary: Float64Array,
    target: Float64Array,
    error_scatter: Float64Array,
    penalty: float,
) -> float:
    """‖G_t - ΨᵀΦᵀΦΨ‖² + λ‖ΦE‖², what :func:`gram_sensing_matrix` minimises."""
    equivalent = sensing_matrix @ dictionary
    coherence = np.sum((target - equivalent.T @ equivalent) ** 2)
    return float(coherence + penalty * np.sum((sensing_matrix @ error_scatter) * sensing_matrix))


def largest_penalty(
    dictionary: Float64Array, error_scatter: Float64Array, num_measurements: int
) -> float:
    """Return the λ at which the last of M rows of Φ vanishes for G_t = I: 2 / τ_M.

    τ_M is the M-th smallest eigenvalue of the representation error in the whitened coordinates
    of Ψ. Zero where Ψ has fewer than M dimensions or no error is left.
    """
    left, singular, _ = _svd(dictionary)
    whitener = left / singular
    errors = np.linalg.eigvalsh(whitener.T @ error_scatter @ whitener)
    if len(errors) < num_measurements or errors[num_measurements - 1] <= 1e-12 * errors[-1]:
        return 0.0
    return float(2 / errors[num_measurements - 1])


def equiangular_gram(sensing_matrix: Float64Array, dictionary: Float64Array) -> Float64Array:
    """Project the Gram of ΦΨ, columns normalised, on the relaxed equiangular Grams.

    Unit diagonal, and no entry beyond the Welch bound √((L - M) / (M(L - 1))), the least largest
    coherence that L vectors in M dimensions can have.
    """
    equivalent = sensing_matrix @ dictionary
    norms = np.linalg.norm(equivalent, axis=0)
    equivalent = equivalent / np.where(norms > 0, norms, 1.0)
    num_measurements, num_atoms = equivalent.shape
    if num_atoms <= num_measurements:
        return np.eye(num_atoms)
    welch_bound = np.sqrt((num_atoms - num_measurements) / (num_measurements * (num_atoms - 1)))
    gram: Float64Array = np.clip(equivalent.T @ equivalent, -welch_bound, welch_bound)
    np.fill_diagonal(gram, 1.0)
    return gram


def _svd(dictionary: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
    left, singular, right = np.linalg.svd(dictionary, full_matrices=False)
    keep = singular > 1e-5 * singular[0]
    return left[:, keep], singular[keep], right[keep]
