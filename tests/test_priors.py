"""What a model learns for coding: a sparse basis, the coder's tables, and that they pay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from strategies import Pixels, complete_system, plain_model, sample
from threadpoolctl import threadpool_limits

import cscodec
from cscodec.bitstream.tables import CoderTables, neutral_tables
from cscodec.learning.basis import sparse_basis
from cscodec.learning.coding import _even, learn_coding
from cscodec.learning.priors import Uses, train_tables
from cscodec.model import Model, System
from cscodec.restore.filters import check_filters
from cscodec.transform.patches import extract_patches, remove_mean

Tables = dict[str, npt.NDArray[Any]]


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread() -> Iterator[None]:
    """As the trainer does: BLAS threads that wait for busy CPUs take many times longer."""
    with threadpool_limits(1, "blas"):
        yield


def trained_on(crops: list[Pixels], seed: int = 0, **options: Any) -> Tables:
    return train_tables(plain_model(), crops, np.random.default_rng(seed), **options)


@pytest.fixture(scope="module")
def crops() -> list[Pixels]:
    return [sample(name, 128, 128, 40, 60) for name in ("fig", "gates", "chapel")]


@pytest.fixture(scope="module")
def tables(crops: list[Pixels]) -> Tables:
    return trained_on(crops)


@pytest.fixture(scope="module")
def learned(crops: list[Pixels]) -> Model:
    return learn_coding(plain_model(), crops, seed=1, workers=2)


def size(picture: Pixels, model: Model, **options: Any) -> int:
    data = cscodec.encode(picture, model=model, **options)
    np.testing.assert_array_equal(
        cscodec.decode(data, model=model, decoder="linear").shape, picture.shape
    )
    return len(data)


def test_trained_tables_are_tables(tables: Tables) -> None:
    CoderTables.from_mapping(tables)
    for name, neutral in neutral_tables().as_mapping().items():
        assert not np.array_equal(tables[name], neutral), name


@pytest.mark.parametrize("quality", [30, 60, 85])
def test_they_save_bytes_on_other_pictures(tables: Tables, quality: int) -> None:
    trained = replace(plain_model(), tables=tables)
    for name in ("cat", "stream"):
        picture = sample(name, 128, 128, 200, 200)
        options = {"quality": quality, "subsampling": "4:2:0", "effort": 0}
        trained_size, plain_size = (
            size(picture, model, **options) for model in (trained, plain_model())
        )
        assert trained_size < 0.99 * plain_size  # three small crops teach little


def test_training_is_repeatable_and_reports_progress(crops: list[Pixels], tables: Tables) -> None:
    seen: list[float] = []
    again = trained_on(crops, progress=seen.append)
    for name, array in tables.items():
        np.testing.assert_array_equal(again[name], array)
    assert seen == sorted(seen)
    assert seen[-1] == 1
    other = trained_on(crops, seed=1)
    assert not np.array_equal(other["slots"], tables["slots"])


def test_gray_pictures_teach_luma_only(crops: list[Pixels]) -> None:
    tables = trained_on([crops[0][..., 1]])
    for name, neutral in neutral_tables().as_mapping().items():
        assert not np.array_equal(tables[name][0], neutral[0]), name
        np.testing.assert_array_equal(tables[name][1:], neutral[1:])


def test_flat_pictures_teach_without_harm() -> None:
    flat = [np.full((64, 64, 3), 99, np.uint8)]
    trained = replace(plain_model(), tables=trained_on(flat))
    assert size(sample("fig", 64, 64), trained, quality=80) > 0


@pytest.mark.parametrize("firmness", [4, 20, 100])
def test_slots_begin_where_pictures_are_and_as_firm_as_they_agree(firmness: int) -> None:
    generator = np.random.default_rng(firmness)
    uses = Uses()
    shape = uses.first_states(most=0)[0].shape[1:]
    for _ in range(200):
        chance = generator.beta(0.75 * firmness, 0.25 * firmness, shape)
        ones = generator.binomial(60, chance)
        reached = (ones + 0.8) / (60 + 1.6)  # as the kernel's slots reach it
        uses.add(0, ((reached * 2**22).astype(np.uint32) << 10) | 60)
    slots, counts = uses.first_states(most=400)
    assert np.median(slots[0]) == pytest.approx(0.75 * 65536, rel=0.01)
    assert np.median(counts[0]) == pytest.approx(firmness, rel=0.25)
    assert counts[1].max() == 0  # nothing seen, nothing believed
    assert uses.first_states(most=3)[1].max() == 3


class TestBasis:
    @pytest.fixture(scope="class")
    @staticmethod
    def patches(crops: list[Pixels]) -> npt.NDArray[np.float32]:
        planes = [extract_patches(crop[..., 1]) for crop in crops]
        return remove_mean(np.concatenate(planes))[0]

    @pytest.fixture(scope="class")
    @staticmethod
    def turned() -> System:
        """A system whose rows see the same as cosines do, but mixed."""
        system = complete_system()
        mixed, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(63, 63)))
        return System.from_matrices(mixed @ system.basis, system.dictionary)

    def test_it_spans_the_same_and_is_orthonormal(
        self, patches: npt.NDArray[np.float32], turned: System
    ) -> None:
        few = System.from_matrices(turned.sensing_matrix[:20], turned.dictionary)
        for system in (turned, few):
            basis = sparse_basis(patches, system)
            assert basis.shape == system.basis.shape
            np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-6)
            np.testing.assert_allclose(system.basis @ basis.T @ basis, system.basis, atol=1e-5)
            system.with_basis(basis)  # accepted
            energies = np.square(patches @ basis.T).sum(axis=0)
            assert (np.diff(energies) <= 1e-6 * energies[0]).all()

    def test_patches_have_fewer_large_coefficients_in_it(
        self, patches: npt.NDArray[np.float32], turned: System
    ) -> None:
        basis = sparse_basis(patches, turned)
        for threshold in (10, 30):
            large = [(np.abs(patches @ b.T) > threshold).sum() for b in (basis, turned.basis)]
            assert large[0] < 0.7 * large[1]


class TestAll:
    def test_everything_is_learned(self, learned: Model) -> None:
        CoderTables.from_mapping(learned.tables)
        check_filters(learned.filters)
        assert set(learned.filters) == {"luma", "chroma"}
        assert not np.array_equal(learned.luma.basis, plain_model().luma.basis)
        assert not np.array_equal(learned.chroma.basis, plain_model().chroma.basis)
        np.testing.assert_array_equal(learned.luma.dictionary, plain_model().luma.dictionary)
        again = Model.from_bytes(learned.to_bytes())
        assert again.model_id == learned.model_id

    def test_workers_and_repetition_change_nothing(
        self, learned: Model, crops: list[Pixels]
    ) -> None:
        again = learn_coding(plain_model(), crops, seed=1, workers=1)
        assert again.model_id == learned.model_id

    def test_it_pays(self, learned: Model) -> None:
        picture = sample("cat", 128, 128, 200, 200)
        # Equal steps err alike in every basis; only then do sizes say something.
        sizes = [
            size(picture, model, quality=50, tune="psnr") for model in (learned, plain_model())
        ]
        assert sizes[0] < 0.97 * sizes[1]

    def test_pictures_of_other_modes_and_sizes_are_used_or_passed_over(self) -> None:
        colour = sample("fig", 70, 50)
        pictures = [
            colour[:31], colour[..., 0], np.dstack([colour, colour[..., 0]]), colour[..., :2]
        ]  # fmt: skip
        learned = learn_coding(plain_model(), pictures)
        assert learned.model_id != plain_model().model_id
        assert learn_coding(plain_model(), [colour[:31], colour[:, :20]]) is plain_model()


@pytest.mark.parametrize("length", [0, 16, 32, 48, 512, 528, 1008, 1024, 1040, 4000])
def test_sides_are_divided_evenly(length: int) -> None:
    parts = _even(length)
    assert [place for part in parts for place in range(part.start, part.stop)] == list(
        range(length if length >= 32 else 0)
    )
    sizes = [part.stop - part.start for part in parts]
    assert all(size % 16 == 0 and 32 <= size <= 512 for size in sizes)
    assert max(sizes, default=0) - min(sizes, default=0) <= 16
