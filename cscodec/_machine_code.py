"""Machine code of kernels: kept on disk, loaded with LLVM alone, compiled if there is none.

A file of the cache is the SHA-256 of what follows, then an object file. Its name has a hash of all
that the code depends on: the sources of the kernel and of all that it may call, the compilers, the
CPU. Whoever can write to
the cache can run code as the user; it lies where Python's own caches do.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

ENTRY = "cscodec_kernel"  #: name of the function in every object file
#: Where an array object has its data and its sizes: behind what all objects begin with, NumPy's
#: PyArrayObject has the address of the data, the number of dimensions, the address of the sizes.
ARRAY_DATA = object.__basicsize__
ARRAY_SHAPE = ARRAY_DATA + 16
_PACKAGE = Path(__file__).parent
_DIGEST_BYTES = 32
_engines: list[Any] = []  # they own the code


def load(kernel: str, source: object, compile_it: Callable[[], bytes]) -> int:
    """Return the address of a kernel's native code.

    Parameters
    ----------
    kernel : str
        Its full name.
    source : object
        Whose representation changes with the kernel, should it not be of this package.
    compile_it : callable
        Gives the object file, with the code under the name ``ENTRY``, if there is none yet.
    """
    own = hashlib.sha256(_key() + repr(source).encode()).hexdigest()
    name = f"{kernel}-{own[:16]}.o"
    code = _cached(name)
    if code is None:
        code = compile_it()
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
def _key() -> bytes:
    """Hash of what all machine code depends on."""
    digest = hashlib.sha256()
    settings = sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_"))
    versions = [version(package) for package in ("numba", "llvmlite")]
    digest.update(repr((sys.version_info[:2], ARRAY_DATA, versions, _cpu(), settings)).encode())
    for source in _sources():
        digest.update(source.read_bytes())
    return digest.digest()


def _sources() -> list[Path]:
    """The files that hold kernels, or what kernels are made with."""
    private = [*_PACKAGE.glob("_[a-z]*.py"), *_PACKAGE.glob("*/_[a-z]*.py")]
    return [*sorted(private), _PACKAGE / "bitstream" / "layout.py"]


def _folders() -> Iterator[Path]:
    """Where the cache may be, best first."""
    chosen = os.environ.get("CSCODEC_CACHE_DIR")
    if chosen:
        yield Path(chosen)
        return
    yield _PACKAGE / "__pycache__"
    if os.name == "nt":
        yield Path(os.environ.get("LOCALAPPDATA", "~\\AppData\\Local")).expanduser() / "cscodec"
    elif sys.platform == "darwin":
        yield Path("~/Library/Caches/cscodec").expanduser()
    else:
        yield Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "cscodec"


def _cached(name: str) -> bytes | None:
    for folder in _folders():
        with suppress(OSError, RuntimeError):  # no such file, or no home
            stored = (folder / name).read_bytes()
            digest, code = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
            if hashlib.sha256(code).digest() == digest:
                return code
    return None


def _keep(name: str, code: bytes) -> None:
    # Whole or not at all: another process may be reading. Where nothing can be written, every
    # process compiles for itself.
    for folder in _folders():
        with suppress(OSError, RuntimeError):
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f"{name}.{os.urandom(8).hex()}.tmp"
            try:
                temporary.write_bytes(hashlib.sha256(code).digest() + code)
                temporary.replace(folder / name)
            finally:
                temporary.unlink(missing_ok=True)
            return
