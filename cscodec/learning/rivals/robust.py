"""Robust Φ for a given Ψ: Hong & Zhu's predecessor of the paper ([TZ16] there).

min over Φ of ‖I - ΨᵀΦᵀΦΨ‖² + λ‖Φ‖², by gradient descent as published and in closed form. λ has to
be searched: the one with the best PSNR on validation patches wins. Theorem 1 is its limit λ → 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array, Float64Array
from cscodec.errors import InvalidInputError
from cscodec.evaluation.metrics import psnr_db
from cscodec.layout import PATCH_PIXELS
from cscodec.learning.rivals.result import LearnedSystem
from cscodec.learning.rivals.separate import learn_ksvd
from cscodec.learning.rivals.training_set import (
    Sizes,
    check_sizes,
    gaussian_sensing_matrix,
    usable_patches,
)
from cscodec.model import load_model
from cscodec.sensing.pursuit import omp

Solver = Literal["gradient", "closed-form"]

#: λ tried, as fractions of the largest that leaves Φ of full rank.
PENALTY_FRACTIONS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def learn_robust(
    patches: npt.ArrayLike,
    sizes: Sizes,
    *,
    dictionary: npt.ArrayLike | str | None = None,
    validation_patches: npt.ArrayLike | None = None,
    solver: Solver = "gradient",
    iterations: int = 50,
    seed: int = 0,
) -> LearnedSystem:
    """Design Φ for a given dictionary, λ chosen on validation patches.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)
        Without their mean.
    sizes : Sizes
    dictionary : array_like, (64, L), or str, optional
        Ψ, or the name or path of the model that has it; learned by K-SVD where none is given.
    validation_patches : array_like, (num_patches, 64), optional
        From pictures that Ψ has not seen; every tenth training patch where none are given.
    solver : {"gradient", "closed-form"}
    iterations : int
        Of K-SVD, where Ψ is to be learned.
    seed : int
        Of K-SVD and of gradient descent's first Φ.

    Returns
    -------
    LearnedSystem
        History rows, one per λ tried: iteration, penalty (λ), objective, psnr_db on validation.

    Raises
    ------
    InvalidInputError
        If sizes, patches or the dictionary cannot work.
    """
    samples, _ = usable_patches(patches)
    check_sizes(samples, sizes)
    if solver not in ("gradient", "closed-form"):
        raise InvalidInputError(f"solver is {solver!r}; allowed are 'gradient' and 'closed-form'")
    if validation_patches is None:
        held_out = np.arange(len(samples)) % 10 == 0
        validation, samples = samples[held_out], samples[~held_out]
    else:
        validation, _ = usable_patches(validation_patches)
    if dictionary is None:
        psi = learn_ksvd(samples, sizes, iterations=iterations, seed=seed).dictionary
    else:
        psi = _checked_dictionary(dictionary)
    num_measurements = sizes.num_measurements
    limit = largest_penalty(psi, num_measurements)
    start = gaussian_sensing_matrix(num_measurements, np.random.default_rng(seed))
    history, candidates = [], []
    for iteration, fraction in enumerate(PENALTY_FRACTIONS, start=1):
        penalty = fraction * limit
        if solver == "gradient":
            phi = descend(start, psi, penalty)
        else:
            phi = robust_sensing_matrix(psi, penalty, num_measurements)
        quality = _validation_psnr_db(validation, phi, psi, sizes.sparsity)
        candidates.append((quality, phi))
        history.append(
            {
                "iteration": float(iteration),
                "penalty": penalty,
                "objective": robust_objective(phi, psi, penalty),
                "psnr_db": quality,
            }
        )
    best = max(candidates, key=lambda candidate: candidate[0])[1]
    return LearnedSystem(best, psi, history)


def robust_objective(
    sensing_matrix: Float64Array, dictionary: Float64Array, penalty: float
) -> float:
    """‖I - ΨᵀΦᵀΦΨ‖² + λ‖Φ‖² (paper, eq. "robust_projection_lambda")."""
    gram = sensing_matrix @ (dictionary @ dictionary.T) @ sensing_matrix.T
    coherence = dictionary.shape[1] - 2 * np.trace(gram) + np.sum(gram**2)
    return float(coherence + penalty * np.sum(sensing_matrix**2))


def robust_sensing_matrix(
    dictionary: Float64Array, penalty: float, num_measurements: int
) -> Float64Array:
    """Minimise :func:`robust_objective` in closed form.

    With l_i, u_i the falling eigenpairs of ΨΨᵀ, row i is √(1/l_i - λ/(2 l_i²)) u_iᵀ where
    l_i > λ/2, and zero elsewhere.

    Returns
    -------
    ndarray, (M, 64) float64
    """
    eigenvalues, eigenvectors = np.linalg.eigh(dictionary @ dictionary.T)
    eigenvalues = eigenvalues[::-1][:num_measurements]
    eigenvectors = eigenvectors[:, ::-1][:, :num_measurements]
    kept = eigenvalues > max(penalty / 2, 1e-10 * eigenvalues[0])
    safe = np.where(kept, eigenvalues, 1.0)
    gains = np.where(kept, 1 / safe - penalty / (2 * safe**2), 0.0)
    sensing_matrix: Float64Array = np.sqrt(gains)[:, None] * eigenvectors.T
    return sensing_matrix


def largest_penalty(dictionary: Float64Array, num_measurements: int) -> float:
    """Return the λ at which the last of M rows of Φ vanishes: 2 l_M."""
    return float(2 * np.linalg.eigvalsh(dictionary @ dictionary.T)[-num_measurements])


def descend(
    sensing_matrix: Float64Array,
    dictionary: Float64Array,
    penalty: float,
    *,
    max_iterations: int = 2000,
    tolerance: float = 1e-5,
) -> Float64Array:
    """Minimise :func:`robust_objective` by gradient descent from a given Φ.

    Barzilai-Borwein steps, halved until they lower the objective enough (Armijo).

    Parameters
    ----------
    tolerance : float
        Stop where the gradient's norm has fallen to this fraction of the first one.
    """
    scatter = dictionary @ dictionary.T
    phi = sensing_matrix.copy()
    value = robust_objective(phi, dictionary, penalty)
    gradient = robust_gradient(phi, scatter, penalty)
    first_norm = float(np.linalg.norm(gradient))
    step = 1 / (4 * float(np.linalg.norm(scatter, 2)) ** 2)
    for _ in range(max_iterations):
        slope = float(np.sum(gradient**2))
        if slope <= (tolerance * first_norm) ** 2:
            break
        while True:
            candidate = phi - step * gradient
            new_value = robust_objective(candidate, dictionary, penalty)
            # The slack covers the rounding of the objective near its minimum.
            if new_value <= value - 1e-4 * step * slope + 1e-12 * abs(value) or step < 1e-20:
                break
            step /= 2
        new_gradient = robust_gradient(candidate, scatter, penalty)
        moved, turned = candidate - phi, new_gradient - gradient
        curvature = float(np.sum(moved * turned))
        phi, value, gradient = candidate, new_value, new_gradient
        step = float(np.sum(moved**2)) / curvature if curvature > 0 else 2 * step
    return phi


def robust_gradient(
    sensing_matrix: Float64Array, scatter: Float64Array, penalty: float
) -> Float64Array:
    """2λΦ - 4ΦS + 4ΦSΦᵀΦS with S = ΨΨᵀ: the gradient of :func:`robust_objective`."""
    projected = sensing_matrix @ scatter
    gradient: Float64Array = (
        2 * penalty * sensing_matrix - 4 * projected + 4 * projected @ sensing_matrix.T @ projected
    )
    return gradient


def _checked_dictionary(dictionary: npt.ArrayLike | str) -> Float64Array:
    if isinstance(dictionary, str):
        dictionary = load_model(dictionary).dictionary
    psi = np.array(dictionary, np.float64)
    if psi.ndim != 2 or psi.shape[0] != PATCH_PIXELS or not np.isfinite(psi).all():
        raise InvalidInputError(
            f"dictionary has shape {psi.shape}; it must be ({PATCH_PIXELS}, atoms) and finite"
        )
    return psi


def _validation_psnr_db(
    patches: Float32Array, sensing_matrix: Float64Array, dictionary: Float64Array, sparsity: int
) -> float:
    codes = omp(patches @ sensing_matrix.T, sensing_matrix @ dictionary, sparsity=sparsity)
    return psnr_db(patches, codes.reconstruct(dictionary))
