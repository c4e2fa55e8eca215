"""The page of `make paper`: what is printed there is what was measured, and its pictures exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cscodec.learning.rivals import training_set
from cscodec.model import System

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def paper_page() -> Any:
    """The module benchmarks/paper_page.py."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import paper_page as module
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    return module


def results(names: list[str], pictures: list[str]) -> dict[str, Any]:
    """Results of every system, each measure another recognisable number."""

    def system(place: int) -> dict[str, Any]:
        def decoder(offset: float) -> dict[str, Any]:
            return {
                picture: {
                    "psnr_db": 20 + place + offset + number / 100,
                    "ssim": 0.5 + place / 100 + number / 10_000,
                    "seconds": 1.0,
                }
                for number, picture in enumerate(pictures)
            }

        decoders = ("omp", "linear", "consistent", "refine", "learned")
        return {
            "num_patches": 1000 * (place + 1),
            "cpu_s": 1.5 * (place + 1),
            "test_psnr_db": 25.0 + place,
            "test_psnr_db_linear": 26.0 + place,
            "curve": [(1, 0.5, 20.0), (2, 1.0 + place, 21.0 + place)],
            "history": [{"penalty": 0.1, "psnr_db": 20.0}, {"penalty": 0.2, "psnr_db": 20.5}],
            "table2": {name: decoder(offset / 2) for offset, name in enumerate(decoders)},
        }

    return {
        "machine": {"cpu": "a processor", "cpus": 2, "python": "3", "numpy": "2"},
        "schedule": {
            "rounds": 2,
            "outer_iterations": 3,
            "dictionary_iterations": 10,
            "large_batch": 512,
            "further_iterations": 10,
            "draws": 1,
        },
        "num_training_pictures": 3,
        "num_held_out_pictures": 1,
        "num_test_patches": 6000,
        "systems": {name: system(place) for place, name in enumerate(names)},
        "choices": [{"method": "bl", "change": {"gamma": 1 / 32}, "psnr_db": [28.25, 28.75]}],
        "fewer": [
            {"measurements": 5, "sparsity": 1, "omp": 22.25, "linear": 25.75},
            {"measurements": 5, "sparsity": 4, "omp": 17.5, "linear": 25.75},
        ],
        "convergence": {
            name: {
                "objective": [(1, 9.0), (10, 5.0), (40, 4.0)],
                "psnr_db": [
                    (10, 20.0),
                    (11, 21.0),
                    (20, 25.0),
                    (21, 25 - fall),
                    (30, 26.0),
                    (40, 27.0),
                ],
                "change": [(2, 3.0), (10, 0.5), (40, 0.0)],
            }
            for name, fall in (("letter", 2.5), ("letter-kept", -0.25))
        },
    }


def test_printed_table_has_the_printed_means(paper_page: Any) -> None:
    table = np.array(list(paper_page.PRINTED.values()))
    means = (29.2842, 0.8485, 29.7838, 0.8609, 29.5703, 0.8534, 30.5078, 0.8754)
    np.testing.assert_allclose(table.mean(axis=0), means, atol=6e-5)


def test_page_shows_what_was_measured(paper_page: Any, tmp_path: Path) -> None:
    basis = training_set.dct_dictionary(63)
    names = list(paper_page.NAMES)
    system = System.from_matrices(basis[:, :20].T, basis)
    sample = np.random.default_rng(0).integers(0, 256, (512, 768), dtype=np.uint8)
    measured = results(names, list(paper_page.PRINTED))
    paper_page.write_page(tmp_path, measured, dict.fromkeys(names, system), sample)
    page = (tmp_path / "paper-results.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((paper/[^)]+)\)", page)
    assert len(pictures) == len(set(pictures)) > 15
    assert all((tmp_path / picture).stat().st_size for picture in pictures)
    place = names.index("s-dcs")
    small = names.index("s-dcs-small")
    assert f"| lena | {20 + small:.2f} | 33.06 | {20 + place:.2f} | 33.79 |" in page
    letter = names.index("letter")
    assert "| picture | S-DCS, small set | printed | S-DCS | printed |" in page
    assert f"| {20 + letter:.2f} | 34.66 |" in page
    assert "| online, to the letter | 20.00 | 21.00 | 25.00 | 2.50 | 26.00 | 27.00 |" in page
    assert "| online, printed, kept | 20.00 | 21.00 | 25.00 | -0.25 | 26.00 | 27.00 |" in page
    assert "| 5 | 4 | 17.50 | 25.75 |" in page
    assert "`linear` is ahead of `omp` in 2 of\n2 rows" in page
    assert "| BL-style | gamma = 1/32 | 28.50 | 28.25 | 28.75 |" in page
    assert "λ = 0.2 the best: 20.50 dB" in page
    for name, color in paper_page.COLORS.items():
        if name in ("online", "letter", "s-dcs", "bl"):
            for figure in ("figure-1", "figure-1-cost"):
                assert color in (tmp_path / "paper" / f"{figure}.svg").read_text(encoding="utf-8")
    assert len(set(paper_page.COLORS.values())) == len(paper_page.COLORS) >= 8
    assert f"ahead of `omp` in {len(names) - 2} of {len(names) - 2} rows" in page
