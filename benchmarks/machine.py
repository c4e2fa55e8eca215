"""What a benchmark ran on: figures without this mean little."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "scipy", "numba", "pillow", "scikit-learn", "spams-bin")


#: Settings of BLAS that describe some other machine, or leave open how many threads it has.
_SETTINGS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS")


def set_blas(**settings: str) -> None:
    """Start the program again if BLAS has read other settings than these, as it was loaded."""
    clean = {name: value for name, value in os.environ.items() if name not in _SETTINGS} | settings
    if clean != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], clean)


def describe_machine() -> dict[str, str | int]:
    """Processor, number of CPUs that this process may use, system, and versions."""
    processor = platform.processor()
    information = Path("/proc/cpuinfo")
    if information.exists():
        models = [line for line in information.read_text().splitlines() if "model name" in line]
        processor = models[0].partition(":")[2].strip() if models else processor
    description: dict[str, str | int] = {
        "cpu": processor,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            description[package] = version(package)
        except PackageNotFoundError:
            continue
    return description
