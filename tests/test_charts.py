"""Charts: what they say, where, in which colours; and what is said where they cannot be drawn."""

from __future__ import annotations

import itertools
import math
import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from cscodec.errors import InvalidInputError
from cscodec.evaluation.charts import (
    COLORS,
    PALETTE,
    Series,
    line_chart,
    palette,
    require_matplotlib,
    themed,
)

SVG = "{http://www.w3.org/2000/svg}"


def draw(*lines: Series, **options: object) -> str:
    labels = {"title": "t", "x_label": "x", "y_label": "y"}
    return line_chart(lines, **{**labels, **options})  # type: ignore[arg-type]


def texts(svg: str) -> dict[str, str]:
    """Each text and its style."""
    root = ElementTree.fromstring(svg)
    return {str(text.text): text.get("style", "") for text in root.iter(f"{SVG}text")}


def curves(svg: str, color: str) -> list[list[tuple[float, float]]]:
    """Points of the lines of a colour, in the picture's coordinates."""
    found = []
    for path in ElementTree.fromstring(svg).iter(f"{SVG}path"):
        if f"stroke: {color}" in path.get("style", "") and "fill: none" in path.get("style", ""):
            numbers = re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path.get("d", ""))
            found.append([(float(x), float(y)) for x, y in numbers])
    return found


def test_points_are_where_they_belong() -> None:
    svg = draw(Series("a", [(0.0, 20.0), (0.5, 30.0), (1.0, 40.0)], "#123456"), x_range=(0.0, 1.0))
    left, middle, right = next(line for line in curves(svg, "#123456") if len(line) == 3)
    assert middle[0] == pytest.approx((left[0] + right[0]) / 2, abs=0.01)
    assert left[1] > middle[1] > right[1]  # down is more in SVG


def test_lines_are_labelled_in_their_colours_and_text_is_escaped() -> None:
    lines = [Series("ours & theirs", [(0, 1), (1, 2)]), Series("JPEG", [(0, 1), (1, 3)])]
    shown = texts(draw(*lines, title="a < b", better="up and left"))
    assert {"a < b", "x", "y", "better"} <= shown.keys()
    assert COLORS["JPEG"] in shown["JPEG"]
    assert "fill: #" in shown["ours & theirs"]


def test_labels_stand_clear_of_the_data_and_of_each_other() -> None:
    """Five lines that end at one point."""
    lines = [Series(name, [(0, rank), (10, 1.0)]) for rank, name in enumerate("abcde")]
    svg = draw(*lines)
    places = [
        (float(text.get("x", "nan")), float(text.get("y", "nan")))
        for text in ElementTree.fromstring(svg).iter(f"{SVG}text")
        if text.text in set("abcde")
    ]
    assert len(places) == 5
    (bold,) = (line for line in curves(svg, PALETTE[0]) if len(line) == 2)
    assert min(x for x, _ in places) > max(x for x, _ in bold)
    heights = sorted(y for _, y in places)
    assert min(high - low for low, high in itertools.pairwise(heights)) > 9  # of 9.5 points


def test_what_lies_outside_or_is_not_finite_is_left_out() -> None:
    line = Series("a", [(0.1, 1.0), (0.5, math.nan), (0.7, 2.0), (9.0, 3.0)])
    svg = draw(line, x_range=(0.0, 1.0))
    assert "nan" not in svg.lower().replace("dominant", "")
    with pytest.raises(ValueError, match="nothing to draw"):
        draw(line, x_range=(20.0, 30.0))


def test_a_single_point_is_seen_and_iterations_are_whole_numbers() -> None:
    shown = texts(draw(Series("luma", [(10, 30.0)])))
    assert {"9", "10", "11"} <= shown.keys()
    assert not [text for text in texts(draw(Series("a", [(1, 3.0), (3, 4.0)]))) if "1." in text]


def test_the_same_numbers_give_the_same_file() -> None:
    line = Series("a", [(1, 2.0), (2, 3.0)])
    assert draw(line) == draw(line)


def test_colours_are_kept_and_differ() -> None:
    assert palette(["x", "AVIF", "y", "cscodec"])["AVIF"] == palette(["AVIF"])["AVIF"]
    names = [f"system {i}" for i in range(len(PALETTE))]
    assert len(set(palette(names).values())) == len(PALETTE)
    assert len(palette([*names, "one more"])) == len(names) + 1
    assert "#123456" in draw(Series("a", [(0, 1), (1, 2)], "#123456"))


def test_a_page_sets_ink_and_paper() -> None:
    svg = themed(draw(Series("a", [(0, 1.0), (1, 2.0)])))
    assert "#333333" not in svg
    assert "#ffffff" not in svg
    assert "currentColor" in svg


def test_a_missing_matplotlib_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'cscodec\[report\]'"):
        require_matplotlib()
