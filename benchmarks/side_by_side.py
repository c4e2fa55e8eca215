"""Decoded pictures of ours, AVIF and WebP at the same low rates, to look at.

    python benchmarks/side_by_side.py kodim05.png -o looks --crop 300,150,280,240 --zoom 2

One sheet for each picture: a row for each rate, the original first. A file is the largest that does
not exceed the rate; where a codec has none so small, its smallest is shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from anchors import anchors
from perceptual import ssimulacra2
from rate_distortion import VARIANTS
from sheet import Panel, box_of, draw_sheet

from cscodec.arrays import Pixels
from cscodec.evaluation.codecs import Codec, cscodec_codec
from cscodec.evaluation.comparison import at_size
from cscodec.images import read_picture

RIVALS = ("AVIF iq", "WebP")


def row(pixels: Pixels, codecs: list[Codec], bpp: float) -> list[Panel]:
    """The original, and what each codec makes of it at a rate."""
    panels: list[Panel] = [("original", pixels)]
    for codec in codecs:
        coded = at_size(pixels, codec, bpp)
        seen = f"{coded.point.psnr_y_db:.1f} dB, S2 {ssimulacra2(pixels, coded.pixels):.0f}"
        panels.append((f"{codec.name}, {coded.point.bits_per_pixel:.2f} bpp, {seen}", coded.pixels))
    return panels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the sheets")
    parser.add_argument("--bpp", type=float, nargs="+", default=[0.1, 0.2, 0.35])
    parser.add_argument("--variants", nargs="+", default=["cscodec"], choices=list(VARIANTS))
    parser.add_argument("--anchors", nargs="*", default=list(RIVALS))
    parser.add_argument("--crop", type=box_of, metavar="X,Y,W,H", help="the whole by default")
    parser.add_argument("--zoom", type=int, default=1)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    known = anchors(3)
    codecs = [cscodec_codec((), name, **VARIANTS[name]) for name in arguments.variants]
    codecs += [known[name] for name in arguments.anchors]
    for path in arguments.pictures:
        pixels = read_picture(path).pixels
        rows = [row(pixels, codecs, bpp) for bpp in arguments.bpp]
        box = arguments.crop or (0, 0, pixels.shape[1], pixels.shape[0])
        sheet = draw_sheet(rows, box, arguments.zoom)
        sheet.save(arguments.output / f"{path.stem}.png", optimize=True)
        print(arguments.output / f"{path.stem}.png")


if __name__ == "__main__":
    main()
