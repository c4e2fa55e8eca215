"""What each rival's single steps promise: they lower their objective, closed forms are optimal."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

from cscodec.errors import InvalidInputError
from cscodec.learning.rivals import bl, dictionary_updates, robust, s_dcs, training_set
from cscodec.learning.rivals.dictionary_updates import PLAIN_WEIGHT, error_weight, objective
from cscodec.sensing.design import coherence_objective, design_sensing_matrix
from cscodec.sensing.pursuit import SparseCodes

Array = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def patches() -> npt.NDArray[np.float32]:
    """Smooth random patches: neighbouring pixels are alike, as in photographs."""
    noise = np.random.default_rng(3).standard_normal((1500, 8, 8))
    smooth = 20 * noise.cumsum(axis=1).cumsum(axis=2).reshape(-1, 64)
    return training_set.usable_patches(smooth)[0]


@pytest.fixture(scope="module")
def dictionary() -> Array:
    """Random zero-mean atoms of unit norm, their energy falling over the pixels' directions."""
    return random_dictionary(np.random.default_rng(4), 100)


def random_dictionary(rng: np.random.Generator, num_atoms: int, rank: int = 63) -> Array:
    directions = training_set.dct_dictionary(63)[:, :rank]
    atoms = directions @ (
        np.geomspace(3, 0.3, rank)[:, None] * rng.standard_normal((rank, num_atoms))
    )
    return atoms / np.linalg.norm(atoms, axis=0)


def numerical_minimum(
    function: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> float:
    """The least value that L-BFGS finds from several starts."""
    return min(
        minimize(
            lambda x: function(x.reshape(shape)),
            rng.standard_normal(shape).ravel() / 10,
            jac=lambda x: gradient(x.reshape(shape)).ravel(),
            method="L-BFGS-B",
            options={"maxiter": 3000, "maxfun": 5000, "ftol": 1e-13, "gtol": 1e-8},
        ).fun
        for _ in range(3)
    )


# Theorem 1 ------------------------------------------------------------------------------------


def test_theorem_1_has_the_lowest_coherence_of_all_designs(
    dictionary: Array, patches: npt.NDArray[np.float32]
) -> None:
    rng = np.random.default_rng(0)
    gaussian = training_set.gaussian_sensing_matrix(20, rng)
    error = training_set.scatter_matrix(patches)
    limit = bl.largest_penalty(dictionary, error, 20)
    lowest = coherence_objective(design_sensing_matrix(dictionary, 20), dictionary)
    for other in (
        gaussian,
        s_dcs.sweep_sensing_matrix(gaussian, dictionary),
        bl.gram_sensing_matrix(dictionary, np.eye(100), error, 0.5 * limit, 20),
        robust.robust_sensing_matrix(dictionary, 0.5 * robust.largest_penalty(dictionary, 20), 20),
    ):
        assert lowest < coherence_objective(other, dictionary) * (1 - 1e-6)
    assert lowest == pytest.approx(100 - 20)  # L - M, the bound of the theorem


# S-DCS ----------------------------------------------------------------------------------------


def test_sweep_lowers_its_objective_row_by_row_to_theorem_1(dictionary: Array) -> None:
    phi = training_set.gaussian_sensing_matrix(10, np.random.default_rng(1))
    best = s_dcs.sweep_objective(design_sensing_matrix(dictionary, 10), dictionary)
    values = [s_dcs.sweep_objective(phi, dictionary)]
    for _ in range(30):
        phi = s_dcs.sweep_sensing_matrix(phi, dictionary)
        values.append(s_dcs.sweep_objective(phi, dictionary))
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(values))
    assert values[1] < 0.1 * values[0]
    assert best * (1 - 1e-9) <= values[-1] < best * 1.001


