"""Qualities, and the steps that they stand for in one picture and another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cscodec import encode, info
from cscodec.arrays import Pixels
from cscodec.bitstream.steps import MAX_STEP, MIN_STEP, step_code
from cscodec.encoding import TUNINGS
from cscodec.errors import InvalidInputError
from cscodec.model import load_model
from cscodec.quality import step_for_picture, step_for_quality
from cscodec.rows import PictureRows
from cscodec.texture import texture_of


@given(st.floats(0, 100), st.floats(0, 100))
def test_better_quality_is_a_finer_step(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert step_for_quality(low) >= step_for_quality(high)
    assert MIN_STEP <= step_for_quality(high) <= MAX_STEP


def test_every_whole_quality_has_a_step_of_its_own() -> None:
    codes = [step_code(step_for_quality(quality)) for quality in range(101)]
    assert codes == sorted(codes, reverse=True)
    assert len(set(codes)) == 101


@pytest.mark.parametrize("quality", [-0.001, 100.001, float("nan"), float("inf")])
def test_other_qualities_are_refused(quality: float) -> None:
    with pytest.raises(InvalidInputError, match=r"quality is .*; allowed are 0 to 100"):
        step_for_quality(quality)


def texture(strength: float, share: float = 1.0) -> Pixels:
    """Noise over a part of a gray picture, from the left; the rest is flat."""
    pixels = np.full((160, 160), 128.0)
    width = round(160 * share)
    pixels[:, :width] += np.random.default_rng(0).normal(0, strength, (160, width))
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def step_of(pixels: Pixels, quality: float = 75) -> float:
    return step_for_picture(quality, texture_of(PictureRows(pixels), load_model("photo")), "visual")


def test_faint_texture_asks_for_finer_steps_than_none_or_a_strong_one() -> None:
    flat, faint, strong = (step_of(texture(strength)) for strength in (0, 6, 40))
    assert faint < strong < flat < step_for_quality(75)
    assert faint < step_of(texture(6, 0.3)) < flat


def test_chroma_s_step_grows_more_slowly_than_luma_s() -> None:
    """From 0.96 of it to 0.6."""
    steps = np.geomspace(MIN_STEP, MAX_STEP, 200)
    chroma = np.array([TUNINGS["visual"].chroma_step(step) for step in steps])
    assert (np.diff(chroma) > 0).all()
    assert (np.diff(chroma / steps) < 1e-12).all()
    np.testing.assert_allclose(chroma[0], 0.96 * steps[0])
    np.testing.assert_allclose(chroma[-1], 0.6 * steps[-1])
    data = encode(np.stack([texture(6)] * 3, axis=2), step=35)
    assert info(data).chroma_step == pytest.approx(35 * 0.78, abs=1 / 128)


def test_equal_steps_for_all_pictures_where_files_are_for_psnr() -> None:
    for pixels in (texture(0), texture(6)):
        step = step_for_picture(60, texture_of(PictureRows(pixels), load_model("photo")), "psnr")
        assert step == step_for_quality(60)


@given(st.floats(0, 100), st.floats(0, 100))
def test_better_quality_is_a_finer_step_in_every_picture(a: float, b: float) -> None:
    low, high = sorted((a, b))
    pixels = texture(9)[:40, :40]
    assert step_of(pixels, low) >= step_of(pixels, high) >= MIN_STEP


@pytest.mark.parametrize("shape", [(1, 1), (7, 300), (300, 3), (9, 9, 3), (20, 30, 4)])
def test_pictures_of_any_size_have_a_step(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    step = step_of(pixels)
    assert 0.35 * step_for_quality(75) <= step <= step_for_quality(75)
    assert info(encode(pixels, quality=75)).step == step_code(step) / 64


def test_a_quality_stands_for_a_step() -> None:
    pixels = texture(9)
    assert encode(pixels) == encode(pixels, step=step_of(pixels))
