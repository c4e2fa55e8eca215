"""The online learner: the mended atom update, its statistics, what it skips, and resuming."""

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cscodec.errors import InvalidInputError
from cscodec.learning.atoms import damping_of_printed_update, update_atoms
from cscodec.learning.online import LearnerParameters, OnlineLearner
from cscodec.learning.statistics import Coder, Statistics
from cscodec.sensing.design import coherence_objective, design_sensing_matrix
from cscodec.sensing.pursuit import omp
from cscodec.transform.product import multiplied

Array = NDArray[Any]

SMALL = LearnerParameters(num_measurements=8, num_atoms=70, sparsity=3)


def textured_patches(count: int, seed: int = 0) -> Array:
    """Patches that are sums of three of 100 random smooth pictures: there is something to learn."""
    random = np.random.default_rng(seed)
    shapes = np.random.default_rng(99).standard_normal((100, 8, 8)).cumsum(1).cumsum(2)
    shapes = shapes.reshape(100, 64) / np.linalg.norm(shapes.reshape(100, 64), axis=1)[:, None]
    chosen = random.integers(0, 100, (count, 3))
    weights = random.uniform(-100, 100, (count, 3))
    patches = np.einsum("nk,nkd->nd", weights, shapes[chosen])
    return (patches + random.uniform(50, 200, (count, 1))).astype(np.float32)


def trained(
    batches: int = 40, size: int = 128, dictionary: Array | None = None, **change: Any
) -> OnlineLearner:
    learner = OnlineLearner(replace(SMALL, **change), dictionary=dictionary)
    for batch in np.split(textured_patches(batches * size), batches):
        learner.partial_fit(batch)
    return learner


def surrogate_gradient(atoms: Array, a: Array, b: Array, phi: Array, gamma: float, j: int) -> Array:
    """Eq. 16, the gradient of the surrogate in ψ_j, with atoms as rows."""
    omega = np.eye(64) + phi.T @ phi / gamma
    return omega @ (atoms.T @ a[j] - b[j])


