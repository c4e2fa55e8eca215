"""Any bytes give a picture of the right shape or an error of the right kind, in bounded time.

Files are damaged from outside (bits, bytes, cuts) and from within: chunks are exchanged and their
payloads changed, with checksums made right again, so that damage reaches the entropy decoder and
the alpha channel's decoder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from strategies import (
    EXIF,
    ROOT,
    START,
    Pixels,
    join_chunks,
    odd_model,
    plain_model,
    split_chunks,
    texture,
)

import cscodec
from cscodec.bitstream import container
from cscodec.errors import BitstreamError, ModelError, TruncatedError
from cscodec.model import Model

MAX_PIXELS = 20_000
DECODERS = ("linear", "omp", "consistent", "refine")
MOST_SECONDS = 5.0

Chunks = list[tuple[bytes, bytes]]
Generator = np.random.Generator


@lru_cache(maxsize=1)
def files() -> list[tuple[bytes, Model]]:
    """Small files with everything that a file can have."""
    plain, odd = plain_model(), odd_model()
    return [
        (cscodec.encode(texture(40, 37, 3), model=plain, quality=40), plain),
        (cscodec.encode(texture(17, 23, 4), model=odd, quality=90, icc_profile=b"icc"), odd),
        (cscodec.encode(texture(9, 530), model=odd, quality=60, exif=EXIF), odd),
        (cscodec.encode(texture(20, 11, 2), model=plain, step=0.25, measurements=9), plain),
    ]


def flipped(data: bytes, generator: Generator) -> bytes:
    """Change one bit, or some."""
    damaged = bytearray(data)
    if damaged:
        for _ in range(int(generator.geometric(0.5))):
            damaged[generator.integers(len(damaged))] ^= 1 << int(generator.integers(8))
    return bytes(damaged)


def overwritten(data: bytes, generator: Generator) -> bytes:
    """Replace a few bytes by others, remove or insert some."""
    start, length = int(generator.integers(len(data) + 1)), int(generator.integers(9))
    new = generator.bytes(int(generator.integers(9)))
    if generator.integers(3) == 0:
        new = bytes([int(generator.choice([0, 127, 128, 255]))]) * len(new)
    return data[:start] + new + data[start + length :]


def cut(data: bytes, generator: Generator) -> bytes:
    return data[: generator.integers(len(data) + 1)]


def with_payload(data: bytes, generator: Generator) -> bytes:
    """Change one chunk's payload and make its checksum right."""
    chunks = split_chunks(data)
    number = int(generator.integers(len(chunks)))
    kind, payload = chunks[number]
    change: Callable[[bytes, Generator], bytes] = [flipped, overwritten, cut, noise][
        generator.integers(4)
    ]
    chunks[number] = (kind, change(payload, generator))
    if kind == b"A":
        chunks[number] = (kind, png_with_right_checksums(chunks[number][1]))
    return join_chunks(data[:START], chunks)


def noise(data: bytes, generator: Generator) -> bytes:
    return generator.bytes(int(generator.integers(2 * len(data) + 2)))


def with_header(data: bytes, generator: Generator) -> bytes:
    """Change one field of the header to something that may be allowed."""
    chunks = split_chunks(data)
    fields = list(container.HEADER.unpack(chunks[0][1]))
    field = int(generator.integers(9))
    most = [600, 600, 5, 16, 3, 65, 65536, 65536, 256][field]
    fields[field] = int(generator.integers(most))
    chunks[0] = (b"H", container.HEADER.pack(*fields))
    return join_chunks(data[:START], chunks)


def with_chunks(data: bytes, generator: Generator) -> bytes:
    """Repeat, remove, exchange or add chunks."""
    chunks = split_chunks(data)
    a, b = (int(value) for value in generator.integers(1, len(chunks), 2))
    action = generator.integers(4)
    if action == 0:
        chunks.insert(b, chunks[a])
    elif action == 1:
        del chunks[a]
    elif action == 2:
        chunks[a], chunks[b] = chunks[b], chunks[a]
    else:
        kind = generator.choice([b"q", b"Q", b"S", b"A", b"i", b"e", b"x", b"H"])
        chunks.insert(a, (bytes(kind), generator.bytes(5)))
    return join_chunks(data[:START], chunks)


def png_with_right_checksums(data: bytes) -> bytes:
    """Make the checksums of a PNG stream right as far as its chunks can be followed."""
    fixed, position = bytearray(data), 8
    while position + 12 <= len(fixed):
        end = position + 8 + int.from_bytes(fixed[position : position + 4], "big")
        if end + 4 > len(fixed):
            break
        fixed[end : end + 4] = zlib.crc32(fixed[position + 4 : end]).to_bytes(4, "big")
        position = end + 4
    return bytes(fixed)


DAMAGES = (flipped, overwritten, cut, with_payload, with_payload, with_header, with_chunks, noise)


