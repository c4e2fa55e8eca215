"""Kernels to object files: the only place where Numba is used, and only where nothing is cached."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import config, types
from numba.extending import lower_builtin, register_jitable, type_callable

from cscodec._machine_code import ENTRY, target_machine

# Code that stands alone: no reference counts (arrays belong to the caller), no exceptions but those
# of bounds checks, no entry for Python.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def compile_function(
    function: Callable[..., None],
    kinds: Sequence[tuple[str, int]],
    fused: bool,
    helpers: list[Callable[..., Any]],
    generated: list[Any],
) -> bytes:
    """Return an object file with the native code of a kernel under the name ``ENTRY``.

    Parameters
    ----------
    function, kinds, fused
        The kernel: see :class:`cscodec._jit.Kernel`.
    helpers, generated
        What kernels may call, if Numba was not told of it before; emptied.
    """
    _declare(helpers, generated)
    signature = types.void(*(_numba_type(*kind) for kind in kinds))
    options = _OPTIONS | ({"fastmath": {"contract"}} if fused else {})
    dispatcher = numba.njit(**options)(function)
    dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature.args]
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    module.get_function(compiled.fndesc.llvm_func_name).name = ENTRY
    code: bytes = target_machine().emit_object(module)
    return code


def _declare(
    helpers: list[Callable[..., Any]],
    generated: list[Any],
) -> None:
    while generated:
        function, generate, returns = generated.pop()
        if config.BOUNDSCHECK:
            helpers.append(function)
            continue
        type_callable(function)(_typing_of(function, getattr(types, returns)))
        # mypy takes ``types`` for the standard library's module of that name.
        lower_builtin(function, types.VarArg(types.Any))(generate)  # type: ignore[attr-defined]
    while helpers:
        register_jitable(**_OPTIONS)(helpers.pop())


def _typing_of(function: Callable[..., Any], returns: Any) -> Callable[..., Any]:
    """Say what a call of ``function`` gives, whatever its arguments are."""

    def typer(*arguments: Any) -> Any:
        return returns

    typer.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return lambda context: typer


def _numba_type(dtype: str, ndim: int) -> Any:
    number = getattr(types, dtype)
    return types.Array(number, ndim, "C") if ndim else number
