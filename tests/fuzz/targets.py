"""What is fuzzed: each target takes any bytes and returns the kind of outcome.

A target raises if a promise is broken: an error of another kind than stated, a result of another
shape, a file that is not read as it was written.
"""

from __future__ import annotations

import io
import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from fuzz.mutators import Mutator, any_damage, coded_damage, png_damage, tensors_damage
from PIL import Image
from strategies import EXIF, Pixels, odd_model, plain_model, texture

import cscodec
from cscodec.bitstream import container
from cscodec.bitstream.alpha import pack_alpha, unpack_alpha
from cscodec.bitstream.tiles import decode_tile, encode_tile
from cscodec.choices import DECODERS
from cscodec.errors import (
    BitstreamError,
    InvalidFieldError,
    InvalidInputError,
    InvalidModelError,
    ModelError,
)
from cscodec.images import Picture, read_picture, write_picture
from cscodec.learning.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from cscodec.learning.online import OnlineLearner
from cscodec.learning.options import TrainingOptions
from cscodec.learning.run_state import RunState, Unfinished
from cscodec.learning.start import learner_parameters
from cscodec.model import Model

MAX_PIXELS = 20_000
GOOD = "good"  #: outcome of bytes that are what they should be


@dataclass(frozen=True)
class Target:
    """Something that takes bytes of strangers.

    Attributes
    ----------
    run : callable
        Bytes to the kind of outcome.
    seeds : callable
        Returns bytes that are what they should be.
    mutate : callable
        Damages them.
    """

    run: Callable[[bytes], str]
    seeds: Callable[[], list[bytes]]
    mutate: Mutator


def run_container(data: bytes) -> str:
    """A file is taken apart, or refused; put together again it is the same."""
    for allow_partial in (True, False):
        try:
            parts = container.unpack(data, max_pixels=MAX_PIXELS, allow_partial=allow_partial)
        except BitstreamError as error:
            outcome = type(error).__name__
        else:
            outcome = GOOD
            _check_shape(parts)
    if outcome == GOOD:
        again = container.pack(parts)
        assert container.unpack(again, max_pixels=MAX_PIXELS) == parts
        assert again == data or len(again) < len(data)  # without unknown chunks
    return outcome


def _check_shape(parts: container.Container) -> None:
    header = parts.header
    assert 1 <= header.width * header.height <= MAX_PIXELS
    assert len(parts.segments) == header.num_layers
    assert all(len(layer) <= header.num_tiles for layer in parts.segments)


_SHAPES = [
    [(1, 1)],
    [(2, 3)],
    [(1, 1), (1, 1), (1, 1)],
    [(3, 2), (2, 1), (2, 1)],
    [(2, 2), (2, 2), (2, 2)],
]


