"""The rivals as a user meets them: a method, patches, and then a model or a clear refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cscodec.errors import InvalidInputError
from cscodec.learning.options import METHODS as OPTION_METHODS
from cscodec.learning.rivals import (
    METHODS,
    NUM_PATCHES,
    LearnedSystem,
    Sizes,
    learn,
    training_set,
)
from cscodec.model import Model, System
from cscodec.sensing.reconstruct import decode_measurements
from cscodec.transform.patches import extract_patches, remove_mean

ITERATIVE = ("s-dcs", "bl", "ksvd", "mod")
SIZES = Sizes(num_measurements=10, num_atoms=70, sparsity=3)


def learned(method: str, patches: npt.ArrayLike, **change: Any) -> LearnedSystem:
    """What the method makes of the patches in a few rounds."""
    rounds = {} if method == "pca" else {"iterations": 6}
    return learn(method, patches, SIZES, **{**rounds, **change})


@pytest.fixture(scope="module")
def patches(gray_photo: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Two thousand patches of a photograph, in random order."""
    rows = remove_mean(extract_patches(gray_photo[:424, :568]))[0]
    return np.random.default_rng(0).permutation(rows)[:2000]


def restored_mean_squared_error(
    patches: npt.NDArray[np.float32], phi: npt.ArrayLike, psi: npt.ArrayLike, decoder: str = "omp"
) -> float:
    system = System.from_matrices(phi, psi)
    measurements = patches @ system.sensing_matrix.T
    restored = decode_measurements(measurements, system, decoder=decoder, sparsity=3)
    return float(np.mean((restored - patches) ** 2))


