"""Words for writing functions in LLVM's terms: see :func:`cscodec._jit.generated_by`."""

from __future__ import annotations

from typing import Any


def arrays(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """Return the arrays among a function's arguments, with their fields."""
    from numba.core import types

    return [
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args, arguments, strict=True)
        if isinstance(kind, types.Array)
    ]


def splat(builder: Any, value: Any, count: int) -> Any:
    """Return the vector of ``count`` lanes that are all equal."""
    from llvmlite import ir

    vector = ir.VectorType(value.type, count)
    lane = builder.insert_element(vector(ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    return builder.shuffle_vector(lane, vector(ir.Undefined), zeros)
