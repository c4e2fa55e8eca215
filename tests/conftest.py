"""Shared by all tests: the data folder, pictures, and Hypothesis's profile."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# The first example of a test may load or make what all others use: no deadline for it.
settings.register_profile("cscodec", deadline=None, max_examples=50, print_blob=True)
settings.load_profile("cscodec")


def pytest_sessionstart() -> None:
    """Refuse to test kernels that were compiled by other code than the checkout's."""
    try:
        from building.libraries import is_up_to_date
    except ImportError:  # an installed package is tested, away from the checkout
        return
    from cscodec.kernels.library import FOLDER, SUFFIX, usable_levels

    for level in usable_levels()[-1:]:
        if not is_up_to_date(FOLDER / f"{level}{SUFFIX}"):
            pytest.exit("the compiled kernels are older than what compiles them: make kernels", 1)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of test pictures, which is not part of the project."""
    folder = os.environ.get("CSCODEC_DATA")
    if not folder:
        pytest.skip("CSCODEC_DATA is not set: it names the folder with table2/, kodak12/, train/")
    return Path(folder)


@pytest.fixture(scope="session")
def samples_folder() -> Path:
    """The sample pictures that come with the project: six RGB photographs."""
    return ROOT / "samples"


@pytest.fixture(scope="session")
def photo(samples_folder: Path) -> npt.NDArray[np.uint8]:
    """A colour photograph, (429, 576, 3) uint8; neither side is a multiple of 8 or 16."""
    from PIL import Image

    with Image.open(samples_folder / "chapel.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))[:, :575]
    pixels.flags.writeable = False
    return pixels


@pytest.fixture(scope="session")
def gray_photo(photo: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The green plane of ``photo``, (429, 575) uint8."""
    return photo[..., 1]