def test_every_method_of_the_command_line_exists() -> None:
    assert {*METHODS, "online"} == set(OPTION_METHODS)
    assert set(NUM_PATCHES) == set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_makes_a_model_of_the_size_asked_for(method: str, patches: npt.NDArray[np.float32]) -> None:
    phi, psi, history = learned(method, patches)
    system = System.from_matrices(phi, psi)
    model = Model.from_bytes(Model(method, system, system).to_bytes())
    assert model.sensing_matrix.shape == (10, 64)
    assert model.dictionary.shape == (64, 10 if method == "pca" else 70)
    np.testing.assert_allclose(np.linalg.norm(model.dictionary, axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(model.dictionary.sum(axis=0), 0, atol=1e-4)
    rows = np.linalg.norm(model.sensing_matrix, axis=1)
    np.testing.assert_allclose(model.sensing_matrix.sum(axis=1) / rows, 0, atol=1e-4)
    assert all(np.isfinite(list(row.values())).all() for row in history)
    # Measured and decoded, most of the patches' energy is there.
    assert restored_mean_squared_error(patches, phi, psi) < 0.9 * float(np.mean(patches**2))


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_system(method: str, patches: npt.NDArray[np.float32]) -> None:
    rounds = {} if method == "pca" else {"iterations": 2}
    first, second = (learned(method, patches[:500], **rounds) for _ in range(2))
    assert np.array_equal(first.sensing_matrix, second.sensing_matrix)
    assert np.array_equal(first.dictionary, second.dictionary)


@pytest.mark.parametrize("method", ITERATIVE)
def test_is_observed_and_gets_better(method: str, patches: npt.NDArray[np.float32]) -> None:
    seen: list[int] = []
    errors: list[float] = []

    def observer(iteration: int, phi: npt.NDArray[Any], psi: npt.NDArray[Any]) -> None:
        seen.append(iteration)
        errors.append(restored_mean_squared_error(patches, phi, psi))

    history = learned(method, patches, observer=observer).history
    assert seen == [row["iteration"] for row in history] == [1, 2, 3, 4, 5, 6]
    assert errors[-1] < 0.95 * errors[0]


def test_learned_systems_beat_a_random_one(patches: npt.NDArray[np.float32]) -> None:
    errors = {
        method: restored_mean_squared_error(patches, *learned(method, patches)[:2])
        for method in ("s-dcs", "bl", "random")
    }
    assert max(errors["s-dcs"], errors["bl"]) < 0.7 * errors["random"]


def test_no_linear_system_beats_pca(patches: npt.NDArray[np.float32]) -> None:
    phi, psi, _ = learned("pca", patches)
    floor = restored_mean_squared_error(patches, phi, psi, "linear")
    for method in ("s-dcs", "ksvd", "random"):
        other = learned(method, patches)
        error = restored_mean_squared_error(patches, *other[:2], decoder="linear")
        assert floor < error


@pytest.mark.parametrize("robustness", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("target", ["identity", "equiangular"])
def test_bl_keeps_full_rank(
    target: str, robustness: float, patches: npt.NDArray[np.float32]
) -> None:
    phi = learned(
        "bl", patches, target_gram=target, robustness=robustness, gram_rounds=2
    ).sensing_matrix
    assert np.linalg.matrix_rank(phi) == 10


def test_robust_takes_the_penalty_that_validates_best(patches: npt.NDArray[np.float32]) -> None:
    given = learned("ksvd", patches[:1500]).dictionary
    data = {"dictionary": given, "validation_patches": patches[1500:]}
    phi, psi, history = learned("robust", patches[:1500], **data, solver="closed-form")
    assert np.array_equal(psi, given)
    best = max(row["psnr_db"] for row in history)
    error = restored_mean_squared_error(patches[1500:], phi, psi)
    assert 10 * np.log10(255**2 / error) == pytest.approx(best, abs=0.01)
    assert len({round(row["psnr_db"], 3) for row in history}) > 1


def test_robust_accepts_a_model_file(patches: npt.NDArray[np.float32], tmp_path: Any) -> None:
    phi, psi, _ = learned("pca", patches)
    system = System.from_matrices(phi, psi)
    Model("given", system, system).save(tmp_path / "given.safetensors")
    path = str(tmp_path / "given.safetensors")
    robust = learn("robust", patches, Sizes(5, 10, 2), solver="closed-form", dictionary=path)
    np.testing.assert_array_equal(robust.dictionary, system.dictionary)


def test_random_takes_dct_or_learned_atoms(patches: npt.NDArray[np.float32]) -> None:
    dct = learned("random", patches, dictionary="dct")
    by_ksvd = learned("random", patches, dictionary="learned")
    np.testing.assert_array_equal(dct.dictionary, training_set.dct_dictionary(70))
    np.testing.assert_array_equal(by_ksvd.dictionary, learned("ksvd", patches).dictionary)
    np.testing.assert_array_equal(dct.sensing_matrix, by_ksvd.sensing_matrix)


@pytest.mark.parametrize("method", METHODS)
def test_patches_may_lie_in_memory_as_they_like(
    method: str, patches: npt.NDArray[np.float32]
) -> None:
    rounds = {} if method == "pca" else {"iterations": 2}
    rows, columns = (learned(method, p, **rounds) for p in (patches, np.asfortranarray(patches)))
    np.testing.assert_array_equal(rows.sensing_matrix, columns.sensing_matrix)
    np.testing.assert_array_equal(rows.dictionary, columns.dictionary)


@pytest.mark.parametrize("num_atoms", [1, 20, 63, 64, 100, 256, 4096])
def test_dct_dictionary(num_atoms: int) -> None:
    psi = training_set.dct_dictionary(num_atoms)
    assert psi.shape == (64, num_atoms)
    np.testing.assert_allclose(np.linalg.norm(psi, axis=0), 1)
    np.testing.assert_allclose(psi.sum(axis=0), 0, atol=1e-12)
    assert np.linalg.matrix_rank(psi) > 0.8 * min(num_atoms, 63)


def test_dct_dictionary_of_63_is_the_orthonormal_dct() -> None:
    psi = training_set.dct_dictionary(63)
    np.testing.assert_allclose(psi.T @ psi, np.eye(63), atol=1e-12)


# Bad input ------------------------------------------------------------------------------------


def test_unusable_patches_are_dropped_and_counted(patches: npt.NDArray[np.float32]) -> None:
    bad = patches[:40].copy()
    bad[3, 5] = np.nan
    bad[4, 6] = np.inf
    bad[5] = 0
    bad[6] = 17  # constant, though not zero
    bad[8] = bad[7]
    usable, num_skipped = training_set.usable_patches(bad)
    assert num_skipped == 5
    np.testing.assert_array_equal(usable, np.delete(patches[:40], [3, 4, 5, 6, 8], axis=0))


@pytest.mark.parametrize("method", METHODS)
def test_bad_patches_do_not_poison_a_system(method: str, patches: npt.NDArray[np.float32]) -> None:
    bad = np.concatenate(
        [
            patches[:300],
            np.full((50, 64), np.nan, np.float32),
            np.full((50, 64), -np.inf, np.float32),
            np.zeros((50, 64), np.float32),
            np.repeat(patches[:1], 50, axis=0),
        ]
    )
    rounds = {} if method == "pca" else {"iterations": 2}
    clean, poisoned = (learned(method, p, **rounds) for p in (patches[:300], bad))
    assert np.array_equal(clean.sensing_matrix, poisoned.sensing_matrix)
    assert np.array_equal(clean.dictionary, poisoned.dictionary)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_measurements": 64}, "measurements is 64; allowed is 1..63"),
        ({"num_measurements": 0}, "measurements is 0; allowed is 1..63"),
        ({"num_atoms": 9}, "atoms is 9; allowed is 10..4096"),
        ({"sparsity": 11}, "sparsity is 11; allowed is 1..10"),
        ({"sparsity": 0}, "sparsity is 0; allowed is 1..10"),
        ({"num_atoms": 2001}, "usable patches is 2000; allowed is at least 2001"),
    ],
)
def test_sizes_that_cannot_work_are_refused(
    method: str, change: dict[str, int], message: str, patches: npt.NDArray[np.float32]
) -> None:
    if method == "pca" and "num_measurements" not in change:
        pytest.skip("pca has neither atoms nor sparsity to choose")
    with pytest.raises(InvalidInputError, match=message):
        learn(method, patches, replace(SIZES, **change))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((0, 64)), "none of the 0 patches"),
        (np.full((10, 64), np.nan), "none of the 10 patches"),
        (np.ones((300, 64)), "none of the 300 patches"),
        (np.ones((300, 63)), "shape"),
        (np.ones(64), "shape"),
    ],
)
def test_useless_patches_are_refused(
    method: str, rows: npt.NDArray[np.float64], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        learned(method, rows)


@pytest.mark.parametrize("method", METHODS)
def test_patches_of_too_few_dimensions_are_refused(
    method: str, patches: npt.NDArray[np.float32]
) -> None:
    flat = patches[:200, :5] @ training_set.dct_dictionary(5).T
    with pytest.raises(InvalidInputError, match="span only 5 dimensions"):
        learned(method, flat)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("bl", {"robustness": 1.0}),
        ("bl", {"robustness": -0.1}),
        ("bl", {"robustness": "high"}),
        ("bl", {"target_gram": "round"}),
        ("bl", {"dictionary_rounds": 0}),
        ("bl", {"gram_rounds": 2.5}),
        ("bl", {"gamma": 0.0}),
        ("s-dcs", {"gamma": -1.0}),
        ("robust", {"solver": "magic"}),
        ("robust", {"dictionary": np.ones((63, 70))}),
        ("robust", {"dictionary": np.full((64, 70), np.nan)}),
        ("random", {"dictionary": "wavelets"}),
    ],
)
def test_parameters_that_cannot_work_are_refused(
    method: str, change: dict[str, Any], patches: npt.NDArray[np.float32]
) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(change))):
        learned(method, patches, **change)
