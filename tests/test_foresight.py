"""Choosing values a second time: what for, and what it brings."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from strategies import plain_model, sample

import cscodec
from cscodec.bitstream import container
from cscodec.bitstream.container import Header
from cscodec.bitstream.steps import measurement_steps, scaled
from cscodec.bitstream.tiles import encode_tile
from cscodec.encoding import measure_colours
from cscodec.errors import InvalidModelError
from cscodec.evaluation.metrics import psnr_db
from cscodec.foresight import Foresight
from cscodec.model import Model, load_model
from cscodec.restore.cells import Quantised
from cscodec.restore.filters import filters_for
from cscodec.restore.planes import restore_plane
from cscodec.transform.measure import analyse_plane

PHOTO = load_model("photo")


def test_targets_lie_between_what_was_measured_and_what_makes_up_for_restoration() -> None:
    """A share of each move is taken away: none of the means', none at the border of the tile."""
    colours = sample("chapel", 96, 128, 60, 200)
    file = container.unpack(cscodec.encode(colours, step=24, tune="psnr"))
    header = replace(file.header, zero_cell=36)
    steps = [measurement_steps(*header.step_and_tilt(number)) for number in range(3)]
    measured = measure_colours(colours, PHOTO, full_chroma=False)
    wanted = list(map(scaled, measured, steps))
    _, values = encode_tile(wanted, PHOTO.coder_tables, rate_weight=0.05)
    targets = Foresight.of(header, PHOTO).targets(wanted, values)
    moved = 0
    for number, name in enumerate(("luma", "chroma", "chroma")):
        system = PHOTO.chroma if number > 0 else PHOTO.luma
        step, tilt = header.step_and_tilt(number)
        restored = restore_plane(
            Quantised(values[number], step, tilt, 36 / 64, 63),
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
        zero = values[number][1:-1, 1:-1, 1:] == 0
        np.testing.assert_allclose(shifts[zero], moves[zero] * 180 / 256, atol=1.5)
        np.testing.assert_allclose(shifts[~zero], moves[~zero] * 150 / 256, atol=1.5)
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


def test_what_was_a_jpeg_file_is_foreseen_unlapped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    Image.fromarray(sample("chapel", 256, 256, 60, 150)).save(stream, "JPEG", quality=75)
    made: list[Foresight] = []
    make = Foresight.of

    def kept(header: Header, model: Model) -> Foresight:
        made.append(make(header, model))
        return made[-1]

    monkeypatch.setattr(Foresight, "of", kept)
    cscodec.encode(stream.getvalue(), quality=50, effort=2)
    (foresight,) = made
    assert foresight.header.unlapped
    assert [system.lapping for system in foresight.systems] == [None, None]


def test_a_model_whose_filters_are_none_is_refused() -> None:
    model = replace(PHOTO, filters={"luma": np.zeros((2, 3), np.int16)})
    with pytest.raises(InvalidModelError, match="restoration filters 'luma'"):
        cscodec.encode(sample("cat", 32, 32), model=model, effort=2)
