"""Pages that need nothing from elsewhere: the templates beside this file, and pictures in them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from PIL import Image

from cscodec.arrays import Pixels

LONGEST_SIDE = 16383  #: of a picture as WebP


@cache
def part(name: str) -> str:
    """Text of a file beside this one."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def render(template: str, *styles: str, title: str, **fields: str) -> str:
    """Fill a page's template in; ``fields`` are HTML, the title is text."""
    style = "\n".join(map(part, ("style.css", *styles)))
    body = Template(part(template)).substitute(fields)
    return Template(part("page.html")).substitute(title=escape(title), style=style, body=body)


def data_uri(pixels: Pixels) -> str:
    """A picture without loss, as a page takes it: WebP, which is smaller than PNG."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "WEBP", lossless=True, quality=50, method=2)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def script_json(value: Any) -> str:
    """JSON that may stand within a script element, whatever names it holds."""
    return json.dumps(value).replace("<", "\\u003c")


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], *, words: bool = False) -> str:
    """A table; cells that are `Html` are taken as they are. Of ``words``, not of numbers."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    kind = ' class="words"' if words else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


class Html(str):
    """Text that is HTML already; of a table's cells, those that begin with ``<td``."""


def _cell(cell: object) -> str:
    if isinstance(cell, Html):
        return cell if cell.startswith("<td") else f"<td>{cell}</td>"
    return f"<td>{escape(str(cell))}</td>"