def test_theorem_1_minimises_the_sweep_objective_numerically() -> None:
    rng = np.random.default_rng(5)
    psi = random_dictionary(rng, 40, rank=6)
    eigenvalues, eigenvectors = np.linalg.eigh(psi @ psi.T)
    eigenvalues, eigenvectors = eigenvalues[-6:], eigenvectors[:, -6:]

    def function(rows: Array) -> float:
        return s_dcs.sweep_objective(rows @ eigenvectors.T, psi)

    def gradient(rows: Array) -> Array:
        scaled = rows * eigenvalues
        return -4 * scaled @ (np.diag(eigenvalues) - scaled.T @ scaled) * eigenvalues

    found = numerical_minimum(function, gradient, (3, 6), rng)
    closed = s_dcs.sweep_objective(design_sensing_matrix(psi, 3), psi)
    assert closed == pytest.approx(found, rel=1e-5)


# BL -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["identity", "equiangular"])
def test_gram_closed_form_is_the_numerical_minimum(target: str) -> None:
    rng = np.random.default_rng(6)
    psi = random_dictionary(rng, 30)
    samples = rng.standard_normal((200, 64))
    error = samples.T @ samples
    penalty = 0.4 * bl.largest_penalty(psi, error, 4)
    start = training_set.gaussian_sensing_matrix(4, rng)
    gram = np.eye(30) if target == "identity" else bl.equiangular_gram(start, psi)
    left, singular, _ = np.linalg.svd(psi, full_matrices=False)
    whitener = left / singular  # in whitened coordinates the search is well conditioned

    def function(rows: Array) -> float:
        return bl.gram_objective(rows @ whitener.T, psi, gram, error, penalty)

    def gradient(rows: Array) -> Array:
        phi = rows @ whitener.T
        inner = gram - psi.T @ phi.T @ phi @ psi
        return (-4 * phi @ psi @ inner @ psi.T + 2 * penalty * phi @ error) @ whitener

    closed = bl.gram_sensing_matrix(psi, gram, error, penalty, 4)
    found = numerical_minimum(function, gradient, (4, 30), rng)
    assert bl.gram_objective(closed, psi, gram, error, penalty) == pytest.approx(found, rel=1e-5)


def test_target_gram_and_sensing_matrix_lower_their_distance_in_turn(dictionary: Array) -> None:
    """Both are projections: the distance between Gram and target cannot grow."""
    phi = design_sensing_matrix(dictionary, 12)
    nothing = np.zeros((64, 64))
    distances = []
    for _ in range(6):
        equivalent = phi @ dictionary
        phi = phi / np.sqrt(np.mean(np.sum(equivalent**2, axis=0)))
        target = bl.equiangular_gram(phi, dictionary)
        distances.append(bl.gram_objective(phi, dictionary, target, nothing, 0.0))
        phi = bl.gram_sensing_matrix(dictionary, target, nothing, 0.0, 12)
        assert bl.gram_objective(phi, dictionary, target, nothing, 0.0) < distances[-1]
    assert distances[-1] < distances[0]


def test_equiangular_gram_is_within_the_welch_bound(dictionary: Array) -> None:
    gram = bl.equiangular_gram(design_sensing_matrix(dictionary, 20), dictionary)
    assert np.array_equal(np.diag(gram), np.ones(100))
    off_diagonal = np.abs(gram[~np.eye(100, dtype=bool)])
    assert off_diagonal.max() == pytest.approx(np.sqrt(80 / (20 * 99)))


def test_largest_penalty_is_where_the_last_row_vanishes(
    dictionary: Array, patches: npt.NDArray[np.float32]
) -> None:
    error = training_set.scatter_matrix(patches)
    limit = bl.largest_penalty(dictionary, error, 15)
    below, above = (
        bl.gram_sensing_matrix(dictionary, np.eye(100), error, factor * limit, 15)
        for factor in (0.999, 1.001)
    )
    assert np.linalg.matrix_rank(below) == 15
    assert not above[-1].any()


