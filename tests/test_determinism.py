"""The same bytes and pixels for every number of threads, BLAS kernel and level of processor.

A codec whose entropy decoder or restoration differs by one bit elsewhere shows another picture
there, or none. Each setting needs a process of its own, as it is read when libraries are loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from strategies import ROOT, Pixels, odd_model, plain_model, sample, texture

import cscodec
from cscodec.choices import DECODERS
from cscodec.kernels.library import usable_levels

_SCRIPT = """
import hashlib, json
import numpy as np
import cscodec
from cscodec.kernels.library import usable_levels
from strategies import odd_model, plain_model, sample, texture

def digest(data):
    return hashlib.sha256(data).hexdigest()

found = {}
picture = sample("cat", 530, 90, 50, 400)
for model in (plain_model(), odd_model()):
    for effort in (0, 1, 2):
        data = cscodec.encode(picture, quality=70, model=model, effort=effort)
        found[f"{model.name} {effort}"] = digest(data)
        for decoder in ("refine", "consistent", "linear", "omp"):
            pixels = cscodec.decode(data, model=model, decoder=decoder)
            found[f"{model.name} {effort} {decoder}"] = digest(pixels.tobytes())
found["plain gray psnr"] = digest(
    cscodec.encode(texture(40, 50), model=plain_model(), target_psnr=33.0)
)
for name in cscodec.shipped_models():
    data = cscodec.encode(picture[:200], model=name)
    found[name] = digest(data) + digest(cscodec.decode(data).tobytes())
print(json.dumps(found))
"""

_SETTINGS = {
    "haswell": {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"},
    "zen": {"OPENBLAS_CORETYPE": "Zen", "OPENBLAS_NUM_THREADS": "2"},
    "prescott": {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "1"},
    "generic": {
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX2 FMA3",
        "OPENBLAS_CORETYPE": "Prescott",
        "OPENBLAS_NUM_THREADS": "2",
    },
} | {level: {"CSCODEC_KERNELS": level} for level in usable_levels()}


@pytest.fixture
def digests() -> dict[str, dict[str, str]]:
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])

    def found_with(name: str) -> dict[str, str]:
        environment = {**os.environ, "PYTHONPATH": path, **_SETTINGS[name]}
        run = subprocess.run(
            [sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr[-3000:]
        found: dict[str, str] = json.loads(run.stdout)
        return found

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(_SETTINGS, pool.map(found_with, _SETTINGS), strict=True))


def test_bytes_and_pixels_do_not_depend_on_the_machine(
    digests: dict[str, dict[str, str]],
) -> None:
    expected = digests.pop("haswell")
    assert len(expected) == 30 + 1 + len(cscodec.shipped_models())
    for name, found in digests.items():
        assert found == expected, name


@pytest.fixture(scope="module")
def picture() -> Pixels:
    """2 x 2 tiles."""
    return sample("fig", 540, 560)


def test_bytes_and_pixels_do_not_depend_on_workers(picture: Pixels) -> None:
    for model in (plain_model(), odd_model()):
        files = [cscodec.encode(picture, model=model, workers=workers) for workers in (1, 2, 3)]
        assert files[0] == files[1] == files[2]
        for decoder in DECODERS if model.name == "odd" else ("linear",):
            pixels = [
                cscodec.decode(files[0], model=model, decoder=decoder, workers=workers)  # type: ignore[arg-type]
                for workers in (1, 2, 3)
            ]
            np.testing.assert_array_equal(pixels[0], pixels[1])
            np.testing.assert_array_equal(pixels[0], pixels[2])


def test_nor_do_those_of_large_tiles() -> None:
    picture = texture(40, 1100, 3)  # two of them
    files = [
        cscodec.encode(picture, model=odd_model(), effort=2, workers=workers) for workers in (1, 3)
    ]
    assert files[0] == files[1]


def test_targets_do_not_depend_on_workers(picture: Pixels) -> None:
    part = picture[:520, :40]
    for target in ({"target_size": 3000}, {"target_psnr": 33.0}):
        files = [
            cscodec.encode(part, model=odd_model(), workers=workers, **target)
            for workers in (1, 2, 3)
        ]
        assert files[0] == files[1] == files[2]


def test_coding_twice_gives_the_same(picture: Pixels) -> None:
    """What one call has learned does not reach the next."""
    part = picture[:60, :70]
    first = cscodec.encode(part, model=odd_model())
    cscodec.decode(first, model=odd_model())
    cscodec.encode(picture[100:160, :70], model=odd_model())
    assert cscodec.encode(part, model=odd_model()) == first