class TestAtomUpdate:
    """The erratum: the exact minimiser is (b_j - Ψa_j)/A_jj + ψ_j, whatever Φ and γ."""

    @staticmethod
    def problem() -> tuple[Array, Array, Array, Array, float]:
        random = np.random.default_rng(1)
        atoms = random.standard_normal((70, 64))
        atoms /= np.linalg.norm(atoms, axis=1)[:, None]
        codes = random.standard_normal((300, 70)) * (random.random((300, 70)) < 0.1)
        patches = codes @ random.standard_normal((70, 64))
        phi = design_sensing_matrix(atoms.T, 8)
        return atoms, codes.T @ codes, codes.T @ patches, phi, 1 / 32

    @staticmethod
    def printed(atoms: Array, a: Array, b: Array, phi: Array, gamma: float, j: int) -> Array:
        """The update of ψ_j as Algorithm 2 prints it, before it is scaled to unit norm."""
        xi_1 = np.linalg.inv(np.eye(64) + phi.T @ phi / gamma)
        xi_2 = xi_1 @ phi.T @ phi
        product = atoms.T @ a[j] / a[j, j]
        first = xi_1 @ (b[j] / a[j, j] - product + atoms[j])
        second = xi_2 @ (b[j] / (a[j, j] * gamma) + atoms[j] / gamma - product)
        updated: Array = first + second
        return updated

    def test_the_gradient_vanishes_at_ours_and_not_at_the_printed_one(self) -> None:
        atoms, a, b, phi, gamma = self.problem()
        j = 5
        ours, printed = atoms.copy(), atoms.copy()
        ours[j] = (b[j] - atoms.T @ a[j]) / a[j, j] + atoms[j]
        printed[j] = self.printed(atoms, a, b, phi, gamma, j)
        before = np.linalg.norm(surrogate_gradient(atoms, a, b, phi, gamma, j))
        assert np.linalg.norm(surrogate_gradient(ours, a, b, phi, gamma, j)) < 1e-9 * before
        assert np.linalg.norm(surrogate_gradient(printed, a, b, phi, gamma, j)) > 0.01 * before

    def test_the_kernel_computes_it_atom_by_atom(self) -> None:
        atoms, a, b, _, _ = self.problem()
        expected = atoms.copy()
        for j in range(len(atoms)):
            updated = (b[j] - expected.T @ a[j]) / a[j, j] + expected[j]
            expected[j] = updated / np.linalg.norm(updated)
        found = atoms.astype(np.float32)
        update_atoms(found, a, b)
        np.testing.assert_allclose(found, expected, atol=2e-5)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)

    @pytest.mark.parametrize("gamma", [1 / 32, 1.0, 4.0])
    def test_the_kernel_computes_the_printed_update_too(self, gamma: float) -> None:
        atoms, a, b, phi, _ = self.problem()
        expected = atoms.copy()
        for j in range(len(atoms)):
            updated = self.printed(expected, a, b, phi, gamma, j)
            expected[j] = updated / np.linalg.norm(updated)
        found, exact = atoms.astype(np.float32), atoms.astype(np.float32)
        update_atoms(found, a, b, damping_of_printed_update(phi, gamma))
        np.testing.assert_allclose(found, expected, atol=2e-5)
        update_atoms(exact, a, b)  # with γ = 1 the missing factor is none
        assert (np.abs(found - exact).max() < 1e-5) == (gamma == 1)

    def test_passes_lower_the_surrogate_until_it_rests(self) -> None:
        random = np.random.default_rng(2)
        atoms, a, b, phi, gamma = self.problem()
        omega = np.eye(64) + phi.T @ phi / gamma
        scales = np.linalg.norm(random.standard_normal((70, 64)), axis=1)
        assert scales.min() > 0

        def surrogate(rows: Array) -> float:
            return 0.5 * np.trace(rows @ omega @ rows.T @ a) - np.trace(rows @ omega @ b.T)

        for j in range(70):  # without normalising, every single step is a minimisation
            step = atoms.copy()
            step[j] = (b[j] - atoms.T @ a[j]) / a[j, j] + atoms[j]
            assert surrogate(step) <= surrogate(atoms)
            atoms = step

    def test_unused_atoms_and_shrunken_statistics(self) -> None:
        atoms, a, b, _, _ = self.problem()
        a[3], a[:, 3], b[3] = 0, 0, 0
        plain, shrunken = atoms.astype(np.float32), atoms.astype(np.float32)
        update_atoms(plain, a, b)
        update_atoms(shrunken, a * 2.0**-400, b * 2.0**-400)
        np.testing.assert_array_equal(plain[3], atoms[3].astype(np.float32))
        np.testing.assert_array_equal(shrunken, plain)


class TestStatistics:
    @staticmethod
    def coded(patches: Array, seed: int = 3) -> Statistics:
        dictionary = np.random.default_rng(seed).standard_normal((64, 70)).astype(np.float32)
        gram = multiplied(np.ascontiguousarray(dictionary.T), dictionary)
        return Coder(dictionary, gram, sparsity=3)(patches)

    def test_sums_are_those_of_the_codes(self) -> None:
        patches = textured_patches(200)
        statistics = self.coded(patches)
        dictionary = np.random.default_rng(3).standard_normal((64, 70))
        dense = omp(patches, dictionary, sparsity=3).to_dense(70).astype(np.float64)
        np.testing.assert_allclose(statistics.A, dense.T @ dense, rtol=1e-4, atol=1e-2)
        np.testing.assert_allclose(statistics.B, patches.T @ dense, rtol=1e-4, atol=1)
        np.testing.assert_array_equal(statistics.usage, (dense != 0).sum(axis=0))
        assert statistics.num_samples == 200

    def test_merging_is_coding_together(self) -> None:
        patches = textured_patches(200)
        parts = self.coded(patches[:60]).merge(self.coded(patches[60:]))
        whole = self.coded(patches)
        np.testing.assert_allclose(parts.A, whole.A, rtol=1e-9)
        np.testing.assert_allclose(parts.B, whole.B, rtol=1e-9)
        assert parts.num_samples == whole.num_samples

    def test_merging_is_associative_and_has_a_neutral_element(self) -> None:
        one, two, three = (self.coded(part) for part in np.split(textured_patches(90), 3))
        left, right = one.merge(two).merge(three), one.merge(two.merge(three))
        np.testing.assert_allclose(left.A, right.A, rtol=1e-12)
        nothing = self.coded(np.empty((0, 64), np.float32))
        np.testing.assert_array_equal(one.merge(nothing).B, one.B)

    def test_dictionaries_must_agree(self) -> None:
        patches = textured_patches(10)
        with pytest.raises(InvalidInputError, match="different dictionaries"):
            self.coded(patches, seed=1).merge(self.coded(patches, seed=2))


