"""Theorem 1: no sensing matrix does better, none of the best has less energy."""

import numpy as np
import pytest
from scipy.optimize import minimize

from cscodec.errors import InvalidInputError
from cscodec.sensing.design import coherence_objective, design_sensing_matrix


def random_dictionary(num_pixels: int, num_atoms: int, rank: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    dictionary = random.standard_normal((num_pixels, rank)) @ random.standard_normal(
        (rank, num_atoms)
    )
    return dictionary / np.linalg.norm(dictionary, axis=0)


def random_minimiser(dictionary: np.ndarray, num_measurements: int, seed: int) -> np.ndarray:
    """Another element of the set S in the proof of Theorem 1: any M orthonormal rows times Λ⁻¹Uᵀ.

    Needs rank(Ψ) >= M.
    """
    left, values, _ = np.linalg.svd(dictionary, full_matrices=False)
    rank = int(np.linalg.matrix_rank(dictionary))
    random = np.random.default_rng(seed)
    orthonormal = np.linalg.qr(random.standard_normal((rank, num_measurements)))[0]
    return orthonormal.T @ (left[:, :rank] / values[:rank]).T


@pytest.mark.parametrize("rank", [12, 6, 3])
def test_no_candidate_has_a_lower_objective(rank: int) -> None:
    dictionary = random_dictionary(12, 30, rank)
    num_measurements = 5
    best = coherence_objective(design_sensing_matrix(dictionary, num_measurements), dictionary)
    assert best == pytest.approx(30 - min(rank, num_measurements))  # the bound in the proof
    random = np.random.default_rng(1)
    for _ in range(300):
        candidate = random.standard_normal((num_measurements, 12)) * random.uniform(0.05, 1)
        assert coherence_objective(candidate, dictionary) > best


def test_numerical_descent_ends_at_the_same_objective() -> None:
    dictionary = random_dictionary(6, 10, 6)
    best = coherence_objective(design_sensing_matrix(dictionary, 3), dictionary)
    start = np.random.default_rng(2).standard_normal(18) * 0.3
    found = minimize(lambda phi: coherence_objective(phi.reshape(3, 6), dictionary), start)
    assert found.fun == pytest.approx(best, rel=1e-6)


def test_least_energy_among_the_minimisers() -> None:
    dictionary = random_dictionary(12, 30, 12)
    phi = design_sensing_matrix(dictionary, 5)
    for seed in range(50):
        other = random_minimiser(dictionary, 5, seed)
        assert coherence_objective(other, dictionary) == pytest.approx(25)
        assert np.sum(phi**2) < np.sum(other**2)


def test_any_small_change_keeps_or_raises_the_objective() -> None:
    dictionary = random_dictionary(12, 30, 12)
    phi = design_sensing_matrix(dictionary, 5)
    best = coherence_objective(phi, dictionary)
    random = np.random.default_rng(3)
    for _ in range(100):
        nearby = phi + 1e-3 * random.standard_normal(phi.shape)
        assert coherence_objective(nearby, dictionary) >= best - 1e-9


def test_fewer_measurements_are_the_first_rows() -> None:
    dictionary = random_dictionary(64, 256, 63).astype(np.float32)
    full = design_sensing_matrix(dictionary, 63)
    for num_measurements in (1, 20, 62):
        np.testing.assert_array_equal(
            design_sensing_matrix(dictionary, num_measurements), full[:num_measurements]
        )
    norms = np.linalg.norm(full, axis=1)
    assert np.all(np.diff(norms) >= 0)  # 1 / singular value


def test_rows_beyond_the_rank_are_zero() -> None:
    phi = design_sensing_matrix(random_dictionary(12, 30, 4), 6)
    assert np.all(np.linalg.norm(phi[:4], axis=1) > 0.1)
    np.testing.assert_array_equal(phi[4:], 0)


def test_signs_do_not_depend_on_the_svd() -> None:
    dictionary = random_dictionary(12, 30, 12)
    flipped = design_sensing_matrix(-dictionary[:, ::-1], 12)
    np.testing.assert_allclose(flipped, design_sensing_matrix(dictionary, 12), atol=1e-12)
    assert np.all(np.take_along_axis(flipped, np.abs(flipped).argmax(1)[:, None], 1) > 0)


@pytest.mark.parametrize(
    ("dictionary", "num_measurements"),
    [
        (np.ones((4, 6)), 0),
        (np.ones((4, 6)), 5),
        (np.full((4, 6), np.nan), 2),
        (np.zeros((0, 6)), 1),
        (np.ones(6), 1),
    ],
)
def test_bad_input_is_refused(dictionary: np.ndarray, num_measurements: int) -> None:
    with pytest.raises(InvalidInputError, match="allowed"):
        design_sensing_matrix(dictionary, num_measurements)


def test_objective_wants_fitting_shapes() -> None:
    with pytest.raises(InvalidInputError, match="do not fit"):
        coherence_objective(np.ones((2, 5)), np.ones((4, 6)))
