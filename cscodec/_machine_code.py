"""Machine code of kernels: kept on disk, loaded with LLVM alone, compiled if there is none.

A file of the cache is the SHA-256 of what follows, then an object file. Its name has a hash of all
that the code depends on: the sources of the kernel and of all that it may call, the compilers, the
CPU. Whoever can write to the cache can run code as the user; it lies where Python's own caches do.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

ENTRY = "cscodec_kernel"  #: name of the function in every object file
#: Where an array object has its data and its sizes: behind what all objects begin with, NumPy's
#: PyArrayObject has the address of the data, the number of dimensions, the address of the sizes.
ARRAY_DATA = object.__basicsize__
ARRAY_SHAPE = ARRAY_DATA + 16
_PACKAGE = Path(__file__).parent
_DIGEST_BYTES = 32
_engines: list[Any] = []  # they own the code


def load(kernel: str, source: object | None, compile_it: Callable[[], bytes]) -> int:
    """Return the address of a kernel's native code.

    Parameters
    ----------
    kernel : str
        Its full name.
    source : object, optional
        Whose representation changes with the kernel and with all that it may call; without one,
        nothing is looked for in the cache, nor kept.
    compile_it : callable
        Gives the object file, with the code under the name ``ENTRY``, if there is none yet.
    """
    machine = None if source is None else _machine()
    key = hashlib.sha256(repr((source, machine)).encode()).hexdigest()
    name = f"{kernel}-{key[:16]}.o"
    code = None if machine is None else _cached(name)
    if code is None:
        code = compile_it()
        if machine is not None:
            _keep(name, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(ENTRY))


def target_machine() -> Any:
    """Return LLVM's description of this CPU, or of the one that Numba is told to compile for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = _cpu()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="static" if _is_x86() else "default", jit=True
    )


def _is_x86() -> bool:
    return str(llvm.get_default_triple()).startswith(("x86", "i686"))


def _cpu() -> tuple[str, str]:
    # Numba's own environment variables, as kernels compiled for one CPU must not run on another.
    name = os.environ.get("NUMBA_CPU_NAME")
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if name is None:
        name = llvm.get_host_cpu_name()
        if features is None:
            features = llvm.get_host_cpu_features().flatten()
    return name, features or ""


@lru_cache(maxsize=1)
def _machine() -> object | None:
    """What machine code depends on beside its source; None if that cannot be told."""
    settings = sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
    numba = find_spec("numba")  # importing it, or importlib.metadata, would take too long
    if numba is None or numba.origin is None:
        return None
    try:
        numba_version = Path(numba.origin).with_name("_version.py").read_bytes()
    except OSError:
        return None
    versions = sys.version_info[:2], llvmlite.__version__, hashlib.sha256(numba_version).hexdigest()
    return ARRAY_DATA, versions, _cpu(), settings


def _folders() -> Iterator[Path]:
    """Where the cache may be, best first."""
    chosen = os.environ.get("CSCODEC_CACHE_DIR")
    if chosen:
        yield Path(chosen)
        return
    yield _PACKAGE / "__pycache__"
    if os.name == "nt":
        folder = os.environ.get("LOCALAPPDATA", "~\\AppData\\Local")
    elif sys.platform == "darwin":
        folder = "~/Library/Caches"
    else:
        folder = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        own = Path(folder).expanduser() / "cscodec"
    except RuntimeError:  # no home
        return
    yield own


def _cached(name: str) -> bytes | None:
    for folder in _folders():
        with suppress(OSError):
            stored = (folder / name).read_bytes()
            digest, code = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
            if hashlib.sha256(code).digest() == digest:
                return code
    return None


def _keep(name: str, code: bytes) -> None:
    # Whole or not at all: another process may be reading. Where nothing can be written, every
    # process compiles for itself.
    for folder in _folders():
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f"{name}.{os.urandom(8).hex()}.tmp"
            try:
                temporary.write_bytes(hashlib.sha256(code).digest() + code)
                temporary.replace(folder / name)
            finally:
                temporary.unlink(missing_ok=True)
            return
