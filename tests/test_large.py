"""Large picture files from the command line: read and written some rows at a time."""

from __future__ import annotations

import lzma
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from command_line import Pixels, Run, entries, pixels_of, run
from PIL import Image
from strategies import sample

import cscodec
from cscodec.images import large, read_picture

__all__ = ["run"]

TIFFS: dict[str, dict[str, Any]] = {
    "tiles": {"tile": (128, 256), "compression": "zlib", "predictor": True},
    "strips": {"rowsperstrip": 100, "compression": "zlib"},
    "uncompressed": {"rowsperstrip": 100},
    "one-strip": {"rowsperstrip": 541, "compression": "zlib"},
}


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LARGE_PIXELS", 1000)


@pytest.fixture(scope="module")
def pixels() -> Pixels:
    """2 x 2 tiles."""
    return sample("fig", 541, 523)


def small(pixels: Pixels) -> bytes:
    return cscodec.encode(np.ascontiguousarray(pixels), quality=75)


class TestReading:
    @pytest.mark.parametrize("kind", TIFFS)
    @pytest.mark.parametrize("colours", ["rgb", "minisblack"])
    def test_tiff(self, kind: str, colours: str, pixels: Pixels, tmp_path: Path) -> None:
        pixels = pixels if colours == "rgb" else np.ascontiguousarray(pixels[..., 1])
        path = tmp_path / "a.tif"
        tifffile.imwrite(path, pixels, photometric=colours, metadata=None, **TIFFS[kind])
        found = read_picture(path).pixels
        assert type(found) is not np.ndarray  # it was not read whole
        assert found.shape == pixels.shape
        for rows in (slice(0, 512), slice(512, 541), slice(90, 310), slice(0, 1)):
            np.testing.assert_array_equal(found[rows], pixels[rows])

    @pytest.mark.parametrize("suffix", ["pgm", "ppm"])
    def test_raw_netpbm(self, suffix: str, pixels: Pixels, tmp_path: Path) -> None:
        pixels = pixels if suffix == "ppm" else np.ascontiguousarray(pixels[..., 1])
        path = tmp_path / f"a.{suffix}"
        Image.fromarray(pixels).save(path)
        found = read_picture(path).pixels
        assert isinstance(found, np.memmap)
        np.testing.assert_array_equal(found, pixels)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(cscodec.InvalidInputError, match="truncated or damaged"):
            read_picture(path)

    @pytest.mark.parametrize("name", ["alpha.tif", "turned.tif", "a.png", "bits.pgm"])
    def test_others_are_read_whole_and_the_same(
        self, name: str, pixels: Pixels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, options = tmp_path / name, {}
        if name == "alpha.tif":
            pixels = np.dstack([pixels, pixels[..., :1]])
        elif name == "turned.tif":
            options["exif"] = Image.Exif()
            options["exif"][0x0112] = 6
        elif name == "bits.pgm":
            path.write_bytes(b"P5 60 20 15\n" + bytes(range(15)) * 80)
        if not path.exists():
            Image.fromarray(pixels).save(path, **options)
        found = read_picture(path).pixels
        monkeypatch.setattr(large, "LARGE_PIXELS", 1 << 26)
        np.testing.assert_array_equal(np.asarray(found), read_picture(path).pixels)


def tiff_of(strips: list[bytes], pixels: Pixels, path: Path, compression: int = 8) -> None:
    """Write a TIFF of gray pixels from strips of 100 rows as they are."""
    tifffile.imwrite(
        path,
        iter(strips),
        shape=pixels.shape,
        dtype=np.uint8,
        photometric="minisblack",
        rowsperstrip=100,
        compression=compression,
        metadata=None,
    )


class TestDamage:
    """Strips that lie, of which only the first is read when a file is opened."""

    @pytest.fixture
    def gray(self, pixels: Pixels) -> Pixels:
        return np.ascontiguousarray(pixels[..., 1])

    def strips(self, gray: Pixels) -> list[bytes]:
        return [zlib.compress(gray[top : top + 100].tobytes()) for top in range(0, len(gray), 100)]

    @pytest.mark.parametrize("strip", [b"garbage!" * 9, zlib.compress(b"short"), b"\x78\x9c"])
    def test_a_later_strip(self, strip: bytes, gray: Pixels, tmp_path: Path) -> None:
        strips = self.strips(gray)
        strips[3] = strip
        tiff_of(strips, gray, tmp_path / "a.tif")
        found = read_picture(tmp_path / "a.tif").pixels
        np.testing.assert_array_equal(found[100:300], gray[100:300])
        with pytest.raises(cscodec.InvalidInputError, match=r"a.tif: .*damaged .*3: .*intact copy"):
            cscodec.encode(tmp_path / "a.tif")

    def test_a_strip_that_unpacks_to_more(self, gray: Pixels, tmp_path: Path) -> None:
        strips = self.strips(gray)
        strips[2] = zlib.compress(bytes(50_000_000))
        tiff_of(strips, gray, tmp_path / "a.tif")
        tracemalloc.start()
        try:
            with pytest.raises(cscodec.InvalidInputError, match="more than its 52300 bytes"):
                cscodec.encode(tmp_path / "a.tif")
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("tag", ["StripOffsets", "StripByteCounts"])
    def test_strips_that_are_nowhere(self, tag: str, gray: Pixels, tmp_path: Path) -> None:
        path = tmp_path / "a.tif"
        tiff_of(self.strips(gray), gray, path)
        with tifffile.TiffFile(path, mode="r+b") as tiff:
            found = tiff.pages.first.tags[tag]
            found.overwrite([*found.value[:-1], 0xFFFFFFF0])
        with pytest.raises(cscodec.InvalidInputError, match=r"a.tif: .*"):
            cscodec.encode(path)

    def test_tiles_that_are_wider_than_the_picture(
        self, pixels: Pixels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.tif"
        tifffile.imwrite(
            path, pixels, photometric="rgb", tile=(16, 1 << 12), compression="zlib", metadata=None
        )
        assert type(read_picture(path).pixels) is not np.ndarray
        monkeypatch.setattr(large, "_MOST_BAND_BYTES", 16 * 3 * 4095)
        assert type(read_picture(path).pixels) is np.ndarray

    def test_what_may_unpack_to_any_size_is_left_to_pillow(
        self, gray: Pixels, tmp_path: Path
    ) -> None:
        strips = [lzma.compress(gray[top : top + 100].tobytes()) for top in range(0, 541, 100)]
        tiff_of(strips, gray, tmp_path / "a.tif", compression=34925)
        found = read_picture(tmp_path / "a.tif").pixels
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, gray)


class TestCommands:
    def test_encode_writes_the_same_file_as_from_memory(self, run: Run, pixels: Pixels) -> None:
        tifffile.imwrite("a.tif", pixels, photometric="rgb", metadata=None, **TIFFS["tiles"])
        Image.fromarray(pixels).save("b.ppm")
        assert run("encode", "a.tif", "b.ppm").code == 0
        assert Path("b.csc").read_bytes() == small(pixels)
        found = cscodec.info(Path("a.csc").read_bytes())
        assert (found.width, found.height) == (523, 541)
        result = run("encode", "a.tif", "-o", "c.csc", "--max-pixels", "1000")
        assert result.code == 1
        assert "--max-pixels" in result.stderr

    @pytest.mark.parametrize("suffix", ["tif", "ppm"])
    @pytest.mark.parametrize("options", [[], ["--scale", "1/4"], ["--region", "9,100,500,440"]])
    def test_decode_writes_the_same_file_as_from_memory(
        self,
        suffix: str,
        options: list[str],
        run: Run,
        pixels: Pixels,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        Path("a.csc").write_bytes(cscodec.encode(pixels, icc_profile=b"a profile"))
        written = []
        monkeypatch.setattr(
            large.WrittenRows, "__init__", _noting(large.WrittenRows.__init__, written)
        )
        assert run("decode", "a.csc", "-o", f"parts.{suffix}", *options).code == 0
        assert len(written) == 1
        monkeypatch.setattr(large, "LARGE_PIXELS", 1 << 26)
        assert run("decode", "a.csc", "-o", f"whole.{suffix}", *options).code == 0
        assert len(written) == 1
        assert Path(f"parts.{suffix}").read_bytes() == Path(f"whole.{suffix}").read_bytes()

    def test_netpbm_to_standard_output(self, run: Run, pixels: Pixels) -> None:
        Path("a.csc").write_bytes(small(pixels[..., 0]))
        result = run("decode", "a.csc", "--format", "pgm", "-o", "-")
        Path("a.pgm").write_bytes(result.stdout)
        expected = cscodec.decode(small(pixels[..., 0]))
        np.testing.assert_array_equal(pixels_of("a.pgm"), expected)

    def test_a_tiff_that_would_be_too_large_leaves_nothing(
        self, run: Run, pixels: Pixels, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cscodec.images.tiff._MOST_BYTES", 100_000)
        Path("a.csc").write_bytes(small(pixels))
        result = run("decode", "a.csc", "-o", "a.tif")
        assert result.code == 1
        assert "4 GB" in result.stderr
        assert "write .ppm instead" in result.stderr
        assert entries() == {"a.csc"}


def _noting(method: Any, calls: list[Any]) -> Any:
    def noting(*arguments: Any) -> None:
        calls.append(arguments)
        method(*arguments)

    return noting
