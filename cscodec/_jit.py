"""The one way kernels are compiled: Numba, without the GIL, cached on disk where possible.

No fast-math anywhere: without it LLVM neither reassociates sums nor contracts a*b+c, so a kernel
gives the same bits on every CPU. Vector code comes from loops in "axpy" order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile ``function`` in nopython mode on first call, releasing the GIL.

    The compiled code is cached beside the source, or in the user's cache directory if the
    package is installed read-only; if neither can be written, it is compiled in every process.
    """
    try:
        compiled: Function = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Numba found no writable place for its cache
        compiled = numba.njit(nogil=True)(function)
    return compiled


def inline_kernel(function: Function) -> Function:
    """Like :func:`kernel`, for small helpers that kernels call: inlined by LLVM, never cached."""
    compiled: Function = numba.njit(nogil=True)(function)
    return compiled


@intrinsic  # type: ignore[untyped-decorator]  # Numba has no types
def keep_apart(typing_context: Any) -> Any:
    """Called in a function, keeps LLVM from copying that function into its callers.

    For functions with many callers: copies take long to compile and run no faster.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), generate
