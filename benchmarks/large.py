"""Pictures larger than memory: peak memory, time per pixel, and previews.

    python benchmarks/large.py                    # 1.6 gigapixels; writes results/large.json
    python benchmarks/large.py --megapixels 100   # something smaller, printed only
    python benchmarks/large.py --only preview     # renews previews in results/large.json

The picture is a mosaic of the sample photographs in gray, in a file that is mapped into memory; so
is what it is decoded to. Each step runs in a process of its own, whose peak memory is the kernel's
(VmHWM, so Linux only) less what the compressed file takes. Times are CPU seconds of all threads: a
busy machine does not change them much. Previews, of such mosaics in gray and in colour, are asked
for again and again by one process, as a viewer does: from the bytes of a file to an array. The
command line's are processes of their own, from a file to a file.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

import cscodec
from cscodec.evaluation.report import json_text, text_table
from cscodec.images import find_pictures, luma, read_picture

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks/results/large.json"
WIDTH = 40_000
MEGAPIXELS = 1600
SMALL_MEGAPIXELS, PREVIEW_MEGAPIXELS = 10, 100
MOST_MEMORY_MB, MOST_TIME_RATIO, MOST_PREVIEW_S = 300, 1.15, 0.25


def mosaic(height: int, width: int, *, in_colour: bool = False) -> Any:
    """Yield rows of a picture that has some of every sample photograph."""
    photos = [read_picture(path).pixels for path in find_pictures(ROOT / "samples")]
    if not in_colour:
        photos = [luma(photo) for photo in photos]
    side = min(min(photo.shape[:2]) for photo in photos)
    tiles = [photo[:side, :side] for photo in photos]
    for row in range(-(-height // side)):
        order = [(row + column) % len(tiles) for column in range(-(-width // side))]
        yield np.concatenate([tiles[tile] for tile in order], axis=1)[:, :width]


def write_picture(path: Path, height: int, width: int) -> None:
    """Write a mosaic as raw samples."""
    picture = np.memmap(path, np.uint8, "w+", shape=(height, width))
    top = 0
    for rows in mosaic(height, width):
        rows = rows[: height - top]
        picture[top : top + len(rows)] = rows
        top += len(rows)
    picture.flush()


def peak_mb() -> float:
    """Peak memory of this process in 10⁶ bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024 / 1e6


def step(kind: str, folder: Path, height: int, width: int) -> dict[str, float]:
    """Encode, or decode with a decoder, in this process."""
    small = np.zeros((512, 512), np.uint8)
    cscodec.decode(cscodec.encode(small))  # everything is loaded
    started, started_cpu = time.perf_counter(), time.process_time()
    if kind == "encode":
        picture = np.memmap(folder / "picture", np.uint8, "r", shape=(height, width))
        data = cscodec.encode(picture)
    else:
        data = (folder / "picture.csc").read_bytes()
        out = np.memmap(folder / "restored", np.uint8, "w+", shape=(height, width))
        cscodec.decode(data, decoder=kind, out=out, max_pixels=height * width)  # type: ignore[arg-type]
    result = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - started_cpu,
        "num_bytes": len(data),
        "peak_mb": peak_mb(),
        "beside_file_mb": peak_mb() - len(data) / 1e6,
    }
    if kind == "encode":
        (folder / "picture.csc").write_bytes(data)
    return result


def measured(kind: str, folder: Path, height: int, width: int) -> dict[str, float]:
    """Run :func:`step` in a process of its own."""
    arguments = ["--step", kind, str(folder), str(height), str(width)]
    found = subprocess.run(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, float] = json.loads(found.stdout)
    result["cpu_ns_per_pixel"] = 1e9 * result["cpu_seconds"] / (height * width)
    return result


def measure_size(folder: Path, megapixels: float, decoders: list[str]) -> dict[str, Any]:
    """Encode and decode a mosaic of a size."""
    width = min(WIDTH, 512 * max(1, round((megapixels * 1e6) ** 0.5 / 512)))
    height = round(megapixels * 1e6 / width)
    write_picture(folder / "picture", height, width)
    steps = {kind: measured(kind, folder, height, width) for kind in ["encode", *decoders]}
    return {"width": width, "height": height, **steps}


