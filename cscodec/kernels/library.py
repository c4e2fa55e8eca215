"""Machine code of kernels: one shared library per processor level, built with the package.

The libraries lie in ``native/`` beside this file, named after the level of processor that they are
for. Nothing is compiled here and nothing written: what is missing is said.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from cscodec.errors import KernelsError
from cscodec.loading import loading

FOLDER = Path(__file__).parent / "native"
#: Levels of processors that libraries are made for, the lowest first. A processor can run the
#: code of its own level and of those below it.
LEVELS = {
    "x86_64": ("x86-64-v2", "x86-64-v3", "x86-64-v4"),
    "aarch64": ("aarch64",),
}
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
#: Names that libraries export beside the kernels'.
PREFIX, SOURCES, BUILD = "cscodec_", "cscodec_sources", "cscodec_build"
CPUID, XGETBV = "cscodec_cpuid", "cscodec_xgetbv"
#: "python" runs kernels as Python functions, for debuggers; the name of a library in ``native/``
#: (a level below the processor's own, or "bounds") takes that one.
VARIABLE = "CSCODEC_KERNELS"

_REMEDY = (
    "run 'make kernels' in a checkout; else install anew what it came from, with "
    "'pip install --force-reinstall --no-cache-dir'"
)


def machine() -> str:
    """This processor's family, a key of ``LEVELS``.

    Raises
    ------
    KernelsError
        If there are no kernels for it.
    """
    name = platform.machine().lower()
    family = {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)
    if family not in LEVELS or sys.maxsize < 2**32:
        raise KernelsError(f"cscodec has no kernels for processors of type {name or 'unknown'}")
    return family


def sources_digest() -> str:
    """Hash of all that decides what kernels do, hexadecimal."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for source in [folder.parent / "layout.py", *sorted(folder.glob("[!.]*.py"))]:
        if source == Path(__file__):
            continue  # it only loads them
        digest.update(source.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def entry(kernel: str) -> Any | None:
    """Return the native function of a kernel; None if kernels are to run as Python functions.

    Raises
    ------
    KernelsError
        If there is no library, or none for this processor, or it was made from other sources.
    """
    if os.environ.get(VARIABLE) == "python":
        return None
    return getattr(_library(), PREFIX + kernel)


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    with loading:
        return _chosen()


def _chosen() -> ctypes.CDLL:
    usable = usable_levels()
    chosen = os.environ.get(VARIABLE) or usable[-1]
    if Path(chosen).name != chosen:
        raise KernelsError(f"{VARIABLE} is {chosen!r}; allowed are names, not paths")
    if chosen in LEVELS[machine()] and chosen not in usable:
        raise KernelsError(
            f"{VARIABLE} is {chosen!r}; allowed here are {', '.join(usable)}, what is there and "
            "this processor can run"
        )
    return _opened(chosen)


def usable_levels() -> list[str]:
    """Levels whose libraries are there and that this processor can run, the lowest first."""
    levels = LEVELS[machine()]
    present = [level for level in levels if (FOLDER / f"{level}{SUFFIX}").is_file()]
    if not present:
        raise KernelsError(f"the compiled kernels are missing ({FOLDER}): {_REMEDY}")
    number = processor_level(_open(FOLDER / f"{present[0]}{SUFFIX}"))
    if number == 0:
        raise KernelsError(
            f"this processor is below level {levels[0]}, the lowest that cscodec runs on"
        )
    usable = [level for level in present if level in levels[:number]]
    if not usable:
        raise KernelsError(
            f"the kernels were compiled for processors of level {present[0]}, this one is of "
            f"level {levels[number - 1]}: {_REMEDY}"
        )
    return usable


def processor_level(library: ctypes.CDLL) -> int:
    """How many of its family's levels, from the lowest on, this processor can run."""
    if machine() != "x86_64":
        return 1

    def lacks(leaf: int, register: int, bits: Iterable[int]) -> int:
        has: int = getattr(library, CPUID)(leaf, register)
        return ~has & sum(1 << bit for bit in bits)

    a, b, c = range(3)
    # sse3, ssse3, cx16, sse4.1, sse4.2, popcnt
    if lacks(1, c, (0, 9, 13, 19, 20, 23)):
        return 0
    # fma, movbe, osxsave, avx, f16c; bmi1, avx2, bmi2; lzcnt
    if lacks(1, c, (12, 22, 27, 28, 29)) or getattr(library, CPUID)(0, a) < 7:
        return 1
    saved = getattr(library, XGETBV)()  # vector registers of 16 and 32 bytes; masks, 64 bytes
    if lacks(7, b, (3, 5, 8)) or lacks(0x80000001 - (1 << 32), c, (5,)) or saved & 6 != 6:
        return 1
    # avx512f, avx512dq, avx512cd, avx512bw, avx512vl
    return 2 if lacks(7, b, (16, 17, 28, 30, 31)) or saved & 0xE0 != 0xE0 else 3


def _opened(name: str) -> ctypes.CDLL:
    path = FOLDER / f"{name}{SUFFIX}"
    if not path.is_file():
        raise KernelsError(f"there are no kernels called {name!r} ({path}): {_REMEDY}")
    library = _open(path)
    try:
        wanted = sources_digest()
    except OSError as error:
        raise KernelsError(f"the sources of the kernels cannot be read ({error})") from error
    if (ctypes.c_char * 64).in_dll(library, SOURCES).value.decode("ascii") != wanted:
        raise KernelsError(
            f"the compiled kernels ({path}) were made from other sources than those beside them: "
            f"{_REMEDY}"
        )
    return library


def digest_path(library: Path) -> Path:
    """Where the SHA-256 of a library stands, hexadecimal."""
    return library.with_name(f"{library.name}.sha256")


def _open(path: Path) -> ctypes.CDLL:
    try:
        # Systems map files into memory as they are: one cut short ends the process.
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest_path(path).read_text("ascii"):
            raise KernelsError(f"the compiled kernels are damaged ({path}): {_REMEDY}")
        return ctypes.CDLL(os.fspath(path))
    except (OSError, ValueError) as error:
        raise KernelsError(
            f"the compiled kernels cannot be loaded ({path}: {error}): {_REMEDY}"
        ) from error
