"""Draw the README's picture: a whole photograph by several codecs, all in files of the same size.

    python benchmarks/comparison_picture.py              # samples/cat.png to docs/comparison.png
    python benchmarks/comparison_picture.py samples/gates.png --bpp 0.25 -o gates.png

Each panel is what its codec made of the whole photograph, pixel for pixel, with the size of the
file that it came from. Sizes and pixels come from the engine of ``cscodec compare``. Needs
imagecodecs for JPEG XL (the extra `bench`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cscodec.arrays import Pixels
from cscodec.evaluation.codecs import NAMES, codec_named
from cscodec.evaluation.comparison import Comparison, Target, compare_picture

ROOT = Path(__file__).resolve().parents[1]
COLUMNS, CAPTION, GAP = 2, 30, 8  # caption and gap in pixels


def captions(comparison: Comparison) -> dict[str, Pixels]:
    """Each panel under what is written below it."""
    height, width = comparison.original.shape[:2]
    panels = {f"original, {width} x {height}": comparison.original}
    for name, coded in comparison.coded.items():
        size, psnr = coded.point.num_bytes / 1000, coded.point.psnr_rgb_db
        panels[f"{name}, {size:.1f} KB, {psnr:.1f} dB"] = coded.pixels
    return panels


def sheet(panels: Mapping[str, Pixels]) -> Image.Image:
    """Panels in columns, captions below them."""
    height, width = next(iter(panels.values())).shape[:2]
    rows = -(-len(panels) // COLUMNS)
    picture = Image.new(
        "RGB", (COLUMNS * (width + GAP) - GAP, rows * (height + CAPTION) - GAP), "white"
    )
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=15)
    for index, (text, pixels) in enumerate(panels.items()):
        row, column = divmod(index, COLUMNS)
        x, y = column * (width + GAP), row * (height + CAPTION)
        picture.paste(Image.fromarray(pixels), (x, y))
        draw.text((x + width / 2, y + height + 2), text, "black", font, anchor="ma")
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, nargs="?", default=ROOT / "samples/cat.png")
    parser.add_argument(
        "--codecs", default="cscodec,jpeg,webp,avif,jpegxl", metavar=",".join(NAMES)
    )
    parser.add_argument("--bpp", type=float, default=0.4, help="bits per pixel of all files")
    parser.add_argument("--reduce", type=int, default=2, help="make the photograph smaller first")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs/comparison.png")
    arguments = parser.parse_args()
    with Image.open(arguments.picture) as opened:
        pixels = np.asarray(opened.convert("RGB").reduce(arguments.reduce))
    codecs = [codec_named(name, 3) for name in arguments.codecs.split(",")]
    target = Target(bits_per_pixel=arguments.bpp)
    panels = captions(compare_picture(pixels, codecs, target, curves=False))
    sheet(panels).save(arguments.output, optimize=True)
    print(f"{arguments.output}: {'; '.join(panels)}")


if __name__ == "__main__":
    main()
