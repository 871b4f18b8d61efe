"""Expressions without look-around by sets of positions (Glushkov 1961): a set is the bits of one integer.

A position is one place of the expression that reads a character. What a set of them may read next is the union of what
each may; of that, the ones that read a given character are one `&`. Word boundaries are known one character later, so
what stands behind them is kept apart until then.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ..automata.charset import ALL, WORD, Ranges
from ..automata.dfa import Dfa, Edge, trim
from ..automata.minimise import minimise
from ..limits import Meter

# What a path through empty moves asks of the next character: nothing, a word boundary before it, or none.
_FREE, _BOUNDARY, _INSIDE = range(3)
_ASKS = {"boundary": _BOUNDARY, "inside": _INSIDE}
_SOME_BITS = re.compile(rb"[^\0]", re.DOTALL)

Chars = Sequence[Sequence[tuple[Ranges, int]]]
Empty = Sequence[Sequence[tuple[str | int, int]]]
# (what is ahead, whether the last character was a word character; False where nothing asks). What is ahead: three
# times `count` bits, the positions that may read by what the way to them asks, and three bits above, whether the text
# may end on such a way.
_State = tuple[int, bool]


class Positions:
    """chars, empty: the places of a Thompson automaton, as regex.py builds it. open_end: once its end is reached,
    anything may follow."""

    def __init__(self, chars: Chars, empty: Empty, end: int, meter: Meter, *, open_end: bool) -> None:
        self._empty = empty
        self._end = end
        self._meter = meter
        moves = [(place, members, target) for place, row in enumerate(chars) for members, target in row]
        if open_end:
            moves.append((end, ALL, end))
        self._targets = [target for _, _, target in moves]
        self._count = len(moves)
        self._at: list[int] = [0] * len(chars)  # by place, the positions there as bits
        for number, (place, _, _) in enumerate(moves):
            self._at[place] |= 1 << number
        self._done = self._at[end] if open_end else 0
        self._asked = (1 << 3 * self._count) - (1 << self._count) | 3 << 3 * self._count + 1
        self._spans, self._reading, self._word = _alphabet([members for _, members, _ in moves], meter)
        self._ahead: dict[int, int] = {}  # by place
        self._eights: dict[tuple[int, int], int] = {}  # by byte of a set and its value

    def run(self, start: int, at_start: bool) -> Dfa:
        """Minimal, as far as is cheap to find: over classes of characters, of which there are fewer than ranges."""
        first = self._state(self._closure(start, at_start=at_start), word=False)
        # Python's hash of an integer knows 61 single bits only, so keys are told apart by bytes or by their length too.
        size = 3 * self._count + 10 >> 3
        order, numbers = [first], {(first[0].to_bytes(size, "little"), first[1]): 0}
        # Positions that read, as bits (and how many), and whether a word character -> state.
        met: dict[tuple[int, int, bool], int] = {}
        edges: list[tuple[Edge, ...]] = []
        for ahead, after_word in order:  # grows while it runs
            self._meter.states(1)
            targets = []
            for reading, word in zip(self._reading, self._word, strict=True):
                read = ahead & reading
                if ahead & self._asked:
                    ask = _BOUNDARY if after_word != word else _INSIDE
                    read |= ahead >> ask * self._count & reading
                key = (read.bit_length(), read, word)
                number = met.get(key, -1) if read else -1
                if read and number < 0:
                    follower = self._after(read, word)
                    known = (follower[0].to_bytes(size, "little"), follower[1])
                    number = met[key] = numbers.setdefault(known, len(order))
                    if number == len(order):
                        order.append(follower)
                targets.append(number)
            edges.append(_moves(targets))
        finals = frozenset(i for i, state in enumerate(order) if self._final(*state))
        small = minimise(trim(Dfa(tuple(edges), finals)))
        return Dfa(tuple(map(self._row, small.edges)), small.finals)

    def _row(self, moves: tuple[Edge, ...]) -> tuple[Edge, ...]:
        """Edges on characters for those on their classes."""
        targets, row = [-1] * len(self._reading), list[Edge]()
        for low, high, target in moves:
            targets[low: high + 1] = [target] * (high - low + 1)
        before, last = -1, -2
        for low, high, kind in self._spans:
            target = targets[kind]
            if target >= 0:
                if target == before and low == last + 1:
                    row[-1] = (row[-1][0], high, target)
                else:
                    row.append((low, high, target))
                before, last = target, high
        return tuple(row)

    def _after(self, read: int, word: bool) -> _State:
        """The state once these positions have read, eight of them at a time."""
        ahead = 0
        octets = read.to_bytes((read.bit_length() + 7) >> 3, "little")
        for found in _SOME_BITS.finditer(octets):
            at = found.start()
            known = self._eights.get((at, octets[at]))
            if known is None:
                known = self._eights[at, octets[at]] = self._eight(8 * at, octets[at])
            ahead |= known
        return self._state(ahead, word)

    def _eight(self, first: int, bits: int) -> int:
        ahead = 0
        for offset in range(8):
            if bits >> offset & 1:
                target = self._targets[first + offset]
                if target not in self._ahead:
                    self._ahead[target] = self._closure(target, at_start=False)
                ahead |= self._ahead[target]
        return ahead

    def _state(self, ahead: int, word: bool) -> _State:
        if ahead & self._done:
            return self._done | 1 << 3 * self._count, False
        return ahead, word and ahead & self._asked != 0

    def _final(self, ahead: int, word: bool) -> bool:
        """The end counts as no word character."""
        ends = ahead >> 3 * self._count
        return bool((ends | ends >> (_BOUNDARY if word else _INSIDE)) & 1)

    def _closure(self, place: int, *, at_start: bool) -> int:
        """What is ahead, behind the empty moves from a place."""
        ahead = 0
        for reached, ask in self._reach(place, at_start, at_end=False):
            ahead |= self._at[reached] << ask * self._count
        for reached, ask in self._reach(place, at_start, at_end=True):
            if reached == self._end:
                ahead |= 1 << 3 * self._count + ask
        return ahead

    def _reach(self, place: int, at_start: bool, *, at_end: bool) -> list[tuple[int, int]]:
        """Places behind empty moves, with what the way to them asks."""
        queue = [(place, _FREE)]
        seen = set(queue)
        for here, ask in queue:  # grows while it runs
            for condition, target in self._empty[here]:
                if (condition == "start" and not at_start) or (condition == "end" and not at_end):
                    continue
                more = _ASKS.get(condition, _FREE) if isinstance(condition, str) else _FREE
                if more and ask and more != ask:
                    continue  # no character is both
                follower = (target, ask or more)
                if follower not in seen:
                    seen.add(follower)
                    queue.append(follower)
        self._meter.states(0)
        return queue


def _moves(targets: list[int]) -> tuple[Edge, ...]:
    """targets: by class of characters, -1 for none. Edges on the classes."""
    row: list[Edge] = []
    for kind, target in enumerate(targets):
        if row and row[-1][2] == target and row[-1][1] + 1 == kind:
            row[-1] = (row[-1][0], kind, target)
        elif target >= 0:
            row.append((kind, kind, target))
    return tuple(row)


def _readers(sets: list[Ranges], meter: Meter) -> dict[Ranges, int]:
    """By set of characters, the positions that read it, as bits."""
    positions: dict[int, list[int]] = {}  # by id: copies of a repetition share their sets, which are long
    for number, one in enumerate(sets):
        positions.setdefault(id(one), []).append(number)
    found: dict[Ranges, int] = {}
    for numbers in positions.values():
        meter.states(0)
        one, bits = sets[numbers[0]], bytearray(len(sets) // 8 + 1)
        for number in numbers:
            bits[number >> 3] |= 1 << (number & 7)
        found[one] = found.get(one, 0) | int.from_bytes(bits, "little")
    return found


def _alphabet(sets: list[Ranges], meter: Meter) -> tuple[list[Edge], list[int], list[bool]]:
    """Characters that the same positions read are one class: (spans of code points with their class, by class the
    positions that read it as bits, by class whether it is word characters)."""
    events: dict[int, int] = {}
    for one, bits in [*_readers(sets, meter).items(), (WORD, 1 << len(sets))]:
        meter.states(0)
        for low, high in one:
            events[low] = events.get(low, 0) ^ bits
            events[high + 1] = events.get(high + 1, 0) ^ bits
    cuts = sorted(events)
    numbers: dict[int, int] = {}
    spans: list[Edge] = []
    current = 0
    for low, after in itertools.pairwise(cuts):
        current ^= events[low]
        if current & (1 << len(sets)) - 1:
            spans.append((low, after - 1, numbers.setdefault(current, len(numbers))))
    return (spans, [bits & (1 << len(sets)) - 1 for bits in numbers], [bool(bits >> len(sets)) for bits in numbers])
