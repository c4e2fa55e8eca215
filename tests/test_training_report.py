"""The page about a training run: complete, self-contained, well-formed."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from cscodec.choices import DECODERS
from cscodec.evaluation.metrics import psnr_db
from cscodec.evaluation.training_report import render_report, tile_patches
from cscodec.model import Model, System, load_model

HISTORY = [
    {"iteration": 10, "psnr_db": 30.0, "ssim": 0.9},
    {"iteration": 20, "psnr_db": 31.5, "ssim": 0.91},
]


@pytest.fixture(scope="module")
def model() -> Model:
    """Φ and Ψ from random numbers, metadata as the trainer writes them."""
    random = np.random.default_rng(0)
    psi = random.standard_normal((64, 40))
    psi -= psi.mean(axis=0)
    psi /= np.linalg.norm(psi, axis=0)
    system = System.from_matrices(random.standard_normal((8, 64)), psi)
    quality = {"psnr_db": 31.26, "ssim": 0.9234}
    metadata = {
        "command": "cscodec train <photos> -o m.safetensors",
        "configuration": {"sparsity": 3, "method": "online"},
        "data": {"licence": "CC0 & others"},
        "results": {
            "protocol": "unquantised",
            "held_out": {"luma": {"omp": quality, "refine": quality}},
            "history": {"luma": HISTORY},
        },
    }
    return Model("<b>bold</b>", system, system, metadata=metadata)


@pytest.fixture(scope="module")
def page(model: Model, gray_photo: npt.NDArray[np.uint8]) -> str:
    return render_report(model, [gray_photo[:64, :64], gray_photo[200:264, 300:380]])


def picture_of(data: str) -> npt.NDArray[np.uint8]:
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        return np.asarray(picture.convert("L"))


class _Balance(HTMLParser):
    """Collects the tags that are open, and what a page would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "img"}:
            self.open.append(tag)
        self.loaded += [v for k, v in attrs if k in {"src", "href"} and v is not None]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_well_formed_and_loads_nothing(page: str) -> None:
    parser = _Balance()
    parser.feed(page)
    assert parser.open == []
    assert len(parser.loaded) == 2 + 2 * 5  # atoms, Φ, and per plane the original and 4 decoders
    assert all(source.startswith("data:image/webp;base64,") for source in parser.loaded)
    assert "<script" not in page


def test_page_has_every_part(page: str, model: Model) -> None:
    for heading in (
        "PSNR, dB while it learned",
        "SSIM while it learned",
        "Usage of atoms",
        "Singular values",
        "Before and after: 8 measurements",
    ):
        assert heading in page
    assert "31.26" in page
    assert "0.9234" in page
    assert model.model_id.hex() in page


def test_each_crop_says_how_close_it_is(page: str, gray_photo: npt.NDArray[np.uint8]) -> None:
    captions = re.findall(r"<figcaption>(\w+): ([\d.]+) dB</figcaption>", page)
    assert [decoder for decoder, _ in captions] == [*DECODERS] * 2
    pictures = re.findall(
        r'data:image/webp;base64,([^"]+)"[^>]*alt="(?:original|linear:[^"]+)"', page
    )
    for index in (0, 2):
        original, restored = map(picture_of, pictures[index : index + 2])
        found = captions[len(DECODERS) * index // 2 + DECODERS.index("linear")]
        assert float(found[1]) == pytest.approx(psnr_db(original, restored), abs=0.006)


def test_all_measurements_are_exact(gray_photo: npt.NDArray[np.uint8]) -> None:
    """Also in the table, where the mean over such planes stands as 99 dB."""
    system = load_model("photo").luma
    metadata = {"results": {"held_out": {"luma": {"linear": {"psnr_db": 99.0, "ssim": 1.0}}}}}
    page = render_report(Model("all", system, system, metadata=metadata), [gray_photo[:32, :32]])
    assert "<figcaption>linear: exact</figcaption>" in page
    assert "<td>exact</td>" in page
    assert "99.00" not in page


def test_the_command_is_the_one_that_was_typed(model: Model) -> None:
    assert "-o m.safetensors" in render_report(model, [])
    typed = render_report(model, [], command="cscodec train 'a b' -o <x>")
    assert "<pre>cscodec train &#x27;a b&#x27; -o &lt;x&gt;</pre>" in typed
    assert "m.safetensors" not in typed


def test_a_run_of_one_iteration_can_be_read(model: Model) -> None:
    history = {"luma": HISTORY[:1]}
    metadata = {**model.metadata, "results": {"history": history}}
    page = render_report(Model("short", model.luma, model.luma, metadata=metadata), [])
    assert "PSNR, dB while it learned" in page


def test_text_is_escaped(page: str) -> None:
    assert "<b>bold" not in page
    assert "CC0 &amp; others" in page
    assert "&lt;photos&gt;" in page


def test_first_crop_is_the_plane(page: str, gray_photo: npt.NDArray[np.uint8]) -> None:
    data = re.findall(r'data:image/webp;base64,([^"]+)"[^>]*alt="original"', page)[0]
    np.testing.assert_array_equal(picture_of(data), gray_photo[:64, :64])


def test_chroma_has_a_section_if_it_has_a_system(model: Model) -> None:
    assert "<h2>Chroma</h2>" not in render_report(model, [])
    phi, psi = model.sensing_matrix, model.dictionary
    other = System.from_matrices(phi, psi[:, ::-1])
    two = Model("two", model.luma, other, metadata=model.metadata)
    assert "<h2>Chroma</h2>" in render_report(two, [])


def test_tiles_keep_their_places_and_signs() -> None:
    patches = np.zeros((5, 64))
    patches[1, 0], patches[4, 63] = 2.0, -0.1
    mosaic = tile_patches(patches, columns=3)
    assert mosaic.shape == (2 * 9 + 1, 3 * 9 + 1)
    assert mosaic[1, 10] == 255
    assert mosaic[17, 17] == 0
    assert mosaic[1, 1] == 128
