"""The decoders for unquantised measurements, and the averages that refinement is made of."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from cscodec.choices import PATCH_DECODERS
from cscodec.errors import InvalidInputError
from cscodec.kernels.library import usable_levels
from cscodec.learning.online import LearnerParameters, OnlineLearner
from cscodec.model import System
from cscodec.sensing import reconstruct
from cscodec.sensing.averages import cosine_basis, similar_average, sparse_average
from cscodec.sensing.pursuit import omp_reference
from cscodec.sensing.reconstruct import (
    Refinement,
    decode_measurements,
    measure_plane,
    refine_unquantised,
)
from cscodec.transform.patches import assemble_patches, extract_patches

Plane = NDArray[np.uint8]


@pytest.fixture(scope="module")
def system(gray_photo: Plane) -> System:
    """A system learned from a few hundred patches of the picture that it is tried on."""
    patches = extract_patches(gray_photo)
    learner = OnlineLearner(LearnerParameters(num_measurements=20, num_atoms=128))
    for _ in range(5):
        for first in range(0, len(patches), 512):
            learner.partial_fit(patches[first : first + 512])
    return System.from_matrices(learner.sensing_matrix, learner.dictionary)


@pytest.fixture(scope="module")
def part(gray_photo: Plane) -> Plane:
    return gray_photo[200:301, 180:290]  # neither side is a multiple of 8


def error(plane: Plane, restored: NDArray[np.float32]) -> float:
    return float(np.mean((plane - restored) ** 2))


def test_measurements_are_means_and_products(part: Plane, system: System) -> None:
    measurements = measure_plane(part, system)
    assert measurements.shape == (13, 14, 21)
    patch = part[8:16, 16:24].astype(np.float64).ravel()
    expected = system.sensing_matrix.astype(np.float64) @ (patch - patch.mean())
    np.testing.assert_allclose(measurements[1, 2, 0], patch.mean(), rtol=1e-6)
    np.testing.assert_allclose(measurements[1, 2, 1:], expected, rtol=1e-3, atol=1e-3)


def test_any_rotation_of_the_sensing_matrix_performs_the_same(part: Plane, system: System) -> None:
    # Lemma 1: U_M, the rotation that Theorem 1 leaves free, decides nothing.
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((20, 20)))[0]
    rotated = System.from_matrices(rotation @ system.sensing_matrix, system.dictionary)
    assert np.abs(rotated.sensing_matrix - system.sensing_matrix).max() > 0.1
    for gamma in (1 / 32, 1.0):  # what learning sees of Φ
        weights = [
            gamma * np.eye(64) + one.sensing_matrix.T @ one.sensing_matrix
            for one in (system, rotated)
        ]
        np.testing.assert_allclose(*weights, atol=1e-5)
    measured = [measure_plane(part, one) for one in (system, rotated)]
    for decoder in PATCH_DECODERS:
        first, second = (
            decode_measurements(found.reshape(-1, 21)[:, 1:], one, decoder)
            for found, one in zip(measured, (system, rotated), strict=True)
        )
        same = np.abs(first - second).max(axis=1) < 0.05
        assert same.mean() > 0.98, decoder  # where two atoms are as good, rounding decides


def test_omp_decoder_is_the_papers(part: Plane, system: System) -> None:
    measurements = measure_plane(part, system).reshape(-1, 21)[:, 1:]
    equivalent = system.sensing_matrix.astype(np.float64) @ system.dictionary
    codes = omp_reference(measurements, equivalent, sparsity=4)
    decoded = decode_measurements(measurements, system, "omp", sparsity=4)
    expected = codes.reconstruct(system.dictionary)
    same = np.all(np.abs(decoded - expected) < 0.05, axis=1)
    assert same.mean() >= 0.99  # a near tie may go the other way in float32


def test_linear_decoder_is_the_pseudo_inverse(part: Plane, system: System) -> None:
    measurements = measure_plane(part, system).reshape(-1, 21)[:, 1:]
    expected = measurements @ np.linalg.pinv(system.sensing_matrix.astype(np.float64)).T
    decoded = decode_measurements(measurements, system, "linear")
    np.testing.assert_allclose(decoded, expected, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("decoder", ["linear", "consistent"])
def test_consistent_decoders_give_the_measurements_back(
    part: Plane, system: System, decoder: str
) -> None:
    measurements = measure_plane(part, system).reshape(-1, 21)[:, 1:]
    again = decode_measurements(measurements, system, decoder) @ system.sensing_matrix.T
    np.testing.assert_allclose(again, measurements, rtol=1e-3, atol=1e-2)
    by_omp = decode_measurements(measurements, system, "omp") @ system.sensing_matrix.T
    assert np.abs(by_omp - measurements).max() > 0.1


def test_patches_of_few_atoms_are_restored_exactly(system: System) -> None:
    random = np.random.default_rng(0)
    dictionary = system.dictionary.astype(np.float64)
    patches = np.zeros((200, 64))
    for patch in patches:
        patch += dictionary[:, random.integers(0, 128)] * random.uniform(50, 100)
    measurements = patches @ system.sensing_matrix.T
    for decoder in ("omp", "consistent"):
        decoded = decode_measurements(measurements, system, decoder, sparsity=1)
        np.testing.assert_allclose(decoded, patches, atol=0.01)
    linear = decode_measurements(measurements, system, "linear")
    assert np.abs(linear - patches).max() > 1


def test_fewer_measurements_use_the_first_rows(part: Plane, system: System) -> None:
    measurements = measure_plane(part, system).reshape(-1, 21)[:, 1:9]
    short = System.from_matrices(system.sensing_matrix[:8], system.dictionary)
    for decoder in PATCH_DECODERS:
        np.testing.assert_array_equal(
            decode_measurements(measurements, system, decoder),
            decode_measurements(measurements, short, decoder),
        )


def test_each_decoder_is_worth_its_name(part: Plane, system: System) -> None:
    measurements = measure_plane(part, system)
    means, rest = measurements[..., 0].reshape(-1, 1), measurements.reshape(-1, 21)[:, 1:]
    errors = {}
    for decoder in PATCH_DECODERS:
        patches = decode_measurements(rest, system, decoder) + means
        errors[decoder] = error(part, assemble_patches(patches, part.shape))
    errors["refine"] = error(part, refine_unquantised(measurements, system, part.shape))
    assert errors["consistent"] < errors["omp"]
    assert errors["refine"] < 0.95 * min(errors[decoder] for decoder in PATCH_DECODERS)


def test_refined_plane_keeps_to_the_measurements(part: Plane, system: System) -> None:
    inside = part[:96, :104]  # whole patches: padding is cropped and cannot be measured again
    measurements = measure_plane(inside, system)
    again = measure_plane(refine_unquantised(measurements, system, inside.shape), system)
    np.testing.assert_allclose(again, measurements, rtol=1e-3, atol=0.02)


def test_more_rounds_restore_more(part: Plane, system: System) -> None:
    """Both the last three, which settle, and those that come before them."""
    measurements = measure_plane(part, system)
    errors = [
        error(part, refine_unquantised(measurements, system, part.shape, Refinement(rounds=rounds)))
        for rounds in (0, 3, 8, 20)
    ]
    assert errors[1] < 0.98 * errors[0]
    assert errors[2] < 0.98 * errors[1]
    assert errors[3] < 0.995 * errors[2]


def test_grain_settles(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Momentum alone makes patterns of noise; the last rounds take them away again."""
    grain = np.random.default_rng(4).normal(128, 12, (96, 96)).clip(0, 255).astype(np.uint8)
    measurements = measure_plane(grain, system)
    settled = error(grain, refine_unquantised(measurements, system, grain.shape))
    monkeypatch.setattr(reconstruct, "_SETTLING_ROUNDS", 0)
    assert settled < 0.98 * error(grain, refine_unquantised(measurements, system, grain.shape))


