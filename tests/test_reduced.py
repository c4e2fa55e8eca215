"""Pictures decoded at a part of their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from strategies import Pixels, plain_model, sample, texture

import cscodec
from cscodec.errors import InvalidInputError
from cscodec.evaluation.metrics import psnr_db
from cscodec.images import luma

REDUCTIONS = (2, 4, 8)


def reduced(pixels: Pixels, reduction: int) -> Pixels:
    return np.asarray(Image.fromarray(pixels).reduce(reduction))


@pytest.fixture(scope="module")
def photo_part() -> Pixels:
    """2 x 2 tiles whose sides are no multiples of 16."""
    return sample("fig", 541, 523)


@pytest.fixture(scope="module")
def photo_file(photo_part: Pixels) -> bytes:
    return cscodec.encode(photo_part, quality=75)


class TestPictures:
    @pytest.mark.parametrize(("reduction", "least_db"), [(2, 32), (4, 36), (8, 45)])
    def test_they_are_like_the_picture_averaged(
        self, reduction: int, least_db: float, photo_part: Pixels, photo_file: bytes
    ) -> None:
        small = cscodec.decode(photo_file, scale=1 / reduction)
        assert psnr_db(luma(reduced(photo_part, reduction)), luma(small)) > least_db
        assert psnr_db(reduced(photo_part, reduction), small) > 32

    @pytest.mark.parametrize("reduction", REDUCTIONS)
    @pytest.mark.parametrize("channels", [(), (2,), (3,), (4,)])
    def test_every_size_and_mode(self, reduction: int, channels: Any) -> None:
        """Fine steps and blocks of one colour: nothing is lost by first layers or by halving."""
        for height, width in ((1, 1), (7, 9), (16, 15), (33, 70)):
            coarse = texture(-(-height // 16), -(-width // 16), *channels)
            pixels = np.repeat(np.repeat(coarse, 16, 0), 16, 1)[:height, :width]
            data = cscodec.encode(pixels, step=0.5, model=plain_model(), subsampling="4:4:4")
            small = cscodec.decode(data, scale=1 / reduction, model=plain_model())
            expected = pixels[::reduction, ::reduction].astype(int)
            assert small.shape == expected.shape
            assert np.abs(small - expected).max() <= 2

    @pytest.mark.parametrize("reduction", REDUCTIONS)
    @pytest.mark.parametrize("box", [(0, 0, 1, 1), (500, 490, 23, 51), (13, 3, 300, 530)])
    def test_a_region_is_that_part_of_the_whole(
        self, reduction: int, box: tuple[int, int, int, int], photo_file: bytes
    ) -> None:
        whole = cscodec.decode(photo_file, scale=1 / reduction)
        x, y, width, height = box
        rows = slice(y // reduction, -(-(y + height) // reduction))
        columns = slice(x // reduction, -(-(x + width) // reduction))
        part = cscodec.decode(photo_file, scale=1 / reduction, region=box)
        np.testing.assert_array_equal(part, whole[rows, columns])

    def test_tiles_restored_at_once_do_not_matter(self) -> None:
        """At 1/2, four tiles are restored side by side; six are here."""
        data = cscodec.encode(texture(20, 5 * 512 + 70, 3))
        whole = cscodec.decode(data, scale=1 / 2)
        for x in (0, 1780, 2600):
            part = cscodec.decode(data, scale=1 / 2, region=(x, 0, 30, 20))
            np.testing.assert_array_equal(part, whole[:, x // 2 : x // 2 + 15])

    @pytest.mark.parametrize("reduction", REDUCTIONS)
    def test_threads_do_not_matter(self, reduction: int, photo_file: bytes) -> None:
        one, three = (
            cscodec.decode(photo_file, scale=1 / reduction, workers=workers) for workers in (1, 3)
        )
        np.testing.assert_array_equal(one, three)

    @pytest.mark.parametrize("subsampling", ["4:2:0", "4:4:4"])
    def test_no_seams_between_tiles(self, subsampling: Any) -> None:
        """A ramp stays a ramp across the border of two tiles."""
        ramp = np.linspace(40, 200, 1024).astype(np.uint8)
        pixels = np.stack([np.tile(ramp, (32, 1)), np.full((32, 1024), 90, np.uint8)] * 2, 2)[
            ..., :3
        ]
        data = cscodec.encode(pixels, quality=95, subsampling=subsampling)
        for reduction in REDUCTIONS:
            row = cscodec.decode(data, scale=1 / reduction)[0].astype(int)
            middle = len(row) // 2
            steps = np.abs(np.diff(row[middle - 3 : middle + 3], axis=0))
            assert steps.max() <= 3 + 160 * reduction // 1024


class TestWhatIsRead:
    @pytest.mark.parametrize(("reduction", "layers"), [(8, 1), (4, 2), (2, 3)])
    def test_only_the_first_layers(self, reduction: int, layers: int, photo_file: bytes) -> None:
        info = cscodec.info(photo_file)
        first = len(photo_file) - sum(info.layer_bytes[layers:])
        small = cscodec.decode(photo_file, scale=1 / reduction)
        cut = cscodec.decode(photo_file[:first], scale=1 / reduction, allow_partial=True)
        np.testing.assert_array_equal(cut, small)
        shorter = photo_file[: first - info.layer_bytes[layers - 1] // 2]
        less = cscodec.decode(shorter, scale=1 / reduction, allow_partial=True)
        assert np.any(less != small)

    def test_fewer_measurements_if_asked(self, photo_file: bytes) -> None:
        few: npt.NDArray[Any] = cscodec.decode(photo_file, scale=1 / 2, measurements=3)
        assert np.any(few != cscodec.decode(photo_file, scale=1 / 2))

    @pytest.mark.parametrize("scale", [0, 2, 1 / 3, 1 / 16, float("nan"), -0.5])
    def test_other_scales_are_refused(self, scale: float, photo_file: bytes) -> None:
        with pytest.raises(InvalidInputError, match=r"allowed are 1, 1/2, 1/4 and 1/8|finite"):
            cscodec.decode(photo_file, scale=scale)
