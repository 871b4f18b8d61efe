"""Distances where tokens end in rules further out than they began: for vocabularies that lack bytes, when nothing else
closes (gaps.py).

The least number of tokens is a path through the rules' copies (exits.py) and the nodes of held_tokens.py: Knuth's
generalisation of shortest paths, by places (state, column, node). It becomes one number a state, as the engine adds
them up along a stack: a copy that ends inside a token has GAP less, and a landing inside one GAP more. So the sum is
the path's tokens, and GAP more where the copy on top ends inside a token that has not begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..binding.assembly import build_tables
from ..binding.columns import next_column
from ..binding.context import TABLES, TRIE, Context
from ..binding.finishing import finish
from ..binding.flat import (
    ACTION,
    BYTE_HIGH,
    BYTE_LOW,
    CALL_ACTION,
    CALL_TARGET,
    CALLED,
    COUNTER,
    OWNER,
    PLAIN,
    SOURCE,
    TARGET,
)
from ..binding.tables import BASE, FAR, FINAL, KIND, LOW, NEXT, RULE, START, Layout, Tables
from ..ir import NOTHING, Grammar, Members, Unlike
from ..vocabulary import Vocabulary
from .exits import Copies, check_places, copied, exits_of, ways, with_calls
from .gaps import GAP
from .held_tokens import HeldTokens
from .narrowed import Relaxed, large_objects, narrowed, relaxed
from .witness import Arc, Places, Witness, witness

_Place = tuple[int, int, int]  # state, column, node
_WAYS = 16  # copies of rules at one place of a text; where they become more, only the nearest are kept
_EVERY = 1 << 30  # counts that a way home may have


class Crossed(NamedTuple):
    grammar: Grammar
    layout: Layout
    tables: Tables


def crossed(grammar: Grammar, vocabulary: Vocabulary, max_states: int, max_entries: int) -> Crossed | None:
    """The grammar as copies of its rules that tokens may cross, and their tables. None when even so nothing closes.
    Raises ConstraintTooLarge past a budget, and past the limits of Layout."""
    large, floating = large_objects(grammar), dict[int, frozenset[int]]()
    while True:  # each time with more keys that come anywhere, until no text is left or their sets are too many
        limits = vocabulary, max_states, max_entries
        copies, found = _search(narrowed(grammar, {}, floating), *limits)
        text = None if found else _witness(grammar, relaxed(grammar, floating), *limits)
        if text is not None:
            copies, found = _search(narrowed(grammar, text.named, floating), *limits)
        if found is not None:
            return _bound(copies, found, *limits)
        text = _witness(grammar, relaxed(grammar, floating, loose=True), *limits) if large else None
        if text is None or not _more(floating, large, text):
            return None


def _more(floating: dict[int, frozenset[int]], large: dict[int, Members], text: Witness) -> bool:
    """Lets the keys of a text come anywhere, or the first one that may have to and does not; whether there was any."""
    found = {rule: text.chosen.get(rule, frozenset()) - floating.get(rule, frozenset()) for rule in large}
    if not any(found.values()):
        found = {rule: frozenset([j for j, must in enumerate(register.required) if (must or register.least > 0)
                                  and j not in floating.get(rule, ())][:1]) for rule, register in large.items()}
    for rule, keys in found.items():
        floating[rule] = floating.get(rule, frozenset()) | keys
    return any(found.values())


def _witness(grammar: Grammar, loose: Relaxed, vocabulary: Vocabulary, max_states: int,
             max_entries: int) -> Witness | None:
    copies, found = _search(loose.grammar, vocabulary, max_states, max_entries)
    return None if found is None else witness(grammar, _places(grammar, loose, copies, found))


def _search(plain: Grammar, vocabulary: Vocabulary, max_states: int,
            max_entries: int) -> tuple[Copies, Crossing | None]:
    tokens = HeldTokens(vocabulary.single, vocabulary.wide)
    flat = Layout(plain, max_states, max_entries, vocabulary.single).flat
    copies = copied(plain, exits_of(flat, plain.start, tokens))
    return copies, _solved(copies, vocabulary, tokens, max_states, max_entries)


def _places(grammar: Grammar, loose: Relaxed, copies: Copies, found: Crossing) -> Places:
    return Places(_Arcs(grammar, loose, copies, found).of, found.cost, lambda at: copies.origins[found.local(at)[0]][0])


class _Arcs:
    """What witness.py follows, of the relaxed grammar's copies."""

    def __init__(self, grammar: Grammar, loose: Relaxed, copies: Copies, found: Crossing) -> None:
        self._marks, self._copies, self._found = loose.marks, copies, found
        self._known: dict[int, list[Arc]] = {}
        # by rule, source, callee and target
        self._actions = {(number, call.source, call.rule, call.target): call.action
                         for number, rule in enumerate(grammar.rules) for call in rule.calls
                         if isinstance(rule.register, Unlike)}

    def of(self, at: int) -> list[Arc]:
        """Those from a place, the nearest ways first."""
        if at not in self._known:
            self._known[at] = sorted(self._from(at), key=lambda arc: arc.more)
        return self._known[at]

    def _from(self, at: int) -> Iterator[Arc]:
        found, copies = self._found, self._copies
        (copy, source), cost = found.local(at), found.cost(at)
        rule, states = copies.origins[copy]
        state = states[source] if source < len(states) else -1
        if found.ends(at):
            yield Arc(0, -1)
        for begin, there in found.into(at):
            more, target = found.cost(begin) + found.cost(there) - cost, found.local(there)[1]
            called = copies.origins[found.local(begin)[0]][0]
            action = self._actions.get((rule, state, called, states[target]), NOTHING)
            if more < FAR - cost:
                yield Arc(more, there, action=action, called=begin)
        for tokens, there in found.over(at):
            more, target = tokens + found.cost(there) - cost, found.local(there)[1]
            known = state >= 0 and target < len(states)
            action = self._marks.get(rule, {}).get((state, states[target]), NOTHING) if known else NOTHING
            for byte in found.bytes(at, there, tokens) if more < FAR - cost else ():
                yield Arc(more, there, tokens, byte, action)


