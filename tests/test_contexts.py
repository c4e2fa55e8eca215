"""Tiles: what is decoded is what was encoded, whatever the pictures, planes and tables."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import odd_model

from cscodec.bitstream.tables import CoderTables, neutral_tables
from cscodec.bitstream.tiles import decode_means, decode_tile, encode_tile, magnitudes_at
from cscodec.errors import BitstreamError, InvalidFieldError
from cscodec.layout import LAYERS, num_layers

Wanted = list[npt.NDArray[np.int32]]
Tile = tuple[list[bytes], list[tuple[int, int]]]  # segments, shapes
GRIDS = ("gray", "4:2:0", "4:4:4")


@lru_cache(maxsize=2)
def tables(kind: str) -> CoderTables:
    return neutral_tables() if kind == "neutral" else CoderTables.from_mapping(odd_model().tables)


def shapes_of(grid: str, rows: int, columns: int) -> list[tuple[int, int]]:
    if grid == "gray":
        return [(rows, columns)]
    chroma = (rows, columns) if grid == "4:4:4" else ((rows + 1) // 2, (columns + 1) // 2)
    return [(rows, columns), chroma, chroma]


def measurements_like(grid: str, rows: int, columns: int, size: float, seed: int) -> Wanted:
    """Measurements that get smaller with their index, at most 15000 steps."""
    generator = np.random.default_rng(seed)
    fall = size * np.geomspace(1, 0.01, 64)
    fall[0] *= 4
    wanted = []
    for shape in shapes_of(grid, rows, columns):
        plane = generator.laplace(size=(*shape, 64)) * fall
        wanted.append(np.clip(plane * 256, -15000 * 256, 15000 * 256).astype(np.int32))
    return wanted


def rounded(wanted: Wanted, measurements: int) -> list[npt.NDArray[np.int64]]:
    """To the nearest; halves of means up, others away from zero."""
    values = []
    for plane in wanted:
        nearest = np.sign(plane) * ((np.abs(plane.astype(np.int64)) + 128) >> 8)
        nearest[..., 0] = (plane[..., 0].astype(np.int64) + 128) >> 8
        nearest[..., measurements + 1 :] = 0
        values.append(nearest)
    return values


cases = st.tuples(
    st.sampled_from(GRIDS),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.3, 2.0, 30.0, 900.0]),
    st.integers(0, 999),
)


@given(cases, st.integers(1, 63), st.sampled_from([0.0, 0.05, 3.0]))
@pytest.mark.parametrize("kind", ["neutral", "odd"])
def test_decoding_is_the_inverse_of_encoding(
    kind: str, case: tuple[str, int, int, float, int], measurements: int, rate_weight: float
) -> None:
    wanted = measurements_like(*case)
    segments, values = encode_tile(
        wanted, tables(kind), measurements=measurements, rate_weight=rate_weight
    )
    assert len(segments) == num_layers(measurements)
    shapes = shapes_of(*case[:3])
    decoded = decode_tile(segments, shapes, tables(kind), measurements=measurements)
    for ours, theirs, shape in zip(decoded, values, shapes, strict=True):
        assert ours.shape == (*shape, 64)
        assert ours.dtype == np.int16
        np.testing.assert_array_equal(ours, theirs)
        assert not ours[..., measurements + 1 :].any()


@given(cases, st.integers(1, 63))
@pytest.mark.parametrize("kind", ["neutral", "odd"])
def test_without_rate_everything_is_rounded_to_the_nearest(
    kind: str, case: tuple[str, int, int, float, int], measurements: int
) -> None:
    wanted = measurements_like(*case)
    _, values = encode_tile(wanted, tables(kind), measurements=measurements)
    for ours, expected in zip(values, rounded(wanted, measurements), strict=True):
        np.testing.assert_array_equal(ours, expected)


@given(cases)
def test_with_rate_values_are_smaller_but_not_far_off(
    case: tuple[str, int, int, float, int],
) -> None:
    wanted = measurements_like(*case)
    segments, values = encode_tile(wanted, tables("neutral"), rate_weight=0.1)
    plain_segments, plain = encode_tile(wanted, tables("neutral"))
    for ours, theirs, exact in zip(values, plain, wanted, strict=True):
        np.testing.assert_array_equal(ours[..., 0], theirs[..., 0])
        rest = np.abs(ours[..., 1:].astype(int))
        assert (rest <= np.maximum(np.abs(theirs[..., 1:].astype(int)), 1)).all()
        kept = rest > 0
        error = np.abs(ours[..., 1:] - exact[..., 1:] / 256)
        assert (error[kept] <= 1).all()
        assert (np.sign(ours[..., 1:]) * exact[..., 1:] >= 0).all()
    assert sum(map(len, segments)) <= sum(map(len, plain_segments)) + 4


@given(cases, st.integers(0, 3))
def test_fewer_segments_give_the_first_layers(
    case: tuple[str, int, int, float, int], layers: int
) -> None:
    segments, values = encode_tile(measurements_like(*case), tables("neutral"))
    first = decode_tile(segments[:layers], shapes_of(*case[:3]), tables("neutral"))
    for ours, theirs in zip(first, values, strict=True):
        np.testing.assert_array_equal(ours[..., : LAYERS[layers]], theirs[..., : LAYERS[layers]])
        assert not ours[..., LAYERS[layers] :].any()


@given(cases)
def test_means_alone_are_those_of_the_tile(case: tuple[str, int, int, float, int]) -> None:
    segments, values = encode_tile(measurements_like(*case), tables("odd"))
    means = decode_means(segments[0], shapes_of(*case[:3]), tables("odd"))
    for ours, theirs in zip(means, values, strict=True):
        np.testing.assert_array_equal(ours, theirs[..., :1])


def test_zeros_cost_nothing() -> None:
    wanted = [np.zeros((40, 40, 64), np.int32)]
    segments, values = encode_tile(wanted, tables("neutral"), rate_weight=0.1)
    assert not values[0].any()
    assert sum(map(len, segments)) < 50


def test_neighbours_and_other_planes_help() -> None:
    """What is alike costs less than what is not."""
    generator = np.random.default_rng(5)
    alike = np.repeat(np.repeat(generator.laplace(size=(3, 3, 64)), 8, axis=0), 8, axis=1)
    alike[..., 1:] *= 4
    mixed = generator.permuted(alike.reshape(-1, 64), axis=0).reshape(alike.shape)
    sizes = [
        sum(map(len, encode_tile([(256 * plane).astype(np.int32)], tables("neutral"))[0]))
        for plane in (alike, mixed)
    ]
    assert sizes[0] < 0.7 * sizes[1]


class TestExtremes:
    @pytest.mark.parametrize("kind", ["neutral", "odd"])
    @pytest.mark.parametrize("sign", [-1, 1])
    def test_the_largest_values_come_back(self, kind: str, sign: int) -> None:
        # Means alternate between the ends, the rest is as large as a step of 0.25 makes it.
        wanted = np.full((4, 5, 64), 8160 * 256, np.int32)
        wanted[::2, :, 0] = -4096 * 256
        wanted[1::2, :, 0] = 4096 * 256
        wanted[:, ::2, 1:] *= -1
        wanted = sign * wanted
        segments, values = encode_tile([wanted] * 3, tables(kind))
        np.testing.assert_array_equal(values[2], wanted >> 8)
        for ours, theirs in zip(
            decode_tile(segments, [(4, 5)] * 3, tables(kind)), values, strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)

    def test_noise_fits_the_buffer(self) -> None:
        generator = np.random.default_rng(6)
        for kind in ("neutral", "odd"):
            wanted = generator.integers(-8000 * 256, 8000 * 256, (6, 6, 64), np.int32)
            wanted[..., 0] >>= 1
            segments, values = encode_tile([wanted], tables(kind))
            decoded = decode_tile(segments, [(6, 6)], tables(kind))
            np.testing.assert_array_equal(decoded[0], values[0])


@pytest.fixture(scope="module")
def tile() -> Tile:
    # Of other pictures, a segment with one more byte may be that of other values.
    wanted = measurements_like("4:2:0", 6, 7, 3.0, 2)
    segments, _ = encode_tile(wanted, tables("neutral"))
    return segments, shapes_of("4:2:0", 6, 7)


class TestDamage:
    """Segments hold what they should and no byte more."""

    @pytest.mark.parametrize("layer", range(4))
    @pytest.mark.parametrize(
        "tail", [b"\0", b"\x01", b"\0\0\0", b"\xff\xff", b"abcd", bytes(50)], ids=len
    )
    def test_trailing_bytes_are_refused(self, tile: Tile, layer: int, tail: bytes) -> None:
        segments, shapes = tile
        longer = [*segments[:layer], segments[layer] + tail]
        with pytest.raises(InvalidFieldError, match=f"layer {layer}: "):
            decode_tile(longer, shapes, tables("neutral"))
        if layer == 0:
            with pytest.raises(InvalidFieldError, match="layer 0: "):
                decode_means(longer[0], shapes, tables("neutral"))

    @pytest.mark.parametrize("kind", ["neutral", "odd"])
    def test_any_bytes_give_values_or_an_error(self, kind: str) -> None:
        generator = np.random.default_rng(3)
        for _ in range(60):
            segments = [generator.bytes(int(generator.integers(0, 400))) for _ in range(4)]
            try:
                values = decode_tile(segments, shapes_of("4:2:0", 3, 4), tables(kind))
            except BitstreamError:
                continue
            assert [plane.shape for plane in values] == [(3, 4, 64), (2, 2, 64), (2, 2, 64)]

    @pytest.mark.parametrize("kind", ["neutral", "odd"])
    def test_values_of_more_than_16_bits_are_refused(self, kind: str) -> None:
        # The lowest code is that of ones only: the longest of every number.
        with pytest.raises(InvalidFieldError, match=r"layer 0: .* 16 bits"):
            decode_tile([b""], [(9, 9)], tables(kind))
        means = encode_tile([np.zeros((9, 9, 64), np.int32)], tables(kind))[0][0]
        with pytest.raises(InvalidFieldError, match=r"layer 1: .* 16 bits"):
            decode_tile([means, b""], [(9, 9)], tables(kind))


class TestMagnitudes:
    def test_luma_at_chroma_of_full_size_is_its_magnitude(self) -> None:
        luma = np.zeros((5, 6, 64), np.int16)
        luma[1:-1, 1:-1] = np.random.default_rng(0).integers(-9, 9, (3, 4, 64))
        luma[2, 2] = -32767
        magnitudes, masks = magnitudes_at(luma, (3, 4))
        np.testing.assert_array_equal(magnitudes, np.abs(luma))
        bits = (masks[..., np.newaxis].view(np.uint64) >> np.arange(64, dtype=np.uint64)) & 1
        np.testing.assert_array_equal(bits, luma != 0)

    def test_luma_at_chroma_of_half_size_is_the_mean_of_four(self) -> None:
        luma = np.zeros((5, 6, 64), np.int16)
        luma[1:-1, 1:-1, 1] = [[1, -2, 3, 4], [5, 6, -7, 8], [-32767, 32767, 1, 0]]
        halved, masks = magnitudes_at(luma, (2, 2))
        assert halved.shape == (4, 4, 64)
        np.testing.assert_array_equal(halved[1:-1, 1:-1, 1], [[4, 6], [16384, 0]])
        np.testing.assert_array_equal(masks[1:-1, 1:-1], [[2, 2], [2, 0]])
        assert not halved[0].any()
        assert not halved[:, -1].any()
        assert not masks[0].any()


def test_planes_that_do_not_fit_each_other_are_refused() -> None:
    planes = [np.zeros((rows, 3, 64), np.int32) for rows in (4, 2, 3)]
    for wanted in (planes, [*planes[:2], planes[1], planes[1]]):
        with pytest.raises(InvalidFieldError, match="equal size"):
            encode_tile(wanted, tables("neutral"))