def run_entropy(data: bytes) -> str:
    """Segments give values, which give the same segments; or they are refused."""
    choices, data = data[:2].ljust(2, b"\0"), data[2:]
    shapes = _SHAPES[choices[0] % 8 % len(_SHAPES)]
    tables = (plain_model(), odd_model())[choices[0] // 8 % 2].coder_tables
    measurements = 1 + choices[1] % 63
    segments = data.split(b"\xff\0\xff")[: cscodec.layout.num_layers(measurements)]
    try:
        values = decode_tile(segments, shapes, tables, measurements=measurements)
    except (BitstreamError, InvalidFieldError) as error:
        return type(error).__name__
    assert [plane.shape for plane in values] == [(*shape, 64) for shape in shapes]
    wanted = [plane.astype(np.int32) * 256 for plane in values]
    again, coded = encode_tile(wanted, tables, measurements=measurements)
    assert all(np.array_equal(one, other) for one, other in zip(values, coded, strict=True))
    assert again[: len(segments)] == segments
    return GOOD


def run_decode(data: bytes) -> str:
    """A file gives a picture, by some decoder, whole or what is there of it; or it is refused."""
    choice = zlib.crc32(data)
    return decoded(data, DECODERS[choice % len(DECODERS)], allow_partial=choice >> 8 & 1 == 1)


def decoded(data: bytes, decoder: str, allow_partial: bool) -> str:
    """Decode; check what comes out, and return its kind."""
    settings = {"max_pixels": MAX_PIXELS, "allow_partial": allow_partial}
    try:
        header = container.unpack(data, **settings).header  # type: ignore[arg-type]
        model = models().get(header.model_id)
        pixels = cscodec.decode(data, decoder=decoder, model=model, workers=1, **settings)  # type: ignore[arg-type]
    except (BitstreamError, ModelError) as error:
        return type(error).__name__
    channels = () if header.channels == 1 else (header.channels,)
    assert pixels.shape == (header.height, header.width, *channels)
    assert pixels.dtype == np.uint8
    return GOOD


@lru_cache(maxsize=1)
def models() -> dict[bytes, Model]:
    """Models that are not shipped."""
    return {model.model_id: model for model in (plain_model(), odd_model())}


@lru_cache(maxsize=1)
def files() -> list[bytes]:
    """Small files with everything that a file can have."""
    plain, odd = plain_model(), odd_model()
    return [
        cscodec.encode(texture(40, 37, 3), model=plain, quality=40),
        cscodec.encode(texture(17, 23, 4), model=odd, quality=90, icc_profile=b"icc"),
        cscodec.encode(texture(9, 530), model=odd, quality=60, exif=EXIF),
        cscodec.encode(texture(20, 11, 2), model=plain, step=0.25, measurements=9, xmp=b"<x>"),
    ]


def tiles() -> list[bytes]:
    """Seeds of `run_entropy`: random values, coded."""
    generator = np.random.default_rng(0)
    seeds = []
    for number in range(10):
        shapes = _SHAPES[number % len(_SHAPES)]
        measurements = int(generator.integers(1, 64))
        wanted = [
            (generator.laplace(0, 300, (*shape, 64)) * 256).astype(np.int32) // 256
            for shape in shapes
        ]
        tables = (plain_model(), odd_model())[number // 5].coder_tables
        segments, _ = encode_tile(wanted, tables, measurements=measurements)
        start = bytes([number % len(_SHAPES) + 8 * (number // 5), measurements - 1])
        seeds.append(start + b"\xff\0\xff".join(segments))
    return seeds


def run_alpha(data: bytes) -> str:
    """A stream gives a plane of the size that was said, or is refused."""
    try:
        plane = unpack_alpha(data, 20, 9)
    except InvalidFieldError as error:
        return type(error).__name__
    assert plane.shape == (9, 20)
    assert plane.dtype == np.uint8
    return GOOD


def run_model(data: bytes) -> str:
    """A model codes a picture, however odd its numbers, or it is refused."""
    try:
        model = Model.from_bytes(data)
        picture = texture(9, 9)
        with np.errstate(all="ignore"):
            coded = cscodec.encode(picture, model=model, quality=30, workers=1)
            decoder = DECODERS[zlib.crc32(data) % len(DECODERS)]
            restored = cscodec.decode(coded, model=model, decoder=decoder, workers=1)
        assert restored.shape == picture.shape
    except InvalidModelError:
        return "InvalidModelError"
    return GOOD


@lru_cache(maxsize=1)
def options() -> TrainingOptions:
    """Of the run that `checkpoints` are of."""
    return TrainingOptions(measurements=4, atoms=16, sparsity=2, batch_size=16)


@lru_cache(maxsize=1)
def patches() -> Pixels:
    """Some to learn from, (64, 64)."""
    return np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)


@lru_cache(maxsize=1)
def checkpoints() -> list[bytes]:
    """Seeds of `run_checkpoint`."""
    learner = OnlineLearner(learner_parameters(options()))
    learner.partial_fit(patches())
    position = {"window": 0, "visit": 1, "offset": 16, "skipped": {"a.png": "is damaged"}}
    system = {
        "sensing_matrix": np.random.default_rng(1).normal(size=(4, 64)),
        "dictionary": np.eye(64, 16, dtype=np.float32),
    }
    state = RunState(
        history={"luma": [{"iteration": 1, "psnr_db": 20.0, "ssim": 0.5}]},
        skipped_pictures={"b.png": "is empty"},
        skipped_patches={"luma": 3},
        unfinished=Unfinished(1, learner, [position]),
    ).as_mapping()
    found = []
    for systems in ({}, {"luma": system}):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "c")
            save_checkpoint(path, Checkpoint({"seed": 0}, {**state, "systems": systems}))
            found.append(path.read_bytes())
    return found


def run_checkpoint(data: bytes) -> str:
    """A checkpoint gives a state with which learning goes on, or it is refused."""
    try:
        with _file_of(data) as name, np.errstate(all="ignore"):
            state = RunState.from_mapping(load_checkpoint(name).state, options())
            if state.unfinished is not None:
                state.unfinished.learner.partial_fit(patches())
    except InvalidInputError:
        return "InvalidInputError"
    return GOOD


class _file_of:
    """A file in memory, where the system has such files, with these bytes; yields its name."""

    def __init__(self, data: bytes) -> None:
        self.file = tempfile.NamedTemporaryFile(dir=_MEMORY)  # noqa: SIM115
        self.file.write(data)
        self.file.flush()

    def __enter__(self) -> str:
        return self.file.name

    def __exit__(self, *_: object) -> None:
        self.file.close()


_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


def run_picture(data: bytes) -> str:
    """A picture file is read, or refused."""
    try:
        picture = read_picture(data, max_pixels=MAX_PIXELS)
    except InvalidInputError:
        return "InvalidInputError"
    height, width, *channels = picture.pixels.shape
    assert 1 <= height * width <= MAX_PIXELS
    assert channels in ([], [2], [3], [4])
    assert picture.pixels.dtype == np.uint8
    return GOOD


def picture_files() -> list[bytes]:
    """Seeds of `run_picture`: every format that this Pillow writes, and variants."""
    colour, gray = Image.fromarray(texture(11, 13, 3)), Image.fromarray(texture(11, 13))
    alpha = Image.fromarray(texture(11, 13, 4))
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    more = {"exif": exif, "xmp": b"<x/>", "icc_profile": b"profile"}
    wanted = [
        (colour, "PNG", more), (alpha, "PNG", {}), (gray, "PNG", {}),
        (colour.quantize(7), "PNG", {"transparency": 2}), (gray.convert("1"), "PNG", {}),
        (gray.convert("I;16"), "PNG", {}),
        (colour, "JPEG", more), (gray, "JPEG", {"progressive": True}),
        (colour.convert("CMYK"), "JPEG", {}), (colour, "WEBP", more), (alpha, "WEBP", {}),
        (colour, "TIFF", {}), (colour, "TIFF", {"compression": "tiff_lzw"}),
        (alpha, "TIFF", {"compression": "tiff_adobe_deflate"}), (gray.convert("1"), "TIFF", {}),
        (colour, "BMP", {}), (gray, "BMP", {}), (colour, "PPM", {}), (gray, "PPM", {}),
        (colour.quantize(7), "GIF", {}), (colour, "JPEG2000", {}), (colour, "AVIF", {}),
        (colour, "QOI", {}),
    ]  # fmt: skip
    found = []
    for image, kind, settings in wanted:
        stream = io.BytesIO()
        try:
            image.save(stream, kind, **settings)
        except (OSError, KeyError):  # not in this Pillow
            continue
        found.append(stream.getvalue())
    return found


def run_exif(data: bytes) -> str:
    """EXIF, whatever it holds, goes with a picture to every kind of output, or is left out."""
    stream = io.BytesIO()
    Image.fromarray(texture(4, 6, 3)).save(stream, "PNG", exif=data)
    picture = read_picture(stream.getvalue())
    assert sorted(picture.pixels.shape[:2]) == [4, 6]
    for suffix in (".png", ".jpg", ".webp", ".tif"):
        made = read_picture(write_picture(Picture(picture.pixels, None, data, None), suffix))
        assert sorted(made.pixels.shape[:2]) == [4, 6]
    return GOOD


def exif_blocks() -> list[bytes]:
    """Seeds of `run_exif`: both byte orders, both directories, with and without the prefix."""
    exif = Image.Exif()
    exif[0x0112], exif[0x010F], exif[0x8298] = 6, "maker", "nobody"
    exif.get_ifd(0x8769)[0x829A] = 0.01
    exif.get_ifd(0x8825)[2] = (1.0, 2.0, 3.0)
    little = exif.tobytes()
    exif.endian = ">"
    return [little, exif.tobytes(), little.removeprefix(b"Exif\0\0")]


TARGETS = {
    "container": Target(run_container, files, coded_damage),
    "entropy": Target(run_entropy, tiles, any_damage),
    "decode": Target(run_decode, files, coded_damage),
    "alpha": Target(run_alpha, lambda: [pack_alpha(texture(9, 20))], png_damage),
    "model": Target(run_model, lambda: [m.to_bytes() for m in models().values()], tensors_damage),
    "checkpoint": Target(run_checkpoint, checkpoints, tensors_damage),
    "picture": Target(run_picture, picture_files, any_damage),
    "exif": Target(run_exif, exif_blocks, any_damage),
}
