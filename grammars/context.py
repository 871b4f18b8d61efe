"""Everything that compiled code reads and writes for one explorer, handed over as one array of addresses.

A call that takes each array by itself pays for each of them: a microsecond for two dozen, as much as an accepted token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from .arena import ARENA_TYPE
from .tables import TABLES_TYPE
from .trie import TRIE_TYPE

CONTEXT_TYPE = types.int64[::1]
_WIDTH = 3  # numbers an array takes: its address and up to two lengths

_u1, _u4, _u11, _i44, _i8s = (
    types.uint8[::1], types.uint32[::1], types.uint8[:, ::1], types.int32[:, ::1], types.int64[::1])
# threads, queue, notes, text and ends of all tokens; then what masks need: see Room
ROOM_TYPE = types.Tuple((_i44, _i44, _i8s, _u1, _i8s))  # type: ignore[no-untyped-call]
PARTS = (TABLES_TYPE, ARENA_TYPE, TRIE_TYPE, ROOM_TYPE)
TABLES, ARENA, TRIE, ROOM = range(len(PARTS))


def _start(part: int) -> int:
    return sum(_WIDTH * len(kinds) for kinds in PARTS[:part])


def _unpacker(part: int) -> Callable[..., Any]:
    """An intrinsic for compiled code: the arrays of one part of a context, as a tuple. It costs a load an array."""
    kinds = PARTS[part]
    of_kind: Callable[..., Any] = make_array
    fill: Callable[..., Any] = populate_array

    def build(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = of_kind(signature.args[0])(target, builder, arguments[0]).data
        at, arrays = _start(part), []

        def number(index: int) -> Any:
            return builder.load(builder.gep(numbers, [ir.Constant(ir.IntType(64), index)]))

        for kind in kinds:
            array = of_kind(kind)(target, builder)
            size = target.get_constant(types.intp, kind.dtype.bitwidth // 8)
            shape = [number(at + 1 + axis) for axis in range(kind.ndim)]
            strides = [size] if kind.ndim == 1 else [builder.mul(size, shape[1]), size]
            data = builder.inttoptr(number(at), array.data.type)
            fill(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
            arrays.append(array._getvalue())
            at += _WIDTH
        return target.make_tuple(builder, kinds, arrays)

    @intrinsic
    def unpack(typing: Any, context: Any) -> Any:
        return kinds(context), build

    return unpack


tables_of, arena_of, trie_of, room_of = map(_unpacker, range(len(PARTS)))


class Context:
    """numbers: int64, what compiled code takes. The arrays are kept alive here, and must be of the types of PARTS:
    contiguous, of exactly these dtypes (ValueError)."""

    def __init__(self) -> None:
        self.numbers = np.zeros(_start(len(PARTS)), np.int64)
        self._kept: list[Sequence[Any]] = [()] * len(PARTS)

    def put(self, part: int, arrays: Sequence[Any]) -> None:
        for kind, array in zip(PARTS[part], arrays, strict=True):
            if array.dtype != np.dtype(str(kind.dtype)) or array.ndim != kind.ndim or not array.flags.c_contiguous:
                raise ValueError(f"a part of a context must be {kind}, not {array.dtype} [{array.ndim} axes]")
        self._kept[part] = arrays
        found = [(array.ctypes.data, array.shape[0], array.shape[1] if array.ndim == 2 else 0) for array in arrays]
        at = _start(part)
        self.numbers[at: at + _WIDTH * len(found)] = np.array(found, np.int64).reshape(-1)
