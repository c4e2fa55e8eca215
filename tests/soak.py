"""``make soak``: threads and processes encode and decode for minutes: the same bytes, flat memory.

Each process has threads that take a picture, a decoder and a number of workers at random. What they
make is held against what was made alone, and memory at the end against that after a tenth of the
time.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from strategies import odd_model, texture

import cscodec
from cscodec.choices import DECODERS

_GROWTH_MIB = 40  #: that is no leak: pools, arenas of the allocator


def main() -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=16)
    wanted = parser.parse_args()
    if wanted.processes > 1:
        command = [sys.executable, __file__, "--processes", "1", "--seconds", str(wanted.seconds)]
        command += ["--threads", str(wanted.threads)]
        running = [subprocess.Popen(command) for _ in range(wanted.processes)]
        return max(process.wait() for process in running)
    return soak(wanted.seconds, wanted.threads)


def soak(seconds: float, num_threads: int) -> int:
    """Work on many threads, and check all that they make."""
    pictures = [texture(60, 70, 3), texture(90, 40, 4), texture(33, 600), texture(8, 9, 2)]
    models = ["photo", odd_model(), "photo", odd_model()]
    alone = [_made(pictures[n], models[n], workers=1) for n in range(len(pictures))]
    end = time.monotonic() + seconds
    rounds = [0] * num_threads
    wrong: list[str] = []

    def work(number: int) -> None:
        generator = np.random.default_rng(number)
        while time.monotonic() < end and not wrong:
            n = int(generator.integers(len(pictures)))
            try:
                found = _made(pictures[n], models[n], workers=int(generator.integers(1, 5)))
            except Exception as error:
                wrong.append(repr(error))
                raise
            if found != alone[n]:
                wrong.append(f"picture {n} came out otherwise")
            rounds[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 10)
    before = _memory_mib()
    for thread in threads:
        thread.join()
    after = _memory_mib()
    print(
        f"{sum(rounds)} rounds on {num_threads} threads in {seconds:.0f} s, {before:.0f} MiB after "
        f"a tenth, {after:.0f} at the end, {_peak_mib():.0f} at most; wrong: {wrong or 'nothing'}",
        flush=True,
    )
    return int(bool(wrong) or after > before + _GROWTH_MIB)


def _made(picture: np.ndarray, model: object, workers: int) -> list[str]:
    """Hashes of the file and of what each decoder makes of it."""
    data = cscodec.encode(picture, model=model, workers=workers)  # type: ignore[arg-type]
    made = [data]
    for decoder in DECODERS:
        pixels = cscodec.decode(data, decoder=decoder, model=model, workers=workers)  # type: ignore[arg-type]
        made.append(pixels.tobytes())
    return [hashlib.sha256(part).hexdigest() for part in made]


def _memory_mib() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return _peak_mib()
    return pages * resource.getpagesize() / 2**20


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
