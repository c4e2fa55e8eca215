"""Measuring a codec's curve, and the anchors that it is held against."""

import io
import math

import numpy as np
import pytest
from PIL import Image

from cscodec.errors import InvalidInputError
from cscodec.evaluation.codecs import codec_named, cscodec_codec
from cscodec.evaluation.metrics import psnr_db
from cscodec.evaluation.rate_distortion import (
    bd_rate_of,
    luma_plane,
    mean_bd_rate,
    measure,
)


def coarse(pixels, setting):
    """A toy codec: keep multiples of ``setting``; pretend that a bit less is stored for each."""
    step = int(setting)
    decoded = np.minimum(np.rint(pixels / step) * step, 255).astype(np.uint8)
    return pixels.size // step, decoded


def test_points_hold_what_was_coded(photo):
    picture = photo[:40, :50]
    (point,) = measure(picture, coarse, [16])
    decoded = coarse(picture, 16)[1]
    assert point.num_bytes == 40 * 50 * 3 // 16
    assert point.bits_per_pixel == 8 * point.num_bytes / (40 * 50)
    assert point.psnr_rgb_db == psnr_db(picture, decoded)
    luma = [np.array(x, float) @ [0.299, 0.587, 0.114] for x in (picture, decoded)]
    assert point.psnr_y_db == pytest.approx(psnr_db(*luma))
    assert point.psnr_y_db > point.psnr_rgb_db + 0.5  # luma averages the channels' errors


def test_gray_is_its_own_luma(gray_photo):
    (point,) = measure(gray_photo[:40, :50], coarse, [16])
    assert point.psnr_y_db == point.psnr_rgb_db
    assert luma_plane(gray_photo).dtype == np.float64


def test_workers_change_nothing(photo):
    picture = photo[:64, :64]
    settings = [32, 16, 8, 4]
    assert measure(picture, coarse, settings, workers=2) == measure(picture, coarse, settings)


@pytest.mark.parametrize(
    "wrong", [lambda x: x[:-1], lambda x: x.astype(float), lambda x: x[..., 0]]
)
def test_a_decoder_that_returns_something_else_is_caught(photo, wrong):
    with pytest.raises(InvalidInputError, match="decoded picture"):
        measure(photo[:32, :32], lambda pixels, _: (b"", wrong(pixels)), [1])


@pytest.mark.parametrize("channels", [1, 3])
def test_anchors_cover_the_range_with_whole_files(photo, gray_photo, channels):
    picture = (photo if channels == 3 else gray_photo)[150:310, 200:360]
    for name in ("jpeg", "webp", "jpeg2000", "avif"):
        anchor = codec_named(name, channels)
        points = measure(picture, anchor.code, (anchor.settings[0], anchor.settings[-1]))
        assert points[0].bits_per_pixel < 0.6 < 1.5 < points[1].bits_per_pixel, name
        assert points[0].psnr_y_db + 5 < points[1].psnr_y_db, name
        file, decoded = anchor.code(picture, anchor.settings[-1])
        opened = np.asarray(Image.open(io.BytesIO(file)).convert("RGB" if channels == 3 else "L"))
        assert len(file) == points[1].num_bytes
        assert np.array_equal(opened, decoded), name


def test_jpeg_2000_uses_its_colour_transform(photo):
    picture = photo[100:300, 100:300]
    anchor = codec_named("jpeg2000", 3)
    buffer = io.BytesIO()
    Image.fromarray(picture).save(
        buffer, "JPEG2000", irreversible=True, quality_mode="rates", quality_layers=[24 / 0.5]
    )
    plain = np.asarray(Image.open(buffer))
    decoded = anchor.code(picture, 0.5)[1]
    assert psnr_db(picture, decoded) > psnr_db(picture, plain) + 1


def test_bd_rate_reads_the_quality_that_is_asked_for(photo):
    picture = photo[:160, :160]
    jpeg = codec_named("jpeg", 3)
    points = measure(picture, jpeg.code, jpeg.settings[3:12])
    assert bd_rate_of(points, points, "ssim") == pytest.approx(0, abs=1e-9)
    over_y = bd_rate_of(points, measure(picture, coarse, [48, 32, 24, 16, 12, 8, 4]))
    over_rgb = bd_rate_of(
        points, measure(picture, coarse, [48, 32, 24, 16, 12, 8, 4]), "psnr_rgb_db"
    )
    assert over_y != pytest.approx(over_rgb, abs=1)


def test_a_gap_is_not_averaged_away():
    assert mean_bd_rate([-10.0, -20.0]) == -15
    assert math.isnan(mean_bd_rate([-10.0, math.nan]))
    assert math.isnan(mean_bd_rate([]))


def test_our_codec_as_a_curve(photo):
    codec = cscodec_codec((20.0, 60.0, 90.0), decoder="linear")
    points = measure(photo[:120, :120], codec.code, codec.settings, workers=2)
    sizes = [point.num_bytes for point in points]
    psnrs = [point.psnr_y_db for point in points]
    assert sizes == sorted(sizes)
    assert psnrs == sorted(psnrs)
    assert psnrs[0] + 3 < psnrs[2]
