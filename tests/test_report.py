"""Tables, JSON and charts of results."""

import csv
import io
import json
import math
import xml.etree.ElementTree as ElementTree

import pytest

from cscodec.evaluation.report import (
    Series,
    csv_table,
    json_text,
    line_chart,
    markdown_table,
    text_table,
)

HEADERS = ("picture", "bpp", "PSNR")
ROWS = [("a", 0.123456, 31), ("longer name", 12.0, None), ("b,c", math.nan, math.inf)]


def test_text_table_aligns_numbers_to_the_right():
    lines = text_table(HEADERS, ROWS, digits=2).splitlines()
    assert lines[0] == "picture        bpp  PSNR"
    assert lines[1] == "a             0.12    31"
    assert lines[2] == "longer name  12.00     -"
    assert lines[3] == "b,c              -   inf"


def test_markdown_table():
    lines = markdown_table(HEADERS, ROWS[:1], digits=1).splitlines()
    assert lines == ["| picture | bpp | PSNR |", "| --- | --- | --- |", "| a | 0.1 | 31 |"]


def test_csv_keeps_all_digits_and_quotes():
    rows = list(csv.reader(io.StringIO(csv_table(HEADERS, ROWS))))
    assert rows == [
        list(HEADERS),
        ["a", "0.123456", "31"],
        ["longer name", "12.0", ""],
        ["b,c", "", ""],
    ]


def test_json_is_strict_even_for_infinite_psnr():
    text = json_text({"psnr": math.inf, "rows": [(1, math.nan)], "n": 3})
    assert json.loads(text, parse_constant=pytest.fail) == {
        "psnr": None,
        "rows": [[1, None]],
        "n": 3,
    }


def test_chart_places_points_and_escapes_text():
    lines = [Series("ours & theirs", [(0.0, 20.0), (1.0, 40.0)]), Series("other", [(0.5, 30.0)])]
    svg = line_chart(lines, title="a < b", x_label="x", y_label="y", x_range=(0.0, 1.0))
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"ours & theirs", "other", "a < b"} <= set(texts)
    circles = root.iter("{http://www.w3.org/2000/svg}circle")
    places = sorted((float(c.get("cx")), -float(c.get("cy"))) for c in circles)
    assert len(places) == 3
    left, middle, right = places
    assert middle[0] == pytest.approx((left[0] + right[0]) / 2, abs=0.1)
    assert left[1] < middle[1] < right[1]


def test_chart_leaves_out_what_lies_outside_or_is_not_finite():
    line = Series("a", [(0.1, 1.0), (0.5, math.nan), (0.7, 2.0), (9.0, 3.0)])
    svg = line_chart([line], title="", x_label="", y_label="", x_range=(0.0, 1.0))
    assert svg.count("<circle") == 2
    with pytest.raises(ValueError, match="nothing to draw"):
        line_chart([line], title="", x_label="", y_label="", x_range=(20.0, 30.0))
