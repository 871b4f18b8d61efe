"""The one argument of compiled code: a *context*, the address of a list of where every array lies that it works on.

Compiled functions take a context and look up what they need by name: `states = states_of(context)`. To hand each array
over by itself costs a microsecond for two dozen in a call from Python, and a compilation that is three times as long:
an array is seven numbers, in every call and in every function that one is compiled into.

The arrays of a `Part` lie one behind the other: the trie of a vocabulary, the tables of a grammar, the arena of an
explorer and its room to work in have one place each in a context. Lists of other parts are made the same way (a body,
bodies.py; what is solved, distance.py). A context begins with its trie, so that it may stand where one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from ..jit import entry

CONTEXT_TYPE = types.int64
TRIE_TYPE = CONTEXT_TYPE  # what begins with a trie
_WIDTH = 3  # numbers an array takes: its address and up to two lengths

_u1, _u4, _u11, _u44 = types.uint8[::1], types.uint32[::1], types.uint8[:, ::1], types.uint32[:, ::1]
_i4, _i44, _i8s, _u2 = types.int32[::1], types.int32[:, ::1], types.int64[::1], types.uint16[::1]
_i88 = types.int64[:, ::1]


def _accessor(kind: Any, columns: int, at: int) -> Any:
    """An intrinsic for compiled code: the array of this kind that the numbers of a context from `at` on are about."""
    of_kind: Callable[..., Any] = make_array
    fill: Callable[..., Any] = populate_array

    def build(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        numbers = builder.inttoptr(arguments[0], word.as_pointer())
        places = (builder.gep(numbers, [ir.Constant(word, at + k)]) for k in range(1 + kind.ndim))
        address, *shape = (builder.load(place) for place in places)
        array, size = of_kind(kind)(target, builder), ir.Constant(word, kind.dtype.bitwidth // 8)
        if columns:
            shape[1] = ir.Constant(word, columns)
        strides = [size] if kind.ndim == 1 else [builder.mul(size, shape[1]), size]
        data = builder.inttoptr(address, array.data.type)
        fill(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        return array._getvalue()

    @intrinsic
    def array_of(typing: Any, context: Any) -> Any:
        return kind(CONTEXT_TYPE), build

    return array_of


def _writing(typing: Any, numbers: Any, at: Any, arrays: Any) -> Any:
    """Writes what a context holds of a tuple of arrays into `numbers`, from its place `at` on."""
    of_kind: Callable[..., Any] = make_array

    def build(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = ir.IntType(64)
        out = of_kind(signature.args[0])(target, builder, values[0]).data
        for k, kind in enumerate(signature.args[2].types):
            array = of_kind(kind)(target, builder, builder.extract_value(values[2], k))
            shape = [builder.extract_value(array.shape, axis) for axis in range(kind.ndim)]
            told = (builder.ptrtoint(array.data, word), *shape, *[ir.Constant(word, 0)] * (2 - kind.ndim))
            for j, number in enumerate(told):
                place = builder.add(values[1], ir.Constant(word, _WIDTH * k + j))
                builder.store(number, builder.gep(out, [place]))
        return target.get_dummy_value()

    return types.void(numbers, at, arrays), build


_write: Any = intrinsic(_writing)


def _enter(numbers, at, arrays, columns):  # type: ignore[no-untyped-def]
    """As _write; whether the arrays have the columns that compiled code knows, 0 for any number."""
    _write(numbers, at, arrays)
    fits = True
    for k in range(columns.size):
        fits = fits and (columns[k] == 0 or numbers[at + _WIDTH * k + 2] == columns[k])
    return fits


class Part:
    """Arrays that lie one behind the other in a context, from its number `start` on, before `end`.

    Their kinds are told one by one, in order (`array`): what is returned is how compiled code gets the array. After the
    last, `complete`.
    """

    def __init__(self, start: int = 0) -> None:
        self._kinds: list[tuple[Any, int]] = []  # with its columns
        self.start = self.end = start

    def array(self, kind: Any, columns: int = 0) -> Any:
        """The accessor of the next array. columns: how many it has, where that is known to compiled code."""
        found = _accessor(kind, columns, self.end)
        self._kinds.append((kind, columns))
        self.end += _WIDTH
        return found

    def complete(self) -> None:
        """Compiles how arrays of these kinds are handed over: a twentieth of a microsecond for each."""
        self._columns = np.array([columns for _, columns in self._kinds], np.int64)
        tuple_of: Any = types.Tuple
        kinds = tuple_of([kind for kind, _ in self._kinds])
        self._enter = entry(types.boolean(_i8s, types.int64, kinds, _i8s))(_enter)

    def enter(self, numbers: Any, at: int, arrays: Sequence[Any]) -> None:
        """Writes what a context holds for these arrays into its `numbers`. Raises ValueError for one that is not
        contiguous and of its kind."""
        try:
            fits = self._enter(numbers, at, tuple(arrays), self._columns)
        except TypeError:  # also for one that must not be written to
            self._enter_singly(numbers, at, arrays)
            return
        if not fits:
            raise ValueError(f"parts of a context must have {self._columns.tolist()} columns (0: any)")

    def _enter_singly(self, numbers: Any, at: int, arrays: Sequence[Any]) -> None:
        for (kind, columns), array in zip(self._kinds, arrays, strict=True):
            dtype, shape = np.dtype(str(kind.dtype)), array.shape
            if array.dtype != dtype or len(shape) != kind.ndim or not array.flags.c_contiguous or (
                    columns and shape[1] != columns):
                raise ValueError(f"a part of a context must be {dtype} with {kind.ndim} axes and {columns or 'any'} "
                                 f"columns in one piece, not {array.dtype} {list(shape)}")
            numbers[at: at + _WIDTH] = array.ctypes.data, shape[0], shape[1] if kind.ndim == 2 else 0
            at += _WIDTH


TRIE = Part()  # trie.py
byte_of, depth_of, size_of = TRIE.array(_u1), TRIE.array(_i4), TRIE.array(_i4)
token_of, twin_of, plain_of = TRIE.array(_i4), TRIE.array(_i4), TRIE.array(_u1)
trie_nodes_of, kids_of, spelt_of = TRIE.array(_i44, 4), TRIE.array(_i4), TRIE.array(_u2)

TABLES = Part(TRIE.end)  # tables.py
classes_of, go_of, states_of = TABLES.array(_u1), TABLES.array(_i44), TABLES.array(_i44, 12)
rules_of, calls_of, edges_of = TABLES.array(_i44, 25), TABLES.array(_i44, 4), TABLES.array(_i44, 4)
first_of, distance_of, next_required_of = TABLES.array(_u11), TABLES.array(_i4), TABLES.array(_i4)
single_of, members_of, reach_of = TABLES.array(_u1), TABLES.array(_i44, 4), TABLES.array(_i44, 2)

ARENA = Part(TABLES.end)  # arena.py
nodes_of, costs_of, node_slots_of = ARENA.array(_i44, 8), ARENA.array(_i8s), ARENA.array(_i4)
pairs_of, pair_slots_of = ARENA.array(_i44, 5), ARENA.array(_i4)
sets_of, set_slots_of, counts_of = ARENA.array(_i44, 10), ARENA.array(_i4), ARENA.array(_i8s)

ROOM = Part(ARENA.end)
threads_of, queue_of, report_of = ROOM.array(_i44, 5), ROOM.array(_i44, 3), ROOM.array(_i8s)  # walk.py
text_of, starts_of = ROOM.array(_u1), ROOM.array(_i8s)  # the text of all tokens, and where each begins
words_of, row_of, local_of = ROOM.array(_u4), ROOM.array(_u4), ROOM.array(_u4)  # composing.py
marked_of, offsets_of, crossed_of = ROOM.array(_i44, 2), ROOM.array(_i8s), ROOM.array(_i8s)  # masking.py
stretches_of, kinds_of, known_of = ROOM.array(_i44, 4), ROOM.array(_u11, 256), ROOM.array(_i44, 4)  # stretches.py
dead_of, levels_of, dive_of = ROOM.array(_u11, 256), ROOM.array(_i44, 4), ROOM.array(_i44, 4)  # levels.py, new_keys.py
struck_of, unsure_of = ROOM.array(_i4), ROOM.array(_i44, 2)  # verdicts.py
item_of, places_of, trail_of = ROOM.array(_u11), ROOM.array(_i4), ROOM.array(_i88, 4)  # item_text.py, another.py

MET = Part(ROOM.end)  # accepting.py
spans_of, met_of, met_slots_of, told_of = MET.array(_i44, 3), MET.array(_i44, 5), MET.array(_i4), MET.array(_i8s)

# Of the masks of a grammar (finished.py), in a list of its own, for its explorers share them.
FINISHED = Part()
kept_of, signed_of, kept_slots_of = FINISHED.array(_i88, 7), FINISHED.array(_i8s), FINISHED.array(_i4)
marks_of, answer_of, weights_of = FINISHED.array(_i44, 2), FINISHED.array(_i8s), FINISHED.array(_i8s)

# Of a body (bodies.py), in an array of its own: then come the tries of its tails.
BODY = Part()
groups_of, body_tokens_of, rows_of = BODY.array(_i44, 5), BODY.array(_i4), BODY.array(_u44)
full_of, tails_of, ids_of = BODY.array(_u4), BODY.array(_i44, 6), BODY.array(_i44, 2)

# Of the states that repeat and the walk by them (hubs.py, spread.py), in a list of its own; and of one of their loops
# (loops.py): then comes the trie of its tails.
HUBS = Part()
hubs_of, loop_sets_of, couples_of = HUBS.array(_i44, 4), HUBS.array(_i88, 6), HUBS.array(_i44, 2)
loops_of, items_of = HUBS.array(_i88, 7), HUBS.array(_i88, 8)
bundles_of, wanted_of, follow_of = HUBS.array(_i88, 7), HUBS.array(_i8s), HUBS.array(_u11)
LOOP = Part()
loop_row_of, loop_tokens_of, loop_ids_of = LOOP.array(_u4), LOOP.array(_i4), LOOP.array(_i44, 2)

# Of the search for a body (bodies.py), also in a list of its own.
SEARCH = Part()
stack_of, votes_of, found_of = SEARCH.array(_i44, 5), SEARCH.array(_i44, 2), SEARCH.array(_i44, 3)
cuts_of, exits_of = SEARCH.array(_i44, 2), SEARCH.array(_i44, 4)
sizes_of, cut_of = SEARCH.array(_i8s), SEARCH.array(_i4)

for _part in (TRIE, TABLES, ARENA, ROOM, MET, FINISHED, BODY, HUBS, LOOP, SEARCH):
    _part.complete()


class Context:
    """address: what compiled code takes. The arrays are kept alive here."""

    def __init__(self, size: int = MET.end) -> None:
        self._numbers = np.zeros(size, np.int64)
        self._kept: dict[int, Sequence[Any]] = {}
        self.address = int(self._numbers.ctypes.data)

    def put(self, part: Part, arrays: Sequence[Any], at: int | None = None) -> None:
        """Hands over the arrays of a part, at its own place or another. Raises ValueError when they are not of its
        kinds."""
        start = part.start if at is None else at
        part.enter(self._numbers, start, arrays)
        self._kept[start] = arrays