def outcome(data: bytes, model: Model, decoder: str, allow_partial: bool) -> str:
    """Decode; check what comes out, and return its kind."""
    begin = time.perf_counter()
    try:
        pixels = cscodec.decode(
            data,
            model=model,
            decoder=decoder,  # type: ignore[arg-type]
            allow_partial=allow_partial,
            max_pixels=MAX_PIXELS,
            workers=1,
        )
    except (BitstreamError, ModelError) as error:
        return type(error).__name__
    finally:
        assert time.perf_counter() - begin < MOST_SECONDS
    header = container.unpack(data, allow_partial=allow_partial).header
    channels = () if header.channels == 1 else (header.channels,)
    assert pixels.shape == (header.height, header.width, *channels)
    assert pixels.dtype == np.uint8
    return "picture"


def attack(count: int, seed: int) -> Counter[str]:
    """Decode ``count`` damaged files; return how often each outcome was seen."""
    for data, model in files():
        for decoder in DECODERS:  # compiled here, so that the time measured is that of decoding
            cscodec.decode(data, model=model, decoder=decoder)  # type: ignore[arg-type]
    generator = np.random.default_rng(seed)
    seen: Counter[str] = Counter()
    for number in range(count):
        data, model = files()[number % len(files())]
        damage = DAMAGES[generator.integers(len(DAMAGES))]
        damaged = damage(data, generator)
        decoder = DECODERS[generator.integers(len(DECODERS))]
        allow_partial = bool(generator.integers(2))
        try:
            seen[outcome(damaged, model, decoder, allow_partial)] += 1
        except Exception as error:
            error.add_note(
                f"{damage.__name__}, {decoder}, allow_partial={allow_partial}, "
                f"model {model.name}: {damaged.hex()}"
            )
            raise
    return seen


@pytest.mark.parametrize("seed", range(6))
def test_damaged_files(seed: int) -> None:
    seen = attack(500, seed)
    assert sum(seen.values()) == 500
    expected = {"picture", "ChecksumError", "TruncatedError", "InvalidFieldError", "BadMagicError"}
    expected |= {"UnsupportedVersionError", "LimitExceededError"}
    assert expected <= set(seen)
    assert seen["picture"] > 50


@pytest.mark.parametrize("number", range(4))
def test_files_cut_anywhere(number: int) -> None:
    data, model = files()[number]
    for length in range(len(data)):
        assert outcome(data[:length], model, "linear", False) != "picture"
        kind = outcome(data[:length], model, "linear", True)
        assert kind in ("picture", "TruncatedError", "BadMagicError")


def test_every_damaged_bit_of_a_small_file_is_noticed() -> None:
    data, model = files()[3]
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert outcome(bytes(damaged), model, "linear", False) != "picture"


def test_nothing_is_allocated_for_pictures_that_are_not_there() -> None:
    data, model = files()[0]
    chunks = split_chunks(data)
    fields = list(container.HEADER.unpack(chunks[0][1]))
    fields[:2] = 13_000, 13_000
    chunks[0] = (b"H", container.HEADER.pack(*fields))
    large = join_chunks(data[:START], chunks)
    tracemalloc.start()
    try:
        with pytest.raises((TruncatedError, BitstreamError)):
            cscodec.decode(large, model=model)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_models_of_strangers_do_no_harm() -> None:
    """A model that passes its checks codes any picture, however odd its numbers."""
    generator = np.random.default_rng(0)
    for _ in range(10):
        shape = (*generator.integers(1, 60, 2), *[(), (3,)][generator.integers(2)])
        picture: Pixels = generator.integers(0, 256, shape, np.uint8)
        step = float(generator.choice([0.25, 3, 100]))
        data = cscodec.encode(picture, model=odd_model(), step=step)
        assert outcome(data, odd_model(), "refine", False) == "picture"


def run_with_bounds_checked(code: str) -> str:
    """What a process prints whose kernels check every index."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
            "CSCODEC_KERNELS": "bounds",
        },
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout.strip()


def test_kernels_stay_within_their_arrays() -> None:
    """The same attack with every index checked."""
    code = "from test_fuzz import attack; import sys; print(attack(300, 77)['picture'])"
    assert int(run_with_bounds_checked(code)) > 30


def test_extreme_numbers_stay_within_arrays() -> None:
    """What overflows float32 may restore nothing, but must not lead kernels astray."""
    code = """
import numpy as np
from cscodec.sensing.averages import similar_average, sparse_average
from cscodec.sensing.pursuit import omp

noise = np.random.default_rng(0).normal(size=(40, 44))
eye = np.eye(64, 128)
with np.errstate(all="ignore"):
    for scale in (1e15, 1e20, 1e37):
        similar_average(noise * scale, 10.0)
        sparse_average(noise * scale, eye, 1.0)
    for size in (1e-22, 1e-19, 1e15):
        omp(np.zeros((1, 64)), np.full((64, 128), size), sparsity=3)
        omp(np.full((2, 64), 1e15), np.full((64, 128), size), sparsity=3)
print("done")
"""
    assert run_with_bounds_checked(code) == "done"
