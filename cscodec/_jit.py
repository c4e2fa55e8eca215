"""The one way kernels are declared and called: machine code that takes plain arrays and numbers.

A kernel is a Python function whose annotations say what it takes. Numba compiles it once; the
machine code is kept on disk (:mod:`cscodec._machine_code`), and from then on is loaded without
Numba, whose start takes longer than most pictures do. Kernels run without the GIL, allocate
nothing, raise nothing and check nothing but the kind of their arguments.

No fast-math on the way from a file to its pixels: without it LLVM neither reassociates sums nor
contracts a*b+c, so a kernel gives the same bits on every CPU. Vector code comes from loops in
"axpy" order.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, update_wrapper
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

Function = TypeVar("Function", bound=Callable[..., Any])


class Generated(NamedTuple):
    """A function that kernels call and whose LLVM code ``generate`` makes."""

    function: Callable[..., Any]
    generate: Callable[..., Any]
    returns: str


class Kind(NamedTuple):
    """What an argument of a kernel is: a C-contiguous array, or a number if ``ndim`` is 0."""

    dtype: str
    ndim: int


_Array = npt.NDArray[Any]
Uint8Vector = Annotated[_Array, Kind("uint8", 1)]
Uint8Matrix = Annotated[_Array, Kind("uint8", 2)]
Uint8Cube = Annotated[_Array, Kind("uint8", 3)]
Int16Vector = Annotated[_Array, Kind("int16", 1)]
Int32Vector = Annotated[_Array, Kind("int32", 1)]
Int64Vector = Annotated[_Array, Kind("int64", 1)]
Uint32Vector = Annotated[_Array, Kind("uint32", 1)]
Float32Vector = Annotated[_Array, Kind("float32", 1)]
Float64Vector = Annotated[_Array, Kind("float64", 1)]
Int16Matrix = Annotated[_Array, Kind("int16", 2)]
Int32Matrix = Annotated[_Array, Kind("int32", 2)]
Int64Matrix = Annotated[_Array, Kind("int64", 2)]
Float32Matrix = Annotated[_Array, Kind("float32", 2)]
Float64Matrix = Annotated[_Array, Kind("float64", 2)]
Int16Cube = Annotated[_Array, Kind("int16", 3)]
Int32Cube = Annotated[_Array, Kind("int32", 3)]
Float64Cube = Annotated[_Array, Kind("float64", 3)]
Array = _Array  #: in helpers, which are compiled for whatever they are called with
#: Numba's int64, for which mypy sees int in some places and np.int64 in others.
Integer = Annotated[Any, Kind("int64", 0)]
Float32 = Annotated[Any, Kind("float32", 0)]
Float64 = Annotated[Any, Kind("float64", 0)]

_NUMBERS = {"int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}

_compiling = threading.Lock()
# What kernels may call, and the compiler has not heard of yet.
helpers: list[Callable[..., Any]] = []
generated: list[Generated] = []
#: Called with the name of every kernel that has to be compiled, before it is.
listeners: list[Callable[[str], None]] = []


def _sources() -> str | None:
    """Hash of the files that hold kernels or what kernels are made with, if they can be read.

    Taken when they are loaded: a release may be installed over the one that runs.
    """
    package = Path(__file__).parent
    private = [*package.glob("_[a-z]*.py"), *package.glob("*/_[a-z]*.py")]
    digest = hashlib.sha256()
    try:
        for source in [*sorted(private), package / "bitstream" / "layout.py"]:
            digest.update(source.read_bytes())
    except OSError:
        return None
    return digest.hexdigest()


_SOURCES = _sources()


def helper(function: Function) -> Function:
    """Let kernels call ``function``; outside of them it stays the Python function that it is."""
    helpers.append(function)
    return function


def generated_by(
    generate: Callable[..., Any], returns: str = "void"
) -> Callable[[Function], Function]:
    """Let kernels call a function for which ``generate`` makes the LLVM code.

    ``generate`` is what Numba calls a lowering: (context, builder, signature, arguments) to a
    value of the type ``returns``. The function itself says in Python what that code does, and is
    what is compiled if bounds are to be checked.
    """

    def declare(function: Function) -> Function:
        generated.append(Generated(function, generate, returns))
        return function

    return declare


def _forbid_copies(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    builder.function.attributes.add("noinline")
    return context.get_dummy_value()


@generated_by(_forbid_copies)
def keep_apart() -> None:
    """Called in a function, keeps LLVM from copying that function into its callers.

    For functions with many callers: copies take long to compile and run no faster.
    """


def _force_copies(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    builder.function.attributes.add("alwaysinline")
    return context.get_dummy_value()


@generated_by(_force_copies)
def inline_here() -> None:
    """Called in a function, makes LLVM copy that function into its callers.

    For functions with many arguments: an array is seven of them or more, and all are handed over.
    """


class Kernel:
    """A function that runs as machine code, loaded or compiled at its first call."""

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._lock = threading.Lock()
        self._code: Callable[..., Any] | None = None

    @property
    def kinds(self) -> list[Kind]:
        """What each argument is."""
        hints = get_type_hints(self.function, include_extras=True)
        return [hint.__metadata__[0] for name, hint in hints.items() if name != "return"]

    def __call__(self, *arguments: Any) -> None:
        """Run the kernel.

        Raises
        ------
        TypeError
            If an array is not of the declared type and dimension, or not C-contiguous.
        IndexError
            If an index was out of range, and Numba was told to look (NUMBA_BOUNDSCHECK=1).
        """
        code = self._code or self._load()
        code(*arguments)

    def _load(self) -> Callable[..., Any]:
        with self._lock:
            if self._code is None:
                if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":  # for debuggers
                    self._code = self.function
                else:
                    from cscodec._machine_code import load

                    code = self.function.__code__
                    body = code.co_code, code.co_consts, code.co_names, code.co_varnames
                    source = _SOURCES, self.kinds, body
                    name = f"{self.__module__}.{self.__name__}"
                    address = load(name, source if _SOURCES else None, self._compile)
                    self._code = _caller(self.__name__, address, self.kinds)
            return self._code

    def _compile(self) -> bytes:
        from cscodec._compilation import compile_function

        with _compiling:
            for listener in tuple(listeners):  # one may take itself off
                listener(self.__name__)
            return compile_function(self.function, self.kinds, helpers, generated)


def kernel(function: Callable[..., None]) -> Kernel:
    """Make a kernel of a function all of whose arguments are annotated with the types above."""
    return Kernel(function)


def _caller(name: str, address: int, kinds: Sequence[Kind]) -> Callable[..., None]:
    """Return a function that checks arguments and calls machine code.

    The code takes addresses of array objects, and numbers. It returns 0 if all went well.
    """
    _check_layout()
    native: list[Any] = [_NUMBERS["int64" if kind.ndim else kind.dtype] for kind in kinds]
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *native)(address)  # lets go of the GIL
    expected = [(np.dtype(kind.dtype), kind.ndim) for kind in kinds]

    def call(*arguments: Any) -> None:
        numbers = []
        for value, (dtype, ndim) in zip(arguments, expected, strict=True):
            if ndim == 0:
                numbers.append(value)
            elif (
                isinstance(value, np.ndarray)
                and value.dtype == dtype
                and value.ndim == ndim
                and value.flags.c_contiguous
            ):
                numbers.append(id(value))
            else:
                found = getattr(value, "dtype", type(value).__name__)
                raise TypeError(
                    f"{name}: an argument is {found} {np.shape(value)}, "
                    f"expected {ndim} dimensions of contiguous {dtype}"
                )
        if run(*numbers) != 0:
            raise IndexError(f"{name}: an index is out of range")

    return call


@lru_cache(maxsize=1)
def _check_layout() -> None:
    from cscodec._machine_code import ARRAY_DATA, ARRAY_SHAPE

    probe = np.empty((3, 5), np.float32)
    data = ctypes.c_void_p.from_address(id(probe) + ARRAY_DATA).value
    sizes = ctypes.c_void_p.from_address(id(probe) + ARRAY_SHAPE).value or 0
    shape = tuple(ctypes.c_int64.from_address(sizes + 8 * k).value for k in range(2))
    if data != probe.ctypes.data or shape != probe.shape:
        raise RuntimeError("this NumPy or Python lays out arrays in a way that is not known here")