def random_start(seed: int) -> Array:
    start = np.random.default_rng(seed).standard_normal((64, 70))
    return start - start.mean(axis=0)


def test_learning_lowers_the_coding_error() -> None:
    held_out = textured_patches(500, seed=1)
    held_out -= held_out.mean(axis=1, keepdims=True)

    def error(learner: OnlineLearner) -> float:
        codes = omp(held_out, learner.dictionary, sparsity=3)
        return float(np.mean((held_out - codes.reconstruct(learner.dictionary)) ** 2))

    start = OnlineLearner(SMALL, dictionary=random_start(6))
    assert error(trained(40, dictionary=random_start(6))) < 0.25 * error(start)


def test_result_has_the_promised_properties() -> None:
    learner = trained()
    assert learner.dictionary.shape == (64, 70)
    assert learner.sensing_matrix.shape == (8, 64)
    np.testing.assert_allclose(np.linalg.norm(learner.dictionary, axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(learner.dictionary.mean(axis=0), 0, atol=1e-5)
    best = coherence_objective(learner.sensing_matrix, learner.dictionary)
    assert best == pytest.approx(70 - 8)


def test_workers_and_executors_change_nothing() -> None:
    patches = textured_patches(5000)
    expected = OnlineLearner(SMALL).partial_fit(patches).partial_fit(patches[::-1])
    threads = OnlineLearner(SMALL).partial_fit(patches, workers=2)
    threads.partial_fit(patches[::-1], workers=3)
    np.testing.assert_array_equal(threads.dictionary, expected.dictionary)
    pools = [ThreadPoolExecutor(2), ProcessPoolExecutor(1, mp_context=get_context("spawn"))]
    for pool in pools:
        with pool:
            learner = OnlineLearner(SMALL).partial_fit(patches, executor=pool)
            learner.partial_fit(patches[::-1], executor=pool)
        np.testing.assert_array_equal(learner.dictionary, expected.dictionary)


def test_resumed_run_is_bit_for_bit_the_same() -> None:
    batches = np.split(textured_patches(40 * 128), 40)
    parameters = replace(SMALL, dictionary_iterations=10, replacement_share=0.3, update="printed")
    whole = OnlineLearner(parameters)
    for batch in batches:
        whole.partial_fit(batch)
    assert whole.num_replaced > 0  # random choices were made on the way
    for stop in (0, 1, 17, 20):
        first = OnlineLearner(parameters)
        for batch in batches[:stop]:
            first.partial_fit(batch)
        state = first.state()
        plain = {key: value for key, value in state.items() if not isinstance(value, np.ndarray)}
        second = OnlineLearner.from_state({**state, **json.loads(json.dumps(plain))})
        for batch in batches[stop:]:
            first.partial_fit(batch)  # the state must be a copy
            second.partial_fit(batch)
        np.testing.assert_array_equal(second.dictionary, whole.dictionary)
        np.testing.assert_array_equal(second.sensing_matrix, whole.sensing_matrix)
        assert second.num_skipped == whole.num_skipped


_PCG64 = {"bit_generator": "PCG64", "has_uint32": 0, "uinteger": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": np.zeros((3, 3))}, r"A is float64 \(3, 3\); allowed is float64 \(70, 70\)"),
        ({"A": np.full((70, 70), np.nan)}, r"A is .*all finite"),
        ({"B": np.zeros((70, 63))}, r"B is float64 \(70, 63\)"),
        ({"B": np.zeros((70, 64), np.float32)}, r"B is float32 \(70, 64\)"),
        ({"B": [[0.0] * 64] * 70}, "B is of type list"),
        ({"usage": np.ones(70)}, r"usage is float64 \(70,\)"),
        ({"usage": -np.ones(71)}, "usage is .* values >= 0"),
        ({"usage": np.zeros(71)}, "usage is .* the last in 1..1e"),
        ({"metric": np.zeros((200_000, 64), np.float32)}, r"metric is float32 \(200000, 64\)"),
        ({"metric": np.zeros((64, 64))}, r"metric is float64 \(64, 64\)"),
        ({"metric": np.full((64, 64), np.inf, np.float32)}, "metric is .*all finite"),
        ({"sensing_matrix": np.zeros((7, 64))}, r"sensing_matrix is float64 \(7, 64\)"),
        ({"sensing_matrix": np.zeros(8 * 64)}, r"sensing_matrix is float64 \(512,\)"),
        ({"sensing_matrix": np.zeros((8, 64), object)}, "sensing_matrix is object"),
        ({"atoms": np.ones((1, 64), np.float32) / 8}, "atoms is .*none, or 70 rows"),
        ({"atoms": np.zeros((70, 64), np.float32)}, "atoms is .*unit norm"),
        ({"atoms": np.zeros((70, 64), ">f4")}, "atoms is >f4"),
        ({"pending": np.zeros((5, 65), np.float32)}, r"pending is float32 \(5, 65\)"),
        ({"pending": np.eye(64, dtype=np.float32)[:, None]}, "pending is float32"),
        ({"recent": np.zeros((5, 64), np.float32)}, "recent is .*rows that vary"),
        ({"recent": np.ones((71, 64), np.float32)}, "recent is .*at most 70"),
        ({"recent": np.full((5, 64), 1e30, np.float32)}, "recent is .*rows that vary"),
        ({"random": -1}, "random is -1; allowed is a mapping"),
        ({"random": {**_PCG64, "state": {"state": -1, "inc": 1}}}, "state is -1"),
        ({"random": {**_PCG64, "state": {"state": 2**300, "inc": 1}}}, "number of 301 bits"),
        ({"random": {**_PCG64, "state": {"state": 0.5, "inc": 1}}}, "state is 0.5"),
        ({"random": {**_PCG64, "state": {"state": 1, "inc": 2}}}, "inc is 2; .* an odd number"),
        ({"random": {**_PCG64, "state": [1, 1]}}, "state is of type list"),
        ({"random": {**_PCG64, "state": {"state": 1, "inc": 1}, "has_uint32": 2}}, "has_uint32"),
        ({"random": {"bit_generator": "MT19937", "state": {"state": 1, "inc": 1}}}, "MT19937"),
        ({"iteration": -1}, "iteration is -1"),
        ({"iteration": 2.0}, "iteration is 2.0"),
        ({"num_samples": -64}, "num_samples is -64"),
        ({"num_skipped": None}, "num_skipped is None"),
        ({"num_replaced": True}, "num_replaced is True"),
        ({"parameters": {"sparsity": 2}}, "parameters lacks num_measurements"),
        ({"parameters": {**asdict(SMALL), "colour": 3}}, "unknown entry 'colour'"),
        ({"parameters": {**asdict(SMALL), "num_atoms": "70"}}, "num_atoms is '70'"),
        ({"parameters": {**asdict(SMALL), "num_atoms": 10**5000}}, "num_atoms is a whole number"),
        ({"parameters": {**asdict(SMALL), "num_atoms": 71}}, "70 rows|71 rows"),
        ({"parameters": list(asdict(SMALL))}, "parameters is of type list"),
    ],
)
def test_states_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    state = {**trained(2).state(), **change}
    with pytest.raises(InvalidInputError, match=f"^not the state of a learner: .*({message})"):
        OnlineLearner.from_state(state)


@pytest.mark.parametrize("key", OnlineLearner().state())
def test_states_with_something_missing_are_refused(key: str) -> None:
    state = trained(2).state()
    for other in (None, [], {}, "text", -1, np.zeros(3), np.array(None), [[[[]]]]):
        with pytest.raises(InvalidInputError, match=f"not the state of a learner: .*{key}"):
            OnlineLearner.from_state({**state, key: other})
    del state[key]
    with pytest.raises(InvalidInputError, match=f"lacks {key}"):
        OnlineLearner.from_state(state)


@pytest.mark.parametrize("state", [None, [], "state", 3, {}, {1: 2}])
def test_other_things_are_no_states(state: Any) -> None:
    with pytest.raises(InvalidInputError, match="not the state of a learner"):
        OnlineLearner.from_state(state)


def test_state_of_a_learner_that_has_not_begun_is_the_same_every_time() -> None:
    first, second = OnlineLearner(SMALL).state(), OnlineLearner(SMALL).state()
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])
    assert not OnlineLearner.from_state(first).is_started


