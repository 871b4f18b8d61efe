"""What a vocabulary keeps of bodies (body_walk.py): their rows by spelling, and room to look for new ones."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..binding.context import BODY, SEARCH, TRIE, Context
from ..binding.trie import PLAIN_BYTES, Trie
from .body_groups import Listing, Scratch, in_order, touched
from .body_steps import byte_groups, gathered
from .body_tails import Quotes, Tails
from .scanning import scan_of

_STATES = 1 << 11  # of a body, at most
_SPELLED = 1 << 15  # numbers that spell a body, at most
_WORTH = 1 << 14  # nodes of the vocabulary that a walk may come to, from which on a body pays
_DENSE = 256  # tokens from which on a group is kept as a row
_LINE = 256  # states in a line, one for each further character, that are looked along
_NEAR = 1 << 12  # tokens, and cuts, by which a state may differ from that body
WHOLE = -2  # in place of a register: told apart by the places where they end
_EXITS = 1 << 14  # of a body, at most
_WAYS = 1 << 9  # in which these leave, at most


class BodyRows(NamedTuple):
    """What the tokens do in a body. groups[g]: state (local), counts, row or -1, begin and end in `tokens`.

    rows: uint32 [n, words]; full: [words] all groups. tails: the ways to leave, their columns as in composing.py,
    states local too; ids: their tokens, and the counts each took before; tries: of what follows the place of leaving.
    exits: the ways to leave, local too, before so much of the vocabulary that it is walked there.
    context: of all of it. register: WHOLE where the groups hold their tokens; else only `full` does, and a group is a
    place where some may end with this register, as `united` takes it (body_union.py).
    """

    groups: Any
    tokens: Any
    rows: Any
    full: Any
    tails: Any
    ids: Any
    tries: tuple[Trie, ...]
    exits: Any
    context: Context
    register: int

    @property
    def size(self) -> int:
        return sum(int(array.nbytes) for array in (*self[:6], *(part for trie in self.tries for part in trie)))


def rows_of(inside: tuple[Any, Any, Any, Any], found: Tails, register: int) -> BodyRows:
    """The rows of a body, of its (groups, tokens, rows, full) and its tails."""
    arrays = (*inside, found.tails, found.ids)
    context = Context(BODY.end + len(found.tries) * TRIE.end)
    context.put(BODY, arrays)
    for k, trie in enumerate(found.tries):
        context.put(TRIE, trie, BODY.end + k * TRIE.end)
    return BodyRows(*arrays, found.tries, found.direct, context, register)


class BodyStore:
    """The rows of one vocabulary, by the spelling of their body; the least recently used go past `byte_budget`.

    worth: nodes of the trie that a walk may come to, from which on it is made. dense: tokens from which on a group
    of them is kept as a row.
    """

    def __init__(self, trie: Trie, tokens: Sequence[bytes], words: int, *, byte_budget: int = 64 << 20,
                 worth: int = _WORTH, dense: int = _DENSE) -> None:
        self.trie = trie
        self.tokens = tokens
        self.words = words
        self.no_groups = np.zeros(0, np.int32), np.zeros((0, words), np.uint32)  # tokens and rows of a body without
        self.worth = worth
        self.first = np.zeros(256, np.int64)  # nodes below each first byte
        top = np.flatnonzero(trie.depth == 1)
        self.first[trie.byte[top]] = trie.size[top]
        self._budget = byte_budget
        self._used = 0
        self._lock = threading.Lock()
        self._rows: OrderedDict[bytes, BodyRows | None] = OrderedDict()
        self.longest = int(trie.depth.max(initial=0))
        context = Context(TRIE.end)
        context.put(TRIE, trie)
        self.groups = byte_groups()
        tokens_in_order, ends, before = in_order(trie)
        self.nodes, characters, letters = gathered(context.address, trie, before, self.groups, self.longest)
        self.listing = Listing(tokens_in_order, characters[ends], letters[ends], before, words, dense, tokens)
        self.scanned = scan_of(context.address, trie, before, self.longest).context()
        self.room = _Room(self.longest, words, self.listing)
        self.quotes = Quotes(context.address, trie, before, self.room.stack)

    def get(self, code: bytes) -> tuple[bool, BodyRows | None]:
        """(whether this body is known, its rows: None when it has none)."""
        with self._lock:
            if code not in self._rows:
                return False, None
            self._rows.move_to_end(code)
            return True, self._rows[code]

    def put(self, code: bytes, made: BodyRows | None) -> None:
        with self._lock:
            if code in self._rows:
                self._used -= _size(code, self._rows.pop(code))
            self._rows[code] = made
            self._used += _size(code, made)
            while self._used > self._budget and len(self._rows) > 1:
                self._used -= _size(*self._rows.popitem(last=False))


def _size(code: bytes, rows: BodyRows | None) -> int:
    return len(code) + (rows.size if rows else 0)


class _Room:
    """Room for one search at a time, under its lock."""

    def __init__(self, longest: int, words: int, listing: Listing) -> None:
        self.lock = threading.Lock()
        self.stack, self.found, self.cuts = touched(longest + 2, 5), touched(_NEAR, 3), touched(_NEAR, 2)
        self.ranges, self.exits, self.apart = touched(32 * words, 4), touched(_EXITS, 4), touched(_EXITS, 4)
        self.tails = touched(_EXITS, 4), touched(2 * 6 * _WAYS).view(np.int64).reshape(_WAYS, 6), self.stack
        self.sizes, self.found_sizes = (np.zeros(5, np.int64) for _ in range(2))
        self.votes, self.tokens = touched(len(PLAIN_BYTES), 2), touched(_NEAR)
        self.code, self.order = touched(_SPELLED), touched(_STATES + 1)
        self.steps, self.line, self.loops = touched(256 * _STATES), touched(_LINE), np.zeros((_STATES, 4), np.int64)
        self.scratch = Scratch(_STATES, longest + 2, listing)
        self.context = Context(SEARCH.end)
        self.context.put(SEARCH, (self.stack, self.votes, self.found, self.cuts, self.apart, self.found_sizes,
                                  self.tokens))
