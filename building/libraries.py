"""Object files to shared libraries, for one level of processor or all of a platform's.

``python -m building.libraries`` makes the library for this machine's processor, if the one that is
there was made from other sources; ``--all`` those of every level; ``--platform`` those of another
system; ``--bounds`` also one that checks every index.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from cscodec.kernels.library import (  # noqa: E402
    FOLDER,
    LEVELS,
    SUFFIX,
    digest_path,
    machine,
    processor_level,
    sources_digest,
)

BOUNDS = "bounds"  #: name of the library that checks every index


class Platform(NamedTuple):
    """A system that libraries can be made for.

    Attributes
    ----------
    machine : str
        Key of ``LEVELS``.
    triple : str
        LLVM's name of it.
    zig_target : str
        The linker's.
    suffix : str
        Of shared libraries.
    """

    machine: str
    triple: str
    zig_target: str
    suffix: str


#: By the tag of a wheel. Libraries for Linux need nothing of it, so any C library will do.
PLATFORMS = {
    "manylinux_2_17_x86_64.musllinux_1_1_x86_64": Platform(
        "x86_64", "x86_64-unknown-linux-gnu", "x86_64-linux-gnu", ".so"
    ),
    "manylinux_2_17_aarch64.musllinux_1_1_aarch64": Platform(
        "aarch64", "aarch64-unknown-linux-gnu", "aarch64-linux-gnu", ".so"
    ),
    "macosx_11_0_x86_64": Platform("x86_64", "x86_64-apple-macosx11.0.0", "x86_64-macos", ".dylib"),
    "macosx_11_0_arm64": Platform("aarch64", "arm64-apple-macosx11.0.0", "aarch64-macos", ".dylib"),
    "win_amd64": Platform("x86_64", "x86_64-pc-windows-gnu", "x86_64-windows-gnu", ".dll"),
}


def own_platform() -> str:
    """Return the tag of this machine's platform.

    Raises
    ------
    KernelsError
        If there are no kernels for its processor.
    """
    for tag, platform in PLATFORMS.items():
        if (platform.machine, platform.suffix) == (machine(), SUFFIX):
            return tag
    raise SystemExit(f"cscodec cannot be built on {sys.platform} for {machine()}")


def build(
    platform: str, levels: Sequence[str], *, check_bounds: bool = False, folder: Path = FOLDER
) -> list[Path]:
    """Make libraries, except those that are there and up to date.

    Parameters
    ----------
    platform : str
        Key of ``PLATFORMS``.
    levels : sequence of str
        Of ``LEVELS``.
    check_bounds : bool
        Make one library, called ``BOUNDS``, of the first level.
    folder : Path

    Returns
    -------
    list of Path
        The libraries, in the order of the levels.
    """
    made = []
    for level in levels:
        path = folder / f"{BOUNDS if check_bounds else level}{PLATFORMS[platform].suffix}"
        if not is_up_to_date(path):
            print(f"compiling kernels: {path.name}", file=sys.stderr, flush=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            _build_library(path, PLATFORMS[platform], level, check_bounds)
        made.append(path)
    return made


def _build_library(path: Path, platform: Platform, level: str, check_bounds: bool) -> None:
    from building.compiler import Target, compile_facts

    # LLVM would rather not use the widest vectors of level 4; the processors of today do well.
    features = "-prefer-256-bit" if level == "x86-64-v4" else ""
    target = Target(platform.triple, "generic" if level == "aarch64" else level, features)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="building-") as folder:
        # Numba optimises for this family of processors, whatever the code is for.
        host = "x86-64-v3" if machine() == "x86_64" else "generic"
        with _numba_for(target.cpu if platform.machine == machine() else host, features):
            objects = _compiled(target, check_bounds, Path(folder))
        facts = Path(folder) / "facts.o"
        facts.write_bytes(compile_facts(sources_digest(), _build_digest(), target))
        linked = Path(folder) / path.name
        link([*objects, facts], linked, platform)
        digest = Path(folder) / "digest"
        digest.write_text(hashlib.sha256(linked.read_bytes()).hexdigest(), encoding="ascii")
        linked.replace(path)  # whole or not at all: another process may have the old one open
        digest.replace(digest_path(path))


def _compiled(target: object, check_bounds: bool, folder: Path) -> list[Path]:
    """Write the object files of all kernels, on all CPUs."""
    # A process of its own for Numba, as it reads its environment once.
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 8), mp_context=get_context("spawn")) as pool:
        names = pool.submit(_kernel_names).result()
        codes = [pool.submit(_compile, name, target, check_bounds) for name in names]
        objects = []
        for name, code in zip(names, codes, strict=True):
            objects.append(folder / f"{name}.o")
            objects[-1].write_bytes(code.result())
    return objects


def _kernel_names() -> list[str]:
    from building.compiler import kernels

    # The largest first, so that none is left for last.
    return sorted(kernels(), key=lambda name: name != "code_layer")


def _compile(name: str, target: object, check_bounds: bool) -> bytes:
    from building.compiler import Target, compile_kernel

    assert isinstance(target, Target)
    return compile_kernel(name, target, check_bounds=check_bounds)


@contextmanager
def _numba_for(cpu: str, features: str) -> Iterator[None]:
    """Let processes started meanwhile optimise for a processor, and for nothing else."""
    before = dict(os.environ)
    for name in before:
        if name.startswith("NUMBA_"):
            del os.environ[name]
    os.environ |= {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def link(objects: Sequence[Path], library: Path, platform: Platform) -> None:
    """Link with the machine's compiler, or with Zig's where there is none or for other systems."""
    compiler = shutil.which("cc")
    own = platform is PLATFORMS[own_platform()]
    if compiler and own:
        command = [compiler]
    else:
        command = [sys.executable, "-m", "ziglang", "cc", "-target", platform.zig_target]
    if platform.suffix == ".so":
        command += ["-nostdlib", "-s"]  # memset is the process's own
    if platform.suffix == ".dylib":
        command += [f"-Wl,-install_name,{library.name}"]  # else that of the folder at hand
    command += ["-shared", "-o", str(library), *map(str, objects)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(
            f"linking the kernels failed; does {command[0]} work, for shared libraries too? "
            f"It says:\n{done.stderr[-2000:]}"
        )


def _build_digest() -> str:
    """Hash of what compiles."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes().replace(b"\r\n", b"\n"))
    for package in ("numba", "llvmlite"):
        digest.update(importlib.metadata.version(package).encode())
    return digest.hexdigest()


