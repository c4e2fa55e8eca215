"""Draw the README's picture: the original, cscodec and JPEG at the same file size, side by side.

    python benchmarks/comparison_picture.py samples/cat.png --crop 300,150,280,240 --bpp 0.25

The whole picture is coded; a part of it is shown. JPEG (optimised, Pillow's defaults otherwise)
comes first, at the quality nearest to the wanted rate, and ours may not be larger than its file.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import numpy as np
from PIL import Image
from sheet import box_of, draw_sheet

import cscodec
from cscodec.evaluation.metrics import bits_per_pixel, psnr_db
from cscodec.images import luma, read_picture

ROOT = Path(__file__).resolve().parents[1]


def jpeg_near(picture: Image.Image, num_bytes: float) -> bytes:
    """The JPEG whose size is nearest."""

    def code(quality: int) -> bytes:
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality, optimize=True)
        return buffer.getvalue()

    files = (code(quality) for quality in range(1, 96))
    return min(files, key=lambda file: abs(len(file) - num_bytes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, nargs="?", default=ROOT / "samples/cat.png")
    parser.add_argument("--bpp", type=float, default=0.25)
    parser.add_argument("--crop", default="300,150,280,240", metavar="X,Y,W,H")
    parser.add_argument("--zoom", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs/comparison.png")
    arguments = parser.parse_args()
    pixels = read_picture(arguments.picture).pixels
    num_bytes = arguments.bpp * pixels.shape[0] * pixels.shape[1] / 8
    jpeg = jpeg_near(Image.fromarray(pixels), num_bytes)
    ours = cscodec.encode(pixels, target_size=len(jpeg))
    decoded = cscodec.decode(ours)
    opened = np.asarray(Image.open(io.BytesIO(jpeg)))
    panels = [
        ("original", pixels),
        (f"cscodec, {caption(ours, pixels, decoded)}", decoded),
        (f"JPEG, {caption(jpeg, pixels, opened)}", opened),
    ]
    sheet = draw_sheet([panels], box_of(arguments.crop), arguments.zoom)
    sheet.save(arguments.output, optimize=True)
    print(f"{arguments.output}: {', '.join(text for text, _ in panels[1:])}")


def caption(file: bytes, original: np.ndarray, decoded: np.ndarray) -> str:
    bpp = bits_per_pixel(len(file), original.shape)
    psnr = psnr_db(luma(original), luma(decoded))
    return f"{len(file) / 1000:.1f} KB ({bpp:.2f} bpp), {psnr:.1f} dB"


if __name__ == "__main__":
    main()
