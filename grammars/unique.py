"""uniqueItems: which lists of different items can be written exactly.

A few values are told apart by states, one for each set of those written. Strings are remembered as they are written,
like the free keys of an object; so each has one spelling there. Other items would have to be compared as values while
they are written, in any spelling: they are refused.
"""

from __future__ import annotations

from .constraint import Writing
from .dfa import longest, minimise
from .json_text import JsonValue, identity
from .keys import words_of
from .keywords import refuse
from .limits import Meter
from .meaning import Meaning
from .plan import Different, ItemMachine, ListPlan, ValuePlan
from .shape import Places

# A state for each set of written values.
_FEW = 6
# Strings of a finite set are counted up to here.
_MANY = 4_096


def keep_apart(plan: ListPlan, rest: Places, meaning: Meaning, meter: Meter, writing: Writing) -> None:
    """Make a list's items differ; rest: the schemas of its items behind the prefix. Cuts its length to what can differ.
    Raises UnsupportedKeyword."""
    pointer = plan.unique or plan.pointer
    values = _values(plan.rest)
    if values is not None and len(values) <= _FEW and not plan.prefix:
        plan.most = len(values) if plan.most is None else min(plan.most, len(values))
        if not writing.strict:
            plan.machine = _machine(plan, [values])
        return
    if not plan.prefix and _strings_only(plan.rest):
        _different(plan, rest, meaning, meter)
        return
    listed = [_values(value) for value in plan.prefix]
    finite = [*listed, values if plan.most is None or plan.most > len(listed) else []]
    known = {identity(value) for options in finite for value in options or ()}
    if any(options is None for options in finite) or len(known) > _FEW:
        raise refuse("uniqueItems", pointer,
                     f"is enforced only for strings, and for others of at most {_FEW} values")
    plan.machine = _machine(plan, [options or [] for options in finite])


def _values(plan: ValuePlan) -> list[JsonValue] | None:
    """All values, None when they are not listed."""
    if plan.numbers or plan.strings or plan.lists or plan.objects:
        return None
    return [*plan.values, *plan.words]


def _strings_only(plan: ValuePlan) -> bool:
    return not (plan.words or plan.numbers or plan.lists or plan.objects) and all(
        isinstance(value, str) for value in plan.values)


def _different(plan: ListPlan, rest: Places, meaning: Meaning, meter: Meter) -> None:
    text = minimise(meaning.texts(rest))
    if text.empty:
        plan.most = 0
        plan.unique = None
        return
    words = words_of(text, _MANY) if longest(text) is not None else None
    number = None if words is None else len(words)
    plan.different = Different(text, number)
    if number is not None:
        plan.most = number if plan.most is None else min(plan.most, number)
    elif plan.least > _MANY and longest(text) is not None:
        raise refuse("uniqueItems", plan.unique or plan.pointer, f"is not enforced beside minItems above {_MANY}")


def _machine(plan: ListPlan, finite: list[list[JsonValue]]) -> ItemMachine:
    """finite: the values of each position; those of the last are the values of all later ones."""
    last = len(finite) - 1
    start: tuple[int, frozenset[object]] = (0, frozenset())
    numbers = {start: 0}
    arcs: list[list[tuple[ValuePlan, int]]] = []
    finals: set[int] = set()
    for state in (order := [start]):  # grows while it runs
        index, written = state
        if len(written) >= plan.least:
            finals.add(len(arcs))
        out: list[tuple[ValuePlan, int]] = []
        for value in finite[index] if plan.most is None or len(written) < plan.most else ():
            if identity(value) in written:
                continue
            follower = (min(index + 1, last), written | {identity(value)})
            if follower not in numbers:
                numbers[follower] = len(order)
                order.append(follower)
            out.append((ValuePlan(plan.pointer, values=[value], possible=True), numbers[follower]))
        arcs.append(out)
    return ItemMachine(arcs, frozenset(finals))