def test_refining_does_not_depend_on_workers(part: Plane, system: System) -> None:
    measurements = measure_plane(part, system)
    planes = [
        refine_unquantised(measurements, system, part.shape, Refinement(rounds=4), workers=workers)
        for workers in (1, 2)
    ]
    np.testing.assert_array_equal(planes[0], planes[1])


def test_similar_patches_are_the_nearest_ones() -> None:
    """A patch finds the only one that resembles it, which is brighter, and they meet halfway."""
    plane = np.random.default_rng(5).normal(0, 100, (8, 40)).astype(np.float32)
    plane[:, 24:32] = plane[:, 8:16] + 2
    changes = similar_average(plane, 15.0, stride=8, group_size=2) - plane
    # Not quite by 1, as patches that overlap these have their say.
    assert 0.3 < changes[:, 8:16].mean() < 1.1
    assert -1.1 < changes[:, 24:32].mean() < -0.3
    assert abs(changes[:, :8].mean()) < 0.05


def test_no_rounds_are_the_linear_decoder(part: Plane, system: System) -> None:
    measurements = measure_plane(part, system)
    rest = measurements.reshape(-1, 21)
    linear = decode_measurements(rest[:, 1:], system, "linear") + rest[:, :1]
    np.testing.assert_array_equal(
        refine_unquantised(measurements, system, part.shape, Refinement(rounds=0)),
        assemble_patches(linear, part.shape),
    )


