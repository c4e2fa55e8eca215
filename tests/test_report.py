"""Tables and JSON of results."""

import csv
import io
import json
import math

import pytest

from cscodec.evaluation.report import (
    csv_table,
    json_text,
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


def test_a_word_among_numbers_leaves_them_to_the_right():
    lines = text_table(("picture", "PSNR"), [("a", 31.5), ("b", "exact")]).splitlines()
    assert lines[1:] == ["a        31.50", "b        exact"]


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
