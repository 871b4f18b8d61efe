"""uniqueItems: which lists of different items can be written exactly.

A few values are told apart by states, one for each set of those written. Others are remembered as they are written,
like the free keys of an object; so each number has one spelling there, and lists and objects are written in the one way
that canonical.py finds for them, or refused.
"""

from __future__ import annotations

from functools import partial

from .canonical import Canonical, scalars
from .constraint import Writing
from .dfa import Dfa, longest
from .json_text import JsonValue, identity
from .keys import words_of
from .keywords import refuse
from .plan import Comparable, Different, ItemMachine, ListPlan, ValuePlan

# A state for each set of written values.
_FEW = 6
# Items are counted up to here, where some two must be equal.
_COUNTED = 64
# Values of a finite set are counted up to here.
_MANY = 4_096


def keep_apart(plan: ListPlan, canonical: Canonical, writing: Writing) -> None:
    """Make a list's items differ. Cuts its length to what can differ. Raises UnsupportedKeyword."""
    values = _values(plan.rest)
    if values is not None and len(values) <= _FEW and not plan.prefix:
        plan.most = len(values) if plan.most is None else min(plan.most, len(values))
        if not writing.strict:
            plan.machine = _machine(plan, [values])
        return
    finite = _finite(plan) if plan.prefix else None
    if finite is None:
        _different(plan, canonical)
    else:
        plan.machine = _machine(plan, finite)


def _values(plan: ValuePlan) -> list[JsonValue] | None:
    """All values, None when they are not listed."""
    if plan.numbers or plan.strings or plan.lists or plan.objects:
        return None
    return [*plan.values, *plan.words]


def _different(plan: ListPlan, canonical: Canonical) -> None:
    found: list[Comparable] = []
    counts: list[int | None] = []
    for value in (*plan.prefix, plan.rest):
        text, others = canonical.strings(value), scalars(value, canonical.meter)
        nested = canonical.nested(value, 0)
        parts = [part for part in (text, others, nested) if part is not None and not part.empty]
        if not parts:
            plan.most = len(found) if plan.most is None else min(plan.most, len(found))
            break
        deeper = None if nested.empty else partial(canonical.nested, value)
        found.append(Comparable(text, others, deeper))
        each = [_count(part) for part in parts]
        counts.append(None if None in each else sum(count or 0 for count in each))
    if not found:
        plan.unique = None
        return
    pointer = plan.unique or plan.pointer
    if len(found) > 1 and any(count is not None and count < plan.least for count in counts):
        raise refuse("uniqueItems", pointer, "is enforced beside prefixItems only where each place has as many values "
                                             "as the list must have items")
    plan.different = Different(tuple(found), counts[0] if len(found) == 1 else None)
    if None not in counts:
        most = len(found) - 1 + (counts[-1] or 0)
        plan.most = most if plan.most is None else min(plan.most, most)
    elif plan.least > _MANY:
        raise refuse("uniqueItems", pointer, f"is not enforced beside minItems above {_MANY}")


def _count(dfa: Dfa) -> int | None:
    words = words_of(dfa, _MANY) if longest(dfa) is not None else None
    return None if words is None else len(words)


def have_equal_items(plan: ListPlan, pointer: str) -> None:
    """Make some two items of a list equal. pointer: of uniqueItems. Raises UnsupportedKeyword."""
    finite = _finite(plan)
    if finite is None or max(plan.least, plan.most or 0) > _COUNTED:
        raise refuse("uniqueItems", pointer, "is negated (not, oneOf, if) only for lists whose items have at most "
                                             f"{_FEW} values, with bounds up to {_COUNTED}")
    plan.machine = _machine(plan, finite, repeating=True)


def _finite(plan: ListPlan) -> list[list[JsonValue]] | None:
    """The values of each position, those of the last being the values of all later ones; None when they are many."""
    listed = [_values(value) for value in plan.prefix]
    more = plan.most is None or plan.most > len(listed)
    finite = [options or [] for options in listed] + [(_values(plan.rest) or []) if more else []]
    known = {identity(value) for options in finite for value in options}
    unknown = None in listed or (more and _values(plan.rest) is None)
    return None if unknown or len(known) > _FEW else finite


# How many items a list has so far, up to where that matters; those written; whether some two were equal.
_Written = tuple[int, frozenset[object], bool]


def _machine(plan: ListPlan, finite: list[list[JsonValue]], *, repeating: bool = False) -> ItemMachine:
    """Lists of different items, or, repeating, lists in which some two are equal. finite: as _finite gives it."""
    last = len(finite) - 1
    cap = max(last, plan.least, plan.most or 0)
    start: _Written = (0, frozenset(), not repeating)
    numbers = {start: 0}
    arcs: list[list[tuple[ValuePlan, int]]] = []
    finals: set[int] = set()
    for state in (order := [start]):  # grows while it runs
        count, written, fits = state
        if fits and count >= plan.least:
            finals.add(len(arcs))
        out: list[tuple[ValuePlan, int]] = []
        for value in finite[min(count, last)] if plan.most is None or count < plan.most else ():
            known = identity(value) in written
            if known and not repeating:
                continue
            kept = frozenset() if repeating and (fits or known) else written | {identity(value)}
            follower = (min(count + 1, cap), kept, fits or known)
            if follower not in numbers:
                numbers[follower] = len(order)
                order.append(follower)
            out.append((ValuePlan(plan.pointer, values=[value], possible=True), numbers[follower]))
        arcs.append(out)
    return ItemMachine(arcs, frozenset(finals))