def is_up_to_date(path: Path) -> bool:
    """Say whether a library is whole, and made of the sources and by the compiler of today."""
    wanted = sources_digest().encode(), _build_digest().encode()
    if not (path.is_file() and digest_path(path).is_file()):
        return False
    code = path.read_bytes()
    whole = hashlib.sha256(code).hexdigest() == digest_path(path).read_text(encoding="ascii")
    return whole and all(digest in code for digest in wanted)


def own_level() -> str:
    """Return the level of this machine's processor; a library of any level is made to ask it."""
    levels = LEVELS[machine()]
    if len(levels) == 1:
        return levels[0]
    import ctypes

    from building.compiler import Target, compile_facts

    platform = PLATFORMS[own_platform()]
    # A library that was opened cannot be deleted on Windows.
    with tempfile.TemporaryDirectory(prefix="cscodec-", ignore_cleanup_errors=True) as folder:
        facts, library = Path(folder) / "facts.o", Path(folder) / f"facts{SUFFIX}"
        facts.write_bytes(compile_facts("0" * 64, "0" * 64, Target(platform.triple, "generic")))
        link([facts], library, platform)
        number = processor_level(ctypes.CDLL(str(library)))
    if number == 0:
        raise SystemExit(f"this processor is below level {levels[0]}, the lowest for cscodec")
    return levels[number - 1]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="every level of processor")
    parser.add_argument("--platform", choices=list(PLATFORMS), help="every level of another system")
    parser.add_argument("--bounds", action="store_true", help="also one that checks every index")
    parser.add_argument("--name", action="store_true", help="print this platform, and no more")
    options = parser.parse_args()
    if options.bounds and options.platform:
        parser.error("--bounds is for this machine; leave out --platform")
    if options.name:
        print(own_platform())
        return
    tag = options.platform or own_platform()
    every = options.all or options.platform
    made = build(tag, LEVELS[PLATFORMS[tag].machine] if every else (own_level(),))
    if options.bounds:
        made += build(tag, LEVELS[PLATFORMS[tag].machine][:1], check_bounds=True)
    for path in made:
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
