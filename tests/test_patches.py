"""Planes to patches and back, for every size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cscodec.errors import InvalidInputError
from cscodec.transform.patches import (
    assemble_patches,
    extract_patches,
    patch_grid,
    remove_mean,
)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_assembling_inverts_extracting(height: int, width: int, seed: int) -> None:
    plane = np.random.default_rng(seed).integers(0, 256, (height, width), np.uint8)
    patches = extract_patches(plane)
    assert patches.dtype == np.float32
    assert patches.shape == (-(-height // 8) * -(-width // 8), 64)
    np.testing.assert_array_equal(assemble_patches(patches, plane.shape), plane)


def test_patches_come_in_raster_order() -> None:
    plane = np.arange(16 * 24).reshape(16, 24)
    patches = extract_patches(plane)
    np.testing.assert_array_equal(patches[1].reshape(8, 8), plane[:8, 8:16])
    np.testing.assert_array_equal(patches[3].reshape(8, 8), plane[8:, :8])


def test_padding_repeats_the_edge() -> None:
    plane = np.arange(3 * 10).reshape(3, 10)
    right = extract_patches(plane)[1].reshape(8, 8)
    np.testing.assert_array_equal(right[:3, :2], plane[:, 8:])
    np.testing.assert_array_equal(right[:, 1:], np.broadcast_to(right[:, 1:2], (8, 7)))
    np.testing.assert_array_equal(right[3:], np.broadcast_to(right[2], (5, 8)))


def test_means_and_zero_mean_patches_add_up() -> None:
    patches = np.random.default_rng(0).uniform(0, 255, (50, 64))
    centred, means = remove_mean(patches)
    np.testing.assert_allclose(centred.mean(axis=1), 0, atol=2e-5)
    np.testing.assert_allclose(centred + means[:, None], patches, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (5,), (2, 2, 2)])
def test_what_is_no_plane_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="plane has shape"):
        extract_patches(np.zeros(shape))


def test_patches_must_fit_the_shape() -> None:
    with pytest.raises(InvalidInputError, match=r"needs \(4, 64\)"):
        assemble_patches(np.zeros((3, 64)), (9, 9))


def test_grid_of_a_plane() -> None:
    assert patch_grid((1, 8)) == (1, 1)
    assert patch_grid((9, 17)) == (2, 3)