# Robust ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.05, 0.5, 0.9])
def test_robust_closed_form_and_gradient_descent_agree(dictionary: Array, fraction: float) -> None:
    penalty = fraction * robust.largest_penalty(dictionary, 12)
    closed = robust.robust_sensing_matrix(dictionary, penalty, 12)
    start = training_set.gaussian_sensing_matrix(12, np.random.default_rng(8))
    descended = robust.descend(start, dictionary, penalty)
    least = robust.robust_objective(closed, dictionary, penalty)
    reached = robust.robust_objective(descended, dictionary, penalty)
    assert least <= reached * (1 + 1e-9)
    # Which subspace is best hardly shows where λ is small: descent creeps there.
    assert reached == pytest.approx(least, rel=1e-4)
    gradient = robust.robust_gradient(closed, dictionary @ dictionary.T, penalty)
    assert np.abs(gradient).max() < 1e-9 * np.abs(closed).max() * 1e3


def test_robust_gradient_is_the_slope_of_its_objective(dictionary: Array) -> None:
    rng = np.random.default_rng(9)
    phi, direction = 0.1 * rng.standard_normal((2, 5, 64))
    ahead, behind = (
        robust.robust_objective(phi + sign * 1e-5 * direction, dictionary, 0.7) for sign in (1, -1)
    )
    slope = np.sum(robust.robust_gradient(phi, dictionary @ dictionary.T, 0.7) * direction)
    assert slope == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_robust_design_tends_to_theorem_1(dictionary: Array) -> None:
    phi = robust.robust_sensing_matrix(dictionary, 1e-9, 20)
    design = design_sensing_matrix(dictionary, 20)
    np.testing.assert_allclose(phi.T @ phi, design.T @ design, atol=1e-8)


# Dictionary updates ---------------------------------------------------------------------------


@pytest.mark.parametrize("coupled", [False, True])
def test_dictionary_updates_lower_the_error(
    patches: npt.NDArray[np.float32], dictionary: Array, coupled: bool
) -> None:
    weight = PLAIN_WEIGHT
    if coupled:
        weight = error_weight(design_sensing_matrix(dictionary, 12), 1 / 32)
    codes = dictionary_updates.sparse_code(patches, dictionary, weight, 4)
    before = objective(patches, dictionary, codes, weight)
    rng = np.random.default_rng(0)
    for updated in (
        dictionary_updates.ksvd_update(patches, dictionary, codes, weight, rng),
        dictionary_updates.mod_update(patches, dictionary, codes),
    ):
        assert objective(patches, *updated, weight) < 0.9 * before
        np.testing.assert_allclose(np.linalg.norm(updated[0], axis=0), 1, rtol=1e-6)
        np.testing.assert_allclose(updated[0].sum(axis=0), 0, atol=1e-4)
        assert np.array_equal(updated[1].indices, codes.indices)


def test_ksvd_of_one_atom_is_the_best_rank_one_fit_of_the_stacked_system() -> None:
    """One atom, used by all: its update must be the leading singular pair of [√α X; ΦX]."""
    rng = np.random.default_rng(2)
    patches = training_set.usable_patches(rng.standard_normal((50, 64)))[0]
    phi = training_set.gaussian_sensing_matrix(5, rng)
    weight = error_weight(phi, 1 / 32)
    psi = training_set.dct_dictionary(1)
    codes = dictionary_updates.sparse_code(patches, psi, weight, 1)
    psi, codes = dictionary_updates.ksvd_update(patches, psi, codes, weight, rng)
    stacked = np.vstack([np.sqrt(1 / 32) * patches.T, phi @ patches.T])
    left, singular, _ = np.linalg.svd(stacked, full_matrices=False)
    rest = objective(patches, psi, codes, weight) * len(patches)
    assert rest == pytest.approx(np.sum(singular[1:] ** 2), rel=1e-4)
    system = np.vstack([np.sqrt(1 / 32) * np.eye(64), phi])
    atom = np.linalg.solve(weight, system.T @ left[:, 0])
    assert abs(atom @ psi[:, 0]) / np.linalg.norm(atom) == pytest.approx(1, abs=1e-5)


