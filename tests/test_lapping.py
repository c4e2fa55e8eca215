"""Patches lapped over each other: orthonormal, the same for tiles and for whole pictures."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from strategies import Pixels, complete_system, odd_model, plain_model, sample, texture

import cscodec
from cscodec.bitstream.container import Extras, unpack
from cscodec.bitstream.tiles import decode_tile
from cscodec.encoding import EncodingJob, Settings, measure_colours
from cscodec.evaluation.metrics import psnr_db
from cscodec.learning.lapping import learned_lapping
from cscodec.model import Model, load_model
from cscodec.restore.cells import Quantised
from cscodec.restore.planes import restore_plane
from cscodec.rows import PictureRows
from cscodec.transform.colour import split_colours
from cscodec.transform.lapping import lap, turn, unlap
from cscodec.transform.measure import analyse_plane, synthesise_plane

Matrix = npt.NDArray[np.float64]


def some_plane(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).normal(0, 50, shape).astype(np.float32)


def some_lapping(seed: int = 0, half: int = 4) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(seed).normal(size=(half, half))
    return np.linalg.qr(random)[0].astype(np.float32)


def written_out(length: int, lapping: npt.NDArray[Any]) -> Matrix:
    """What laps a row of samples, as a matrix made of sums and differences at equal distance."""
    half = len(lapping)
    whole = np.eye(length)
    same, mirrored = np.eye(half), np.eye(half)[::-1]
    parts = np.block([[same, mirrored], [same, -mirrored]]) / np.sqrt(2)
    turned = np.block([[same, 0 * same], [0 * same, lapping]])
    for border in range(2 * half, length, 2 * half):
        around = slice(border - half, border + half)
        whole[around, around] = parts.T @ turned @ parts
    return whole


@pytest.mark.parametrize("half", [1, 2, 4])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 3), (4, 1), (3, 5)])
def test_it_is_what_the_matrix_says(half: int, rows: int, columns: int) -> None:
    lapping = some_lapping(half=half)
    plane = some_plane(2 * half * rows, 2 * half * columns)
    expected = written_out(len(plane), lapping) @ plane @ written_out(plane.shape[1], lapping).T
    turn(plane, lapping)
    np.testing.assert_allclose(plane, expected, atol=1e-3)


def test_it_is_orthonormal_and_undone() -> None:
    plane, lapping = some_plane(40, 72), some_lapping()
    lapped = plane.copy()
    lap(lapped, lapping)
    assert np.abs(lapped - plane).max() > 10
    assert np.square(lapped).sum() == pytest.approx(np.square(plane).sum(), rel=1e-5)
    unlap(lapped, lapping)
    np.testing.assert_allclose(lapped, plane, atol=1e-3)


def test_without_a_lapping_nothing_happens() -> None:
    plane = some_plane(16, 16)
    lapped = plane.copy()
    lap(lapped, None)
    unlap(lapped, None)
    np.testing.assert_array_equal(lapped, plane)


def test_measuring_leaves_the_plane_alone_and_is_undone() -> None:
    system, plane = complete_system().with_lapping(some_lapping()), some_plane(24, 32)
    before = plane.copy()
    measured = analyse_plane(plane, system.analysis, system.lapping)
    np.testing.assert_array_equal(plane, before)
    again = synthesise_plane(measured, system.synthesis, system.lapping)
    np.testing.assert_allclose(again, plane, atol=1e-2)


@pytest.mark.parametrize("full_chroma", [False, True])
@pytest.mark.parametrize(
    ("shape", "effort"),
    [
        ((515, 1041, 3), 1),
        ((1025, 20), 1),
        ((1, 513, 3), 1),
        ((530, 1, 3), 1),
        ((512, 528), 1),
        ((1030, 1100, 3), 2),
    ],
)
def test_tiles_measure_what_the_whole_picture_does(
    shape: tuple[int, ...], effort: int, full_chroma: bool
) -> None:
    """Bit for bit: what lies beyond a tile's border is what the neighbouring tile has there."""
    model, pixels = odd_model(), texture(*shape)
    settings = Settings("psnr", "4:4:4" if full_chroma else "4:2:0", effort, 63)
    job = EncodingJob(PictureRows(pixels), model, settings, Extras(), 1)
    header = job.header(640)
    whole = measure_colours(pixels, model, full_chroma=full_chroma)
    measured = list(job.measured(header, keep=False))
    assert len(measured) == header.num_tiles > 1
    for tile, planes in enumerate(measured):
        left, top, width, height = header.tile_box(tile)
        for number, (plane, part) in enumerate(zip(whole, planes, strict=True)):
            unit = 16 if number and not full_chroma else 8
            rows = slice(top // unit, -(-(top + height) // unit))
            columns = slice(left // unit, -(-(left + width) // unit))
            np.testing.assert_array_equal(part, plane[rows, columns])


@pytest.mark.parametrize("decoder", ["linear", "omp"])
def test_tiles_restore_what_the_whole_plane_does(decoder: Any) -> None:
    """As far as these decoders look: over one border, to the next patch."""
    model, pixels = replace(odd_model(), tables={}), texture(530, 1041)
    data = cscodec.encode(pixels, step=4, model=model)
    parts = unpack(data)
    tiles = [
        decode_tile(
            [layer[tile] for layer in parts.segments],
            parts.header.patch_grids(tile),
            model.coder_tables,
            measurements=63,
        )[0]
        for tile in range(6)
    ]
    values = np.concatenate([np.concatenate(tiles[i : i + 3], axis=1) for i in (0, 3)])
    held = Quantised(values, *parts.header.step_and_tilt(0), parts.header.zero_cell / 64, 63)
    plane = restore_plane(held, model.luma, decoder)
    expected = np.clip(np.rint(plane[:530, :1041] + 128), 0, 255)
    found = cscodec.decode(data, decoder=decoder, model=model)
    np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="module")
def part() -> Pixels:
    return sample("fig", 384, 384)


def test_a_learned_lapping_saves_bits_and_blocks(part: Pixels) -> None:
    """With a plain coder that knows nothing of either."""
    luma = split_colours(part)[0]
    plain = plain_model()
    lapping = learned_lapping([luma], plain.luma)
    np.testing.assert_allclose(lapping @ lapping.T, np.eye(4), atol=1e-5)
    lapped = Model("lapped", plain.luma.with_lapping(lapping), plain.chroma)
    gray = np.clip(luma + 128, 0, 255).astype(np.uint8)
    sizes, errors = [], []
    for model in (plain, lapped):
        data = cscodec.encode(gray, step=30, model=model, tune="psnr")
        sizes.append(len(data))
        errors.append(psnr_db(gray, cscodec.decode(data, model=model, decoder="linear")))
    assert sizes[1] < sizes[0]
    assert errors[1] > errors[0]


def test_the_photo_model_laps_and_the_papers_does_not() -> None:
    """The paper measures patches as they are."""
    assert load_model("photo").luma.lapping is not None
    assert load_model("paper-m20").luma.lapping is None


def as_jpeg(pixels: Pixels, quality: int) -> Pixels:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=quality)
    return np.asarray(Image.open(stream))


