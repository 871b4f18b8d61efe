"""Memory asked for ahead of its use: what lies in no near cache takes as long as a hundred operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_READ, _KEEP, _DATA = 0, 3, 1  # the kind of fetch: to be read, for all caches, of data and not of code


def _fetching(typing: Any, array: Any, at: Any) -> Any:
    """Asks for the memory of the item with this number, counted through all rows; one beyond the array does no harm."""
    of_kind: Callable[..., Any] = make_array

    def build(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        items = of_kind(signature.args[0])(target, builder, values[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(builder.gep(items.data, [values[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        asked = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        builder.call(asked, [place, *(ir.Constant(number, told) for told in (_READ, _KEEP, _DATA))])
        return target.get_dummy_value()

    return types.void(array, at), build


fetch: Any = intrinsic(_fetching)