def test_the_minimiser_in_the_dictionary_depends_neither_on_phi_nor_on_gamma(
    patches: npt.NDArray[np.float32], dictionary: Array
) -> None:
    """σ = ‖W^½(X - ΨΘ)‖²: MOD's Ψ is stationary in every metric W."""
    few = dictionary[:, :70]
    codes = dictionary_updates.sparse_code(patches, few, PLAIN_WEIGHT, 3)
    updated, rescaled = dictionary_updates.mod_update(patches, few, codes)
    theta = rescaled.to_dense(70).astype(np.float64)
    error = patches - theta @ updated.T
    for seed, gamma in ((0, 1 / 32), (1, 2.0)):
        phi = training_set.gaussian_sensing_matrix(20, np.random.default_rng(seed))
        gradient = error_weight(phi, gamma) @ error.T @ theta
        start = error_weight(phi, gamma) @ patches.T.astype(np.float64) @ theta
        assert np.linalg.norm(gradient) < 1e-5 * np.linalg.norm(start)


def test_unused_duplicate_and_rank_deficient_atoms(patches: npt.NDArray[np.float32]) -> None:
    psi = random_dictionary(np.random.default_rng(1), 70, rank=10)
    psi[:, 1] = psi[:, 0]
    phi = training_set.gaussian_sensing_matrix(20, np.random.default_rng(1))
    for sensing_matrix in (
        s_dcs.sweep_sensing_matrix(phi, psi),
        bl.gram_sensing_matrix(psi, np.eye(70), np.eye(64), 0.1, 20),
        robust.robust_sensing_matrix(psi, 0.1, 20),
        robust.descend(phi, psi, 0.1),
    ):
        assert sensing_matrix.shape == (20, 64)
        assert np.isfinite(sensing_matrix).all()
    assert bl.largest_penalty(psi, np.eye(64), 20) == 0
    codes = dictionary_updates.sparse_code(patches, psi, PLAIN_WEIGHT, 4)
    replaced = dictionary_updates.replace_weak_atoms(patches, psi, codes, PLAIN_WEIGHT)
    similar = np.abs(np.triu(replaced.T @ replaced, 1))
    assert np.linalg.matrix_rank(replaced, tol=1e-3) > 10
    assert similar[0, 1] < dictionary_updates.MAX_CORRELATION
    for updated, values in (
        dictionary_updates.ksvd_update(patches, psi, codes, PLAIN_WEIGHT, np.random.default_rng(0)),
        dictionary_updates.mod_update(patches, psi, codes),
    ):
        assert np.isfinite(updated).all()
        assert np.isfinite(values.values).all()


def test_an_atom_without_users_becomes_the_worst_represented_patch(
    patches: npt.NDArray[np.float32], dictionary: Array
) -> None:
    codes = dictionary_updates.sparse_code(patches, dictionary, PLAIN_WEIGHT, 4)
    indices, values = codes.indices.copy(), codes.values.copy()
    values[indices == 7] = 0
    indices[indices == 7] = -1
    unused = SparseCodes(indices, values, codes.counts)
    updated, new = dictionary_updates.ksvd_update(
        patches, dictionary, unused, PLAIN_WEIGHT, np.random.default_rng(0)
    )
    error = np.sum((patches - new.reconstruct(updated)) ** 2, axis=1)
    worst = patches[np.argmax(error)] / np.linalg.norm(patches[np.argmax(error)])
    assert abs(updated[:, 7] @ worst) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("gamma", [0.0, -1.0, np.nan, np.inf])
def test_gamma_must_be_positive(gamma: float) -> None:
    with pytest.raises(InvalidInputError, match="gamma"):
        error_weight(None, gamma)
