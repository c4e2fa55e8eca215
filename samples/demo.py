"""Compress the sample pictures, decompress them, and print what was lost and gained.

    python samples/demo.py [OUTPUT_FOLDER]

This is what `make demo` runs; it is also a small example of the Python interface.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import cscodec
from cscodec.evaluation.metrics import bits_per_pixel, psnr_db, ssim
from cscodec.evaluation.report import Cell, text_table
from cscodec.images import Picture, luma, read_picture, write_picture

SAMPLES = Path(__file__).resolve().parent
HEADERS = ("file", "KB in", "KB out", "bpp", "PSNR", "SSIM", "seconds")


def main() -> None:
    output = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    output.mkdir(parents=True, exist_ok=True)
    paths = sorted(SAMPLES.glob("*.png"))
    first = read_picture(paths[0]).pixels[:64, :64]
    cscodec.decode(cscodec.encode(first))  # loading is not what is to be timed
    rows: list[list[Cell]] = []
    for path in paths:
        pixels = read_picture(path).pixels
        started = time.perf_counter()
        data = cscodec.encode(pixels)
        decoded = cscodec.decode(data)
        seconds = time.perf_counter() - started
        (output / f"{path.stem}.csc").write_bytes(data)
        (output / path.name).write_bytes(write_picture(Picture(decoded), path.name))
        rows.append(
            [
                path.name,
                path.stat().st_size / 1000,
                len(data) / 1000,
                bits_per_pixel(len(data), pixels.shape),
                psnr_db(luma(pixels), luma(decoded)),
                ssim(luma(pixels), luma(decoded)),
                seconds,
            ]
        )
    print(text_table(HEADERS, rows, digits=3))
    print(f"\nPSNR (dB) and SSIM of the luma; seconds to encode and decode. Files: {output}/")


if __name__ == "__main__":
    main()