def measure_preview(folder: Path, megapixels: float, rounds: int = 9) -> dict[str, Any]:
    """Time a preview of 1/8, of a gray and of a colour picture, in Python and by the command."""
    width = 512 * round((megapixels * 1e6) ** 0.5 / 512)
    height = round(megapixels * 1e6 / width)
    result: dict[str, Any] = {"width": width, "height": height}
    for name in ("gray", "colour"):
        pixels = np.concatenate(list(mosaic(height, width, in_colour=name == "colour")))[:height]
        data = cscodec.encode(pixels)
        path = folder / f"{name}.csc"
        path.write_bytes(data)
        command = [sys.executable, "-m", "cscodec", "decode", str(path), "--scale", "1/8", "-f"]
        command += ["-o", str(folder / "small.ppm")]
        seconds, cpu, of_command = [], [], []
        for _ in range(rounds):
            started, started_cpu = time.perf_counter(), time.process_time()
            cscodec.decode(data, scale=1 / 8)
            seconds.append(time.perf_counter() - started)
            cpu.append(time.process_time() - started_cpu)
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            of_command.append(time.perf_counter() - started)
        result[name] = {
            "num_bytes": len(data),
            "seconds": statistics.median(seconds),
            "cpu_seconds": min(cpu),
            "seconds_of_command": statistics.median(of_command),
        }
    return result


def rows_of(record: dict[str, Any]) -> list[list[str]]:
    """Lines of a table: what, measured, wanted."""
    lines = []
    for kind, large in record["large"].items():
        if not isinstance(large, dict):
            continue
        ratio = large["cpu_ns_per_pixel"] / record["small"][kind]["cpu_ns_per_pixel"]
        memory = f"{large['beside_file_mb']:.0f} MB"
        lines.append([f"{kind}: memory beside the file", memory, f"{MOST_MEMORY_MB} MB"])
        lines.append([f"{kind}: CPU time per pixel, ns", f"{large['cpu_ns_per_pixel']:.1f}", ""])
        lines.append([f"{kind}: over {SMALL_MEGAPIXELS} MP", f"{ratio:.2f}", f"{MOST_TIME_RATIO}"])
    for name in ("gray", "colour"):
        preview = record["preview"][name]
        lines.append([f"preview of {name}, s", f"{preview['seconds']:.3f}", f"{MOST_PREVIEW_S}"])
        lines.append([f"preview of {name}, CPU s", f"{preview['cpu_seconds']:.3f}", ""])
        lines.append([f"preview of {name}, command, s", f"{preview['seconds_of_command']:.3f}", ""])
    return lines


def main() -> None:
    """Measure, print, and write the result if everything was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megapixels", type=float, default=MEGAPIXELS)
    parser.add_argument("--decoder", action="append", help="linear and refine by default")
    parser.add_argument("--only", choices=["preview"])
    parser.add_argument("--folder", help="where the files may lie that are mapped: 3.2 GB")
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        kind, folder, height, width = given.step
        print(json.dumps(step(kind, Path(folder), int(height), int(width))))
        return
    decoders = given.decoder or ["linear", "refine"]
    record: dict[str, Any] = {}
    if given.only:
        record = json.loads(RESULT.read_text(encoding="utf-8"))
    record["machine"] = describe_machine()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if not given.only:
            record["small"] = measure_size(Path(folder), SMALL_MEGAPIXELS, decoders)
            record["large"] = measure_size(Path(folder), given.megapixels, decoders)
        record["preview"] = measure_preview(Path(folder), PREVIEW_MEGAPIXELS)
    print(text_table(["what", "measured", "wanted"], rows_of(record)))
    if given.megapixels == MEGAPIXELS:
        RESULT.write_text(json_text(record), encoding="utf-8")


if __name__ == "__main__":
    main()