def test_constant_planes_stay_constant(system: System) -> None:
    plane = np.full((20, 9), 77, np.uint8)
    restored = refine_unquantised(measure_plane(plane, system), system, plane.shape)
    np.testing.assert_allclose(restored, 77, atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (3, 40), (33, 7)])
def test_planes_of_any_size(shape: tuple[int, int], system: System) -> None:
    plane = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    restored = refine_unquantised(measure_plane(plane, system), system, shape, Refinement(rounds=2))
    assert restored.shape == shape
    assert np.isfinite(restored).all()
    assert sparse_average(plane, system.dictionary, 10.0).shape == shape
    assert similar_average(plane, 10.0).shape == shape


class TestAverages:
    def test_nothing_is_lost_where_nothing_may_be(self, part: Plane, system: System) -> None:
        plane = part.astype(np.float32)
        np.testing.assert_allclose(similar_average(plane, 0.0), plane, atol=0.01)
        complete = np.concatenate([cosine_basis()[1:].T, system.dictionary], axis=1)
        restored = sparse_average(plane, complete, 0.0, max_atoms=64)
        assert error(part, restored) < 0.01

    def test_noise_is_removed(self, part: Plane, system: System) -> None:
        noise = np.random.default_rng(2).normal(0, 12, part.shape)
        noisy = part + noise
        unguided = similar_average(noisy, 2.7 * 12)
        assert error(part, unguided) < 0.4 * np.mean(noise**2)
        guided = similar_average(noisy, 12.0, guide=unguided)
        assert error(part, guided) < 0.95 * error(part, unguided)
        denoised = sparse_average(noisy, system.dictionary, 1.1 * 64 * 12**2)
        assert error(part, denoised) < 0.5 * np.mean(noise**2)

    def test_flat_patches_become_their_means(self, system: System) -> None:
        plane = np.zeros((8, 8), np.float32)
        plane[4:] = 1
        np.testing.assert_allclose(sparse_average(plane, system.dictionary, 16.01), 0.5)
        assert np.ptp(sparse_average(plane, system.dictionary, 15.9)) > 0.1

    def test_workers_change_nothing(self, part: Plane, system: System) -> None:
        for stride in (1, 3):
            one = sparse_average(part, system.dictionary, 200.0, stride)
            np.testing.assert_array_equal(
                one, sparse_average(part, system.dictionary, 200.0, stride, workers=2)
            )
            np.testing.assert_array_equal(
                similar_average(part, 20.0, stride), similar_average(part, 20.0, stride, workers=2)
            )

    def test_the_basis_is_orthonormal_and_starts_with_the_mean(self) -> None:
        basis = cosine_basis()
        np.testing.assert_allclose(basis @ basis.T, np.eye(64), atol=1e-6)
        np.testing.assert_allclose(basis[0], 1 / 8)

    def test_parameters_out_of_range_are_refused(self, system: System) -> None:
        plane, dictionary = np.ones((9, 9)), system.dictionary
        for stride, atoms, bound in ((0, 16, 1.0), (9, 16, 1.0), (2, 0, 1.0), (2, 16, -1.0)):
            with pytest.raises(InvalidInputError, match="stride is"):
                sparse_average(plane, dictionary, bound, stride, atoms)
        with pytest.raises(InvalidInputError, match="dictionary has shape"):
            sparse_average(plane, dictionary[:63], 1.0)
        with pytest.raises(InvalidInputError, match="stride is 9"):
            similar_average(plane, 1.0, 9)
        with pytest.raises(InvalidInputError, match="group_size is 12"):
            similar_average(plane, 1.0, group_size=12)
        with pytest.raises(InvalidInputError, match="guide has shape"):
            similar_average(plane, 1.0, guide=np.ones((10, 9)))
        for bad in (np.full((9, 9), np.nan), np.zeros((0, 9)), np.zeros(9)):
            with pytest.raises(InvalidInputError, match="plane has shape"):
                similar_average(bad, 1.0)


