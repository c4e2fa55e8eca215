"""Draw the README's picture: a whole photograph by several codecs, all in files of the same size.

    python benchmarks/comparison_picture.py              # samples/cat.png to docs/comparison.png
    python benchmarks/comparison_picture.py samples/gates.png --bpp 0.25 -o gates.png

Each panel is what its codec made of the whole photograph, pixel for pixel, with the size of the
file that it came from. Sizes and pixels come from the engine of ``cscodec compare``. Needs
imagecodecs for JPEG XL (the extra `bench`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from sheet import Panel, draw_sheet

from cscodec.evaluation.codecs import NAMES, codec_named
from cscodec.evaluation.comparison import Comparison, Target, compare_picture

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 2


def panels(comparison: Comparison) -> list[Panel]:
    """The original and what each codec made of it, with captions."""
    height, width = comparison.original.shape[:2]
    found = [(f"original, {width} x {height}", comparison.original)]
    for name, coded in comparison.coded.items():
        size, psnr = coded.point.num_bytes / 1000, coded.point.psnr_rgb_db
        found.append((f"{name}, {size:.1f} KB, {psnr:.1f} dB", coded.pixels))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, nargs="?", default=ROOT / "samples/cat.png")
    parser.add_argument("--codecs", default="cscodec,jpeg,webp,avif,jpegxl", help=",".join(NAMES))
    parser.add_argument("--bpp", type=float, default=0.4, help="bits per pixel of all files")
    parser.add_argument("--reduce", type=int, default=2, help="make the photograph smaller first")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs/comparison.png")
    arguments = parser.parse_args()
    with Image.open(arguments.picture) as opened:
        pixels = np.asarray(opened.convert("RGB").reduce(arguments.reduce))
    codecs = [codec_named(name, 3) for name in arguments.codecs.split(",")]
    target = Target(bits_per_pixel=arguments.bpp)
    found = panels(compare_picture(pixels, codecs, target, curves=False))
    rows = [found[start : start + COLUMNS] for start in range(0, len(found), COLUMNS)]
    draw_sheet(rows, (0, 0, pixels.shape[1], pixels.shape[0])).save(arguments.output, optimize=True)
    print(f"{arguments.output}: {'; '.join(text for text, _ in found)}")


if __name__ == "__main__":
    main()