def _bound(copies: Copies, found: Crossing, vocabulary: Vocabulary, max_states: int, max_entries: int) -> Crossed:
    if ways(copies.grammar) > _WAYS:
        copies = with_calls(copies, found.best(copies.groups))
        tokens = HeldTokens(vocabulary.single, vocabulary.wide)
        found = _solved(copies, vocabulary, tokens, max_states, max_entries) or found
    context = Context()
    context.put(TABLES, found.tables)
    context.put(TRIE, vocabulary.trie)
    finish(context, found.tables, found.layout)
    return Crossed(copies.grammar, found.layout, found.tables)


def _solved(copies: Copies, vocabulary: Vocabulary, tokens: HeldTokens, max_states: int,
            max_entries: int) -> Crossing | None:
    layout = Layout(copies.grammar, max_states, max_entries, vocabulary.single)
    layout.widen(dict.fromkeys(np.flatnonzero(layout.flat.kinds == COUNTER).tolist(), _EVERY))
    found = Crossing(copies, layout, build_tables(layout, vocabulary.single), tokens)
    return found if found.fill() else None


class Crossing:
    def __init__(self, copies: Copies, layout: Layout, tables: Tables, tokens: HeldTokens) -> None:
        self.tables, self.layout, self._tokens, self._exits = tables, layout, tokens, copies.exits
        offsets, flat = layout.offsets, layout.flat
        self._label = {offsets[rule] + state: node for (rule, state), node in copies.landings.items()}
        self._edges: dict[int, list[tuple[int, int, int, int]]] = {}
        for row in flat.edges.tolist():
            self._edges.setdefault(offsets[row[OWNER]] + row[SOURCE], []).append(
                (row[BYTE_LOW], row[BYTE_HIGH], offsets[row[OWNER]] + row[TARGET], row[ACTION]))
        self._calls: dict[int, list[tuple[int, int, int, int]]] = {}  # each with its number
        for number, row in enumerate(flat.calls.tolist()):
            self._calls.setdefault(offsets[row[OWNER]] + row[SOURCE], []).append(
                (row[CALLED], offsets[row[OWNER]] + row[CALL_TARGET], row[CALL_ACTION], number))
        self._places: dict[_Place, int] = {}
        self._order: list[_Place] = []
        # by place: (tokens, place) over a byte, (place of the callee, place behind it, its number) over a call
        self._over: list[list[tuple[int, int]]] = []
        self._through: list[list[tuple[int, int, int]]] = []
        self._costs: list[int] = []

    def fill(self) -> bool:
        """Fills the distances; whether the start closes."""
        self._place(int(self.tables.rules[0, START]), 0, 0)
        for place in self._order:  # grows while it runs
            check_places(len(self._order))
            self._leave(*place)
        self._costs = self._solve()
        if self._costs[0] >= FAR:
            return False
        self._write(self._costs)
        return True

    def cost(self, at: int) -> int:
        """The fewest tokens from a place to where its copy ends."""
        return self._costs[at]

    def local(self, at: int) -> tuple[int, int]:
        """The copy that a place is in, and the state there."""
        state = self._order[at][0]
        copy = int(self.tables.states[state, RULE])
        return copy, state - int(self.layout.offsets[copy])

    def over(self, at: int) -> list[tuple[int, int]]:
        """Over a byte: tokens that begin, and the place behind it."""
        return self._over[at]

    def into(self, at: int) -> list[tuple[int, int]]:
        """Over a call: where the callee begins, and the place behind it."""
        return [(begin, there) for begin, there, _ in self._through[at]]

    def bytes(self, at: int, there: int, tokens: int) -> list[int]:
        """Those over which one place leads to another where so many tokens begin."""
        (state, column, node), (goal, after, last) = self._order[at], self._order[there]
        return [byte for low, high, target, action in self._edges[state]
                if target == goal and self._after(state, column, action) == after
                for byte in range(low, high + 1) if (last, tokens) in self._tokens.steps(node, byte, byte)]

    def ends(self, at: int) -> bool:
        """Whether a copy ends in a place."""
        return self._ends(*self._order[at])

    def best(self, groups: tuple[int, ...]) -> set[int]:
        """Numbers of the calls that lead on with the fewest tokens from some place, of each group."""
        found: set[int] = set()
        for through in self._through:
            best: dict[int, tuple[int, int]] = {}
            for begin, there, number in through:
                cost = self._costs[begin] + self._costs[there]
                if cost < FAR:
                    best[groups[number]] = min(best.get(groups[number], (FAR, 0)), (cost, number))
            found.update(number for _, number in best.values())
        return found

    def _place(self, state: int, column: int, node: int) -> int:
        place = state, column, node
        if place not in self._places:
            self._places[place] = len(self._order)
            self._order.append(place)
        return self._places[place]

    def _leave(self, state: int, column: int, node: int) -> None:
        over, through = [], []
        for low, high, target, action in self._edges.get(state, ()):
            after = self._after(state, column, action)
            for there, begun in self._tokens.steps(node, low, high) if after >= 0 else ():
                over.append((begun, self._place(target, after, there)))
        for callee, target, action, number in self._calls.get(state, ()):
            after = self._after(state, column, action)
            if after >= 0:
                begin = self._place(int(self.tables.rules[callee, START]), 0, node)
                through.append((begin, self._place(target, after, self._exits[callee]), number))
        self._over.append(over)
        self._through.append(through)

    def _after(self, state: int, column: int, action: int) -> int:
        row, kind = self.tables.rules[self.tables.states[state, RULE]], int(self.tables.states[state, KIND])
        return int(next_column.py_func(kind, action, column, row, self._following(row)))

    def _following(self, row: Any) -> Any:
        return self.tables.next_required[row[NEXT]: row[NEXT] + row[LOW] + 1]

    def _returns(self, state: int, column: int) -> bool:
        states, row = self.tables.states, self.tables.rules[self.tables.states[state, RULE]]
        if not states[state, FINAL] or states[state, KIND] == PLAIN:
            return bool(states[state, FINAL])
        if states[state, KIND] == COUNTER:
            return bool(column >= row[LOW])
        return bool(self._following(row)[min(column, row[LOW])] >= row[LOW])

    def _ends(self, state: int, column: int, node: int) -> bool:
        """Whether a copy ends in this place."""
        return bool(node == self._exits[self.tables.states[state, RULE]]) and self._returns(state, column)

    def _solve(self) -> list[int]:
        """The fewest tokens from each place to where its copy ends."""
        costs = [0 if self._ends(*place) else FAR for place in self._order]
        changed = True
        while changed:
            changed = False
            for at in range(len(costs) - 1, -1, -1):
                over = min((begun + costs[there] for begun, there in self._over[at]), default=FAR)
                through = min((costs[begin] + costs[there] for begin, there, _ in self._through[at]), default=FAR)
                best = min(over, through)
                if best < costs[at]:
                    costs[at], changed = best, True
        return costs

    def _write(self, costs: list[int]) -> None:
        tables = self.tables
        tables.distance[:] = FAR
        finite = (place for place, cost in zip(self._order, costs, strict=True) if cost < FAR)
        for state, column, _ in finite:
            tables.distance[tables.states[state, BASE] + column] = GAP
        for (state, column, node), cost in zip(self._order, costs, strict=True):
            label, end = self._label.get(state, 0), self._exits[tables.states[state, RULE]]
            if cost < FAR and node == label:
                less = GAP * (int(label > 0) - int(end > 0))
                tables.distance[tables.states[state, BASE] + column] = cost + less
        self._end_inside()

    def _end_inside(self) -> None:
        """An Order returns where its distance is 0: also the copies that end inside a token."""
        tables = self.tables
        for state, column, _ in self._order:
            row = tables.states[state]
            if row[KIND] not in (PLAIN, COUNTER) and self._exits[row[RULE]] and self._returns(state, column):
                tables.distance[row[BASE] + column] = 0
