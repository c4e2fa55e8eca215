"""Arrays in stores: the codecs of numcodecs and Zarr, alone and through what people read with."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import Pixels, odd_model, plain_model, sample

import cscodec
from cscodec.errors import BitstreamError, InvalidInputError, ModelError
from cscodec.plugins.chunks import ChunkCoder, picture_shape, use_model

numcodecs = pytest.importorskip("numcodecs")
zarr = pytest.importorskip("zarr", minversion="3")
from cscodec.plugins import numcodecs as numcodecs_plugin  # noqa: E402
from cscodec.plugins.zarr import CscCodec  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
CHUNKS = (128, 128, 3)


@pytest.fixture(scope="module")
def pixels() -> Pixels:
    """3 x 2 chunks, those at the edges not whole."""
    return sample("fig", 300, 200)


@pytest.fixture(scope="module")
def restored(pixels: Pixels) -> Pixels:
    """What arrays of quality 60 should hold."""
    whole = np.zeros((384, 256, 3), np.uint8)
    whole[:300, :200] = pixels
    for top in range(0, 384, 128):
        for left in range(0, 256, 128):
            chunk = whole[top : top + 128, left : left + 128]
            chunk[:] = cscodec.decode(cscodec.encode(chunk, quality=60))
    return whole[:300, :200]


def stored(path: Path, pixels: Pixels) -> str:
    array = zarr.create_array(
        str(path), shape=pixels.shape, dtype="uint8", chunks=CHUNKS,
        serializer=CscCodec(quality=60), compressors=None,
    )  # fmt: skip
    array[:] = pixels
    return str(path)


def total(array: Any) -> int:
    return int(array[:].astype(np.int64).sum())


class TestZarr:
    def test_chunk_by_chunk(self, tmp_path: Path, pixels: Pixels, restored: Pixels) -> None:
        path = stored(tmp_path / "a.zarr", pixels)
        array = zarr.open_array(path)
        np.testing.assert_array_equal(array[:], restored)
        np.testing.assert_array_equal(array[100:140, 7, 1], restored[100:140, 7, 1])
        chunk = (tmp_path / "a.zarr/c/0/0/0").read_bytes()
        np.testing.assert_array_equal(cscodec.decode(chunk), restored[:128, :128])

    def test_metadata_have_the_options_and_the_models_id(
        self, tmp_path: Path, pixels: Pixels
    ) -> None:
        stored(tmp_path / "a.zarr", pixels)
        (codec,) = json.loads((tmp_path / "a.zarr/zarr.json").read_text())["codecs"]
        assert codec["name"] == "cscodec"
        assert codec["configuration"]["quality"] == 60
        assert codec["configuration"]["model"] == cscodec.load_model("photo").model_id.hex()
        assert CscCodec.from_dict(codec) == CscCodec(quality=60)

    def test_order_in_memory_is_nobodys_business(self, pixels: Pixels, restored: Pixels) -> None:
        """Zarr 3 hands over chunks as they lie."""
        for given in (np.asfortranarray(pixels), np.ascontiguousarray(pixels.T).T):
            array = zarr.create_array(
                {}, shape=pixels.shape, dtype="uint8", chunks=CHUNKS, config={"order": "F"},
                serializer=CscCodec(quality=60), compressors=None,
            )  # fmt: skip
            array[:] = given
            np.testing.assert_array_equal(array[:], restored)

    def test_a_chunk_of_another_shape_is_refused(self, tmp_path: Path, pixels: Pixels) -> None:
        path = stored(tmp_path / "a.zarr", pixels)
        other = cscodec.encode(np.zeros((64, 256, 3), np.uint8))
        (tmp_path / "a.zarr/c/0/0/0").write_bytes(other)
        with pytest.raises(BitstreamError, match=r"shape \(64, 256, 3\), not the \(128, 128, 3\)"):
            zarr.open_array(path)[:]

    def test_shards(self, tmp_path: Path, pixels: Pixels, restored: Pixels) -> None:
        array = zarr.create_array(
            str(tmp_path / "a.zarr"), shape=pixels.shape, dtype="uint8", chunks=CHUNKS,
            shards=(256, 256, 3), serializer=CscCodec(quality=60), compressors=None,
        )  # fmt: skip
        array[:] = pixels
        np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "a.zarr"))[:], restored)

    def test_axes_of_length_one_before_the_picture(self, pixels: Pixels) -> None:
        planes = np.moveaxis(pixels, 2, 0)[None]
        array = zarr.create_array(
            {}, shape=planes.shape, dtype="uint8", chunks=(1, 1, 128, 128),
            serializer=CscCodec(quality=95), compressors=None,
        )  # fmt: skip
        array[:] = planes
        assert np.abs(array[:].astype(int) - planes).mean() < 3

    @pytest.mark.parametrize(
        ("dtype", "shape", "chunks", "message"),
        [
            ("uint16", (40, 40), (20, 20), "dtype uint16; allowed is uint8"),
            ("uint8", (40, 40, 40), (4, 20, 20), r"shape \(4, 20, 20\); allowed are pictures"),
            ("uint8", (40,), (20,), r"shape \(20,\)"),
        ],
    )
    def test_arrays_that_are_no_pictures_are_refused(
        self, dtype: str, shape: Any, chunks: Any, message: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=message):
            zarr.create_array(
                {}, shape=shape, dtype=dtype, chunks=chunks, serializer=CscCodec(), compressors=None
            )

    def test_damaged_chunks_are_errors_of_ours(self, tmp_path: Path, pixels: Pixels) -> None:
        path = stored(tmp_path / "a.zarr", pixels)
        chunk = tmp_path / "a.zarr/c/0/0/0"
        whole = chunk.read_bytes()
        other = cscodec.encode(np.zeros((9999, 1), np.uint8))
        for damaged in (whole[:-9], whole[:60] + b"?" + whole[61:], b"", other):
            chunk.write_bytes(damaged)
            with pytest.raises(BitstreamError):
                zarr.open_array(path)[:]


class TestNumcodecs:
    def test_a_codec_like_others(self, pixels: Pixels) -> None:
        codec = numcodecs.get_codec({"id": "cscodec", "quality": 60})
        config = json.loads(json.dumps(codec.get_config()))
        assert numcodecs.get_codec(config) == codec
        assert pickle.loads(pickle.dumps(codec)) == codec
        assert "quality=60" in repr(codec)
        data = codec.encode(pixels)
        expected = cscodec.decode(cscodec.encode(pixels, quality=60))
        np.testing.assert_array_equal(codec.decode(data), expected)
        out = bytearray(pixels.size)
        codec.decode(data, out)
        assert bytes(out) == expected.tobytes()
        with pytest.raises(BitstreamError, match="promise"):
            codec.decode(data, bytearray(pixels.size - 3))

    def test_zarr_2(self, tmp_path: Path, pixels: Pixels, restored: Pixels) -> None:
        codec = numcodecs.get_codec({"id": "cscodec", "quality": 60})
        array = zarr.create_array(
            str(tmp_path / "a.zarr"), shape=pixels.shape, dtype="uint8", chunks=CHUNKS,
            zarr_format=2, compressors=codec,
        )  # fmt: skip
        array[:] = pixels
        np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "a.zarr"))[:], restored)

    def test_other_types_are_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="dtype float32; allowed is uint8"):
            numcodecs.get_codec({"id": "cscodec"}).encode(np.zeros((8, 8), np.float32))

    def test_order_f_is_refused(self, pixels: Pixels) -> None:
        with pytest.raises(InvalidInputError, match="make it with order 'C'"):
            numcodecs.get_codec({"id": "cscodec"}).encode(np.asfortranarray(pixels))


class TestWhatPeopleReadWith:
    def test_dask_on_threads_and_processes(
        self, tmp_path: Path, pixels: Pixels, restored: Pixels
    ) -> None:
        dask = pytest.importorskip("dask.array")
        path = stored(tmp_path / "a.zarr", pixels)
        array = dask.from_zarr(path)
        np.testing.assert_array_equal(array.compute(scheduler="threads"), restored)
        copy = zarr.create_array(
            str(tmp_path / "b.zarr"), shape=pixels.shape, dtype="uint8", chunks=CHUNKS,
            serializer=CscCodec(quality=60), compressors=None,
        )  # fmt: skip
        dask.store(dask.from_array(pixels, chunks=CHUNKS), copy, lock=False)
        np.testing.assert_array_equal(copy[:], restored)
        data = cscodec.encode(array, model=plain_model())  # and the encoder reads it by rows
        assert data == cscodec.encode(restored, model=plain_model())

    def test_xarray(self, tmp_path: Path, pixels: Pixels, restored: Pixels) -> None:
        xarray = pytest.importorskip("xarray")
        how = {"serializer": CscCodec(quality=60), "compressors": (), "chunks": CHUNKS}
        dataset = xarray.Dataset({"photo": (("y", "x", "c"), pixels)})
        path = str(tmp_path / "a.zarr")
        dataset.to_zarr(path, zarr_format=3, consolidated=False, encoding={"photo": how})
        opened = xarray.open_zarr(path, consolidated=False)
        np.testing.assert_array_equal(opened["photo"].values, restored)

    def test_threads_and_processes(self, tmp_path: Path, pixels: Pixels, restored: Pixels) -> None:
        array = zarr.open_array(stored(tmp_path / "a.zarr", pixels))
        with ThreadPoolExecutor(4) as pool:
            sums = list(pool.map(total, [array] * 8))
        with multiprocessing.get_context("spawn").Pool(2) as processes:
            sums += processes.map(total, [array] * 2)
        assert set(sums) == {int(restored.sum())}


class TestOptions:
    @pytest.mark.parametrize(
        "wrong",
        [{"quality": 101}, {"effort": 7}, {"decoder": "x"}, {"model": "none"}, {"step": -1}],
    )
    def test_wrong_ones_are_refused_at_once(self, wrong: dict[str, Any]) -> None:
        with pytest.raises((InvalidInputError, ModelError)):
            CscCodec(**wrong)

    @pytest.mark.parametrize(
        "model", ["/etc/passwd", "http://127.0.0.1:9/m.safetensors", 5, None, [1]]
    )
    def test_metadata_open_nothing(self, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cscodec.plugins.chunks.load_model", None)
        with pytest.raises(InvalidInputError, match=r"the metadata name the model .*use_model"):
            CscCodec.from_dict({"name": "cscodec", "configuration": {"model": model}})
        with pytest.raises(InvalidInputError, match=r"the metadata name the model .*use_model"):
            numcodecs.get_codec({"id": "cscodec", "model": model})

    def test_options_that_metadata_have_not(self) -> None:
        for make in (
            lambda: CscCodec.from_dict({"name": "cscodec", "configuration": {"bogus": 1}}),
            lambda: numcodecs.get_codec({"id": "cscodec", "bogus": 1}),
        ):
            with pytest.raises(InvalidInputError, match="an unknown option 'bogus'"):
                make()

    def test_numbers_of_numpy_reach_the_metadata(self) -> None:
        coder = ChunkCoder(quality=np.float32(60), measurements=np.int64(20))  # type: ignore[arg-type]
        assert json.loads(json.dumps(coder.config()))["quality"] == 60

    def test_models_by_path_and_as_they_are(self, tmp_path: Path) -> None:
        model = odd_model()
        model.save(tmp_path / "mine.safetensors")
        for given in (model, tmp_path / "mine.safetensors", str(tmp_path / "mine.safetensors")):
            assert ChunkCoder(model=given).model == model.model_id.hex()  # type: ignore[arg-type]

    def test_models_of_ones_own_are_named_by_id(self, pixels: Pixels) -> None:
        model = plain_model()
        with pytest.raises(ModelError, match="use_model"):
            ChunkCoder(model=model.model_id.hex()).encode(pixels)
        assert use_model(model) == model.model_id.hex()
        coder = ChunkCoder(model=model.model_id.hex(), step=8)
        expected = cscodec.decode(cscodec.encode(pixels, step=8, model=model), model=model)
        np.testing.assert_array_equal(coder.decode(coder.encode(pixels)), expected)

    @pytest.mark.parametrize(
        ("chunk", "picture"),
        [
            ((1, 1, 9, 8), (9, 8)), ((1, 9, 8, 3), (9, 8, 3)), ((9, 8, 4), (9, 8, 4)),
            ((1, 9, 8), (9, 8)), ((1, 9, 3), (1, 9, 3)), ((9, 8), (9, 8)),
        ],
    )  # fmt: skip
    def test_shapes(self, chunk: Any, picture: Any) -> None:
        assert picture_shape(chunk) == picture


def test_entry_points_are_these_codecs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for group, expected in [
        ("zarr.codecs", CscCodec),
        ("numcodecs.codecs", numcodecs_plugin.CscCodec),
    ]:
        module, _, name = project["entry-points"][group]["cscodec"].partition(":")
        assert getattr(import_module(module), name) is expected


@pytest.mark.parametrize("plugin", ["numcodecs", "zarr"])
def test_without_the_extra_the_error_names_it(plugin: str) -> None:
    code = f"import sys; sys.modules[{plugin!r}] = None; import cscodec.plugins.{plugin}"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "pip install 'cscodec[zarr]'" in found.stderr.splitlines()[-1]
