"""The ablation benchmark: what it takes out is out, and the page says what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from strategies import odd_model

from cscodec.bitstream.tables import neutral_tables
from cscodec.codec import encode
from cscodec.model import load_model

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[None]:
    """Makes the modules of benchmarks/ importable."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(ROOT / "benchmarks")
        yield


@pytest.fixture(scope="module")
def ablation(benchmarks: None) -> Any:
    """The module benchmarks/ablation.py."""
    import ablation as module

    return module


@pytest.fixture(scope="module")
def models(benchmarks: None) -> Any:
    """The module benchmarks/ablation_models.py."""
    import ablation_models as module

    return module


@pytest.mark.usefixtures("benchmarks")
def test_one_segment_saves_chunks_and_nothing_else(photo: np.ndarray) -> None:
    from ablation_variant import as_one_segment

    model = load_model("photo")
    data = encode(photo[:176, :], step=20, model=model)  # two tiles of four layers
    single = as_one_segment(data, model)
    # Per segment that is gone: kind, length and checksum, and the end of its code.
    assert 6 * 6 <= len(data) - len(single) <= 6 * (8 + 4)


def test_the_part_that_is_missing_costs(
    ablation: Any, gray_photo: np.ndarray, tmp_path: Path
) -> None:
    Image.fromarray(gray_photo[100:228, 200:328]).save(tmp_path / "a.png")
    model = load_model("photo")
    sets = ("table2",)
    whole = ablation.Variant(ablation.FULL, "", "", model, sets=sets)
    compared = [
        whole,
        replace(whole, key="same"),
        replace(whole, key="linear", decoder="linear"),
        replace(whole, key="neutral", model=replace(model, tables={})),
        replace(whole, key="one segment", one_segment=True),
    ]
    curves = ablation.run(compared, {"table2": [tmp_path / "a.png"]}, (8.0, 20.0, 50.0))
    rates = {
        row["key"]: row["bd_rate_percent"]["table2"]["psnr_y_db"]["mean"]
        for row in ablation.summarise(compared, curves)
    }
    assert rates["same"] == pytest.approx(0, abs=1e-9)
    assert rates["linear"] > 3
    assert rates["neutral"] > 3
    assert rates["one segment"] < 0
    assert ablation.layer_cost(curves) > -rates["one segment"] / 100


def test_variants_learn_what_they_change(models: Any, gray_photo: np.ndarray) -> None:
    model = load_model("photo")
    crop = np.ascontiguousarray(gray_photo[100:228, 200:328])
    for basis in models.other_bases(model.luma, [crop]).values():
        energies = np.square(models.zero_mean_patches([crop], model.luma) @ basis.T).sum(axis=0)
        assert (np.diff(energies) <= 1e-6 * energies[0]).all()
        np.testing.assert_allclose(basis @ basis.T, np.eye(63), atol=1e-4)
        np.testing.assert_allclose(basis.sum(axis=1), 0, atol=1e-4)
    neutral = neutral_tables().as_mapping()
    states = models.states_without_predictions(model, [crop])
    changed = {name for name in states if (states[name] != neutral[name]).any()}
    assert changed == {"slots", "counts", "weights"}


def test_neutral_tables_take_the_place_of_learned_ones(ablation: Any) -> None:
    model = odd_model()
    networks = {name for name in model.tables if name[-1].isdigit()}
    states = {"slots", "counts", "weights"}
    taken = {
        variant.key: {
            name
            for name in model.tables
            if variant.model.tables.get(name) is not model.tables[name]
        }
        for variant in ablation.coders(model)
    }
    assert taken == {
        "neutral": set(model.tables),
        "predictors": states,
        "no mean networks": {"mean_inputs", "mean_hidden", "mean_outputs"},
        "no networks": networks,
    }
    assert len(networks) == 18


def test_crops_are_gray_centres_of_training_pictures(models: Any, tmp_path: Path) -> None:
    for number in range(20):
        pixels = np.zeros((40, 500, 3), np.uint8)
        pixels[8:40, 48:448] = 10 * number + 10  # centre: 32 x 384
        Image.fromarray(pixels).save(tmp_path / f"{number:02}.png")
    crops = models.training_crops(tmp_path, 3)
    assert len(crops) == 7  # 19 pictures are trained on
    assert {crop.shape for crop in crops} == {(32, 384)}
    assert len({int(crop[16, 100]) for crop in crops}) == 7
    assert all(crop[4:].min() == crop.max() > 0 for crop in crops)


@pytest.mark.usefixtures("benchmarks")
def test_patches_change_one_line_of_the_project(tmp_path: Path) -> None:
    from ablation_patches import PATCHES, copy_patched

    for key, patch in PATCHES.items():
        copy_patched(patch, tmp_path / key)
        before = (ROOT / patch.file).read_text(encoding="utf-8").splitlines()
        after = (tmp_path / key / patch.file).read_text(encoding="utf-8").splitlines()
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
        compile("\n".join(after), patch.file, "exec")
    with pytest.raises(ValueError, match="0 times"):
        copy_patched(replace(patch, line="not there"), tmp_path / "none")


def test_the_committed_page_is_what_the_record_says(ablation: Any) -> None:
    record = json.loads((ROOT / "benchmarks/results/ablation.json").read_text(encoding="utf-8"))
    page = ablation.page(record)
    assert (ROOT / "docs/ablation.md").read_text(encoding="utf-8") == page
    linear = next(row for row in record["variants"] if row["key"] == "linear")
    line = next(line for line in page.splitlines() if "none: middles of the cells" in line)
    assert f"{linear['bd_rate_percent']['kodak12']['psnr_rgb_db']['mean']:+.1f}" in line
