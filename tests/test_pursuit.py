"""OMP: kernel, reference and scikit-learn agree; awkward dictionaries and signals are survived."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cscodec.errors import InvalidInputError
from cscodec.sensing.pursuit import SparseCodes, omp, omp_gram, omp_reference
from cscodec.transform.product import multiplied

Array = NDArray[np.float32]


def random_problem(
    num_signals: int, num_values: int, num_atoms: int, *, unit_norm: bool = True, seed: int = 0
) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    dictionary = random.standard_normal((num_values, num_atoms))
    dictionary /= np.linalg.norm(dictionary, axis=0)
    if not unit_norm:
        dictionary *= random.uniform(0.05, 20, num_atoms)
    signals = random.standard_normal((num_signals, num_values))
    return signals.astype(np.float32), dictionary.astype(np.float32)


def share_of_equal_supports(left: SparseCodes, right: SparseCodes) -> float:
    return float(np.mean(np.all(np.sort(left.indices, 1) == np.sort(right.indices, 1), axis=1)))


def residuals(signals: Array, dictionary: Array, codes: SparseCodes) -> Array:
    return signals - codes.reconstruct(dictionary)


@pytest.mark.parametrize(("num_values", "sparsity"), [(20, 4), (64, 8), (20, 10)])
@pytest.mark.parametrize("unit_norm", [True, False])
def test_kernel_chooses_what_the_reference_chooses(
    num_values: int, sparsity: int, unit_norm: bool
) -> None:
    signals, dictionary = random_problem(1000, num_values, 256, unit_norm=unit_norm)
    codes = omp(signals, dictionary, sparsity=sparsity)
    reference = omp_reference(signals, dictionary, sparsity=sparsity)
    assert share_of_equal_supports(codes, reference) >= 0.999
    same = np.all(codes.indices == reference.indices, axis=1)
    np.testing.assert_allclose(codes.values[same], reference.values[same], rtol=0.01, atol=1e-2)


def test_agrees_with_scikit_learn_on_unit_norm_atoms() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    signals, dictionary = random_problem(300, 32, 100)
    expected = linear_model.orthogonal_mp(
        dictionary.astype(np.float64), signals.T.astype(np.float64), n_nonzero_coefs=5
    ).T
    dense = omp(signals, dictionary, sparsity=5).to_dense(100)
    np.testing.assert_allclose(dense, expected, atol=1e-4)


def test_scaling_atoms_scales_coefficients_and_nothing_else() -> None:
    signals, dictionary = random_problem(500, 20, 128)
    scales = 2.0 ** np.random.default_rng(1).integers(-6, 7, 128)
    plain = omp(signals, dictionary, sparsity=4)
    scaled = omp(signals, dictionary * scales, sparsity=4)
    np.testing.assert_array_equal(scaled.indices, plain.indices)
    np.testing.assert_allclose(scaled.values * scales[scaled.indices], plain.values, rtol=1e-5)


@pytest.mark.parametrize("exponent", [-120, -66, -30, 30])
def test_atoms_may_have_any_norm(exponent: int) -> None:
    signals, dictionary = random_problem(200, 20, 128)
    signals = np.ldexp(signals, -30)  # so that coefficients of atoms of 1e-36 fit float32
    atoms = dictionary.astype(np.float64)
    atoms[:, ::3] *= 2.0**exponent  # beside others of norm 1
    codes = omp(signals, atoms, sparsity=5)
    plain = omp(signals, dictionary, sparsity=5)
    np.testing.assert_array_equal(codes.indices, plain.indices)
    expected = plain.to_dense(128)
    expected[:, ::3] = np.ldexp(expected[:, ::3], -exponent)
    np.testing.assert_array_equal(codes.to_dense(128), expected)


def test_coefficients_that_float32_cannot_hold_are_refused() -> None:
    signals, dictionary = random_problem(5, 20, 30)
    with pytest.raises(InvalidInputError, match="too large for float32: scale the atoms up"):
        omp(signals, dictionary * 1e-40, sparsity=5)


def test_gram_of_atoms_too_small_for_float32_is_refused() -> None:
    _, dictionary = random_problem(1, 20, 30)
    small = dictionary.astype(np.float64) * 1e-16
    with pytest.raises(InvalidInputError, match="squared norms below 1e-30: scale the atoms up"):
        omp_gram(np.ones((1, 30)), small.T @ small, sparsity=2)


def test_perfect_recovery_of_sparse_signals() -> None:
    random = np.random.default_rng(2)
    dictionary = np.linalg.qr(random.standard_normal((64, 64)))[0]
    for count in (1, 3, 6):
        support = random.permutation(64)[:count]
        signal = dictionary[:, support] @ random.uniform(1, 2, count)
        codes = omp(signal[None], dictionary, sparsity=20)
        assert set(codes.indices[0, : codes.counts[0]]) == set(support)
        np.testing.assert_allclose(codes.reconstruct(dictionary)[0], signal, atol=1e-5)


def test_residual_is_orthogonal_to_the_chosen_atoms() -> None:
    signals, dictionary = random_problem(200, 20, 256, unit_norm=False)
    codes = omp(signals, dictionary, sparsity=6)
    unit = dictionary / np.linalg.norm(dictionary, axis=0)
    products = np.take_along_axis(
        residuals(signals, dictionary, codes) @ unit, codes.indices, axis=1
    )
    assert np.abs(products).max() < 1e-4


def test_as_many_atoms_as_values_equal_least_squares() -> None:
    signals, dictionary = random_problem(50, 12, 12, seed=3)
    codes = omp(signals, dictionary, sparsity=12)
    expected = np.linalg.solve(dictionary.astype(np.float64), signals.T.astype(np.float64)).T
    scale = np.abs(expected).max(axis=1, keepdims=True)
    assert np.median(np.abs(codes.to_dense(12) - expected) / scale) < 1e-4


def test_error_stops_as_soon_as_it_is_met() -> None:
    signals, dictionary = random_problem(300, 20, 256)
    for error in (0.5, 4.0, 12.0):
        codes = omp(signals, dictionary, error=error)
        assert np.all(np.sum(residuals(signals, dictionary, codes) ** 2, axis=1) <= error + 1e-3)
        for n in np.flatnonzero(codes.counts > 1)[:50]:
            one_less = omp(signals[n : n + 1], dictionary, sparsity=int(codes.counts[n]) - 1)
            left = residuals(signals[n : n + 1], dictionary, one_less)
            assert np.sum(left**2) > error - 1e-3
    assert codes.counts.min() == 0  # some signals are below the last error as they are


def test_sparsity_and_error_together() -> None:
    signals, dictionary = random_problem(300, 20, 256)
    by_error = omp(signals, dictionary, error=4.0)
    both = omp(signals, dictionary, sparsity=3, error=4.0)
    np.testing.assert_array_equal(both.counts, np.minimum(by_error.counts, 3))
    np.testing.assert_array_equal(both.indices[:, 0], by_error.indices[:, 0])


def test_gram_form_equals_direct_form() -> None:
    signals, dictionary = random_problem(300, 20, 256, unit_norm=False)
    gram = multiplied(np.ascontiguousarray(dictionary.T), dictionary)
    direct = omp(signals, dictionary, sparsity=4, error=2.0)
    from_gram = omp_gram(
        multiplied(signals, dictionary),
        gram,
        sparsity=4,
        error=2.0,
        energies=np.square(signals, dtype=np.float64).sum(axis=1),
    )
    np.testing.assert_array_equal(direct.indices, from_gram.indices)
    np.testing.assert_array_equal(direct.values, from_gram.values)


def test_stacked_system_equals_weighted_gram() -> None:
    # [√γ Ψ; ΦΨ] against WΨ with W = γI + ΦᵀΦ: what the learner relies on.
    random = np.random.default_rng(4)
    signals, dictionary = random_problem(400, 16, 40)
    phi = random.standard_normal((6, 16))
    gamma = 0.1
    stack = np.vstack([np.sqrt(gamma) * np.eye(16), phi])
    weight = gamma * np.eye(16) + phi.T @ phi
    stacked = omp_reference(signals @ stack.T, stack @ dictionary, sparsity=3)
    weighted = omp_gram(
        signals @ weight @ dictionary, dictionary.T @ weight @ dictionary, sparsity=3
    )
    assert share_of_equal_supports(stacked, weighted) >= 0.99


def test_workers_and_batches_change_nothing() -> None:
    signals, dictionary = random_problem(1001, 20, 256)
    whole = omp(signals, dictionary, sparsity=4)
    threaded = omp(signals, dictionary, sparsity=4, workers=2)
    np.testing.assert_array_equal(whole.values, threaded.values)
    single = [omp(signals[n : n + 1], dictionary, sparsity=4) for n in (0, 500, 1000)]
    for codes, n in zip(single, (0, 500, 1000), strict=True):
        np.testing.assert_array_equal(codes.values[0], whole.values[n])


def test_product_has_the_documented_order() -> None:
    for rows, depth, width in ((1, 1, 1), (5, 7, 99), (8, 64, 16), (19, 7, 41), (33, 64, 256)):
        random = np.random.default_rng(depth)
        left = random.standard_normal((rows, depth)).astype(np.float32)
        right = random.standard_normal((depth, width)).astype(np.float32)
        expected = np.zeros((rows, width), np.float32)
        for i in range(0, depth - 3, 4):
            terms = [left[:, i + k, None] * right[i + k] for k in range(4)]
            expected += (terms[0] + terms[1]) + (terms[2] + terms[3])
        for i in range(depth - depth % 4, depth):
            expected += left[:, i, None] * right[i]
        np.testing.assert_array_equal(multiplied(left, right), expected)


def test_zero_signals_take_no_atoms() -> None:
    signals, dictionary = random_problem(3, 20, 50)
    signals[1] = 0
    codes = omp(signals, dictionary, sparsity=4)
    np.testing.assert_array_equal(codes.counts, [4, 0, 4])
    np.testing.assert_array_equal(codes.indices[1], -1)
    np.testing.assert_array_equal(codes.reconstruct(dictionary)[1], 0)


def test_duplicate_atoms_are_chosen_once() -> None:
    signals, dictionary = random_problem(200, 20, 40)
    doubled = np.concatenate([dictionary, -3 * dictionary], axis=1)
    codes = omp(signals, doubled, sparsity=10)
    plain = omp(signals, dictionary, sparsity=10)
    for chosen in codes.indices % 40:
        assert len(set(chosen)) == 10
    np.testing.assert_allclose(codes.reconstruct(doubled), plain.reconstruct(dictionary), atol=1e-3)


def test_dependent_atoms_end_the_search() -> None:
    random = np.random.default_rng(5)
    plane = random.standard_normal((20, 2))
    dictionary = plane @ random.standard_normal((2, 60))  # all atoms in one plane
    codes = omp(random.standard_normal((100, 20)), dictionary, sparsity=10)
    assert codes.counts.max() <= 2
    assert np.isfinite(codes.values).all()


def test_zero_columns_are_never_chosen() -> None:
    signals, dictionary = random_problem(100, 20, 30)
    dictionary[:, ::2] = 0
    codes = omp(signals, dictionary, sparsity=20)
    assert np.all(codes.indices[codes.indices >= 0] % 2 == 1)
    assert omp(signals, np.zeros((20, 30)), sparsity=4).counts.sum() == 0


def test_more_atoms_asked_for_than_there_are() -> None:
    signals, dictionary = random_problem(10, 20, 5)
    codes = omp(signals, dictionary, sparsity=100)
    assert codes.indices.shape == (10, 5)
    np.testing.assert_array_equal(codes.counts, 5)


def test_empty_batch() -> None:
    codes = omp(np.zeros((0, 20)), np.eye(20), sparsity=4)
    assert codes.indices.shape == (0, 4)
    assert codes.reconstruct(np.eye(20)).shape == (0, 20)
    assert codes.to_dense(20).shape == (0, 20)


def test_dense_and_sparse_form_stand_for_the_same_signals() -> None:
    signals, dictionary = random_problem(64, 20, 256)
    codes = omp(signals, dictionary, error=5.0)
    np.testing.assert_allclose(
        codes.to_dense(256) @ dictionary.T, codes.reconstruct(dictionary), atol=1e-4
    )
    assert np.all((codes.to_dense(256) != 0).sum(axis=1) == codes.counts)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e16, 1e300])
def test_values_that_cannot_be_computed_with_are_refused(bad: float) -> None:
    signals = np.ones((3, 4))
    signals[1, 2] = bad
    with pytest.raises(InvalidInputError, match="signals holds NaN, infinity"):
        omp(signals, np.eye(4), sparsity=2)
    with pytest.raises(InvalidInputError, match="dictionary holds NaN, infinity"):
        omp(np.ones((2, 3)), signals, sparsity=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "neither sparsity nor error"),
        ({"sparsity": 0}, "sparsity is 0"),
        ({"error": -1.0}, "error is -1"),
        ({"error": float("nan")}, "error is nan"),
    ],
)
def test_stopping_rules_out_of_range(options: dict[str, float], message: str) -> None:
    for function in (omp, omp_reference):
        with pytest.raises(InvalidInputError, match=message):
            function(np.ones((1, 4)), np.eye(4), **options)  # type: ignore[arg-type]


def test_shapes_must_fit() -> None:
    with pytest.raises(InvalidInputError, match="must be equal"):
        omp(np.ones((2, 5)), np.eye(4), sparsity=1)
    with pytest.raises(InvalidInputError, match="allowed is a matrix"):
        omp(np.ones(4), np.eye(4), sparsity=1)
    with pytest.raises(InvalidInputError, match="allowed are"):
        omp_gram(np.ones((2, 5)), np.eye(4), sparsity=1)
    with pytest.raises(InvalidInputError, match="without energies"):
        omp_gram(np.ones((2, 4)), np.eye(4), error=1.0)
    with pytest.raises(InvalidInputError, match="energies have shape"):
        omp_gram(np.ones((2, 4)), np.eye(4), error=1.0, energies=np.ones(3))


@pytest.mark.parametrize(("left", "right"), [((4, 5), (4, 5)), ((5,), (5, 4)), ((2, 5), (5,))])
def test_products_of_other_shapes_are_refused(left: tuple[int], right: tuple[int]) -> None:
    with pytest.raises(InvalidInputError, match="no product"):
        multiplied(np.ones(left, np.float32), np.ones(right, np.float32))


def test_energies_need_not_be_contiguous() -> None:
    codes = omp_gram(np.ones((3, 4)), np.eye(4), error=0.5, energies=np.full(6, 4.0)[::2])
    assert (codes.counts == 4).all()
