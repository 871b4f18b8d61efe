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

_u1, _u4, _u11, _u44 = types.uint8[::1], types.uint32[::1], types.uint8[:, ::1], types.uint32[:, ::1]
_i4, _i44, _i8s = types.int32[::1], types.int32[:, ::1], types.int64[::1]
# threads, queue, notes; the text of all tokens and where each begins; of masks: report, words, row, marked, offsets,
# crossed, stretches, kinds, known, local
ROOM_TYPE = types.Tuple((  # type: ignore[no-untyped-call]
    _i44, _i44, _i8s, _u1, _i8s, _i8s, _u4, _u4, _i44, _i8s, _i8s, _i44, _u11, _i44, _u4))
# groups, tokens, rows, full, tails, ids (bodies.py); then a trie for each tail
BODY_TYPE = types.Tuple((_i44, _i4, _u44, _u4, _i44, _i44))  # type: ignore[no-untyped-call]
PARTS = (TABLES_TYPE, ARENA_TYPE, TRIE_TYPE, ROOM_TYPE)
TABLES, ARENA, TRIE, ROOM = range(len(PARTS))


def _start(part: int) -> int:
    return sum(_WIDTH * len(kinds) for kinds in PARTS[:part])


def _unpacker(kinds: Any, start: int) -> Any:
    """An intrinsic for compiled code: arrays of these kinds from a context, as a tuple. It costs a load an array.

    Its second argument: which of several such tuples that follow each other from `start` on.
    """
    of_kind: Callable[..., Any] = make_array
    fill: Callable[..., Any] = populate_array

    def build(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers, word = of_kind(signature.args[0])(target, builder, arguments[0]).data, ir.IntType(64)
        first = builder.mul(builder.sext(arguments[1], word), ir.Constant(word, _WIDTH * len(kinds)))
        arrays = []

        def number(index: int) -> Any:
            return builder.load(builder.gep(numbers, [builder.add(first, ir.Constant(word, index))]))

        for at, kind in enumerate(kinds):
            at = start + _WIDTH * at
            array = of_kind(kind)(target, builder)
            size = target.get_constant(types.intp, kind.dtype.bitwidth // 8)
            shape = [number(at + 1 + axis) for axis in range(kind.ndim)]
            strides = [size] if kind.ndim == 1 else [builder.mul(size, shape[1]), size]
            data = builder.inttoptr(number(at), array.data.type)
            fill(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
            arrays.append(array._getvalue())
        return target.make_tuple(builder, kinds, arrays)

    @intrinsic
    def unpack(typing: Any, context: Any, index: Any) -> Any:
        return kinds(context, types.int64), build

    return unpack


tables_of, arena_of, trie_of, room_of = (_unpacker(kinds, _start(part)) for part, kinds in enumerate(PARTS))
body_of = _unpacker(BODY_TYPE, 0)
tail_of = _unpacker(TRIE_TYPE, _WIDTH * len(BODY_TYPE))


def addresses(kinds: Any, arrays: Sequence[Any]) -> list[int]:
    """What a context holds for these arrays. Raises ValueError for one that is not contiguous and of its kind."""
    numbers = []
    for kind, array in zip(kinds, arrays, strict=True):
        if array.dtype != np.dtype(str(kind.dtype)) or array.ndim != kind.ndim or not array.flags.c_contiguous:
            raise ValueError(f"a part of a context must be {kind}, not {array.dtype} [{array.ndim} axes]")
        numbers += [array.ctypes.data, array.shape[0], array.shape[1] if array.ndim == 2 else 0]
    return numbers


class Context:
    """numbers: int64, what compiled code takes. The arrays are kept alive here."""

    def __init__(self) -> None:
        self.numbers = np.zeros(_start(len(PARTS)), np.int64)
        self._kept: list[Sequence[Any]] = [()] * len(PARTS)

    def put(self, part: int, arrays: Sequence[Any]) -> None:
        """Hands over the arrays of a part. Raises ValueError when they are not of the kinds of PARTS."""
        found = addresses(PARTS[part], arrays)
        self._kept[part] = arrays
        self.numbers[_start(part): _start(part) + len(found)] = found
