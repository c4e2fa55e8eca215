"""The page of a comparison: pictures under a slider, a table, and curves that anyone can read.

Pictures stand in it without loss, so what is seen is what the codecs made. Large ones are shown by
their middle, so that the page can still be opened; all figures are of whole pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from cscodec.arrays import Pixels
from cscodec.evaluation.charts import Series, line_chart, palette, require_matplotlib, themed
from cscodec.evaluation.comparison import Comparison, Row, codec_means, mean_curves
from cscodec.evaluation.metrics import db_text
from cscodec.evaluation.pages import LONGEST_SIDE, Html, data_uri, part, render, script_json, table
from cscodec.evaluation.rate_distortion import Point

PAGE_NAME = "index.html"

#: Pixels of originals on one page, at most of one picture, and at least: others are left out.
ALL_SHOWN, MOST_SHOWN, LEAST_SHOWN = 12_000_000, 2_000_000, 250_000

_HEADS = (
    "Codec", "File, KB", "PSNR, dB", "SSIM", "Bits per pixel", "Seconds to write", "to read",
)  # fmt: skip
_ABOUT = """<ul>
<li><b>PSNR</b> and <b>SSIM</b> say how close to the original a picture is: more is closer. PSNR
counts errors, over all colour samples; 3 dB more is half the squared error. SSIM compares
structure, in brightness; 1 is the same. Neither sees with your eyes: look.</li>
<li>Sizes are those of whole files. Seconds are on one core of the machine that made this page,
where the codec can be held to one, and include no reading or writing of disks.</li>
<li>{settings}</li>
<li><code>{command}</code></li>
</ul>"""


@dataclass(frozen=True)
class Shown:
    """What the page keeps of one comparison.

    Attributes
    ----------
    name : str
    rows : list of dict
        See :meth:`Comparison.rows`.
    curves : mapping of codec name to list of Point
    view : dict or None
        What the viewer shows, JSON-able; None if there was no room.
    """

    name: str
    rows: list[Row]
    curves: Mapping[str, list[Point]]
    view: dict[str, Any] | None


def room_for(num_pictures: int) -> int:
    """Pixels of each picture that a page of so many can show."""
    return min(MOST_SHOWN, max(LEAST_SHOWN, ALL_SHOWN // max(1, num_pictures)))


def shown(name: str, comparison: Comparison, index: int, num_pictures: int) -> Shown:
    """Keep of a comparison what the page needs, pictures already as text."""
    room = room_for(num_pictures)
    view = _view(name, comparison, room) if (index + 1) * room <= ALL_SHOWN else None
    return Shown(name, comparison.rows(), comparison.curves, view)


def render_page(
    pictures: Sequence[Shown],
    *,
    by_quality: bool,
    settings: Mapping[str, str] | None = None,
    command: str = "",
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    pictures : sequence of Shown
        At least one.
    by_quality : bool
        Whether files have their quality in common; otherwise it is their size.
    settings : mapping of codec name to str, optional
        How the codecs were run.
    command : str
        How this was asked for.
    """
    means = codec_means([row for picture in pictures for row in picture.rows])
    what = pictures[0].name if len(pictures) == 1 else f"{len(pictures)} pictures"
    common = "quality" if by_quality else "size"
    return render(
        "comparison.html",
        "comparison.css",
        title=f"{what} by {len(pictures[0].rows)} codecs, at the same {common}",
        lead=_lead(means, by_quality),
        results=_results(pictures, means, by_quality),
        charts=_charts(pictures, means),
        notes=_ABOUT.format(
            settings=escape("; ".join(f"{name}: {how}" for name, how in (settings or {}).items())),
            command=escape(command),
        ),
        data=script_json([picture.view for picture in pictures if picture.view]),
        script=part("comparison.js"),
    )


def _view(name: str, comparison: Comparison, room: int) -> dict[str, Any]:
    height, width = comparison.original.shape[:2]
    shrink = min(1.0, (room / (height * width)) ** 0.5)
    rows, columns = (max(1, min(int(side * shrink), LONGEST_SIDE)) for side in (height, width))
    top, left = (height - rows) // 2, (width - columns) // 2

    def middle(pixels: Pixels) -> str:
        return data_uri(pixels[top : top + rows, left : left + columns])

    images = [{"name": "original", "label": f"{width} × {height}"}]
    images[0]["src"] = middle(comparison.original)
    for row, coded in zip(comparison.rows(), comparison.coded.values(), strict=True):
        label = f"{_kilobytes(row['num_bytes'])} KB, {db_text(row['psnr_db'], ' dB')}"
        images.append({"name": row["codec"], "label": label, "src": middle(coded.pixels)})
    is_whole = (rows, columns) == (height, width)
    note = "" if is_whole else f"The middle {columns} × {rows} of {width} × {height} pixels."
    return {"name": name, "width": columns, "height": rows, "note": note, "images": images}


