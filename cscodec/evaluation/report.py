"""Results for people and for programs: tables as text, Markdown or CSV, JSON, and charts as SVG.

Charts are drawn here in a few lines, so that committed figures are small, diff well and need no
plotting library.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

Cell = str | int | float | None

COLORS = ("#c1121f", "#1d6996", "#0f8554", "#e17c05", "#5f4690", "#6b6b6b")

_WIDTH, _HEIGHT = 640, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 34, 46


def text_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int = 2) -> str:
    """Align rows under headers; numbers to the right, floats with ``digits`` decimals."""
    cells = [[_text(cell, digits) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    numeric = [
        all(not isinstance(row[column], str) for row in rows) for column in range(len(headers))
    ]
    lines = []
    for line in [list(headers), *cells]:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int = 2) -> str:
    """The same as a Markdown table."""
    lines = [list(headers), ["---"] * len(headers)]
    lines += [[_text(cell, digits) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def csv_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The same as CSV, numbers in full; an empty field where a value is missing or not finite."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(headers)
    writer.writerows([_finite(cell) for cell in row] for row in rows)
    return buffer.getvalue()


def json_text(value: Any) -> str:
    """Strict JSON, indented; numbers that are not finite become null, which JSON can say."""
    return json.dumps(_finite(value), indent=1, allow_nan=False) + "\n"


@dataclass(frozen=True)
class Series:
    """One line of a chart: a label and its (x, y) points from left to right."""

    label: str
    points: Sequence[tuple[float, float]]


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_range: tuple[float, float] | None = None,
) -> str:
    """Draw lines with markers as one SVG; the first series is drawn bold, on top.

    Raises
    ------
    ValueError
        If no point is finite and within ``x_range``.
    """
    shown = [
        Series(line.label, [point for point in line.points if _within(point, x_range)])
        for line in series
    ]
    every = [point for line in shown for point in line.points]
    if not every:
        raise ValueError("nothing to draw: no finite point within the range")
    x_low, x_high = x_range or (min(x for x, _ in every), max(x for x, _ in every))
    x_ticks = _ticks(x_low, x_high)
    y_ticks = _ticks(min(y for _, y in every), max(y for _, y in every))
    y_low, y_high = y_ticks[0], y_ticks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / (x_high - x_low or 1)
        up = (y - y_low) / (y_high - y_low or 1)
        return (
            round(_LEFT + across * (_WIDTH - _LEFT - _RIGHT), 1),
            round(_HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM), 1),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        ' font-family="system-ui, sans-serif" font-size="12" fill="#333">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14" font-weight="600">{escape(title)}</text>',
    ]
    for tick in y_ticks:
        x, y = place(x_low, tick)
        parts.append(f'<path d="M{x} {y}H{_WIDTH - _RIGHT}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    for tick in x_ticks:
        if x_low <= tick <= x_high:
            x, y = place(tick, y_low)
            parts.append(f'<text x="{x}" y="{y + 16}" text-anchor="middle">{tick:g}</text>')
    middle = (_HEIGHT - _BOTTOM + _TOP) / 2
    parts.append(
        f'<text x="{(_WIDTH + _LEFT - _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">'
        f"{escape(x_label)}</text>"
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        f"{escape(y_label)}</text>"
    )
    for index in reversed(range(len(shown))):
        places = [place(*point) for point in shown[index].points]
        legend_y = _HEIGHT - _BOTTOM - 14 - 18 * (len(shown) - 1 - index)
        parts += _line(shown[index].label, index, places, legend_y)
    return "\n".join([*parts, "</svg>\n"])


def _line(
    label: str, index: int, places: Sequence[tuple[float, float]], legend_y: int
) -> list[str]:
    color = COLORS[index % len(COLORS)]
    width = 2.5 if index == 0 else 1.5
    path = "L".join(f"{x} {y}" for x, y in places)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="{width}"/>' for x, y in places)
    legend_x = _WIDTH - _RIGHT - 120
    return [
        f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{width}"/>' if path else "",
        f'<g fill="{color}">{dots}</g>',
        f'<path d="M{legend_x} {legend_y - 4}h22" stroke="{color}" stroke-width="{width}"/>'
        f'<text x="{legend_x + 28}" y="{legend_y}">{escape(label)}</text>',
    ]


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers, four to nine of them, from at or below ``low`` to at or above ``high``."""
    if high <= low:
        high = low + 1
    rough = (high - low) / 8
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(tick * step, 10) for tick in range(first, last + 1)]


def _within(point: tuple[float, float], x_range: tuple[float, float] | None) -> bool:
    x, y = point
    finite = math.isfinite(x) and math.isfinite(y)
    return finite and (x_range is None or x_range[0] <= x <= x_range[1])


def _text(cell: Cell, digits: int) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
