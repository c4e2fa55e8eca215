"""Targets: what is reached, that nothing finer (or coarser) would do, and refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest
from strategies import Pixels, plain_model, sample

import cscodec
from cscodec.bitstream.steps import STEP_UNIT
from cscodec.errors import InvalidInputError
from cscodec.evaluation.metrics import psnr_db
from cscodec.rate_control import COARSEST_CODE, FINEST_CODE, file_for_target


@pytest.fixture(scope="module")
def picture() -> Pixels:
    return sample("gates", 64, 88, 100, 200)


def at_step(picture: Pixels, code: int) -> bytes:
    return cscodec.encode(picture, model=plain_model(), step=code / STEP_UNIT)


def code_of(data: bytes) -> int:
    return round(cscodec.info(data).step * STEP_UNIT)


@pytest.mark.parametrize("size", [500, 1500, 3000])
def test_sizes_are_met_by_the_finest_step_that_can(picture: Pixels, size: int) -> None:
    gray = picture[..., 1]  # auto subsampling makes a gap in the sizes of colour pictures
    data = cscodec.encode(gray, model=plain_model(), target_size=size)
    assert 0.9 * size < len(data) <= size
    assert data == at_step(gray, code_of(data))  # kept measurements change nothing
    assert len(at_step(gray, code_of(data) - 1)) > size


@pytest.mark.parametrize("bpp", [1.0, 2.5])
def test_bits_per_pixel_are_met(picture: Pixels, bpp: float) -> None:
    data = cscodec.encode(picture, model=plain_model(), target_bpp=bpp, subsampling="4:2:0")
    assert 0.9 * bpp < 8 * len(data) / (64 * 88) <= bpp


@pytest.mark.parametrize("shape", ["gray", "gray and alpha", "colour", "colour and alpha"])
def test_psnr_is_met_by_the_coarsest_step_that_can(picture: Pixels, shape: str) -> None:
    pixels = picture if "colour" in shape else picture[..., 1]
    if "alpha" in shape:
        alpha = np.random.default_rng(0).integers(0, 256, (64, 88, 1), np.uint8)
        pixels = np.concatenate([pixels.reshape(64, 88, -1), alpha], axis=2)

    def psnr(data: bytes) -> float:
        restored = cscodec.decode(data, model=plain_model())
        if "alpha" in shape:
            return psnr_db(pixels[..., :-1], restored[..., :-1])
        return psnr_db(pixels, restored)

    data = cscodec.encode(pixels, model=plain_model(), target_psnr=34.0)
    assert 34.0 <= psnr(data) < 34.5
    assert psnr(at_step(pixels, code_of(data) + 1)) < 34.0


@pytest.mark.parametrize(
    ("target", "value", "unit"),
    [
        ("target_size", 40, "bytes"),
        ("target_bpp", 0.01, "bits per pixel"),
        ("target_psnr", 90.0, "dB"),
    ],
)
def test_what_cannot_be_reached_is_refused_with_what_can(
    picture: Pixels, target: str, value: float, unit: str
) -> None:
    with pytest.raises(InvalidInputError, match=f"{unit} cannot be reached") as caught:
        cscodec.encode(picture, model=plain_model(), **{target: value})
    found = re.search(r"allows ([\d.e+]+) to ([\d.e+]+) ", str(caught.value))
    assert found is not None
    low, high = (float(text) for text in found.groups())
    assert low < high
    ends = [at_step(picture, code) for code in (COARSEST_CODE, FINEST_CODE)]
    if unit == "bytes":
        assert [low, high] == pytest.approx([len(data) for data in ends], rel=1e-3)
    # Whatever lies in the range is met, its ends included but for the digits of the message.
    cscodec.encode(picture, model=plain_model(), **{target: high * 1.001 if unit != "dB" else low})


def test_what_is_met_at_once_is_not_searched(picture: Pixels) -> None:
    for target in ({"target_size": 10**9}, {"target_bpp": 99.0}):
        data = cscodec.encode(picture, model=plain_model(), **target)
        assert code_of(data) == FINEST_CODE
    data = cscodec.encode(picture, model=plain_model(), target_psnr=1.0)
    assert code_of(data) == COARSEST_CODE


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_targets_are_positive_and_finite(picture: Pixels, value: float) -> None:
    for target in ("target_size", "target_bpp", "target_psnr"):
        with pytest.raises(InvalidInputError, match="must be positive and finite"):
            cscodec.encode(picture, model=plain_model(), **{target: value})


def test_there_is_one_target_at_a_time(picture: Pixels) -> None:
    for other in ({"target_psnr": 30.0}, {"quality": 75}, {"step": 3.0}):
        with pytest.raises(InvalidInputError, match="give only one of"):
            cscodec.encode(picture, model=plain_model(), target_size=500, **other)
    with pytest.raises(InvalidInputError, match="only one of quality and step"):
        cscodec.encode(picture, model=plain_model(), quality=75, step=3)


@pytest.mark.parametrize("at_least", [False, True])
@pytest.mark.parametrize("answer", [FINEST_CODE + 1, 77, 5000, COARSEST_CODE - 1])
def test_bisection_finds_the_step_with_few_files(answer: int, at_least: bool) -> None:
    asked: list[int] = []

    def file_at(code: int) -> bytes:
        asked.append(code)
        return bytes(COARSEST_CODE - code)

    size = COARSEST_CODE - answer
    found = file_for_target(file_at, len, size, unit="bytes", at_least=at_least)
    assert len(found) == size
    assert len(asked) == len(set(asked)) <= 19
    if answer == 5000:  # the finest steps make the dearest files
        assert min(asked) > 400
        assert len(asked) <= 16


def test_what_no_step_meets_is_known_at_once() -> None:
    asked: list[int] = []

    def file_at(code: int) -> bytes:
        asked.append(code)
        return bytes(20000 - code)

    with pytest.raises(InvalidInputError, match=r"3680 to 19984 bytes"):
        file_for_target(file_at, len, 1000, unit="bytes")
    assert len(asked) == 3


def test_a_psnr_is_reached_whatever_the_limit_for_readers_is(
    picture: Pixels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cscodec.decode.__kwdefaults__, "max_pixels", 9)
    assert cscodec.encode(picture[:16, :16], model=plain_model(), target_psnr=30.0)
