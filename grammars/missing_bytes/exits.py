"""Rules copied by where in a token they end: so that a token may begin in one rule and end in one further out.

A copy ends, as is presumed where it is called, at one node of held_tokens.py; its texts are those of the rule. Where
copies compete the engine follows them all, and the one whose presumption was right has the distance that counts. Behind
a call stands a *landing*: the state that was called to, for this node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ..binding.flat import BYTE_HIGH, BYTE_LOW, CALL_TARGET, CALLED, OWNER, SOURCE, TARGET, Flat
from ..errors import ConstraintTooLarge
from ..ir import Call, Counter, Grammar, Order, Rule, pack_edges, unpack_edges
from .held_tokens import HeldTokens

_PLACES = 1 << 16  # states, by where in a token they are, and by where their rule was entered or by their columns


class Copies(NamedTuple):
    """grammar: of the copies. exits: by rule of it, the node where it ends. landings: (rule, state) -> node. groups: by
    call, through all rules, one number for those of copies of one rule in one place. origins: by rule, the one that it
    is a copy of, and by state, of which state."""

    grammar: Grammar
    exits: tuple[int, ...]
    landings: dict[tuple[int, int], int]
    groups: tuple[int, ...]
    origins: tuple[tuple[int, tuple[int, ...]], ...]


_MANY = 256


def check_places(count: int) -> None:
    """Raises ConstraintTooLarge past the budget."""
    if count > _PLACES:
        raise ConstraintTooLarge(
            "bytes of every text are no tokens of their own, and to look for longer tokens that write one takes more "
            f"than {_PLACES} places", fix="Use a model whose vocabulary has every byte, or a smaller constraint.")


def exits_of(flat: Flat, start: int, tokens: HeldTokens) -> list[set[int]]:
    """By rule, the nodes where it may end; registers left out. Raises ConstraintTooLarge."""
    return _Exits(flat, tokens).run(start)


class _Exits:
    def __init__(self, flat: Flat, tokens: HeldTokens) -> None:
        self._tokens = tokens
        self._edges: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for row in flat.edges.tolist():
            self._edges.setdefault((row[OWNER], row[SOURCE]), []).append((row[BYTE_LOW], row[BYTE_HIGH], row[TARGET]))
        self._calls: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for row in flat.calls.tolist():
            self._calls.setdefault((row[OWNER], row[SOURCE]), []).append((row[CALLED], row[CALL_TARGET]))
        self._finals = {(rule, state) for rule, state in flat.finals.tolist()}
        self._count = len(flat.states)
        # of each rule and the node where it is entered: where it ends; places that wait for one more end
        self._ends: dict[tuple[int, int], set[int]] = {}
        self._waiting: dict[tuple[int, int], set[tuple[int, int, int]]] = {}
        self._seen: set[tuple[int, int, int, int]] = set()
        self._queue: list[tuple[int, int, int, int]] = []  # rule, node where it was entered, state, node

    def run(self, start: int) -> list[set[int]]:
        self._meet(start, 0, 0, 0)
        self._ends[start, 0] = set()
        while self._queue:
            check_places(len(self._seen))
            self._leave(*self._queue.pop())
        found: list[set[int]] = [set() for _ in range(self._count)]
        for (rule, _), nodes in self._ends.items():
            found[rule] |= nodes
        return found

    def _meet(self, rule: int, entered: int, state: int, node: int) -> None:
        place = rule, entered, state, node
        if place not in self._seen:
            self._seen.add(place)
            self._queue.append(place)

    def _leave(self, rule: int, entered: int, state: int, node: int) -> None:
        for low, high, target in self._edges.get((rule, state), ()):
            for after, _ in self._tokens.steps(node, low, high):
                self._meet(rule, entered, target, after)
        for callee, target in self._calls.get((rule, state), ()):
            inner = callee, node
            self._waiting.setdefault(inner, set()).add((rule, entered, target))
            for after in [*self._ends.setdefault(inner, set())]:
                self._meet(rule, entered, target, after)
            self._meet(callee, node, 0, node)
        if (rule, state) in self._finals and node not in self._ends[rule, entered]:
            self._ends[rule, entered].add(node)
            for caller, begun, target in [*self._waiting.get((rule, entered), ())]:
                self._meet(caller, begun, target, node)


def copied(grammar: Grammar, exits: list[set[int]]) -> Copies:
    """The start rule's copy that ends between two tokens, and what it calls. exits: as exits_of gives them."""
    return _Copier(grammar, exits).run()