@pytest.mark.parametrize(("quality", "unlapped"), [(60, True), (80, True), (None, False)])
def test_what_was_a_jpeg_file_is_coded_on_its_grid(
    part: Pixels, quality: int | None, unlapped: bool
) -> None:
    pixels = part if quality is None else as_jpeg(part, quality)
    data = cscodec.encode(pixels, step=12, tune="psnr")
    assert unpack(data).header.unlapped is unlapped
    if unlapped:
        photo = load_model("photo")
        lapped = EncodingJob(
            PictureRows(pixels), photo, Settings("psnr", "auto", 1, 63), Extras(), 1
        ).file(unpack(data).header.step_code)
        assert not unpack(lapped).header.unlapped
        assert len(data) < len(lapped)
        assert psnr_db(pixels, cscodec.decode(data)) > psnr_db(pixels, cscodec.decode(lapped))


def test_files_that_are_not_lapped_need_no_lapping_model() -> None:
    """The flag says for a model that laps what a model without a lapping says by itself."""
    pixels, laps = texture(40, 60, 3), odd_model()
    never = laps.unlapped
    settings = Settings("visual", "auto", 1, 63, unlapped=True)
    data = EncodingJob(PictureRows(pixels), laps, settings, Extras(), 1).file(640)
    other = EncodingJob(PictureRows(pixels), never, settings, Extras(), 1).file(640)
    assert unpack(data).segments == unpack(other).segments
    for decoder in ("linear", "refine"):
        np.testing.assert_array_equal(
            cscodec.decode(data, decoder=decoder, model=laps),
            cscodec.decode(other, decoder=decoder, model=never),
        )
