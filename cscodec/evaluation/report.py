"""Results for people and for programs: tables as text, Markdown or CSV, and strict JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

Cell = str | int | float | None


def text_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int = 2) -> str:
    """Align rows under headers; numbers to the right, floats with ``digits`` decimals."""
    cells = [[_text(cell, digits) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    numeric = [
        any(isinstance(row[column], int | float) for row in rows) for column in range(len(headers))
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
