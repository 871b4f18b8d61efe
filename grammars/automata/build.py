"""Rules under construction: states, edges, calls; finished rules are trimmed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from ..constraint import Spacing
from ..ir import CHARACTER, COUNT, NOTHING, Call, Names, Register, Rule, pack_edges, packed
from ..limits import Meter
from .dfa import Dfa, Edge, explore, overlay
from .utf8 import ByteDfa

ByteEdge = tuple[int, int, int, int, int]  # source, low, high, target, action


class RuleBuilder:
    """State 0 is the start."""

    def __init__(self, name: str, pointer: str, meter: Meter) -> None:
        self._name = name
        self._pointer = pointer
        self._meter = meter
        self._states = 1
        self._edges: list[ByteEdge] = []
        self._calls: list[Call] = []
        self._finals: set[int] = set()

    def state(self) -> int:
        self._meter.states(1, self._pointer)
        self._states += 1
        return self._states - 1

    def edge(self, source: int, low: int, high: int, target: int, action: int = NOTHING) -> None:
        self._edges.append((source, low, high, target, action))

    def text(self, source: int, text: bytes, target: int | None = None, action: int = NOTHING) -> int:
        """A chain that reads `text`; the action is on its first byte. Returns where it ends."""
        if len(text) == 1:
            target = self.state() if target is None else target
            self._edges.append((source, text[0], text[0], target, action))
            return target
        more = len(text) if target is None or not text else len(text) - 1
        self._meter.states(more, self._pointer)
        places = [*range(self._states, self._states + more)]
        self._states += more
        if len(places) < len(text) and target is not None:
            places.append(target)
        for byte, follower in zip(text, places, strict=True):
            self._edges.append((source, byte, byte, follower, action))
            source, action = follower, NOTHING
        return source

    def blanks(self, state: int, spacing: Spacing) -> int:
        """Lets any blanks of JSON stand in `state`, where spacing is free. Returns the state."""
        if spacing == "any":
            for low, high in ((0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20)):
                self.edge(state, low, high, state)
        return state

    def call(self, source: int, rule: int, target: int, action: int = NOTHING) -> None:
        self._calls.append(Call(source, rule, target, action))

    def final(self, state: int) -> None:
        self._finals.add(state)

    def graft(self, dfa: Dfa, start: int, *, counted_below: int = 0, counted: tuple[int, int] = (256, 0)) -> list[int]:
        """Copy an automaton in, its start as `start`; edges leaving states below `counted_below` count, and those of
        bytes within `counted`. Returns the number that each of its states got."""
        numbers = self._places(dfa, start)
        for state, row in enumerate(dfa.edges):
            action, source = COUNT if state < counted_below else NOTHING, numbers[state]
            self._edges += [(source, low, high, numbers[target], COUNT if counted[0] <= low <= counted[1] else action)
                            for low, high, target in row]
        return numbers

    def characters(self, dfa: Dfa, start: int) -> list[int]:
        """As graft, of an automaton over characters that are read in any spelling."""
        numbers = self._places(dfa, start)
        for source, row in zip(numbers, dfa.edges, strict=True):
            self._edges += [(source, CHARACTER + low, CHARACTER + high, numbers[target], NOTHING)
                            for low, high, target in row]
        return numbers

    def _places(self, dfa: Dfa, start: int) -> list[int]:
        more = len(dfa.edges) - 1
        self._meter.states(more, self._pointer)
        self._states += more
        return [start, *range(self._states - more, self._states)]

    def finish(self, register: Register | None = None, *, whole: bool = False, names: Names | None = None) -> Rule:
        """The rule without states that are not reached or reach no end; calls are taken to return. whole: there are
        no such states, as with names there never are."""
        if whole or names:
            return self._rule(self._states, self._edges, self._calls, self._finals, register, names)
        edges, calls = self._edges, self._calls
        forward: list[list[int]] = [[] for _ in range(self._states)]
        backward: list[list[int]] = [[] for _ in range(self._states)]
        arcs = {(edge[0], edge[3]) for edge in edges}
        arcs.update([(call.source, call.target) for call in calls])
        for source, target in arcs:
            forward[source].append(target)
            backward[target].append(source)
        alive, reached = _reach(self._finals, backward), _reach([0], forward)
        kept = [state for state in range(self._states) if (state in alive and state in reached) or state == 0]
        finals = self._finals
        if len(kept) < self._states:
            numbers = {state: i for i, state in enumerate(kept)}
            edges = [(numbers[s], low, high, numbers[t], action) for s, low, high, t, action in edges
                     if s in numbers and t in numbers]
            calls = [Call(numbers[c.source], c.rule, numbers[c.target], c.action) for c in calls
                     if c.source in numbers and c.target in numbers]
            finals = {numbers[s] for s in finals if s in numbers}
        return self._rule(len(kept), edges, calls, finals, register)

    def _rule(self, states: int, edges: list[ByteEdge], calls: list[Call], finals: set[int],
              register: Register | None, names: Names | None = None) -> Rule:
        edges.sort()
        return Rule(self._name, self._pointer, states, pack_edges(edges), tuple(calls), tuple(sorted(finals)), register,
                    names)


def _reach(starts: Iterable[int], arcs: list[list[int]]) -> set[int]:
    seen = set(starts)
    queue = list(seen)
    for state in queue:
        for target in arcs[state]:
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return seen


def accepting(dfa: Dfa, rules: int, meter: Meter) -> Rule:
    """The rule that reads what a trimmed automaton accepts, or calls one of that many rules: each by its place."""
    end = len(dfa.edges)
    meter.states(end + 1)
    edges = array("i", [number for state, row in enumerate(dfa.edges) for low, high, target in row
                        for number in (state, low, high, target, NOTHING)])
    calls = tuple([Call(0, place, end) for place in range(rules)])
    finals = (*sorted(dfa.finals), end) if rules else tuple(sorted(dfa.finals))
    return Rule("", "", end + (rules > 0), packed(edges), calls, finals)


def quoted(body: ByteDfa) -> Dfa:
    """The body between double quotes."""
    end = len(body.dfa.edges) + 1
    rows: list[tuple[tuple[int, int, int], ...]] = [((0x22, 0x22, 1),)]
    for state, row in enumerate(body.dfa.edges):
        moved = [(low, high, target + 1) for low, high, target in row]
        rows.append(tuple(sorted([*moved, (0x22, 0x22, end)]) if state in body.dfa.finals else moved))
    return Dfa((*rows, ()), frozenset([end]))


def merged(parts: Sequence[Dfa], meter: Meter) -> Dfa:
    """The union of automata over bytes. Parts that begin with different bytes are put side by side, which is cheap;
    only others need the subset construction."""
    groups: list[list[Dfa]] = []
    firsts: list[set[int]] = []
    for part in parts:
        mine = {byte for low, high, _ in part.edges[0] for byte in range(low, high + 1)}
        together = [i for i, taken in enumerate(firsts) if taken & mine]
        group = [part]
        for i in reversed(together):
            group = groups.pop(i) + group
            mine |= firsts.pop(i)
        groups.append(group)
        firsts.append(mine)
    return _side_by_side([group[0] if len(group) == 1 else _union(group, meter) for group in groups])


def _side_by_side(parts: list[Dfa]) -> Dfa:
    if len(parts) == 1:
        return parts[0]
    rows: list[tuple[Edge, ...]] = [()]
    start: list[Edge] = []
    finals: set[int] = set()
    for part in parts:
        # A copy of the start stays among the part's states where something leads back to it.
        again = any(target == 0 for row in part.edges for _, _, target in row)
        offset = len(rows) - (not again)
        moved = [tuple([(low, high, t + offset) for low, high, t in row]) for row in part.edges]
        start += moved[0]
        rows += moved if again else moved[1:]
        finals.update([s + offset for s in part.finals if s or again])
        if 0 in part.finals:
            finals.add(0)
    rows[0] = tuple(sorted(start))
    return Dfa(tuple(rows), frozenset(finals))


def _union(parts: list[Dfa], meter: Meter) -> Dfa:
    def step(states: frozenset[tuple[int, int]]) -> list[tuple[int, int, frozenset[tuple[int, int]]]]:
        ordered = sorted(states)
        arcs = []
        for low, high, targets in overlay([parts[i].edges[s] for i, s in ordered]):
            arcs.append((low, high, frozenset((ordered[k][0], t) for k, t in enumerate(targets) if t >= 0)))
        return arcs

    return explore(frozenset((i, 0) for i in range(len(parts))), step,
                   lambda states: any(s in parts[i].finals for i, s in states), meter)