@pytest.mark.parametrize(
    "arranged",
    [
        np.asfortranarray,
        lambda rows: np.ascontiguousarray(rows.T).T,
        lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
        lambda rows: rows[::-1][::-1],
        lambda rows: np.asfortranarray(rows.astype(np.float64)),
        lambda rows: rows.tolist(),
    ],
    ids=["fortran", "transposed", "strided", "reversed", "float64", "list"],
)
def test_patches_may_lie_in_memory_as_they_like(arranged: Callable[[Array], Any]) -> None:
    patches = textured_patches(300)
    expected = OnlineLearner(SMALL).partial_fit(patches)
    learner = OnlineLearner(SMALL).partial_fit(arranged(patches))
    learner.partial_fit(arranged(patches[:100]))
    expected.partial_fit(patches[:100])
    np.testing.assert_array_equal(learner.dictionary, expected.dictionary)


def test_broadcast_patches_are_one_patch_and_its_repetitions() -> None:
    learner = OnlineLearner(SMALL)
    learner.partial_fit(np.broadcast_to(textured_patches(1), (50, 64)))
    assert learner.num_skipped == 49


def test_useless_patches_are_skipped_and_counted() -> None:
    patches = textured_patches(400)
    dirty = np.concatenate([patches, np.full((3, 64), 7.0, np.float32), patches[:5]])
    dirty[400, 0], dirty[401, 3] = np.nan, np.inf
    dirty[402] = 1e30
    learner = OnlineLearner(SMALL).partial_fit(dirty)
    assert learner.num_skipped == 8
    clean = OnlineLearner(SMALL).partial_fit(patches)
    np.testing.assert_array_equal(learner.dictionary, clean.dictionary)
    before = learner.dictionary
    learner.partial_fit(np.full((10, 64), np.nan)).partial_fit(np.zeros((0, 64)))
    learner.partial_fit(np.full((10, 64), 9))
    np.testing.assert_array_equal(learner.dictionary, before)
    assert learner.num_skipped == 28


