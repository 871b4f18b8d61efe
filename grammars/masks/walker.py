"""Walks of configurations: the mask of one, from the bodies of its threads and a walk of those that have none."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..binding.arena import OPENED, PARENT, QUOTED, RETURN, STATUS, WITHIN
from ..binding.tables import ALIKE, DISTINCT, FINAL, KIND, LOOSE, RULE, UNLIKE, Tables, highest_kind
from ..bodies.bodies import DEEPEST, Bodies, Body
from ..stepping.members import has_slack
from ..stepping.walk import LOOKED, NODE, OPEN, STATE
from ..vocabulary import Vocabulary
from .composing import read_body, read_threads
from .entering import enter_calls
from .light import mark_once, represent
from .masking import NO_LIMIT
from .slicing import SlicedWalk
from .space import Space

if TYPE_CHECKING:
    from .configuration import Configuration

UNMARKED = np.zeros((0, 2), np.int32)
_ONE = struct.Struct("5i")


class Walker:
    """Walks the configurations of one grammar over one vocabulary, in their space. Not for two threads at once."""

    def __init__(self, tables: Tables, vocabulary: Vocabulary, space: Space) -> None:
        self._space = space
        self._bodies = Bodies(tables, space.address, vocabulary.bodies)
        self._nodes = len(vocabulary.trie.byte)
        self._final, self._kinds, self._rules = (tables.states[:, column] for column in (FINAL, KIND, RULE))
        self._bounded = {*tables.states[tables.states[:, LOOSE] == 2, RULE].tolist()}  # rules of `maxProperties`
        kind = highest_kind(tables)
        self._sliced = None if kind >= DISTINCT else SlicedWalk(space.context, vocabulary)
        self._unlike = kind == UNLIKE
        self._alike = self._unlike and bool(tables.rules[:, ALIKE].any())
        self._quoted = False  # whether what is walked lies in a string of an unlike item

    def walk(self, configuration: Configuration, limit: int = NO_LIMIT, *, exact: bool = False) -> None:
        """The mask of a configuration over successors with U <= limit. exact: free keys written are heeded; without it
        the walk is of the configuration as if there were none, and the tokens that need a test are marked.

        The room's words: its bits. report: the largest U of a successor (of several threads, of the tokens of each by
        itself), the frames of the stack looked into, and how many of `marked` are tokens, with how many of their moves
        depend on the free keys written. Good until the next walk.
        """
        self._quoted = self._unlike and bool(
            self._space.arena.arrays.pairs[configuration.answer, OPENED] & 3 == QUOTED)
        if configuration.count > 1:
            self._walk_several(configuration, limit, exact)
            return
        state, register, node, _, _ = _ONE.unpack(configuration.key)
        body = self._body(state, register, node, exact, limit < NO_LIMIT)
        if body is None and self._sliced is not None:
            plain = _plain_threads(configuration, exact)
            if self._bodies.heavy(plain, self._below(plain)):
                if self._walk_calls(plain, limit, exact):
                    return
                self._walk_slices(self._sliced, plain, limit, exact)
                return
        self._space.settled(lambda: self._read_one(configuration.key, body, limit, int(exact)))
        self._tell_looked(state, node)

    def _tell_looked(self, state: int, node: int) -> None:
        """What a body over frames leaves out because of them was looked up there too."""
        if self._bodies.looks_below(state):
            report = self._space.room.report
            report[LOOKED] = max(int(report[LOOKED]), len(self._frames(node)) + 1)

    def _walk_calls(self, thread: Any, limit: int, exact: bool) -> bool:
        """Walks one thread by those in the rules that it calls; False where it can do something else than call."""
        space, mark = self._space, self._space.arena.mark()

        def entered() -> int:
            space.load(thread)
            return int(enter_calls(space.address, int(exact)))

        count = space.retried(mark, entered)
        if count:
            self._walk_each(space.room.threads[:count].copy(), limit, exact)
        space.arena.undo_to(mark)
        return count > 0

    def _body(self, state: int, register: int, node: int, exact: bool, whole: bool) -> Body | None:
        """None also in lists of unlike items, but for strings that stay in them: moves that end one must be marked, and
        those to where few values are left, which inside strings are told otherwise (doubts.py)."""
        nodes = self._space.arena.arrays.nodes
        if self._bounded and (rule := int(self._rules[state])) in self._bounded and (
                whole or not has_slack(self._space.address, rule, register)):
            return None
        within = self._unlike and (self._kinds[state] == UNLIKE or bool(nodes[node, STATUS] & WITHIN))
        if within and (self._alike or not self._quoted):
            return None
        body = self._bodies.of(state, partial(self._frames, node), exact, whole=whole, register=register)
        if within and self._bodies.looks_below(state) and self._kinds[nodes[node, RETURN]] == UNLIKE:
            return None
        return body

    def _walk_several(self, configuration: Configuration, limit: int, exact: bool) -> None:
        """Of threads that differ only in frames that no walk looks into, the one nearest to its end stands for all."""
        threads, depth = _plain_threads(configuration, exact), 0
        while True:
            chosen = self._representatives(threads, depth)
            self._walk_each(chosen, limit, exact)
            looked = int(self._space.room.report[LOOKED])
            if looked <= depth or len(chosen) == len(threads):
                mark_once(self._space.address)
                return
            depth = max(looked, 2 * depth)

    def _walk_each(self, threads: Any, limit: int, exact: bool) -> None:
        whole = limit < NO_LIMIT
        bodies = [self._body(state, register, node, exact, whole) for state, register, node, _, _ in threads.tolist()]
        if self._sliced is not None and not any(bodies) and self._bodies.heavy(threads, self._below(threads)):
            self._walk_slices(self._sliced, threads, limit, exact)
            return
        self._space.settled(lambda: self._read(threads, bodies, limit, int(exact)))
        for state, node in threads[:, [STATE, NODE]].tolist():
            self._tell_looked(state, node)

    def _below(self, threads: Any) -> list[int]:
        """The state in the frame below each, -1 for none."""
        back = self._space.arena.arrays.nodes[threads[:, NODE], RETURN]
        return np.where(threads[:, NODE] > 0, back, -1).tolist()  # type: ignore[no-any-return]

    def _frames(self, node: int) -> tuple[int, ...]:
        """The states in the frames from a stack node on, up to one that may not return; DEEPEST and one at most."""
        nodes, found = self._space.arena.arrays.nodes, list[int]()
        while node and len(found) <= DEEPEST:
            found.append(int(nodes[node, RETURN]))
            node = int(nodes[node, PARENT]) if self._final[found[-1]] else 0
        return tuple(found)

    def _representatives(self, threads: Any, depth: int) -> Any:
        """Of threads that are equal down to so many frames below theirs, the one nearest to its end."""
        space = self._space
        left = int(represent(space.address, space.load(threads), depth))
        return threads if left == len(threads) else space.room.threads[:left].copy()

    def _read_one(self, key: bytes, body: Body | None, limit: int, exact: int) -> int:
        """What _read does, for one thread."""
        self._space.load_key(key)
        if not exact and _ONE.unpack(key)[OPEN]:
            self._space.room.threads[0, OPEN] = 0
        if body is None:
            return int(read_threads(self._space.address, 1, 0, self._nodes, limit, exact, 0, 1))
        return self._read_body(body, limit, exact, 1)

    def _read_body(self, body: Body, limit: int, exact: int, fresh: int) -> int:
        return int(read_body(self._space.address, body.rows.context.address, body.numbers, *body[2:], limit, exact,
                             fresh))

    def _read(self, threads: Any, bodies: list[Body | None], limit: int, exact: int) -> int:
        """The bodies of the threads that have one, then one walk of all others. Negative as read_body is."""
        found, fresh, space = 0, 1, self._space
        for k, body in enumerate(bodies):
            if body is not None:
                space.room.threads[0] = threads[k]
                found = self._read_body(body, limit, exact, fresh)
                if found < 0:
                    return found
                fresh = 0
        rest = [k for k, body in enumerate(bodies) if body is None]
        if not rest:
            return found
        count = space.load(threads if len(rest) == len(threads) else threads[np.array(rest)])
        return int(read_threads(space.address, count, 0, self._nodes, limit, exact, 0, fresh))

    def _walk_slices(self, sliced: SlicedWalk, threads: Any, limit: int, exact: bool) -> None:
        mark = self._space.arena.mark()
        self._space.retried(mark, lambda: sliced.run(self._space.room, threads, limit, int(exact)))
        self._space.arena.undo_to(mark)

    def any_token(self, threads: Any, begin: int, end: int) -> bool:
        """Whether some token in the trie nodes [begin, end) can be read from `threads`."""
        self._space.settled(lambda: int(read_threads(
            self._space.address, self._space.load(threads), begin, end, NO_LIMIT, 1, 1, 1)))
        return bool(self._space.room.words.any())


def _plain_threads(configuration: Configuration, exact: bool) -> Any:
    threads = configuration.threads.copy()
    if not exact:
        threads[:, OPEN] = 0
    return threads
