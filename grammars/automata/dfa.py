"""Deterministic automata over integers (code points or bytes), without actions: explore, combine, trim."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..limits import Meter

Edge = tuple[int, int, int]  # low, high (inclusive), target
State = TypeVar("State", bound=Hashable)
Arc = tuple[int, int, State]


@dataclass(frozen=True, slots=True)
class Dfa:
    """edges[s]: sorted, disjoint (low, high, target). State 0 is the start; a missing edge rejects."""

    edges: tuple[tuple[Edge, ...], ...]
    finals: frozenset[int]

    @property
    def empty(self) -> bool:
        """No text is accepted. Only for a trimmed automaton."""
        return not self.finals

    @property
    def size(self) -> int:
        """Bytes in memory, roughly."""
        return 100 * sum(map(len, self.edges)) + 100 * len(self.edges) + 500

    def accepts(self, symbols: Iterable[int]) -> bool:
        state = 0
        for symbol in symbols:
            for low, high, target in self.edges[state]:
                if low <= symbol <= high:
                    state = target
                    break
            else:
                return False
        return state in self.finals


NOTHING = Dfa(edges=((),), finals=frozenset())


def explore(start: State, step: Callable[[State], Iterable[tuple[int, int, State]]], final: Callable[[State], bool],
            meter: Meter) -> Dfa:
    """The automaton whose states are the values that `step` reaches; `step` gives sorted, disjoint arcs."""
    numbers: dict[State, int] = {start: 0}
    order = [start]
    edges: list[tuple[Edge, ...]] = []
    for state in order:  # grows while it runs
        meter.states(1)
        out: list[Edge] = []
        for low, high, follower in step(state):
            number = numbers.setdefault(follower, len(order))
            if number == len(order):
                order.append(follower)
            if out and out[-1][2] == number and out[-1][1] + 1 == low:
                out[-1] = (out[-1][0], high, number)
            else:
                out.append((low, high, number))
        edges.append(tuple(out))
    return Dfa(tuple(edges), frozenset(i for i, state in enumerate(order) if final(state)))


def overlay(rows: Sequence[Sequence[Edge]]) -> Iterable[tuple[int, int, tuple[int, ...]]]:
    """Cut the number line where any row changes; (low, high, target per row; -1 where a row has none)."""
    full = [index for index, row in enumerate(rows) if row]
    if len(full) == 1:  # most states of a product: the other parts are dead
        before, behind = (-1,) * full[0], (-1,) * (len(rows) - 1 - full[0])
        return [(low, high, (*before, target, *behind)) for low, high, target in rows[full[0]]]
    return _overlaid(rows)


def _overlaid(rows: Sequence[Sequence[Edge]]) -> Iterable[tuple[int, int, tuple[int, ...]]]:
    events: list[tuple[int, int, int]] = []
    for index, row in enumerate(rows):
        for low, high, target in row:
            events.append((low, index, target))
            events.append((high + 1, index, -1))
    # An end sorts before a start at the same place: -1 comes first.
    events.sort()
    current = [-1] * len(rows)
    position = 0
    dead = tuple(current)
    place = 0
    while place < len(events):
        here = events[place][0]
        now = tuple(current)
        if here > position and now != dead:
            yield position, here - 1, now
        while place < len(events) and events[place][0] == here:
            current[events[place][1]] = events[place][2]
            place += 1
        position = here


def combine(parts: Sequence[Dfa], keep: Callable[[tuple[bool, ...]], bool], meter: Meter, *,
            all_of: bool = False) -> Dfa:
    """The texts for which `keep` likes the verdicts of `parts`. all_of: give up as soon as one part is dead."""
    if len(parts) == 1 and keep((True,)) and not keep((False,)):
        return parts[0]

    def step(states: tuple[int, ...]) -> Iterable[tuple[int, int, tuple[int, ...]]]:
        rows = [parts[i].edges[s] if s >= 0 else () for i, s in enumerate(states)]
        for low, high, targets in overlay(rows):
            if not (all_of and -1 in targets):
                yield low, high, targets

    def final(states: tuple[int, ...]) -> bool:
        return keep(tuple(s in parts[i].finals for i, s in enumerate(states)))

    return trim(explore((0,) * len(parts), step, final, meter))


def intersect(parts: Sequence[Dfa], meter: Meter) -> Dfa:
    return combine(parts, all, meter, all_of=True)


def complement(dfa: Dfa, universe: Sequence[tuple[int, int]]) -> Dfa:
    """The texts over `universe` that `dfa` does not accept; its edges must lie within the universe."""
    sink = len(dfa.edges)
    rows = [_filled(row, universe, sink) for row in dfa.edges]
    rows.append(tuple((low, high, sink) for low, high in universe))
    return trim(Dfa(tuple(rows), frozenset(range(sink + 1)) - dfa.finals))


def _filled(row: Sequence[Edge], universe: Sequence[tuple[int, int]], sink: int) -> tuple[Edge, ...]:
    """The row with its gaps leading to `sink`."""
    out: list[Edge] = []
    pending = list(row)
    for low, high in universe:
        while pending and pending[0][0] <= high:
            edge = pending.pop(0)
            if edge[0] > low:
                out.append((low, edge[0] - 1, sink))
            out.append(edge)
            low = edge[1] + 1
        if low <= high:
            out.append((low, high, sink))
    return tuple(out)


def trim(dfa: Dfa) -> Dfa:
    """Without states that reach no final one, nor are reached; the start stays."""
    backward: list[list[int]] = [[] for _ in dfa.edges]
    for source, row in enumerate(dfa.edges):
        for _, _, target in row:
            backward[target].append(source)
    alive = set(dfa.finals)
    queue = list(alive)
    for state in queue:
        for source in backward[state]:
            if source not in alive:
                alive.add(source)
                queue.append(source)
    if 0 not in alive:
        return NOTHING
    numbers = {0: 0}
    order = [0]
    for state in order:
        for _, _, target in dfa.edges[state]:
            if target in alive and target not in numbers:
                numbers[target] = len(order)
                order.append(target)
    edges = tuple(tuple((a, b, numbers[t]) for a, b, t in dfa.edges[s] if t in alive) for s in order)
    return Dfa(edges, frozenset(numbers[s] for s in dfa.finals if s in numbers))


def merged_row(row: Sequence[Edge], classes: Sequence[int]) -> list[Edge]:
    """Edges to the classes of their targets, with neighbours to the same joined."""
    out: list[Edge] = []
    for low, high, target in row:
        kind = classes[target]
        if out and out[-1][2] == kind and out[-1][1] + 1 == low:
            out[-1] = (out[-1][0], high, kind)
        else:
            out.append((low, high, kind))
    return out


def literals(words: Iterable[Sequence[int]], meter: Meter) -> Dfa:
    """Exactly these sequences of symbols, with shared tails."""
    children: list[dict[int, int]] = [{}]
    finals: set[int] = set()
    for word in words:
        state, before = 0, len(children)
        for symbol in word:
            below = children[state]
            state = below.get(symbol, -1)
            if state < 0:
                state = below[symbol] = len(children)
                children.append({})
        finals.add(state)
        meter.states(len(children) - before)
    # Children have higher numbers than parents, so going down the numbers sees every tail before it is needed.
    known: dict[tuple[object, ...], int] = {}
    same = [0] * len(children)
    rows: list[tuple[Edge, ...]] = []
    ends: list[int] = []
    for state in range(len(children) - 1, -1, -1):
        below = children[state]
        row = (tuple([(c, c, same[t]) for c, t in below.items()]) if len(below) < 2
               else tuple(merged_row([(c, c, t) for c, t in sorted(below.items())], same)))
        key = (state in finals, row)
        number = known.get(key)
        if number is None:
            number = known[key] = len(rows)
            rows.append(row)
            if state in finals:
                ends.append(number)
        same[state] = number
    if not ends:
        return NOTHING
    last = len(rows) - 1  # the start, which no other state is like
    return Dfa(tuple([tuple([(a, b, last - t) for a, b, t in row]) for row in reversed(rows)]),
               frozenset([last - number for number in ends]))


def shortest(dfa: Dfa) -> int:
    """Length of the shortest accepted text. Only for a trimmed automaton that accepts something."""
    seen = {0}
    layer = [0]
    length = 0
    while layer:
        if any(s in dfa.finals for s in layer):
            return length
        layer = list({t for s in layer for _, _, t in dfa.edges[s]} - seen)
        seen.update(layer)
        length += 1
    raise ValueError("an empty automaton has no shortest text")


def longest(dfa: Dfa) -> int | None:
    """Length of the longest accepted text, None when there is no longest. Only for a trimmed automaton."""
    if any(target == state for state, row in enumerate(dfa.edges) for _, _, target in row):
        return None  # most others end here
    incoming = [0] * len(dfa.edges)
    for row in dfa.edges:
        for target in {t for _, _, t in row}:
            incoming[target] += 1
    ready = [s for s, n in enumerate(incoming) if n == 0]
    depth = [0] * len(dfa.edges)
    done = 0
    for state in ready:
        done += 1
        for target in {t for _, _, t in dfa.edges[state]}:
            depth[target] = max(depth[target], depth[state] + 1)
            incoming[target] -= 1
            if incoming[target] == 0:
                ready.append(target)
    return max(depth) if done == len(dfa.edges) else None


def bounded(dfa: Dfa, minimum: int, maximum: int | None, meter: Meter) -> Dfa:
    """The texts of `dfa` with minimum to maximum (None: any number of) symbols; lengths are told apart by states."""
    cap = minimum if maximum is None else maximum

    def step(state: tuple[int, int]) -> list[tuple[int, int, tuple[int, int]]]:
        at, length = state
        if length == maximum:
            return []
        return [(low, high, (target, min(length + 1, cap))) for low, high, target in dfa.edges[at]]

    return trim(explore((0, 0), step, lambda state: state[0] in dfa.finals and state[1] >= minimum, meter))