def test_data_of_low_rank_neither_crash_nor_poison() -> None:
    random = np.random.default_rng(4)
    flat = random.standard_normal((3000, 3)) @ random.standard_normal((3, 64)) * 50
    learner = OnlineLearner(SMALL)
    for batch in np.split(flat, 30):
        learner.partial_fit(batch)
    learner.update_sensing_matrix()
    learner.partial_fit(textured_patches(128))
    assert np.isfinite(learner.dictionary).all()
    assert np.isfinite(learner.sensing_matrix).all()


def test_patches_are_collected_until_there_are_enough() -> None:
    learner = OnlineLearner(SMALL)
    patches = textured_patches(200)
    learner.partial_fit(patches[:60])
    assert not learner.is_started
    with pytest.raises(InvalidInputError, match="60 usable patches have come, 70 are needed"):
        _ = learner.dictionary
    learner.partial_fit(patches[:60])
    assert not learner.is_started  # the same again are no new ones
    assert learner.num_skipped == 60
    assert learner.partial_fit(patches[60:]).is_started
    assert learner.num_samples == 200


def test_initial_dictionary_can_be_given() -> None:
    start = random_start(5)
    learner = OnlineLearner(SMALL, dictionary=start)
    np.testing.assert_allclose(
        learner.dictionary, start / np.linalg.norm(start, axis=0), rtol=1e-5, atol=1e-6
    )
    for bad in (np.zeros((64, 70)), start[:, :60], np.full((64, 70), np.nan)):
        with pytest.raises(InvalidInputError, match="dictionary"):
            OnlineLearner(SMALL, dictionary=bad)


def test_outer_iterations_forget_the_statistics() -> None:
    learner = trained(10)
    assert learner.iteration == 10
    learner.update_sensing_matrix()
    assert (learner.iteration, learner.num_samples) == (0, 0)
    np.testing.assert_array_equal(learner.state()["A"], 0)
    going_on = trained(10)
    usage = going_on.usage
    going_on.update_sensing_matrix(forget=False)
    assert going_on.iteration == 10
    np.testing.assert_array_equal(going_on.usage, usage)
    by_itself = trained(25, dictionary_iterations=10)
    assert by_itself.iteration == 5


