"""Speed, memory and start-up, beside the codecs that people already use.

    python benchmarks/speed.py                  # all groups; writes benchmarks/results/speed.json
    python benchmarks/speed.py --quick          # fewer rounds, 17 MP in place of 105 MP
    python benchmarks/speed.py --only mosaic    # one group: mosaic scale command first-run folder

Needs the environment variable CSCODEC_DATA (kodak12/). Results are checked before anything is
timed; competitors are timed in turn within one run, and medians are compared.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from machine import describe_machine, set_blas
from PIL import Image

import cscodec
from cscodec.arrays import Pixels
from cscodec.evaluation.metrics import psnr_db
from cscodec.evaluation.report import json_text, text_table
from cscodec.images import read_picture
from cscodec.parallel import parallel_map

ROOT = Path(__file__).resolve().parents[1]
QUALITY = 75

Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """One line of the result: what was wanted, what was measured, and how they compare.

    ``ratio`` is above 1 where the target is met; None where there is none (a rival's own figure).
    """

    what: str
    unit: str
    target: float | None
    measured: float
    ratio: float | None

    @classmethod
    def at_least(cls, what: str, unit: str, target: float, measured: float) -> Row:
        return cls(what, unit, target, measured, measured / target)

    @classmethod
    def at_most(cls, what: str, unit: str, target: float, measured: float) -> Row:
        return cls(what, unit, target, measured, target / measured)

    @classmethod
    def rival(cls, what: str, unit: str, measured: float) -> Row:
        return cls(what, unit, None, measured, None)


def interleaved(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each function, called in turn, so that a busy moment hurts all alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def kodak_mosaic() -> Pixels:
    """24 pictures of 768 x 512 in six columns and four rows: the first twelve of Kodak, twice."""
    folder = Path(os.environ["CSCODEC_DATA"]) / "kodak12"
    pictures = [np.asarray(Image.open(path)) for path in sorted(folder.glob("*.png"))]
    upright = [p if p.shape[0] < p.shape[1] else np.rot90(p) for p in pictures]
    rows = [
        np.hstack([upright[(6 * row + i) % len(upright)] for i in range(6)]) for row in range(4)
    ]
    return np.ascontiguousarray(np.vstack(rows))


# Mosaic: throughput beside the rivals, and threads ------------------------------------------------


def mosaic(rounds: int, quick: bool) -> Iterator[Row]:
    """Throughput in process on the mosaic."""
    pixels = kodak_mosaic()
    if quick:
        pixels = pixels[:1024]
    megapixels = pixels.shape[0] * pixels.shape[1] / 1e6
    data = cscodec.encode(pixels, quality=QUALITY, workers=2)
    assert data == cscodec.encode(pixels, quality=QUALITY, workers=1), "threads change the file"
    for decoder in ("linear", "omp", "refine"):
        decoded = cscodec.decode(data, decoder=decoder, workers=2)
        assert np.array_equal(decoded, cscodec.decode(data, decoder=decoder, workers=1)), decoder
        assert psnr_db(pixels, decoded) > 27, decoder

    picture = Image.fromarray(pixels)
    compression = pixels.size / len(data)
    rivals: dict[str, tuple[str, dict[str, Any]]] = {
        "WebP method 4": ("WEBP", {"quality": QUALITY, "method": 4}),
        "JPEG 2000": (
            "JPEG2000",
            {"irreversible": True, "mct": 1, "quality_layers": [compression]},
        ),
        "AVIF speed 6": ("AVIF", {"quality": 60, "speed": 6, "max_threads": 2}),
        "AVIF speed 8": ("AVIF", {"quality": 60, "speed": 8, "max_threads": 2}),
    }
    files = {name: pillow_encode(picture, *rival) for name, rival in rivals.items()}
    functions: dict[str, Callable[[], object]] = {
        "encode": lambda: cscodec.encode(pixels, quality=QUALITY, workers=2),
        "encode, 1 thread": lambda: cscodec.encode(pixels, quality=QUALITY, workers=1),
        "decode": lambda: cscodec.decode(data, workers=2),
        "decode, 1 thread": lambda: cscodec.decode(data, workers=1),
        "decode linear": lambda: cscodec.decode(data, decoder="linear", workers=2),
        "decode omp": lambda: cscodec.decode(data, decoder="omp", sparsity=4, workers=2),
    }
    for name, rival in rivals.items():
        functions[f"{name} encode"] = partial(pillow_encode, picture, *rival)
        functions[f"{name} decode"] = partial(pillow_decode, files[name])
    seconds = interleaved(functions, rounds)
    speed = {name: megapixels / value for name, value in seconds.items()}

    at_least = Row.at_least
    yield at_least(
        "encode, against WebP method 4", "MP/s", speed["WebP method 4 encode"], speed["encode"]
    )
    yield at_least(
        "encode, against 3x JPEG 2000", "MP/s", 3 * speed["JPEG 2000 encode"], speed["encode"]
    )
    yield at_least(
        "decode linear, against JPEG 2000",
        "MP/s",
        speed["JPEG 2000 decode"],
        speed["decode linear"],
    )
    yield at_least("decode refine", "MP/s", 5, speed["decode"])
    yield at_least("decode omp, K = 4", "MP/s", 15, speed["decode omp"])
    for action in ("encode", "decode"):
        gain = seconds[f"{action}, 1 thread"] / seconds[action]
        yield at_least(f"{action}, 2 threads against 1", "x", 1.8, gain)
    for name in rivals:
        for action in ("encode", "decode"):
            yield Row.rival(f"{name} {action}", "MP/s", speed[f"{name} {action}"])


def pillow_encode(picture: Image.Image, file_format: str, options: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, file_format, **options)
    return buffer.getvalue()


def pillow_decode(file: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(file)))


# Scale: time per pixel and peak memory of large pictures, each in a process of its own ------------


def scale(rounds: int, quick: bool) -> Iterator[Row]:
    """The same megapixel repeated: 1 MP against 105 MP (17 MP if quick)."""
    side = 4 if quick else 10
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "block.npy", kodak_mosaic()[512:1536, 768:1792])
        for action in ("encode", "decode"):
            runs = {
                repeats: json.loads(
                    run(sys.executable, __file__, "--child", action, str(repeats), folder).stdout
                )
                for repeats in (1, side)
            }
            growth = runs[side]["seconds"] / side**2 / runs[1]["seconds"]
            label = f"{action}, time per pixel, {1.05 * side**2:.0f} MP against 1 MP"
            yield Row.at_most(label, "x", 1.10, growth)
            label = f"{action}, peak memory, {1.05 * side**2:.0f} MP"
            yield Row.at_most(label, "GB", 1.2, runs[side]["peak_memory_bytes"] / 1e9)


def child(action: str, repeats: int, folder: Path) -> None:
    """Code ``repeats``² copies of the block and print seconds and peak memory as JSON."""
    block = np.load(folder / "block.npy")
    small = cscodec.encode(block, quality=QUALITY, workers=2)
    cscodec.decode(small, workers=2)
    file = folder / f"{repeats}.csc"
    times = 9 if repeats == 1 else 1
    if action == "encode":
        height, width, channels = block.shape
        pixels = np.empty((repeats, height, repeats, width, channels), np.uint8)
        pixels[...] = block[:, None]  # no temporary copies, which would count as peak memory
        pixels = pixels.reshape(repeats * height, repeats * width, channels)
        encode = partial(cscodec.encode, pixels, quality=QUALITY, workers=2)
        data, cost = timed(encode, times)
        file.write_bytes(data)
    else:
        decoded, cost = timed(partial(cscodec.decode, file.read_bytes(), workers=2), times)
        assert psnr_db(block, decoded[: len(block), : block.shape[1]]) > 27
    print(json.dumps(cost))


def timed(work: Callable[[], Result], times: int) -> tuple[Result, dict[str, float]]:
    """What a function returns, its median seconds, and the process's peak memory so far."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return result, {"seconds": statistics.median(seconds), "peak_memory_bytes": peak}


# Commands: start-up included ----------------------------------------------------------------------


def command(rounds: int, quick: bool) -> Iterator[Row]:
    """Warm commands on a picture of 512 x 512."""
    with tempfile.TemporaryDirectory() as folder:
        picture, file, back = (Path(folder) / name for name in ("in.png", "in.csc", "out.png"))
        pixels = kodak_mosaic()[:512, 128:640]
        Image.fromarray(pixels).save(picture)
        commands: dict[str, list[str | Path]] = {
            "encode": ["encode", picture, "-f", "-o", file],
            "decode": ["decode", file, "-f", "-o", back],
            "info": ["info", file],
            "--help": ["--help"],
        }
        for arguments in commands.values():
            run_command(*arguments)
        assert file.read_bytes() == cscodec.encode(pixels)
        assert np.array_equal(np.asarray(Image.open(back)), cscodec.decode(file.read_bytes()))
        seconds = interleaved(
            {name: partial(run_command, *arguments) for name, arguments in commands.items()},
            2 * rounds,
        )
    targets = {"encode": 0.33, "decode": 0.36, "--help": 0.2, "info": 0.25}
    for name, target in targets.items():
        yield Row.at_most(f"cscodec {name}, 512 x 512", "s", target, seconds[name])


def first_run(rounds: int, quick: bool) -> Iterator[Row]:
    """Commands that are the first ever of their installation."""
    with tempfile.TemporaryDirectory() as folder:
        picture, file, back = (Path(folder) / name for name in ("in.png", "in.csc", "out.png"))
        Image.fromarray(kodak_mosaic()[:512, 128:640]).save(picture)
        for action, source, result, target in (
            ("encode", picture, file, 0.40),
            ("decode", file, back, 0.45),
        ):
            seconds = [first_command(action, source, "-f", "-o", result) for _ in range(rounds)]
            what = f"first {action} after an install, 512 x 512"
            yield Row.at_most(what, "s", target, statistics.median(seconds))


def first_command(*arguments: str | Path) -> float:
    """Seconds that a command takes in a fresh copy of the package, which has no bytecode yet."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for part in ("cscodec", "models"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        started = time.perf_counter()
        run_command(*arguments, folder=folder)
        seconds = time.perf_counter() - started
        where = run(sys.executable, "-c", "import cscodec; print(cscodec.__file__)", folder=folder)
        assert Path(where.stdout).is_relative_to(folder), f"{where.stdout} is not the copy"
    return seconds


def folder_of_pictures(rounds: int, quick: bool) -> Iterator[Row]:
    """A folder of pictures of 0.4 MP: the command against the same work in process."""
    count = 40 if quick else 200
    source = kodak_mosaic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        for index in range(count):
            top, left = 61 * index % 1500, 97 * index % 3800
            picture = Image.fromarray(source[top : top + 512, left : left + 768])
            picture.save(folder / "in" / f"{index:03d}.png", compress_level=1)
        paths = sorted((folder / "in").iterdir())

        def encode_file(path: Path) -> None:
            data = cscodec.encode(read_picture(path).pixels, quality=QUALITY, workers=1)
            (folder / f"{path.stem}.csc").write_bytes(data)

        def in_process() -> None:
            for _ in parallel_map(encode_file, paths, 2):
                pass

        def by_command() -> None:
            shutil.rmtree(folder / "out", ignore_errors=True)
            run_command("encode", "-r", folder / "in", "-d", folder / "out", "-j", "2")

        in_process()
        by_command()
        written = {path.stem: path.read_bytes() for path in (folder / "out").rglob("*.csc")}
        assert written == {path.stem: path.read_bytes() for path in folder.glob("*.csc")}
        seconds = interleaved({"in process": in_process, "command": by_command}, min(rounds, 3))
    yield Row.rival(f"{count} pictures of 0.4 MP, in process", "s", seconds["in process"])
    yield Row.at_least(
        f"{count} pictures, encode -r -j 2, share of the rate in process",
        "x",
        0.9,
        seconds["in process"] / seconds["command"],
    )


GROUPS: dict[str, Callable[[int, bool], Iterator[Row]]] = {
    "mosaic": mosaic,
    "scale": scale,
    "command": command,
    "first-run": first_run,
    "folder": folder_of_pictures,
}


def run(*arguments: str | Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder whose package it is to find."""
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))} failed:\n{done.stderr}")
    return done


def run_command(*arguments: str | Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "cscodec", *arguments, folder=folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    set_blas()
    if arguments.child:
        action, repeats, folder = arguments.child
        child(action, int(repeats), Path(folder))
        return
    if "CSCODEC_DATA" not in os.environ:
        parser.error("set CSCODEC_DATA to the folder that holds kodak12/")
    rounds = 2 if arguments.quick else arguments.rounds
    if not arguments.quick and set(arguments.only) == set(GROUPS):
        arguments.json = arguments.json or ROOT / "benchmarks/results/speed.json"
    rows: list[Row] = []
    for name in arguments.only:
        for row in GROUPS[name](rounds, arguments.quick):
            rows.append(row)
            print(f"{row.what}: {row.measured:.3g} {row.unit}", file=sys.stderr)
    headers = ("what", "unit", "target", "measured", "ratio")
    print(text_table(headers, [tuple(asdict(row).values()) for row in rows]))
    if arguments.json:
        record = {"machine": describe_machine(), "rows": [asdict(row) for row in rows]}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json_text(record), encoding="utf-8")


if __name__ == "__main__":
    main()
