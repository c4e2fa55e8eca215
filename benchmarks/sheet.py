"""Pictures side by side, each with its caption, on one sheet."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from cscodec.arrays import Pixels

CAPTION, GAP = 26, 8  # pixels
Box = tuple[int, int, int, int]  # left, top, width, height
Panel = tuple[str, Pixels]


def box_of(text: str) -> Box:
    """A part of a picture as a command line gives it: ``X,Y,W,H``."""
    left, top, width, height = map(int, text.split(","))
    return left, top, width, height


def draw_sheet(rows: Sequence[Sequence[Panel]], box: Box, zoom: int = 1) -> Image.Image:
    """The same part of every picture, whole pixels magnified, captions below.

    Parameters
    ----------
    rows : sequence of sequence of (caption, pixels)
        As many in each row.
    box : (left, top, width, height)
    zoom : int
    """
    left, top, width, height = box
    part = (left, top, left + width, top + height)
    width, height = width * zoom, height * zoom
    size = len(rows[0]) * (width + GAP) - GAP, len(rows) * (height + CAPTION)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=13)
    for row, panels in enumerate(rows):
        for column, (caption, pixels) in enumerate(panels):
            x, y = column * (width + GAP), row * (height + CAPTION)
            cut = Image.fromarray(pixels).crop(part)
            sheet.paste(cut.resize((width, height), Image.Resampling.NEAREST), (x, y))
            draw.text((x + width / 2, y + height + 6), caption, "black", font, anchor="ma")
    return sheet
