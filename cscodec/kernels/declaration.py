"""How kernels are declared: what they take, how large it is, and what is checked at a call.

A kernel is a Python function whose annotations name the type and the sizes of each argument. When
the package is built it is compiled to machine code, which :mod:`cscodec.kernels.library` loads; a
call checks every array against its annotation and hands over addresses, sizes and numbers. Kernels
run without the GIL, allocate nothing and raise nothing: whoever calls one brings the room it
works in.

A size is a number, or an expression over names: ``float32["rows", 64]``, ``int16["rows + 2", 64]``.
Sizes of one name agree throughout a call, so no kernel sees arrays that do not fit each other. What
arrays hold, and numbers, are the caller's to get right.

No fast-math on the way from a file to its pixels: without it LLVM neither reassociates sums nor
contracts a*b+c, so a kernel gives the same bits on every processor. Vector code comes from loops
in "axpy" order.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from functools import update_wrapper
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

from cscodec.arrays import Array as Array  # in helpers: compiled for whatever they are called with
from cscodec.kernels.library import entry

Function = TypeVar("Function", bound=Callable[..., Any])
Size = int | str


class Kind(NamedTuple):
    """What an argument is: a C-contiguous array of a shape, or a number where there is none."""

    dtype: str
    shape: tuple[Size, ...] | None = None
    is_output: bool = False

    @property
    def out(self) -> Kind:
        """The same, for an array that the kernel writes to."""
        return self._replace(is_output=True)


class Items(NamedTuple):
    """A type of array elements; ``Items[sizes]`` is an array of them."""

    dtype: str

    def __getitem__(self, sizes: Any) -> Any:  # a tuple's own would take a number
        return Kind(self.dtype, sizes if type(sizes) is tuple else (sizes,))


uint8, int8, int16 = Items("uint8"), Items("int8"), Items("int16")
int32, int64 = Items("int32"), Items("int64")
uint32, float32, float64 = Items("uint32"), Items("float32"), Items("float64")

#: Numba's int64, for which mypy sees int in some places and np.int64 in others.
Integer = Annotated[Any, Kind("int64")]
Float32 = Annotated[Any, Kind("float32")]
Float64 = Annotated[Any, Kind("float64")]

_NUMBERS = {"int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}

# What the compiler has to know: every kernel, what kernels may call, and which of that has LLVM
# code of its own.
kernels: list[Kernel] = []
helpers: list[Callable[..., Any]] = []
intrinsics: list[Callable[..., Any]] = []


def helper(function: Function) -> Function:
    """Let kernels call ``function``; outside of them it stays the Python function that it is."""
    helpers.append(function)
    return function


def intrinsic(function: Function) -> Function:
    """Let kernels call a function whose LLVM code the compiler has in ``building/intrinsics.py``.

    The function itself says in Python what that code does. It is what is compiled if bounds are
    to be checked, and what tests hold the code against.
    """
    intrinsics.append(function)
    return function


@intrinsic
def keep_apart() -> None:
    """Called in a function, keeps LLVM from copying that function into its callers.

    For functions with many callers: copies take long to compile and run no faster.
    """


@intrinsic
def inline_here() -> None:
    """Called in a function, makes LLVM copy that function into its callers.

    For functions with many arguments: an array is seven of them or more, and all are handed over.
    """


class Kernel:
    """A function that runs as machine code."""

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._code: Callable[..., None] | None = None

    def parameters(self) -> list[tuple[str, Kind | type]]:
        """Name and kind of each argument; a record has its class in place of a kind."""
        return list(_kinds(self.function))

    def __call__(self, *arguments: Any) -> None:
        """Run the kernel.

        Raises
        ------
        TypeError
            If an argument is no array of the declared type and number of dimensions, is not
            C-contiguous, or may not be written to though the kernel does.
        ValueError
            If sizes do not fit the declaration, or each other.
        IndexError
            If an index was out of range, and the kernels were built to look (``make bounds``).
        ctypes.ArgumentError
            If a number is none.
        KernelsError
            If there is no machine code that this processor can run.
        """
        (self._code or self._load())(*arguments)

    def _load(self) -> Callable[..., None]:
        run = entry(self.__name__)
        self._code = self.function if run is None else _caller(self, run)
        return self._code


def kernel(function: Callable[..., None]) -> Kernel:
    """Make a kernel of a function all of whose arguments are annotated with the types above.

    An argument may also be a record, a NamedTuple whose fields are annotated likewise.
    """
    made = Kernel(function)
    kernels.append(made)
    return made


def _kinds(annotated: Any) -> Iterator[tuple[str, Kind | type]]:
    for name, hint in get_type_hints(annotated, include_extras=True).items():
        if name != "return":
            yield name, hint if isinstance(hint, type) else hint.__metadata__[0]


def fields(record: type) -> list[tuple[str, Kind]]:
    """Name and kind of each field of a record."""
    return [(name, kind) for name, kind in _kinds(record) if isinstance(kind, Kind)]


def _caller(kernel: Kernel, run: Any) -> Callable[..., None]:
    """Return a function that checks arguments and calls machine code.

    The code takes, in order, the address and the sizes of each array, and numbers. It returns 0
    if all went well.
    """
    records: list[Any] = []  # classes, None for arguments of other kinds
    checks: list[_Check | None] = []
    native: list[Any] = []
    for name, kind in kernel.parameters():
        record = kind if isinstance(kind, type) else None
        records.append(record)
        parts = [(name, kind)] if isinstance(kind, Kind) else fields(kind)
        for part, of in parts:
            label = f"{name}.{part}" if record else part
            checks.append(None if of.shape is None else _Check(kernel.__name__, label, of))
            if of.shape is None:
                native.append(_NUMBERS[of.dtype])
            else:
                native += [ctypes.c_void_p] + [ctypes.c_int64] * len(of.shape)
    run.argtypes, run.restype = native, ctypes.c_int32  # ctypes lets go of the GIL
    fitting: set[tuple[tuple[int, ...], ...]] = set()  # shapes that were found to

    def call(*arguments: Any) -> None:
        flat: list[Any] = []
        for value, record in zip(arguments, records, strict=True):
            if record is None:
                flat.append(value)
            elif isinstance(value, record):
                flat += value
            else:
                raise TypeError(f"{kernel.__name__}: {type(value)} in place of {record}")
        numbers: list[Any] = []
        shapes = []
        for value, check in zip(flat, checks, strict=True):
            if check is None:
                numbers.append(value)
            else:
                numbers.append(check.address(value))
                shape = value.shape
                numbers += shape
                shapes.append(shape)
        key = tuple(shapes)
        if key not in fitting:
            _check_sizes(flat, checks)
            if len(fitting) >= _MOST_REMEMBERED:
                fitting.clear()
            fitting.add(key)
        if run(*numbers) != 0:
            raise IndexError(f"{kernel.__name__}: an index is out of range")

    return call


_MOST_REMEMBERED = 1000


_first_byte, _address_of = ctypes.c_char.from_buffer, ctypes.addressof


class _Check:
    """What one array must be."""

    def __init__(self, kernel: str, name: str, kind: Kind) -> None:
        assert kind.shape is not None
        self.label = f"{kernel}: {name}"
        self.dtype = np.dtype(kind.dtype)
        self.shape, self.ndim = kind.shape, len(kind.shape)
        self.is_output = kind.is_output
        self.axes = [_Axis.of(size) for size in kind.shape]

    def address(self, value: Any) -> int:
        """Return where the data of an array are, if it is of the right kind."""
        # Called for every array of every call: the quickest questions that say enough.
        if (
            not isinstance(value, np.ndarray)
            or (value.dtype is not self.dtype and value.dtype != self.dtype)
            or value.ndim != self.ndim
            or not (flags := value.flags).c_contiguous
            or not flags.aligned
            or (self.is_output and not flags.writeable)
        ):
            raise TypeError(self.expected(value))
        try:
            buffer: Any = value  # which arrays are, whatever their stubs say
            return _address_of(_first_byte(buffer))
        except (TypeError, ValueError):  # read-only, or of size 0; this takes three times as long
            return value.ctypes.data

    def expected(self, value: Any, sizes: dict[str, int] | None = None) -> str:
        """Say what is wrong."""
        found = f"{getattr(value, 'dtype', type(value).__name__)} {np.shape(value)}"
        shape = ", ".join(str(size) for size in self.shape)
        known = ", ".join(f"{name} = {size}" for name, size in (sizes or {}).items())
        return (
            f"{self.label} is {found}, expected {'writable ' if self.is_output else ''}contiguous "
            f"{self.dtype} ({shape}){f' with {known}' if known else ''}"
        )


def _check_sizes(values: Sequence[Any], checks: Sequence[_Check | None]) -> None:
    """Refuse arrays that do not fit each other."""
    sizes: dict[str, int] = {}
    for value, check in zip(values, checks, strict=True):
        if check is None:
            continue
        for size, axis in zip(value.shape, check.axes, strict=True):
            if not axis.fits(size, sizes):
                raise ValueError(check.expected(value, sizes))


_SIZE = re.compile(r"(?:(\d+) \* )?([a-z]\w*(?: \* [a-z]\w*)*)(?: \+ (\d+))?")


class _Axis(NamedTuple):
    """A declared size: ``factor`` times the sizes of these names, and ``more``."""

    factor: int
    names: tuple[str, ...]
    more: int

    @classmethod
    def of(cls, size: Size) -> _Axis:
        if isinstance(size, int):
            return cls(1, (), size - 1)
        found = _SIZE.fullmatch(size)
        if found is None:
            raise ValueError(f"{size!r} is no size; allowed are such as 'n', '2 * n + 1', 'n * m'")
        return cls(int(found[1] or 1), tuple(found[2].split(" * ")), int(found[3] or 0))

    def fits(self, size: int, sizes: dict[str, int]) -> bool:
        """Say whether a size is what was declared; a name seen for the first time takes its value
        from it (of several, only the last may be new)."""
        known = self.factor
        for name in self.names[:-1]:
            known *= sizes[name]
        if self.names and self.names[-1] not in sizes:
            sizes[self.names[-1]] = max(0, size - self.more) // known if known else 0
        for name in self.names[-1:]:
            known *= sizes[name]
        return size == known + self.more
