"""What the dearest files cost to decode, in CPU seconds per megapixel on one thread.

Bytes of strangers may hold anything, so what is coded here is noise at the finest step, and
pictures that are flat, of which a few bytes make many pixels. Writes results/worst_files.json.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

import cscodec
from cscodec.choices import DECODERS

RESULTS = Path(__file__).parent / "results" / "worst_files.json"


def pictures() -> dict[str, np.ndarray[Any, Any]]:
    """What is coded, by name."""
    generator = np.random.default_rng(0)
    return {
        "flat": np.full((2048, 2048, 3), 200, np.uint8),
        "gray noise": generator.integers(0, 256, (512, 512), np.uint8),
        "colour noise": generator.integers(0, 256, (512, 512, 3), np.uint8),
        # The longest side is 2^24 - 1: 200 megapixels that are as narrow as can be have 11 rows.
        "flat, 1 row": np.full((1, 1 << 18, 3), 200, np.uint8),
        "flat, 11 rows": np.full((11, 1 << 16, 3), 200, np.uint8),
        "colour noise, 11 rows": generator.integers(0, 256, (11, 1 << 14, 3), np.uint8),
    }


def measured(data: bytes, num_pixels: int) -> dict[str, float]:
    """CPU seconds per megapixel of each decoder."""
    found: dict[str, float] = {}
    for decoder in DECODERS:
        begin = time.process_time()
        cscodec.decode(data, decoder=decoder, workers=1)
        found[decoder] = round((time.process_time() - begin) / num_pixels * 1e6, 2)
    return found


def main() -> None:
    """Measure, print and write."""
    rows: list[dict[str, Any]] = []
    for model in cscodec.shipped_models():
        for name, pixels in pictures().items():
            data = cscodec.encode(
                pixels, model=model, step=0.25 if "noise" in name else None, subsampling="4:4:4"
            )
            num_pixels = pixels.shape[0] * pixels.shape[1]
            row = {"picture": name, "model": model, "megapixels": num_pixels / 1e6}
            rows.append(row | {"num_bytes": len(data), "cpu_s_per_mp": measured(data, num_pixels)})
            print(rows[-1], flush=True)
    RESULTS.write_text(json.dumps({"machine": describe_machine(), "files": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