def test_batches_count_by_their_samples() -> None:
    # After n samples, a batch of s leaves the share (1 - s/n)^ρ of what was known before.
    patches = textured_patches(384)
    learner = OnlineLearner(replace(SMALL, rho=2.0)).partial_fit(patches[:256])
    before = learner.usage
    learner.partial_fit(patches[256:])
    added = learner.usage - before * (1 - 128 / 384) ** 2
    np.testing.assert_allclose(added, np.rint(added), atol=1e-9)  # uses by the new patches
    assert added.min() > -1e-9
    assert 0 < added.sum() <= 3 * 128


def test_statistics_stay_in_range_however_strongly_the_past_is_forgotten() -> None:
    for rho in (0.0, 1000.0, 1e6):
        learner = trained(20, rho=rho)
        state = learner.state()
        assert np.isfinite(state["A"]).all()
        assert state["A"].max() < 1e120
        np.testing.assert_allclose(np.linalg.norm(learner.dictionary, axis=0), 1, rtol=1e-5)
    only_last = trained(20, rho=1e6).usage
    assert only_last.sum() <= 3 * 128


def test_seldom_used_atoms_are_replaced() -> None:
    learner = trained(replacement_share=0.6)
    rare = np.flatnonzero(learner.usage < 0.6 * learner.usage.max())
    kept = learner.dictionary
    learner.update_sensing_matrix()
    changed = np.flatnonzero(np.any(learner.dictionary != kept, axis=0))
    assert 0 < len(rare) < 70
    np.testing.assert_array_equal(changed, rare)
    assert learner.num_replaced == len(rare)


def test_kept_statistics_forget_replaced_atoms_alone() -> None:
    learner = trained(replacement_share=0.6)
    before = learner.state()
    rare = np.flatnonzero(learner.usage < 0.6 * learner.usage.max())
    learner.update_sensing_matrix(forget=False)
    assert learner.num_replaced == len(rare) > 0
    after = learner.state()
    others = np.setdiff1d(np.arange(70), rare)
    assert not after["A"][rare].any()
    assert not after["A"][:, rare].any()
    assert not after["B"][rare].any()
    assert not learner.usage[rare].any()
    np.testing.assert_array_equal(after["B"][others], before["B"][others])
    np.testing.assert_array_equal(
        after["A"][np.ix_(others, others)], before["A"][np.ix_(others, others)]
    )
    patches = learner.dictionary[:, rare]
    learner.partial_fit(textured_patches(128, seed=5))
    moved = np.linalg.norm(learner.dictionary[:, rare] - patches, axis=0)
    assert np.median(moved) < 1  # the old atoms do not come back


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_measurements": 64}, "num_measurements is 64; allowed are 1..63"),
        ({"num_measurements": 0}, "allowed are 1..63"),
        ({"sparsity": 9}, "sparsity is 9; allowed are 1..8"),
        ({"num_atoms": 7}, "num_atoms is 7; allowed are 8..4096"),
        ({"gamma": 0.0}, "gamma is 0.0; allowed are"),
        ({"gamma": float("nan")}, "gamma is nan; allowed are"),
        ({"rho": -1.0}, "rho is -1.0; allowed are"),
        ({"dictionary_iterations": 0}, "dictionary_iterations is 0; allowed are values >= 1"),
        ({"replacement_share": 2.0}, "replacement_share is 2.0; allowed are 0..1"),
        ({"seed": -1}, "seed is -1; allowed are values >= 0"),
        ({"num_atoms": 70.5}, "num_atoms is 70.5; allowed are 8..4096"),
        ({"rho": "strong"}, "rho is 'strong'; allowed are 0..1e"),
        ({"update": "fast"}, "update is 'fast'; allowed are exact, printed"),
    ],
)
def test_parameters_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        replace(SMALL, **change)


def test_patches_of_another_size_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"allowed is \(n, 64\)"):
        OnlineLearner(SMALL).partial_fit(np.zeros((10, 63)))
