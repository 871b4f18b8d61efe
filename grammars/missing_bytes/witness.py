"""A text that tokens write although they lack bytes, and which its keys and items are: narrowed rules name these.

Ways through the relaxed grammar, in which keys and items may be alike, are followed byte by byte along its distances
(crossing.py). A way ends where a key or an item is what the register of its rule forbids. Then others are tried, near
its end before those far back: what is still to come counts more than what was written (weighted A*, Pohl 1970).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from ..ir import (
    AGAIN,
    ANYWAY,
    CHARACTER,
    CLOSE_KEY,
    COPY,
    KEY,
    NEXT_KEY,
    NOTHING,
    OPEN_KEY,
    Grammar,
    Members,
    Order,
    Unlike,
    unpack_edges,
)
from ..schemas.json_text import identity
from .exits import check_places
from .orders import Item, Named, Text, Written

_QUOTE = b'"'
_WEIGHT = 3  # of what is still to come


class Arc(NamedTuple):
    """From a place to another: over a byte; into a rule that begins at `called` and behind which the way goes on, where
    that is not negative; out of a rule, where `there` is negative. tokens: that begin. action: of an edge that lost it,
    or of the call. more: than the nearest way's tokens."""

    more: int
    there: int
    tokens: int = 0
    byte: int = -1
    action: int = NOTHING
    called: int = -1


class Witness(NamedTuple):
    """named: free keys and items. chosen: by rule, numbers of declared keys."""

    named: Named
    chosen: Mapping[int, frozenset[int]]


class Places(NamedTuple):
    """What is searched. arcs: from a place. cost: the fewest tokens from there to where its rule ends. rule: which it
    is in."""

    arcs: Callable[[int], list[Arc]]
    cost: Callable[[int], int]
    rule: Callable[[int], int]


class _Frame(NamedTuple):
    """rest: tokens behind it, through all callers. action: of its call. start: bytes of the text before it. names: what
    was written. values: of items. begun: where the open key begins, negative outside of one. chosen: numbers of
    declared keys."""

    up: _Frame | None
    behind: int
    rest: int
    rule: int
    action: int
    start: int
    names: Written = ()
    values: frozenset[Hashable] = frozenset()
    begun: int = -1
    chosen: frozenset[int] = frozenset()


_Ended = tuple["_Ended", _Frame] | None


class _Way(NamedTuple):
    """So far. ended: the frames that were left."""

    at: int
    frame: _Frame
    text: bytes
    tokens: int
    ended: _Ended = None


def witness(grammar: Grammar, places: Places) -> Witness | None:
    """Keys and items of a text of the grammar, from place 0 on. None: there is no such text. Raises
    ConstraintTooLarge."""
    return _Search(grammar, places).run()


class _Search:
    def __init__(self, grammar: Grammar, places: Places) -> None:
        self._grammar, self._places = grammar, places
        self._registers = [rule.register for rule in grammar.rules]
        self._wide: dict[int, bool] = {}
        self._heap: list[tuple[int, int, _Way, int]] = []
        self._turn = count(0, -1)  # of equals the last one comes first

    def run(self) -> Witness | None:
        self._push(_Way(0, _Frame(None, -1, 0, self._places.rule(0), NOTHING, 0), b"", 0), 0)
        for steps in count():
            if not self._heap:
                return None
            check_places(steps)
            _, _, way, chosen = heappop(self._heap)
            self._push(way, chosen + 1)
            arc = self._places.arcs(way.at)[chosen]
            after = self._after(way, arc)
            if after is not None and after.at < 0:
                return _by_rule(after.ended)
            if after is not None:
                self._push(after, 0)
        raise AssertionError

    def _push(self, way: _Way, chosen: int) -> None:
        arcs = self._places.arcs(way.at)
        if chosen < len(arcs):
            arc = arcs[chosen]
            left = self._places.cost(way.at) + way.frame.rest + arc.more - arc.tokens
            heappush(self._heap, (way.tokens + arc.tokens + _WEIGHT * left, next(self._turn), way, chosen))

    def _after(self, way: _Way, arc: Arc) -> _Way | None:
        if arc.byte >= 0:
            return self._over(way, arc)
        return self._into(way, arc) if arc.there >= 0 else self._out(way)

    def _over(self, way: _Way, arc: Arc) -> _Way | None:
        frame = self._keyed(way.frame, arc.action, way.text)
        text = way.text + bytes([arc.byte])
        return None if frame is None else _Way(arc.there, frame, text, way.tokens + arc.tokens, way.ended)

    def _keyed(self, frame: _Frame, action: int, text: bytes) -> _Frame | None:
        """The frame behind an edge with that action; None where it is barred."""
        if action in (CLOSE_KEY, NEXT_KEY) and frame.begun >= 0:
            key = self._symbols(frame.rule, text[frame.begun:])
            if key in frame.names:
                return None
            frame = frame._replace(names=(*frame.names, key), begun=-1)
        if action >= KEY:
            return frame._replace(chosen=frame.chosen | {action - KEY}, begun=-1)
        return frame._replace(begun=len(text) + 1) if action in (OPEN_KEY, NEXT_KEY) else frame

    def _into(self, way: _Way, arc: Arc) -> _Way:
        rest = way.frame.rest + self._places.cost(arc.there)
        frame = _Frame(way.frame, arc.there, rest, self._places.rule(arc.called), arc.action, len(way.text))
        return _Way(arc.called, frame, way.text, way.tokens, way.ended)

    def _out(self, way: _Way) -> _Way | None:
        frame, up = way.frame, way.frame.up
        ended = way.ended, frame
        if up is None:
            return _Way(-1, frame, way.text, way.tokens, ended)
        if isinstance(self._registers[up.rule], Unlike) and frame.action != ANYWAY:
            item = Item(frame.rule, frame.action, way.text[frame.start:])
            value = identity(json.loads(item.text, parse_float=Decimal))
            known = any(isinstance(one, Item) and one.text == item.text for one in up.names) if (
                frame.action == COPY) else value in up.values
            if known != (frame.action in (AGAIN, COPY)):
                return None
            up = up._replace(names=(*up.names, item), values=up.values | {value})
        return _Way(frame.behind, up, way.text, way.tokens, ended)

    def _symbols(self, number: int, key: bytes) -> Text:
        """What the edges of a rule read of a key: bytes, or the characters of a string in any spelling."""
        rule, quoted = self._grammar.rules[number], key.startswith(_QUOTE)
        register = rule.register
        plain = not isinstance(register, Order | Members) or not register.decoded
        if plain or (isinstance(register, Order) and not quoted):  # not quoted: in a list, a number, a word
            return tuple(key)
        if number not in self._wide:
            self._wide[number] = rule.names is not None or any(
                low >= CHARACTER for _, low, *_ in unpack_edges(rule.edges))
        characters: str = json.loads(key if quoted else _QUOTE + key + _QUOTE)
        inside = [CHARACTER + ord(one) for one in characters] if self._wide[number] else [*characters.encode()]
        return (*_QUOTE, *inside, *_QUOTE) if quoted else tuple(inside)


def _by_rule(ended: _Ended) -> Witness:
    named, chosen = dict[int, frozenset[Written]](), dict[int, frozenset[int]]()
    while ended is not None:
        ended, frame = ended
        if frame.names:
            named[frame.rule] = named.get(frame.rule, frozenset()) | {frame.names}
        chosen[frame.rule] = chosen.get(frame.rule, frozenset()) | frame.chosen
    return Witness(named, chosen)
