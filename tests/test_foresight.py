"""Choosing values a second time: what for, and what it brings."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import plain_model, sample

import cscodec
from cscodec.bitstream.container import Header
from cscodec.bitstream.steps import measurement_steps, scaled
from cscodec.bitstream.tiles import encode_tile
from cscodec.encoding import measure_colours
from cscodec.evaluation.metrics import psnr_db
from cscodec.foresight import foreseen
from cscodec.model import load_model
from cscodec.restore.cells import Quantised
from cscodec.restore.filters import filters_for
from cscodec.restore.planes import restore_plane
from cscodec.transform.measure import analyse_plane

PHOTO = load_model("photo")


def test_targets_lie_between_what_was_measured_and_what_makes_up_for_restoration() -> None:
    """A share of each move is taken away: none of the means', none at the border of the tile."""
    colours = sample("chapel", 96, 128, 60, 200)
    header = Header(
        width=128,
        height=96,
        channels=3,
        full_chroma=False,
        measurements=63,
        step_code=64 * 24,
        chroma_step_code=64 * 24,
        tilt_code=6,
        chroma_tilt_code=6,
        zero_cell=48,
        model_id=PHOTO.model_id,
    )
    steps = [measurement_steps(*header.step_and_tilt(number)) for number in range(3)]
    measured = measure_colours(colours, PHOTO, full_chroma=False)
    wanted = list(map(scaled, measured, steps))
    _, values = encode_tile(wanted, PHOTO.coder_tables, rate_weight=0.05)
    targets = foreseen(wanted, values, header, PHOTO)
    moved = 0
    for number, name in enumerate(("luma", "chroma", "chroma")):
        system = PHOTO.chroma if number > 0 else PHOTO.luma
        step, tilt = header.step_and_tilt(number)
        restored = restore_plane(
            Quantised(values[number], step, tilt, 0.75, 63),
            system,
            "refine",
            filters=filters_for(PHOTO.filters[name], step, tilt),
            is_chroma=number > 0,
        )
        found = analyse_plane(restored, system.analysis, system.lapping) / steps[number]
        moves = (found - values[number]) * 256
        shifts = wanted[number] - targets[number]
        np.testing.assert_array_equal(shifts[..., 0], 0)
        for border in (shifts[0], shifts[-1], shifts[:, 0], shifts[:, -1]):
            np.testing.assert_array_equal(border, 0)
        shifts, moves = shifts[1:-1, 1:-1, 1:], moves[1:-1, 1:-1, 1:]
        far = np.abs(moves) > 4
        shares = shifts[far] / moves[far]
        assert (shares > 0.2).all()
        assert (shares < 0.95).all()
        moved += np.count_nonzero(shifts)
    assert moved > 1000


@pytest.mark.parametrize("tune", ["psnr", "visual"])
def test_effort_2_pays(tune: str) -> None:
    """At a size that is not larger, less error than effort 1 leaves."""
    picture = sample("chapel", 256, 256, 60, 150)
    once = cscodec.encode(picture, quality=50, tune=tune, effort=1)  # type: ignore[arg-type]
    twice = cscodec.encode(picture, target_size=len(once), tune=tune, effort=2)  # type: ignore[arg-type]
    assert psnr_db(picture, cscodec.decode(twice)) > psnr_db(picture, cscodec.decode(once))


@pytest.mark.parametrize("size", [(1, 1), (8, 700), (40, 33)])
def test_any_size_and_model(size: tuple[int, int]) -> None:
    picture = sample("cat", 40, 700, 50, 10)[: size[0], : size[1]]
    for model in (plain_model(), PHOTO):
        data = cscodec.encode(picture, model=model, effort=2, measurements=20)
        assert cscodec.decode(data, model=model).shape == picture.shape


def test_large_values_stay_what_they_are() -> None:
    """At fine steps values are of thousands, and moves are still parts of one."""
    picture = sample("chapel", 64, 64, 60, 200)[..., 0].copy()
    picture[:, 30:] = 255 - picture[:, 30:]  # an edge
    for step in (0.25, 1.0):
        data = cscodec.encode(picture, step=step, effort=2)
        assert psnr_db(picture, cscodec.decode(data)) > 48
