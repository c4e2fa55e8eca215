"""Kernels to object files: the only place where Numba is used.

Numba reads for which processor to optimise from its environment when it is imported, so
:mod:`building.libraries` starts a process for every level.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import lower_builtin, register_jitable, type_callable
from numba.np.arrayobj import populate_array

import cscodec.kernels
from building.intrinsics import CODE
from cscodec.kernels import declaration
from cscodec.kernels.declaration import Kernel, Kind, fields
from cscodec.kernels.library import BUILD, CPUID, PREFIX, SOURCES, XGETBV

types: Any = numba.types

# Code that stands alone: no reference counts (arrays belong to the caller), no exceptions but those
# of bounds checks, no entry for Python.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


class Target(NamedTuple):
    """What to make code for: LLVM's names of a system, a processor and its features."""

    triple: str
    cpu: str
    features: str = ""


def kernels() -> dict[str, Kernel]:
    """All kernels of the package, by name."""
    for module in pkgutil.iter_modules(cscodec.kernels.__path__):
        importlib.import_module(f"cscodec.kernels.{module.name}")
    found = {kernel.__name__: kernel for kernel in declaration.kernels}
    assert len(found) == len(declaration.kernels), "two kernels have one name"
    return found


def compile_kernel(name: str, target: Target, *, check_bounds: bool = False) -> bytes:
    """Return an object file with the native code of a kernel.

    Its one name takes, in order, the address and the sizes of each array, and numbers.
    """
    _initialize()
    kernel = kernels()[name]
    _declare(check_bounds)
    signature = types.void(*(_numba_type(kind) for _, kind in kernel.parameters()))
    dispatcher = numba.njit(boundscheck=check_bounds, **_OPTIONS)(kernel.function)
    dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature.args]
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    entry = PREFIX + name
    module.link_in(llvm.parse_assembly(str(_entry(entry, kernel, compiled, signature))))
    for function in module.functions:  # helpers are other objects' too
        if not function.is_declaration and function.name != entry:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    return _emit(module, target)


def _emit(module: Any, target: Target) -> bytes:
    """Return the object file of an LLVM module."""
    module.triple = target.triple
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )
    module.data_layout = str(machine.target_data)
    if "windows" in target.triple:
        for name in [*module.functions, *module.global_variables]:
            if name.name.startswith(PREFIX) and not name.is_declaration:
                name.storage_class = "dllexport"
    code: bytes = machine.emit_object(module)
    return code


def compile_facts(sources: str, build: str, target: Target) -> bytes:
    """Return an object file that says what a library was made from, and asks the processor."""
    asking = _ASKING_X86 if target.triple.startswith("x86_64") else ""
    text = f"""
@{SOURCES} = constant [64 x i8] c"{sources}"
@{BUILD} = constant [64 x i8] c"{build}"
{asking}"""
    _initialize()
    return _emit(llvm.parse_assembly(text), target._replace(cpu="generic", features=""))


def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()  # for what asks the processor


def _entry(name: str, kernel: Kernel, compiled: Any, signature: Any) -> Any:
    """Return an LLVM module with a function of addresses and numbers that calls a kernel."""
    context = compiled.target_context
    module = context.create_module(name)
    parts: list[Any] = []
    for kind in signature.args:
        parts += list(kind) if isinstance(kind, types.NamedTuple) else [kind]
    int64 = ir.IntType(64)
    natives: list[Any] = []
    for kind in parts:
        if isinstance(kind, types.Array):
            item = context.get_data_type(kind.dtype)
            natives += [item.as_pointer()] + [int64] * kind.ndim
        else:
            natives.append(context.get_value_type(kind))
    entry = ir.Function(module, ir.FunctionType(ir.IntType(32), natives), name)
    builder = ir.IRBuilder(entry.append_basic_block())
    given = iter(entry.args)

    def argument(kind: Any) -> Any:
        if isinstance(kind, types.NamedTuple):
            return context.make_tuple(builder, kind, [argument(part) for part in kind])
        if isinstance(kind, types.Array):
            return _array(context, builder, kind, [next(given) for _ in range(1 + kind.ndim)])
        return next(given)

    arguments = [argument(kind) for kind in signature.args]
    called = context.declare_function(module, compiled.fndesc)
    status, _ = context.call_conv.call_function(
        builder, called, signature.return_type, signature.args, arguments
    )
    builder.ret(status.code)
    return module


def _array(context: Any, builder: Any, kind: Any, given: list[Any]) -> Any:
    """Return Numba's C-contiguous array of an address and sizes."""
    data, *shape = given
    item = ir.IntType(64)(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [item]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    array = context.make_array(kind)(context, builder)
    populate_array(
        array,
        data=builder.bitcast(data, array.data.type),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=item,
        meminfo=None,
    )
    return array._getvalue()


@lru_cache(maxsize=1)
def _declare(check_bounds: bool) -> None:
    """Tell Numba what kernels may call."""
    for function in declaration.intrinsics:
        if check_bounds:
            register_jitable(boundscheck=True, **_OPTIONS)(function)
            continue
        generate, returns = CODE[function.__name__]
        type_callable(function)(_typing_of(function, getattr(types, returns)))
        lower_builtin(function, types.VarArg(types.Any))(generate)
    for function in declaration.helpers:
        register_jitable(boundscheck=check_bounds, **_OPTIONS)(function)


def _typing_of(function: Callable[..., Any], returns: Any) -> Callable[..., Any]:
    """Say what a call of ``function`` gives, whatever its arguments are."""

    def typer(*arguments: Any) -> Any:
        return returns

    typer.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return lambda context: typer


def _numba_type(kind: Kind | type) -> Any:
    if not isinstance(kind, Kind):
        return types.NamedTuple([_numba_type(part) for _, part in fields(kind)], kind)
    number = getattr(types, kind.dtype)
    return number if kind.shape is None else types.Array(number, len(kind.shape), "C")


# What the processor says of itself: cpuid's eax, ebx, ecx or edx (0 to 3), and which registers the
# system saves. They run before it is known what else may.
_ASKING_X86 = f"""
define i32 @{CPUID}(i32 %leaf, i32 %register) {{
  %all = call {{ i32, i32, i32, i32 }} asm sideeffect "cpuid",
    "={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}},~{{dirflag}},~{{fpsr}},~{{flags}}"
    (i32 %leaf, i32 0)
  %a = extractvalue {{ i32, i32, i32, i32 }} %all, 0
  %b = extractvalue {{ i32, i32, i32, i32 }} %all, 1
  %c = extractvalue {{ i32, i32, i32, i32 }} %all, 2
  %d = extractvalue {{ i32, i32, i32, i32 }} %all, 3
  %is_a = icmp eq i32 %register, 0
  %is_b = icmp eq i32 %register, 1
  %is_c = icmp eq i32 %register, 2
  %c_or_d = select i1 %is_c, i32 %c, i32 %d
  %not_a = select i1 %is_b, i32 %b, i32 %c_or_d
  %asked = select i1 %is_a, i32 %a, i32 %not_a
  ret i32 %asked
}}

define i32 @{XGETBV}() {{
  %both = call {{ i32, i32 }} asm sideeffect "xgetbv",
    "={{ax}},={{dx}},{{cx}},~{{dirflag}},~{{fpsr}},~{{flags}}"(i32 0)
  %low = extractvalue {{ i32, i32 }} %both, 0
  ret i32 %low
}}
"""
