"""Planes from quantised measurements: consistent with the file, and better than its middle."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import odd_model, plain_model, sample

from cscodec.bitstream.steps import dequantize, measurement_steps, scaled
from cscodec.bitstream.tables import neutral_tables
from cscodec.bitstream.tiles import encode_tile
from cscodec.choices import DECODERS
from cscodec.encoding import measure_colours
from cscodec.model import Model, System, load_model
from cscodec.restore.cells import Quantised, middle_of_cells
from cscodec.restore.filters import filters_for
from cscodec.restore.planes import restore_plane
from cscodec.sensing.pursuit import omp_reference
from cscodec.transform.measure import analyse_plane
from cscodec.transform.patches import assemble_patches, extract_patches

Plane = npt.NDArray[np.float32]
STEP = 24.0


@pytest.fixture(scope="module")
def plane() -> Plane:
    """Luma of a part of a photograph, around zero."""
    return (sample("gates", 64, 96, 200, 150)[..., 1].astype(np.float32) - 128).copy()


def measured(plane: npt.NDArray[Any], model: Model) -> Plane:
    return measure_colours((plane + 128).astype(np.uint8), model, full_chroma=True)[0]


def quantised(
    plane: npt.NDArray[Any], model: Model, tilt: float = 0, measurements: int = 63
) -> Quantised:
    """As a file at effort 1 holds it."""
    wanted = scaled(measured(plane, model), measurement_steps(STEP, tilt))
    _, (values,) = encode_tile(
        [wanted], neutral_tables(), measurements=measurements, rate_weight=0.1
    )
    return Quantised(values, STEP, tilt, 0.75, measurements)


def assert_in_cells(restored: Plane, quantised: Quantised, system: System) -> None:
    coefficients = analyse_plane(restored, system.analysis, system.lapping).reshape(-1, 64)
    values = quantised.values.reshape(-1, 64)[:, : quantised.measurements + 1].astype(float)
    half = np.where(values == 0, quantised.zero_cell, 0.5)
    half[:, 0] = 0.5
    distance = np.abs(
        coefficients[:, : values.shape[1]] / quantised.steps[: values.shape[1]] - values
    )
    assert (distance <= half + 1e-3).all()


@pytest.mark.parametrize("decoder", ["refine", "consistent"])
@pytest.mark.parametrize("measurements", [1, 20, 63])
@pytest.mark.parametrize("filtered", [False, True])
def test_measurements_of_the_restored_lie_in_their_cells(
    plane: Plane, decoder: str, measurements: int, filtered: bool
) -> None:
    model = odd_model()  # its filters are nonsense: only the cells keep them from doing harm
    held = quantised(plane, model, measurements=measurements)
    filters = filters_for(model.filters["luma"], STEP, 0) if filtered else None
    restored = restore_plane(held, model.luma, decoder, filters=filters)
    assert restored.shape == plane.shape
    assert_in_cells(restored, held, model.luma)
    middle = middle_of_cells(held, model.luma)
    assert not np.array_equal(restored, middle)


@settings(max_examples=25)
@given(
    st.integers(1, 4), st.integers(1, 4), st.floats(0.25, 500), st.integers(0, 999), st.booleans()
)
def test_they_do_so_for_any_values(
    rows: int, columns: int, step: float, seed: int, filtered: bool
) -> None:
    """Even for measurements that no picture has."""
    generator = np.random.default_rng(seed)
    values = np.rint(generator.laplace(size=(rows, columns, 64)) * 3).astype(np.int16)
    tilt = generator.choice([0, 1.75])
    held = Quantised(values, step, tilt, 0.75, 63)
    filters = filters_for(odd_model().filters["luma"], step, tilt) if filtered else None
    for decoder in ("refine", "consistent"):
        restored = restore_plane(held, odd_model().luma, decoder, filters=filters)
        assert np.isfinite(restored).all()
        assert_in_cells(restored, held, odd_model().luma)


@pytest.mark.parametrize("name", ["photo", "paper-m20"])
@pytest.mark.parametrize("tilt", [0.0, 1.0625])
def test_shipped_models_keep_to_the_cells_and_improve(plane: Plane, name: str, tilt: float) -> None:
    model = load_model(name)
    system = model.luma
    held = quantised(plane, model, tilt, system.num_measurements)
    filters = None
    if model.filters:
        filters = filters_for(model.filters["luma"], STEP, tilt)
    errors = {}
    for decoder in DECODERS:
        restored = restore_plane(held, system, decoder, filters=filters, sparsity=4)
        errors[decoder] = float(np.square(restored - plane).mean())
        if decoder in ("refine", "consistent"):
            assert_in_cells(restored, held, system)
    assert errors["refine"] < errors["linear"]
    assert errors["consistent"] < errors["omp"]


@pytest.mark.parametrize("tilt", [0.0, 1.0625])
def test_linear_is_the_transpose_of_the_basis(plane: Plane, tilt: float) -> None:
    model = plain_model()
    held = quantised(plane, model, tilt)
    centres = dequantize(held.values, held.steps).reshape(-1, 64)
    expected = centres @ model.luma.synthesis
    np.testing.assert_allclose(
        extract_patches(restore_plane(held, model.luma, "linear")), expected, atol=1e-2
    )
    fine = Quantised(np.rint(measured(plane, model) * 4).astype(np.int16), 0.25, 0, 0.5, 63)
    assert np.abs(restore_plane(fine, model.luma, "linear") - plane).max() < 0.6


@pytest.mark.parametrize("measurements", [20, 63])
@pytest.mark.parametrize("sparsity", [1, 4])
def test_omp_is_the_papers(plane: Plane, measurements: int, sparsity: int) -> None:
    """At most K atoms of Ψ whose measurements by Φ come nearest, by the reference's pursuit."""
    system = plain_model().luma
    held = quantised(plane, plain_model(), measurements=measurements)
    restored = extract_patches(restore_plane(held, system, "omp", sparsity=sparsity))
    centres = dequantize(held.values, held.steps).reshape(-1, 64).astype(float)
    rows = system.sensing_matrix if measurements == 63 else system.basis[:measurements]
    rows = rows.astype(np.float64)
    seen = centres[:, 1 : measurements + 1] @ (rows @ system.basis[:measurements].T).T
    # Some of these atoms cannot be seen by 20 measurements; pursuit must not use them at all.
    visible = np.linalg.norm(system.basis[:measurements] @ system.dictionary, axis=0) > 1e-3
    assert visible.all() == (measurements == 63)
    codes = omp_reference(seen, rows @ (system.dictionary * visible), sparsity=sparsity)
    expected = codes.reconstruct(system.dictionary) + centres[:, :1] / 8
    same = np.abs(restored - expected).max(axis=1) < 0.5
    assert same.mean() > 0.95  # a near tie may go the other way in float32


@pytest.mark.parametrize("decoder", DECODERS)
def test_without_measurements_patches_are_flat_or_smoothed(decoder: str) -> None:
    values = np.zeros((3, 4, 64), np.int16)
    values[..., 0] = np.arange(12).reshape(3, 4) * 3
    held = Quantised(values, 8.0, 0, 0.75, 0)
    restored = restore_plane(held, plain_model().luma, decoder)
    means = extract_patches(restored).mean(axis=1)
    assert np.abs(means - values[..., 0].ravel()).max() <= 0.5 + 1e-3
    if decoder in ("linear", "omp"):
        np.testing.assert_array_equal(
            restored, assemble_patches(np.repeat(means[:, None], 64, axis=1), (24, 32))
        )


@pytest.mark.parametrize("decoder", DECODERS)
def test_flat_planes_stay_flat(decoder: str) -> None:
    values = np.zeros((2, 3, 64), np.int16)
    values[..., 0] = 40
    filters = filters_for(odd_model().filters["luma"], 10.0, 0)
    restored = restore_plane(
        Quantised(values, 10.0, 0, 0.75, 63), odd_model().luma, decoder, filters=filters
    )
    np.testing.assert_allclose(restored, 50, atol=1e-3)