def test_bad_measurements_are_refused(system: System) -> None:
    with pytest.raises(InvalidInputError, match="decoder is 'magic'"):
        decode_measurements(np.ones((1, 20)), system, "magic")
    for shape in ((3, 21), (3, 0), (3,)):
        with pytest.raises(InvalidInputError, match="measurements have shape"):
            decode_measurements(np.ones(shape), system)
    for decode in (partial(decode_measurements, decoder="linear"), decode_measurements):
        with pytest.raises(InvalidInputError, match="measurements hold NaN"):
            decode(np.full((2, 20), np.nan), system)
        with pytest.raises(InvalidInputError, match="measurements are complex"):
            decode(np.full((2, 20), 1j), system)
    with pytest.raises(InvalidInputError, match="measurements hold NaN"):
        refine_unquantised(np.full((2, 2, 21), np.nan), system, (16, 16))
    for shape in ((1, 2, 21), (2, 2, 22), (2, 2, 1), (4, 21)):
        with pytest.raises(InvalidInputError, match="a plane of 16x16 pixels needs"):
            refine_unquantised(np.ones(shape), system, (16, 16))
    with pytest.raises(InvalidInputError, match="rounds is -1"):
        Refinement(rounds=-1)
    with pytest.raises(InvalidInputError, match=r"thresholds are 200\.0 and 0"):
        Refinement(lowest_threshold=0)
    for wrong in ({"stride": 9}, {"group_size": 12}):
        with pytest.raises(InvalidInputError, match=f"{next(iter(wrong))} is"):
            refine_unquantised(np.ones((2, 2, 21)), system, (16, 16), Refinement(**wrong))


_BITS = """
import hashlib, numpy as np
from cscodec.model import System
from cscodec.sensing.reconstruct import decode_measurements, measure_plane, sparse_average
from cscodec.sensing.reconstruct import Refinement, refine_unquantised
from cscodec.sensing.averages import similar_average
random = np.random.default_rng(0)
plane = random.integers(0, 256, (40, 60)).astype(np.float32).cumsum(1) / 9
dictionary = random.standard_normal((64, 256)).astype(np.float32)
phi = np.linalg.qr(random.standard_normal((64, 20)))[0].T.round(3)
system = System(phi.astype(np.float32), dictionary, phi.astype(np.float32))
measurements = random.standard_normal((50, 20)).astype(np.float32)
digest = hashlib.sha256()
for result in (
    sparse_average(plane, dictionary, 500.0),
    similar_average(plane, 20.0),
    decode_measurements(measurements, system, "omp"),
    refine_unquantised(measure_plane(plane, system), system, plane.shape, Refinement(rounds=4)),
):
    digest.update(result.tobytes())
print(digest.hexdigest())
"""


def test_bits_depend_neither_on_blas_nor_on_vector_units() -> None:
    settings: list[dict[str, str]] = [
        {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "2"},
        *({"CSCODEC_KERNELS": level, "OPENBLAS_NUM_THREADS": "1"} for level in usable_levels()),
    ]
    digests = set()
    for setting in settings:
        environment = {**os.environ, **setting}
        command = [sys.executable, "-c", _BITS]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        digests.add(run.stdout)
    assert len(digests) == 1
