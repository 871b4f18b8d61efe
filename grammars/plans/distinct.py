"""How many different values a plan has, found by writing them down, the shallow ones first and no more than asked for.

For values that no automaton tells apart (canonical.py): recursive ones, objects with keys that are not declared or not
too many, lists with items that some must fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TypeVar

from ..automata.dfa import Dfa
from ..schemas.json_text import JsonValue
from .canonical import Canonical, scalar_text, scalars
from .plan import ListPlan, ObjectPlan, ValuePlan, mentioned

STEPS = 200_000  # parts of values that are put together, at most
_ROUNDS = 64  # levels of nesting
_WIDER = 16  # parts that are followed at once, for each value that is asked for
# A value: ("string", text), ("scalar", text), ("list", items), ("object", members).
Value = tuple[str, object]


_Part = TypeVar("_Part")


class _TooMany(Exception):
    """More steps than there is time for."""


class DistinctValues:
    """Counts up to `limit`."""

    def __init__(self, canonical: Canonical, limit: int) -> None:
        self._canonical = canonical
        self._limit = limit
        self._known: dict[int, set[Value]] = {}
        self._steps = 0
        self._cut = False  # whether something was left out

    def count(self, plan: ValuePlan) -> int | None:
        """The number of values, `limit` for that many or more; None where that takes too long to tell."""
        found = self.values(plan)
        return None if found is None else len(found)

    def values(self, plan: ValuePlan) -> set[Value] | None:
        """The values, `limit` of them where there are more; None where that takes too long to tell."""
        plans = _reachable(plan)
        try:
            plain = {id(one): self._scalars(one) for one in plans}
            self._known = {number: set(values) for number, values in plain.items()}
            for _ in range(_ROUNDS):
                grown = {id(one): self._first({*plain[id(one)], *self._nested(one)}) for one in plans}
                if len(grown[id(plan)]) >= self._limit:
                    return grown[id(plan)]
                if all(len(grown[number]) == len(self._known[number]) for number in grown):
                    return None if self._cut else grown[id(plan)]
                self._known = grown
        except _TooMany:
            pass
        return None

    def _first(self, values: Iterable[Value]) -> set[Value]:
        found: set[Value] = set()
        for value in values:
            if len(found) == self._limit:
                self._cut = True
                break
            found.add(value)
        return found

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > STEPS:
            raise _TooMany

    def _words(self, dfa: Dfa) -> list[tuple[str, int]]:
        """The shortest texts with the states they end in, as many as may be asked for. Of any two that are not followed
        further each leads to another text."""
        found: list[tuple[str, int]] = []
        layer = [] if dfa.empty else [("", 0)]
        while layer and len(found) <= self._limit:
            self._step(len(layer))
            found += [(text, state) for text, state in layer if state in dfa.finals]
            following = ((text + chr(code), target) for text, state in layer
                         for low, high, target in dfa.edges[state] for code in range(low, high + 1))
            layer = self._some(following)
        self._cut = self._cut or len(found) > self._limit
        return found[: self._limit]

    def _some(self, parts: Iterable[_Part]) -> list[_Part]:
        """So many that enough come of them."""
        kept: dict[_Part, None] = {}
        for part in parts:
            if len(kept) > _WIDER * self._limit:
                self._cut = True
                break
            kept.setdefault(part)
            self._step()
        return list(kept)

    def _scalars(self, plan: ValuePlan) -> set[Value]:
        found: set[Value] = {("string", text) for text, _ in self._words(self._canonical.strings(plan))}
        others = scalars(plan, self._canonical.meter)
        if others is not None:
            found |= {("scalar", text) for text, _ in self._words(others)}
        return found

    def _nested(self, plan: ValuePlan) -> Iterator[Value]:
        for value in plan.values:
            if isinstance(value, list | dict):
                yield _told(value)
        for one in plan.lists:
            yield from self._lists(one)
        for thing in plan.objects:
            yield from self._objects(thing)

    def _lists(self, plan: ListPlan) -> Iterator[Value]:
        """Lists of the values known, the shorter ones first."""
        layer: list[tuple[int, tuple[Value, ...]]] = [(0, ())]
        longest = plan.least + self._limit
        while layer:
            for state, items in layer:
                if _ends(plan, state, items):
                    yield "list", items
            if len(layer[0][1]) == longest:
                self._cut = True
                return
            layer = self._some((target, (*items, value)) for state, items in layer
                               for inner, target in _arcs(plan, state) for value in self._known[id(inner)]
                               if plan.unique is None or value not in items)

    def _objects(self, plan: ObjectPlan) -> Iterator[Value]:
        """Objects whose members have the values known."""
        if plan.demands:
            self._cut = True
            return
        members = [(member.name, member.value, member.required) for member in plan.members]
        if plan.free is not None:
            declared = {name for name, _, _ in members}
            members += [(name, plan.free_values[plan.labels[state]], False) for name, state in self._words(plan.free)
                        if name not in declared and state in plan.labels]
        members = [member for member in members if member[2] or self._known[id(member[1])]]
        layer: list[tuple[tuple[str, Value], ...]] = [()]
        for place, (name, value, required) in enumerate(members):
            rest = members[place + 1:]
            owed = sum(later[2] for later in rest)
            layer = self._some(
                chosen for written in layer
                for chosen in (*(() if required else (written,)),
                               *((*written, (name, one)) for one in self._known[id(value)]))
                if len(chosen) + len(rest) >= plan.least and (plan.most is None or len(chosen) + owed <= plan.most))
        for written in layer:
            if len(written) >= plan.least:
                yield "object", frozenset(written)


def json_of(value: Value) -> JsonValue:
    """The value as JSON has it."""
    kind, what = value
    if kind == "list":
        return [json_of(item) for item in what]  # type: ignore[attr-defined]
    if kind == "object":
        return {name: json_of(item) for name, item in sorted(what)}  # type: ignore[call-overload]
    if kind == "string":
        return str(what)
    words: dict[str, JsonValue] = {"null": None, "true": True, "false": False}
    text = str(what)
    return words[text] if text in words else Decimal(text) if "." in text else int(text)


def _arcs(plan: ListPlan, state: int) -> list[tuple[ValuePlan, int]]:
    """What may stand next, and the state after it; without a machine states are numbers of items."""
    if plan.machine is not None:
        return plan.machine.arcs[state]
    if plan.most is not None and state >= plan.most:
        return []
    return [(plan.prefix[state] if state < len(plan.prefix) else plan.rest, state + 1)]


def _ends(plan: ListPlan, state: int, items: tuple[Value, ...]) -> bool:
    if plan.alike is not None and len(set(items)) == len(items):
        return False
    return state in plan.machine.finals if plan.machine is not None else len(items) >= plan.least


def _reachable(plan: ValuePlan) -> list[ValuePlan]:
    found = {id(plan): plan}
    for one in (queue := [plan]):  # grows while it runs
        for inner in mentioned(one):
            if id(inner) not in found:
                found[id(inner)] = inner
                queue.append(inner)
    return queue


def _told(value: JsonValue) -> Value:
    if isinstance(value, list):
        return "list", tuple(map(_told, value))
    if isinstance(value, dict):
        return "object", frozenset((name, _told(inner)) for name, inner in value.items())
    return ("string", value) if isinstance(value, str) else ("scalar", scalar_text(value))
