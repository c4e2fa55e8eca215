"""Pictures to files and back: everything that the public functions promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    EXIF,
    START,
    Pixels,
    join_chunks,
    odd_model,
    pictures,
    plain_model,
    sample,
    split_chunks,
    texture,
)

import cscodec
from cscodec.choices import DECODERS
from cscodec.errors import BitstreamError, InvalidInputError, LimitExceededError, TruncatedError
from cscodec.evaluation.metrics import psnr_db

MODELS = {model.name: model for model in (plain_model(), odd_model())}


@pytest.fixture(scope="module")
def wide() -> Pixels:
    """2 x 3 tiles of 352 x 272 pixels, fewer at the edges."""
    left, right = sample("fig", 550, 640), sample("dandelions", 400, 500)
    picture = np.zeros((530, 1040, 3), np.uint8)
    picture[:, :600] = left[:530, :600]
    picture[:400, 540:] = right
    picture[400:, 540:] = right[:130, ::-1]
    return picture


@pytest.fixture(scope="module")
def wide_file(wide: Pixels) -> bytes:
    return cscodec.encode(wide, quality=60, model=odd_model())


def decode(data: bytes, model: str = "plain", **options: Any) -> Pixels:
    return cscodec.decode(data, model=MODELS[model], **options)


class TestRoundTrip:
    @settings(max_examples=60)
    @given(
        pictures(),
        st.floats(0, 100),
        st.sampled_from(["auto", "4:2:0", "4:4:4"]),
        st.sampled_from([0, 1]),
        st.sampled_from(sorted(MODELS)),
        st.sampled_from(DECODERS),
    )
    def test_every_picture_comes_back_in_its_shape(
        self,
        picture: Pixels,
        quality: float,
        subsampling: Any,
        effort: int,
        model: str,
        decoder: Any,
    ) -> None:
        data = cscodec.encode(
            picture, quality=quality, model=MODELS[model], subsampling=subsampling, effort=effort
        )
        restored = decode(data, model, decoder=decoder)
        assert restored.shape == picture.shape
        assert restored.dtype == np.uint8
        if picture.ndim == 3 and picture.shape[2] in (2, 4):
            np.testing.assert_array_equal(restored[..., -1], picture[..., -1])
        info = cscodec.info(data)
        channels = 1 if picture.ndim == 2 else picture.shape[2]
        assert (info.height, info.width, info.channels) == (*picture.shape[:2], channels)
        assert info.num_bytes == len(data)
        assert (info.subsampling is None) == (channels < 3)
        if channels >= 3 and subsampling != "auto":
            assert info.subsampling == subsampling

    @given(pictures(max_side=40), st.floats(0.25, 60))
    def test_errors_are_those_of_rounding(self, picture: Pixels, step: float) -> None:
        """Measurements in an orthonormal basis err by half a step, and so do pixels, squared."""
        gray = picture if picture.ndim == 2 else picture[..., 0]
        data = cscodec.encode(gray, step=step, model=plain_model(), effort=0)
        restored = decode(data, decoder="linear")
        patches = -(-gray.shape[0] // 8) * -(-gray.shape[1] // 8)
        error = np.square(restored.astype(float) - gray).sum()
        stored = cscodec.info(data).step
        assert stored == pytest.approx(step, abs=1 / 128)
        assert np.sqrt(error) <= np.sqrt(64 * patches) * stored / 2 + 0.51 * np.sqrt(gray.size)

    @pytest.mark.parametrize("value", [0, 1, 127, 128, 255])
    def test_flat_pictures_stay_flat(self, value: int) -> None:
        picture = np.full((33, 70, 3), value, np.uint8)
        data = cscodec.encode(picture, model=plain_model())
        assert len(data) < 250
        for decoder in ("refine", "consistent", "linear"):
            assert np.ptp(decode(data, decoder=decoder)) <= 1

    def test_any_layout_of_memory_is_read(self) -> None:
        picture = texture(30, 41, 3)
        expected = cscodec.encode(picture, model=plain_model())
        wider = np.zeros((60, 82, 4), np.uint8)
        wider[::2, ::2, 2::-1] = picture
        for same in (np.asfortranarray(picture), picture.tolist(), wider[::2, ::2, 2::-1]):
            if isinstance(same, list):
                same = np.array(same, np.uint8)
            assert cscodec.encode(same, model=plain_model()) == expected
        one = picture[..., :1]
        assert cscodec.encode(one, model=plain_model()) == cscodec.encode(
            one[..., 0], model=plain_model()
        )
        for same_bytes in (bytearray(expected), memoryview(expected)):
            np.testing.assert_array_equal(
                cscodec.decode(same_bytes, model=plain_model()), decode(expected)
            )

    def test_inputs_are_not_changed(self) -> None:
        picture = texture(30, 41, 4)
        before = picture.copy()
        data = bytearray(cscodec.encode(picture, model=odd_model()))
        kept = bytes(data)
        cscodec.decode(data, model=odd_model())
        np.testing.assert_array_equal(picture, before)
        assert data == kept

    def test_metadata_come_back(self) -> None:
        metadata = {"icc_profile": b"\0icc\xff" * 999, "exif": b"", "xmp": "<π/>".encode()}
        for present in ([], ["exif"], ["icc_profile", "xmp"], list(metadata)):
            given_ = {key: metadata[key] for key in present}
            data = cscodec.encode(texture(9, 9, 4), model=plain_model(), **given_)
            info = cscodec.info(data)
            assert {key: getattr(info, key) for key in metadata} == {
                key: given_.get(key) for key in metadata
            }
            sizes = {key: info.as_dict()[f"{key}_bytes"] for key in metadata}
            assert sizes == {key: len(given_.get(key, b"")) for key in metadata}


class TestQuality:
    @pytest.fixture(scope="class")
    @staticmethod
    def ladder() -> list[tuple[int, float]]:
        """Size and PSNR of a photograph at rising qualities."""
        picture = sample("stream", 256, 256, 100, 100)
        rungs = []
        for quality in range(0, 101, 5):
            data = cscodec.encode(picture, quality=quality)
            rungs.append((len(data), psnr_db(picture, cscodec.decode(data))))
        return rungs

    def test_better_quality_is_never_smaller(self, ladder: list[tuple[int, float]]) -> None:
        sizes = [size for size, _ in ladder]
        assert all(b > 0.995 * a for a, b in pairwise(sizes))
        assert sizes[-1] > 20 * sizes[0]

    def test_better_quality_is_never_worse(self, ladder: list[tuple[int, float]]) -> None:
        errors = [10 ** (-psnr / 10) for _, psnr in ladder]
        assert all(b < 1.005 * a for a, b in pairwise(errors))

    def test_refinement_restores_more_than_the_cells_centres(self) -> None:
        picture = sample("chapel", 160, 160, 60, 200)
        data = cscodec.encode(picture, quality=50)
        psnr = {name: psnr_db(picture, cscodec.decode(data, decoder=name)) for name in DECODERS}  # type: ignore[arg-type]
        assert max(psnr, key=lambda name: psnr[name]) == "refine"
        assert psnr["consistent"] > psnr["omp"]

    def test_effort_pays(self) -> None:
        """At equal size, weighing rate against error restores more than plain rounding."""
        picture = sample("chapel", 160, 160, 60, 200)
        plain = cscodec.encode(picture, quality=50, effort=0)
        chosen = cscodec.encode(picture, target_size=len(plain), effort=1)
        assert psnr_db(picture, cscodec.decode(chosen)) > psnr_db(picture, cscodec.decode(plain))


class TestMeasurements:
    def test_fewer_may_be_used_in_either_place(self) -> None:
        """Without rate control by effort, encoding m is the same as decoding m."""
        picture = texture(50, 33, 3)
        whole = cscodec.encode(picture, model=plain_model(), effort=0, step=5)
        for used in (1, 5, 6, 20, 21, 62, 63):
            few = cscodec.encode(picture, model=plain_model(), effort=0, step=5, measurements=used)
            assert cscodec.info(few).measurements == used
            for decoder in DECODERS:
                np.testing.assert_array_equal(
                    decode(few, decoder=decoder),
                    decode(whole, decoder=decoder, measurements=used),
                )

    def test_more_restore_more(self) -> None:
        picture = texture(64, 64)
        data = cscodec.encode(picture, model=plain_model(), step=4)
        errors = [
            np.square(
                decode(data, measurements=used, decoder="linear").astype(float) - picture
            ).mean()
            for used in (0, 5, 20, 63)
        ]
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < errors[0] / 4

    def test_a_preview_shows_the_means(self) -> None:
        picture = texture(64, 80, 4)
        data = cscodec.encode(picture, model=plain_model(), quality=90)
        preview = decode(data, preview=True)
        assert preview.shape == picture.shape
        np.testing.assert_array_equal(preview, decode(data, measurements=0))
        blocks = preview[..., :3].reshape(8, 8, 10, 8, 3).mean(axis=(1, 3))
        expected = picture[..., :3].reshape(8, 8, 10, 8, 3).mean(axis=(1, 3))
        assert np.abs(blocks - expected).mean() < 4
        layers = split_chunks(data)
        cut = join_chunks(data[:START], layers[:2])  # header and means
        shown = decode(cut, preview=True, allow_partial=True)
        np.testing.assert_array_equal(shown[..., :3], preview[..., :3])


@pytest.fixture(scope="module")
def large_tiles_file() -> bytes:
    """2 x 2 tiles of 560 x 528 pixels."""
    return cscodec.encode(texture(1040, 1100), quality=60, model=odd_model(), effort=2)


@pytest.fixture(scope="module")
def whole(wide_file: bytes) -> Callable[..., Pixels]:
    """Decode the whole of ``wide_file``, once with every set of options."""
    return cache(lambda **options: decode(wide_file, "odd", **options))


class TestRegion:
    @pytest.mark.parametrize(
        "region",
        [
            (0, 0, 1040, 530),
            (0, 0, 1, 1),
            (1039, 529, 1, 1),
            (351, 271, 2, 2),
            (352, 272, 1, 1),
            (690, 3, 30, 20),
            (5, 260, 40, 25),
            (1000, 490, 40, 40),
            (333, 0, 400, 530),
            (0, 520, 1040, 1),
        ],
    )
    def test_it_is_the_same_part_of_the_whole(
        self,
        wide_file: bytes,
        whole: Callable[..., Pixels],
        region: tuple[int, int, int, int],
    ) -> None:
        x, y, width, height = region
        for options in ({}, {"decoder": "linear"}, {"preview": True}):
            part = decode(wide_file, "odd", region=region, **options)
            np.testing.assert_array_equal(part, whole(**options)[y : y + height, x : x + width])

    @pytest.mark.parametrize(
        "options", [{}, {"decoder": "linear"}, {"preview": True}, {"scale": 1 / 2}]
    )
    def test_it_is_in_large_tiles_too(
        self, large_tiles_file: bytes, options: dict[str, Any]
    ) -> None:
        whole = decode(large_tiles_file, "odd", **options)
        for x, y, width, height in ((552, 520, 16, 16), (0, 1030, 1100, 10), (560, 528, 2, 2)):
            part = decode(large_tiles_file, "odd", region=(x, y, width, height), **options)
            reduction = round(1 / options.get("scale", 1))
            x, y, right, below = (n // reduction for n in (x, y, x + width, y + height))
            np.testing.assert_array_equal(part, whole[y:below, x:right])

    def test_large_tiles_hold_the_picture(self, large_tiles_file: bytes) -> None:
        assert cscodec.info(large_tiles_file).num_tiles == 4
        restored = decode(large_tiles_file, "odd", decoder="linear")
        assert psnr_db(texture(1040, 1100), restored) > 30

    @settings(max_examples=30)
    @given(st.data())
    def test_any_part_of_a_small_picture(self, drawn: st.DataObject) -> None:
        picture = texture(37, 52, 4)
        data = cscodec.encode(picture, model=odd_model())
        x, y = drawn.draw(st.integers(0, 51)), drawn.draw(st.integers(0, 36))
        width, height = drawn.draw(st.integers(1, 52 - x)), drawn.draw(st.integers(1, 37 - y))
        part = decode(data, "odd", region=(x, y, width, height))
        np.testing.assert_array_equal(part, decode(data, "odd")[y : y + height, x : x + width])

    def test_tiles_leave_no_seams(self, wide: Pixels) -> None:
        """Errors along tile borders are as large as elsewhere on patch borders."""
        restored = decode(cscodec.encode(wide, quality=40, model=plain_model()))
        error = np.abs(restored.astype(int) - wide).mean(axis=(0, 2))
        border = error[350:354].mean()
        others = [error[8 * k - 2 : 8 * k + 2].mean() for k in range(36, 53) if k != 44]
        assert border < 1.25 * max(others)

    @pytest.mark.parametrize(
        "region",
        [
            (0, 0, 0, 1),
            (0, 0, 1, 0),
            (-1, 0, 2, 2),
            (0, -1, 2, 2),
            (0, 0, 10, 8),
            (9, 0, 1, 1),
            (0, 7, 1, 1),
        ],
    )
    def test_others_are_refused(self, region: tuple[int, int, int, int]) -> None:
        data = cscodec.encode(texture(7, 9), model=plain_model())
        with pytest.raises(InvalidInputError, match="does not lie within the picture of 9 x 7"):
            decode(data, region=region)


class TestPartial:
    def test_files_cut_after_the_header_show_a_whole_picture(self, wide: Pixels) -> None:
        data = cscodec.encode(wide, quality=30, model=plain_model())
        header = len(join_chunks(data[:START], split_chunks(data)[:1]))
        errors = []
        for cut in np.linspace(header, len(data), 9).astype(int):
            shown = decode(data[:cut], decoder="linear", allow_partial=True)
            assert shown.shape == wide.shape
            errors.append(np.square(shown.astype(float) - wide).mean())
        assert all(b <= 1.02 * a for a, b in pairwise(errors))
        assert errors[-1] < errors[0] / 20
        np.testing.assert_array_equal(shown, decode(data, decoder="linear"))

    def test_cut_anywhere(self) -> None:
        data = cscodec.encode(texture(20, 20, 4), model=odd_model(), exif=EXIF)
        header = len(join_chunks(data[:START], split_chunks(data)[:1]))
        for length in range(1, len(data)):
            with pytest.raises(TruncatedError):
                decode(data[:length], "odd")
            with pytest.raises(TruncatedError):
                cscodec.info(data[:length])
            if length < header:
                with pytest.raises(BitstreamError):
                    decode(data[:length], "odd", allow_partial=True)
            else:
                shown = decode(data[:length], "odd", allow_partial=True)
                assert shown.shape == (20, 20, 4)
        without_alpha = decode(data[: header + 40], "odd", allow_partial=True)
        assert (without_alpha[..., 3] == 255).all()

    def test_damage_is_contained(self, wide_file: bytes) -> None:
        """A damaged chunk costs what comes after it; what came before is shown."""
        chunks = split_chunks(wide_file)
        before = len(join_chunks(wide_file[:START], chunks[:8]))  # header, means, one of layer 1
        damaged = bytearray(wide_file)
        damaged[before + 5] ^= 1
        with pytest.raises(cscodec.ChecksumError):
            decode(bytes(damaged), "odd")
        np.testing.assert_array_equal(
            decode(bytes(damaged), "odd", allow_partial=True),
            decode(wide_file[:before], "odd", allow_partial=True),
        )


def test_info_says_what_is_missing() -> None:
    data = cscodec.encode(texture(30, 1100, 4), model=plain_model(), exif=EXIF)
    assert cscodec.info(data, allow_partial=True) == cscodec.info(data)
    assert (cscodec.info(data).complete, cscodec.info(data).missing) == (True, ())
    chunks = split_chunks(data)  # header, 4 layers of 3 tiles, alpha, EXIF
    for number, expected in [
        (1, [*(f"layer {layer} of 4" for layer in (1, 2, 3, 4)), "alpha"]),
        (5, ["2 of 3 tiles of layer 2 of 4", "layer 3 of 4", "layer 4 of 4", "alpha"]),
        (13, ["alpha"]),
        (14, ["what follows the picture"]),
    ]:
        cut = join_chunks(data[:START], chunks[:number])
        info = cscodec.info(cut, allow_partial=True)
        assert (info.complete, list(info.missing)) == (False, expected)
        assert sum(info.layer_tiles) == min(number - 1, 12)
        with pytest.raises(cscodec.TruncatedError):
            cscodec.info(cut)


class TestRefusals:
    @pytest.mark.parametrize(
        ("image", "message"),
        [
            (np.zeros((4, 4), np.uint16), "dtype uint16"),
            (np.zeros(4, np.uint8), r"shape \(4,\)"),
            (np.zeros((4, 4, 5), np.uint8), r"shape \(4, 4, 5\)"),
            (np.zeros((4, 4, 0), np.uint8), r"shape \(4, 4, 0\)"),
            (np.zeros((4, 4, 3, 1), np.uint8), r"shape \(4, 4, 3, 1\)"),
            (np.zeros((0, 4), np.uint8), "4 x 0 pixels"),
            (np.zeros((4, 0, 3), np.uint8), "0 x 4 pixels"),
            ("picture.png", "picture.png: cannot be read"),
        ],
    )
    def test_images(self, image: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            cscodec.encode(image, model=plain_model())

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"quality": -1}, "quality is -1"),
            ({"quality": 101}, "quality is 101"),
            ({"step": 0.1}, "step is 0.1"),
            ({"measurements": 0}, "measurements is 0"),
            ({"measurements": 64}, "measurements is 64"),
            ({"subsampling": "4:1:1"}, "subsampling is '4:1:1'"),
            ({"effort": 3}, "effort is 3"),
            ({"effort": -1}, "effort is -1"),
        ],
    )
    def test_options_of_encode(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=f"{message}; |{message}.* allow"):
            cscodec.encode(texture(9, 9), model=plain_model(), **options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"decoder": "magic"}, "decoder is 'magic'"),
            ({"measurements": -1}, "measurements is -1"),
            ({"measurements": 64}, "measurements is 64"),
            ({"sparsity": 0}, "sparsity is 0"),
            ({"sparsity": 64}, "sparsity is 64"),
        ],
    )
    def test_options_of_decode(self, options: dict[str, Any], message: str) -> None:
        data = cscodec.encode(texture(9, 9), model=plain_model())
        with pytest.raises(InvalidInputError, match=message):
            decode(data, **options)

    def test_pictures_of_too_many_pixels(self) -> None:
        data = cscodec.encode(texture(9, 10), model=plain_model())
        assert decode(data, max_pixels=90).shape == (9, 10)
        for function in (cscodec.info, decode):
            with pytest.raises(LimitExceededError, match="the limit is 89"):
                function(data, max_pixels=89)

    def test_pictures_that_take_too_long(self) -> None:
        data = cscodec.encode(texture(9, 10), model=plain_model())
        np.testing.assert_array_equal(decode(data, max_seconds=1e9), decode(data))
        with pytest.raises(LimitExceededError, match=r"longer than the limit of 1e-09 s; raise it"):
            decode(data, max_seconds=1e-9)
        for wrong in (0, -1, float("nan"), "1"):
            with pytest.raises(InvalidInputError, match="max_seconds is"):
                decode(data, max_seconds=wrong)  # type: ignore[arg-type]

    def test_an_alpha_channel_of_another_size(self) -> None:
        data = cscodec.encode(texture(9, 10, 2), model=plain_model())
        other = cscodec.encode(texture(9, 11, 2), model=plain_model())
        alpha = dict(split_chunks(other))[b"A"]
        chunks = [
            (kind, alpha if kind == b"A" else payload) for kind, payload in split_chunks(data)
        ]
        with pytest.raises(cscodec.InvalidFieldError, match="alpha"):
            decode(join_chunks(data[:START], chunks))


def test_the_default_model_needs_no_naming() -> None:
    picture = texture(40, 50, 3)
    data = cscodec.encode(picture)
    info = cscodec.info(data)
    assert info.model_name == "photo"
    assert info.model_id == cscodec.load_model("photo").model_id.hex()
    np.testing.assert_array_equal(cscodec.decode(data), cscodec.decode(data, model="photo"))
    assert psnr_db(picture, cscodec.decode(data)) > 25


def test_info_tells_what_was_asked_for(wide_file: bytes) -> None:
    info = cscodec.info(wide_file)
    assert (info.width, info.height, info.num_tiles) == (1040, 530, 6)
    assert info.bits_per_pixel == pytest.approx(8 * len(wide_file) / (1040 * 530))
    assert len(info.layer_bytes) == 4
    assert 0.9 * len(wide_file) < sum(info.layer_bytes) < len(wide_file)
    finest = cscodec.info(cscodec.encode(texture(9, 9, 3), model=plain_model(), step=0.25))
    assert (finest.step, finest.subsampling) == (0.25, "4:4:4")
    gray = cscodec.info(cscodec.encode(texture(9, 9), model=plain_model(), step=1000))
    assert (gray.step, gray.chroma_step, gray.subsampling) == (1000, None, None)
    for tune in ("psnr", "visual"):  # chroma's step may be larger or smaller than luma's
        for step in (0.25, 1000):
            file = cscodec.encode(texture(9, 9, 3), model=plain_model(), step=step, tune=tune)
            assert cscodec.info(file).step == step
    assert replace(gray, width=1).width == 1  # a plain frozen dataclass
    with pytest.raises(AttributeError):
        gray.width = 1  # type: ignore[misc]