class _Copier:
    def __init__(self, grammar: Grammar, exits: list[set[int]]) -> None:
        self._grammar = grammar
        self._exits = [{0} if _is_closed(rule) else nodes for rule, nodes in zip(grammar.rules, exits, strict=True)]
        self._numbers: dict[tuple[int, int], int] = {}
        self._order: list[tuple[int, int]] = []
        self._landings: dict[tuple[int, int], int] = {}
        self._groups: list[int] = []
        self._origins: list[tuple[int, tuple[int, ...]]] = []

    def run(self) -> Copies:
        self._number(self._grammar.start, 0)
        rules = [self._copy(number, rule, end) for number, (rule, end) in enumerate(self._order)]  # grows while it runs
        grammar = Grammar(tuple(rules), 0, self._grammar.notes, self._grammar.specials)
        return Copies(grammar, tuple(end for _, end in self._order), self._landings, tuple(self._groups),
                      tuple(self._origins))

    def _number(self, rule: int, end: int) -> int:
        if (rule, end) not in self._numbers:
            self._numbers[rule, end] = len(self._order)
            self._order.append((rule, end))
        return self._numbers[rule, end]

    def _copy(self, number: int, index: int, end: int) -> Rule:
        """One rule, landings behind its own states."""
        rule = self._grammar.rules[index]
        finals, states = set(rule.finals), [(state, 0) for state in range(rule.states)]
        landings: dict[tuple[int, int], int] = {}
        edges, calls = unpack_edges(rule.edges), _by_source(rule.calls)
        by_source: dict[int, list[tuple[int, int, int, int]]] = {}
        for source, *rest in edges:
            by_source.setdefault(source, []).append((rest[0], rest[1], rest[2], rest[3]))
        made_edges: list[tuple[int, int, int, int, int]] = []
        made_calls, made_finals = [], []
        for here, (state, node) in enumerate(states):  # grows while it runs
            landed = here >= rule.states
            made_edges += [(here, *rest) for rest in by_source.get(state, ())]
            if state in finals and (not landed or node == end):
                made_finals.append(here)
            for call in calls.get(state, ()):
                self._groups += [len(self._groups)] * len(self._exits[call.rule])
                for after in sorted(self._exits[call.rule]):
                    target = call.target
                    if after or (end and target in finals):
                        target = landings.setdefault((call.target, after), len(states))
                        if target == len(states):
                            states.append((call.target, after))
                            self._landings[number, target] = after
                    made_calls.append(Call(here, self._number(call.rule, after), target, call.action))
        self._origins.append((index, tuple(state for state, _ in states)))
        register = Counter(0, None) if end and rule.register is None else rule.register  # returns whatever its distance
        return Rule(rule.name, rule.pointer, len(states), pack_edges(made_edges), tuple(made_calls),
                    tuple(made_finals), register)


def _is_closed(rule: Rule) -> bool:
    """Whether it ends between two tokens only: an Order that may go on where it may end, as such ends have no
    distance."""
    if not isinstance(rule.register, Order):
        return False
    left = {source for source, *_ in unpack_edges(rule.edges)} | {call.source for call in rule.calls}
    return not left.isdisjoint(rule.finals)


def _by_source(calls: Iterable[Call]) -> dict[int, list[Call]]:
    found: dict[int, list[Call]] = {}
    for call in calls:
        found.setdefault(call.source, []).append(call)
    return found


def ways(grammar: Grammar) -> int:
    """How many rules may be called at once, at most, calls inside calls multiplied; no more than a few hundred are
    counted."""
    sites = [_by_source(rule.calls).values() for rule in grammar.rules]
    found, changed = [1] * len(sites), True
    while changed and max(found) <= _MANY:
        changed = False
        for number, places in enumerate(sites):
            most = max((sum(found[call.rule] for call in calls) for calls in places), default=1)
            if most > found[number]:
                found[number], changed = most, True
    return max(found)


def with_calls(copies: Copies, kept: set[int]) -> Copies:
    """Only these of the calls, counted through all rules."""
    rules, first = [], 0
    for rule in copies.grammar.rules:
        calls = tuple(call for number, call in enumerate(rule.calls, first) if number in kept)
        rules.append(msgspec.structs.replace(rule, calls=calls))
        first += len(rule.calls)
    groups = tuple(group for number, group in enumerate(copies.groups) if number in kept)
    return copies._replace(grammar=msgspec.structs.replace(copies.grammar, rules=tuple(rules)), groups=groups)
