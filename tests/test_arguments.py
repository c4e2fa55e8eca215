"""What `encode`, `decode` and `info` take, and that all else is refused by name."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from strategies import EXIF, Pixels, plain_model, texture

import cscodec
from cscodec.errors import InvalidInputError
from cscodec.images.exif import Exif

GRAY, RGB = texture(12, 20), texture(12, 20, 3)


def encode(image: Any, **options: Any) -> bytes:
    return cscodec.encode(image, model=plain_model(), **options)


def decode(data: Any, **options: Any) -> Pixels:
    return cscodec.decode(data, model=plain_model(), **options)


class TestFiles:
    def test_encode_takes_whatever_holds_a_picture(self, tmp_path: Path) -> None:
        path = tmp_path / "a.png"
        Image.fromarray(RGB).save(path)
        expected = encode(RGB)
        with open(path, "rb") as opened:
            for image in (path, str(path), opened, Image.open(path)):
                assert encode(image) == expected
        for kind in (bytes, bytearray, memoryview):
            assert encode(kind(path.read_bytes())) == expected

    def test_decode_and_info_take_paths_and_files(self, tmp_path: Path) -> None:
        data = encode(RGB)
        path = tmp_path / "a.csc"
        path.write_bytes(data)
        expected = decode(data)
        for given in (path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data)):
            np.testing.assert_array_equal(decode(given), expected)
        for given in (path, str(path), bytearray(data), io.BytesIO(data)):
            assert cscodec.info(given) == cscodec.info(data)
        with open(path, "rb") as opened:
            assert cscodec.info(opened).width == 20

    def test_pictures_in_files_come_upright_with_their_metadata(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[0x0112], exif[0x010F] = 6, "Maker"
        path = tmp_path / "a.png"
        Image.fromarray(RGB).save(path, exif=exif)
        for image in (path, Image.open(path)):
            data = encode(image)
            found = Image.Exif()
            found.load(cscodec.info(data).exif or b"")
            assert decode(data).shape == (20, 12, 3)
            assert (found[0x010F], found.get(0x0112, 1)) == ("Maker", 1)

    def test_metadata_that_are_given_turn_the_picture(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/'
        xmp += b'22-rdf-syntax-ns#"><rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" '
        xmp += b'tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
        for metadata in ({"exif": exif.tobytes()}, {"xmp": xmp}):
            data = encode(RGB, **metadata)
            info = cscodec.info(data)
            assert data == encode(np.rot90(RGB, -1), exif=info.exif, xmp=info.xmp)
            assert info.exif is None or Exif(info.exif).take_orientation() == 1
            assert info.xmp is None or b'Orientation="1"' in info.xmp

    def test_the_limit_of_pixels_is_that_of_the_caller(self, tmp_path: Path) -> None:
        path = tmp_path / "a.png"
        Image.fromarray(RGB).save(path)
        with pytest.raises(InvalidInputError, match="more than the limit of 239"):
            encode(path, max_pixels=239)
        assert encode(path, max_pixels=240)

    @pytest.mark.parametrize("function", [decode, cscodec.info])
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ("nowhere.csc", "nowhere.csc: cannot be read: No such file"),
            (Path("nowhere.csc"), "nowhere.csc: cannot be read: No such file"),
            ("a\0b", "cannot be read"),
            (500_000_000, "data is of type int; give bytes, a path"),
            (None, "data is of type NoneType"),
            (io.StringIO("text"), "data is of type StringIO.*binary mode"),
        ],
    )
    def test_what_is_no_file(self, function: Any, data: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            function(data)


class TestPillow:
    @pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "YCbCr"])
    def test_modes_mean_what_they_say(self, mode: str) -> None:
        image = Image.fromarray(RGB).convert(mode)
        wanted = {"1": "L", "P": "RGB", "YCbCr": "RGB"}.get(mode, mode)
        assert encode(image) == encode(np.asarray(image.convert(wanted)))

    def test_transparency_of_palettes_is_alpha(self) -> None:
        image = Image.fromarray(GRAY).convert("P")
        image.info["transparency"] = 5
        np.testing.assert_array_equal(
            decode(encode(image))[..., 3], np.asarray(image.convert("RGBA"))[..., 3]
        )

    @pytest.mark.parametrize("mode", ["CMYK", "LAB", "HSV", "I", "F", "I;16"])
    def test_other_modes_are_refused(self, mode: str) -> None:
        with pytest.raises(InvalidInputError, match=f"mode {mode}.*convert"):
            encode(Image.new(mode, (8, 8)))

    def test_what_cannot_be_loaded(self) -> None:
        buffer = io.BytesIO()
        Image.fromarray(texture(64, 64, 3)).save(buffer, "PNG")
        broken = Image.open(io.BytesIO(buffer.getvalue()[:-2000]))
        with pytest.raises(InvalidInputError, match="cannot be loaded"):
            encode(broken)


class TestArrays:
    def test_bool_and_float_are_taken_as_scikit_image_does(self) -> None:
        from skimage.util import img_as_ubyte

        generator = np.random.default_rng(0)
        mask = generator.random((9, 11)) < 0.5
        assert encode(mask) == encode(img_as_ubyte(mask))
        for kind in (np.float16, np.float32, np.float64):
            floats = generator.random((9, 11, 3)).astype(kind)
            assert encode(floats) == encode(img_as_ubyte(floats.astype(float)))
        rounded = np.array([[-1e-9, 0.0, 0.5, 1 + 1e-9]])
        assert encode(rounded) == encode(np.array([[0, 0, 128, 255]], np.uint8))

    @pytest.mark.parametrize(
        ("image", "message"),
        [
            (GRAY.astype(float), "floats from .* allowed are 0 to 1"),
            (np.full((4, 4), -0.1), "floats from -0.1 to -0.1"),
            (np.full((4, 4), np.nan), "floats from nan to nan"),
            (GRAY.astype(np.uint16), "dtype uint16"),
            (GRAY.astype(int), "dtype int64"),
            (GRAY.astype(complex), "dtype complex128"),
            (np.full((4, 4), "a"), "dtype <U1"),
            ([[1, 2], [3]], "no array"),
            (np.moveaxis(RGB, 2, 0), "channels last"),
            (None, "dtype object"),
            ({}, "dtype object"),
            (7.5, r"shape \(\)"),
        ],
    )
    def test_others_are_refused(self, image: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            encode(image)


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"quality": "x"}, "quality is 'x'"),
            ({"quality": True}, "quality is True"),
            ({"quality": float("nan")}, "quality is nan"),
            ({"quality": 1j}, "quality is 1j"),
            ({"step": "3"}, "step is '3'"),
            ({"measurements": 2.5}, "measurements is 2.5; model .* allows 1 to 63"),
            ({"measurements": "5"}, "measurements is '5'"),
            ({"effort": 0.5}, "effort is 0.5"),
            ({"effort": None}, "effort is None"),
            ({"subsampling": 420}, "subsampling is 420"),
            ({"subsampling": ["auto"]}, "subsampling is"),
            ({"workers": 0}, "workers is 0"),
            ({"workers": -3}, "workers is -3"),
            ({"workers": 1.5}, "workers is 1.5"),
            ({"max_pixels": 0}, "max_pixels is 0"),
            ({"target_bpp": "1"}, "target_bpp is '1'"),
            ({"target_size": [5]}, "target_size is"),
            ({"target_bpp": 1, "quality": 10}, "only one of quality and target_bpp"),
            ({"exif": b"Exif"}, "exif is not EXIF"),
            ({"exif": "text"}, "exif is of type str"),
            ({"xmp": "<x/>"}, "xmp is of type str"),
            ({"icc_profile": 7}, "icc_profile is of type int"),
        ],
    )
    def test_encode(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            encode(GRAY, **options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"region": (0, 0, 5)}, "region is .* four whole numbers: x, y, width and height"),
            ({"region": 5}, "region is 5"),
            ({"region": "0055"}, "region is '0055'"),
            ({"region": (0, 0, 5.0, 5)}, "four whole numbers"),
            ({"region": (-1, 0, 5, 5)}, "region -1,0,5,5 does not lie"),
            ({"region": (0, 0, 0, 5)}, "region 0,0,0,5 does not lie"),
            ({"region": (16, 0, 5, 5)}, "does not lie within the picture of 20 x 12"),
            ({"measurements": 2.5}, "measurements is 2.5"),
            ({"sparsity": 2.5}, "sparsity is 2.5"),
            ({"sparsity": True}, "sparsity is True"),
            ({"decoder": None}, "decoder is None"),
            ({"decoder": ["omp"]}, "decoder is"),
            ({"workers": -3}, "workers is -3"),
            ({"workers": 0}, "workers is 0"),
            ({"max_pixels": "many"}, "max_pixels is 'many'"),
            ({"scale": "1/2"}, "scale is '1/2'"),
            ({"scale": 0.3}, "scale is 0.3; allowed are"),
            ({"out": "a.png"}, "out is of type str; .* uint8"),
            ({"out": [[0]]}, "out is of type list"),
            ({"out": np.empty((12, 20))}, "out is float64"),
            ({"out": np.empty((20, 12), np.uint8)}, "out is uint8"),
            ({"out": np.broadcast_to(np.uint8(0), (12, 20))}, "read-only"),
        ],
    )
    def test_decode(self, options: dict[str, Any], message: str) -> None:
        data = encode(GRAY)
        with pytest.raises(InvalidInputError, match=message):
            decode(data, **options)

    def test_models(self) -> None:
        for function, given in ((cscodec.encode, GRAY), (cscodec.decode, encode(GRAY))):
            with pytest.raises(InvalidInputError, match="model is of type int"):
                function(given, model=5)
        with pytest.raises(InvalidInputError, match="model is of type NoneType"):
            cscodec.load_model(None)  # type: ignore[arg-type]

    def test_numbers_of_numpy_are_numbers(self) -> None:
        options = {"quality": np.float32(50), "measurements": np.int64(9), "effort": np.uint8(0)}
        assert encode(GRAY, **options, exif=EXIF) == encode(
            GRAY, quality=50, measurements=9, effort=0, exif=EXIF
        )
        part = decode(encode(GRAY), region=np.array([1, 2, 3, 4]), workers=np.int32(1))
        assert part.shape == (4, 3)


class Failing(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("function", [encode, decode, cscodec.info])
def test_files_that_cannot_be_read(function: Any, tmp_path: Path) -> None:
    closed = io.BytesIO(encode(RGB))
    closed.close()
    with open(tmp_path / "a", "wb") as for_writing:
        for file in (closed, for_writing, Failing(), io.StringIO("text")):
            with pytest.raises(InvalidInputError, match=r"cannot be read|binary mode"):
                function(file)


@pytest.mark.parametrize("name", ["quality", "step", "target_bpp", "target_psnr"])
def test_numbers_beyond_floats(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} is 1000"):
        encode(RGB, **{name: 10**400})


def test_names_that_are_arrays() -> None:
    with pytest.raises(InvalidInputError, match=r"tune is .*; allowed are visual, psnr"):
        encode(RGB, tune=np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"decoder is .*; allowed are refine"):
        decode(encode(RGB), decoder=np.zeros(3))  # type: ignore[arg-type]


def test_masked_samples_are_refused() -> None:
    masked = np.ma.masked_less(RGB, 128)
    with pytest.raises(InvalidInputError, match=r"masked samples; fill them first"):
        encode(masked)
    assert encode(masked.filled(0)) == encode(np.ma.masked_array(masked.filled(0)))
