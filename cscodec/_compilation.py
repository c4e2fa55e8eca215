"""Kernels to object files: the only place where Numba is used, and only where nothing is cached."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import lower_builtin, register_jitable, type_callable
from numba.np.arrayobj import populate_array

from cscodec._machine_code import ARRAY_DATA, ARRAY_SHAPE, ENTRY, target_machine

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
    helpers: list[Callable[..., Any]],
    generated: list[Any],
) -> bytes:
    """Return an object file with the native code of a kernel under the name ``ENTRY``.

    The code takes the addresses of NumPy's array objects in place of arrays.

    Parameters
    ----------
    function, kinds
        The kernel: see :class:`cscodec._jit.Kernel`.
    helpers, generated
        What kernels may call, if Numba was not told of it before; emptied.
    """
    _declare(helpers, generated)
    signature = types.void(*(_numba_type(*kind) for kind in kinds))
    dispatcher = numba.njit(**_OPTIONS)(function)
    dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature.args]
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    module.link_in(llvm.parse_assembly(str(_entry(compiled, signature))))
    code: bytes = target_machine().emit_object(module)
    return code


def _entry(compiled: Any, signature: Any) -> Any:
    """Return an LLVM module with a function of array objects and numbers that calls a kernel."""
    context = compiled.target_context
    module = context.create_module(ENTRY)
    int32, int64 = ir.IntType(32), ir.IntType(64)
    numbers = [
        int64 if isinstance(kind, types.Array) else context.get_value_type(kind)
        for kind in signature.args
    ]
    entry = ir.Function(module, ir.FunctionType(int32, numbers), ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block())
    arguments = [
        _array_at(context, builder, kind, number) if isinstance(kind, types.Array) else number
        for kind, number in zip(signature.args, entry.args, strict=True)
    ]
    kernel = context.declare_function(module, compiled.fndesc)
    status, _ = context.call_conv.call_function(
        builder, kernel, signature.return_type, signature.args, arguments
    )
    builder.ret(status.code)
    return module


def _array_at(context: Any, builder: Any, kind: Any, address: Any) -> Any:
    """Return Numba's array of the C-contiguous NumPy array whose object is at an address.

    It reads NumPy's ``PyArrayObject``, whose fields are part of its binary interface.
    """
    int64 = ir.IntType(64)

    def field(offset: int, pointer: Any) -> Any:
        place = builder.add(address, int64(offset))
        return builder.load(builder.inttoptr(place, pointer.as_pointer()))

    array = context.make_array(kind)(context, builder)
    sizes = field(ARRAY_SHAPE, int64.as_pointer())
    shape = [builder.load(builder.gep(sizes, [int64(k)])) for k in range(kind.ndim)]
    item = int64(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [item]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    populate_array(
        array,
        data=field(ARRAY_DATA, array.data.type),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=item,
        meminfo=None,
    )
    return array._getvalue()


def _declare(helpers: list[Callable[..., Any]], generated: list[Any]) -> None:
    # Each is taken off the list when it is known: an interrupt must lose none.
    while generated:
        function, generate, returns = generated[-1]
        if config.BOUNDSCHECK:
            helpers.append(function)
            generated.pop()
            continue
        type_callable(function)(_typing_of(function, getattr(types, returns)))
        # mypy takes ``types`` for the standard library's module of that name.
        lower_builtin(function, types.VarArg(types.Any))(generate)  # type: ignore[attr-defined]
        generated.pop()
    while helpers:
        register_jitable(**_OPTIONS)(helpers[-1])
        helpers.pop()


def _typing_of(function: Callable[..., Any], returns: Any) -> Callable[..., Any]:
    """Say what a call of ``function`` gives, whatever its arguments are."""

    def typer(*arguments: Any) -> Any:
        return returns

    typer.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return lambda context: typer


def _numba_type(dtype: str, ndim: int) -> Any:
    number = getattr(types, dtype)
    return types.Array(number, ndim, "C") if ndim else number