def _lead(means: Sequence[Row], by_quality: bool) -> str:
    """What came out, in a sentence or two."""
    rows = [row for row in means if row["met"]] or means
    if by_quality:
        small = min(rows, key=lambda row: row["num_bytes"])
        reached = db_text(min(row["psnr_db"] for row in rows), " dB")
        return (
            f"Every codec was asked to come as close to the original: to {reached} or more. The "
            f"smallest file is that of <b>{escape(small['codec'])}</b>: "
            f"{_kilobytes(small['num_bytes'])} KB."
        )
    size = max(row["num_bytes"] for row in rows)
    bits = max(row["bits_per_pixel"] for row in rows)
    closest = f"by PSNR <b>{escape(_highest(rows, 'psnr_db'))}</b>"
    if all(row["ssim"] is not None for row in rows):
        closest += f", by SSIM <b>{escape(_highest(rows, 'ssim'))}</b>"
    return (
        f"Every codec was given the same room: {_kilobytes(size)} KB, {bits:.2f} bits per pixel. "
        f"Closest to the original is {closest}."
    )


def _highest(rows: Sequence[Row], name: str) -> str:
    return str(max(rows, key=lambda row: row[name])["codec"])


def _results(pictures: Sequence[Shown], means: Sequence[Row], by_quality: bool) -> str:
    parts = ["<h2>In figures</h2>"]
    if len(pictures) > 1:
        parts.append(f"<p>Means of {len(pictures)} pictures.</p>")
        parts.append(_table(means, by_quality))
        parts.append("<h3>Picture by picture</h3>")
    index = 0
    for picture in pictures:
        mark = ""
        if picture.view:  # the viewer shows the table of what it shows
            mark, index = f' data-picture="{index}"', index + 1
        parts.append(f"<section{mark}>")
        if len(pictures) > 1:
            parts.append(f"<h3>{escape(picture.name)}</h3>")
        parts.append(_table(picture.rows, by_quality) + "</section>")
    if index < len(pictures):
        parts.append(f'<p class="quiet">There was room to show {index} of the pictures.</p>')
    return "\n".join(parts)


def _table(rows: Sequence[Row], by_quality: bool) -> str:
    colors = palette(row["codec"] for row in rows)
    met = [row for row in rows if row["met"]]
    compared = ("num_bytes",) if by_quality else ("psnr_db", "ssim")
    best = {
        (name, (min if by_quality else max)(row[name] for row in met if row[name] is not None))
        for name in compared
        if any(row[name] is not None for row in met)
    }
    body = []
    for row in rows:
        note = "" if row["met"] else f" <span class=quiet>({_unmet(by_quality)})</span>"
        dot = f'<span class="dot" style="background:{colors[row["codec"]]}"></span>'
        texts = {
            "num_bytes": _kilobytes(row["num_bytes"]),
            "psnr_db": db_text(row["psnr_db"]),
            "ssim": "-" if row["ssim"] is None else f"{row['ssim']:.4f}",
            "bits_per_pixel": f"{row['bits_per_pixel']:.3f}",
            "encode_s": f"{row['encode_s']:.2f}",
            "decode_s": f"{row['decode_s']:.2f}",
        }
        cells: list[object] = [Html(f"{dot}{escape(row['codec'])}{note}")]
        for name, text in texts.items():
            is_best = row["met"] and (name, row[name]) in best
            cells.append(Html(f'<td class="best">{text}</td>') if is_best else text)
        body.append(cells)
    return table(_HEADS, body)


def _unmet(by_quality: bool) -> str:
    return "cannot be better" if by_quality else "cannot be smaller"


def _charts(pictures: Sequence[Shown], means: Sequence[Row]) -> str:
    """Quality against size: kilobytes of the one picture, or per megapixel of many."""
    curves = [picture.curves for picture in pictures]
    if not all(curves):
        return ""
    require_matplotlib()
    (unit, scale) = ("file size, KB per million pixels", 125.0)
    if len(pictures) == 1:
        row = pictures[0].rows[0]
        (unit, scale) = ("file size, KB", row["num_bytes"] / row["bits_per_pixel"] / 1000)
    widest = 2.5 * max(row["bits_per_pixel"] for row in means)
    charts = []
    for quality, title, label in (
        (
            "psnr_rgb_db",
            "Higher is better: closer to the original, size for size",
            "closeness, dB",
        ),
        ("ssim", "The same by structure, which is nearer to what eyes see", "likeness"),
    ):
        lines = [
            Series(codec, [(scale * rate, value) for rate, value in points])
            for codec, points in mean_curves(curves, quality).items()
        ]
        charts.append(_chart(lines, title, (unit, label), (0.0, scale * widest)))
    return (
        "<h2>At every size</h2>\n<p>Each line is a codec, from small files on the left to large "
        "ones on the right. The line on top keeps most of the picture.</p>\n"
        f'<div class="charts">{"".join(charts)}</div>'
    )


def _chart(
    lines: Sequence[Series], title: str, labels: tuple[str, str], x_range: tuple[float, float]
) -> str:
    try:
        svg = line_chart(
            lines,
            title=title,
            x_label=labels[0],
            y_label=labels[1],
            x_range=x_range,
            better="up and left",
        )
    except ValueError:  # nothing finite: a picture too small for SSIM
        return ""
    return f"<figure>{themed(svg)}</figure>"


def _kilobytes(num_bytes: float) -> str:
    return f"{num_bytes / 1000:.1f}"
