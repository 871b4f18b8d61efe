"""uniqueItems: which lists of different items can be written exactly.

A few values are told apart by states, one for each set of those written. Others are remembered as they are written,
like the free keys of an object; so each number has one spelling there, and lists and objects are written in the one way
that canonical.py finds for them, or refused.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

from ..automata.dfa import Dfa, longest
from ..constraint import Writing
from ..schemas.json_text import JsonValue, identity
from ..schemas.keywords import refuse
from .canonical import Canonical, ManyTexts, scalars
from .distinct import STEPS, DistinctValues, json_of
from .keys import words_of
from .plan import Comparable, Different, ItemMachine, ListPlan, ValuePlan, endless

# A state for each set of written values.
_FEW = 6
# Items are counted up to here, where some two must be equal.
_COUNTED = 64
# Values of a finite set are counted up to here.
_MANY = 4_096
# Values of an enum beside numbers, up to which items are compared by value, so that numbers have every spelling.
_SOUGHT = 32


def keep_apart(plan: ListPlan, canonical: Canonical, writing: Writing) -> None:
    """Make a list's items differ. Cuts its length to what can differ. Raises UnsupportedKeyword."""
    if plan.machine is not None:
        _by_value(plan, canonical)
        return
    values = _values(plan.rest)
    if values is not None and len(values) <= _FEW and not plan.prefix:
        plan.most = len(values) if plan.most is None else min(plan.most, len(values))
        if not writing.strict:
            plan.machine = _machine(plan, [values])
        return
    finite = _finite(plan) if plan.prefix else None
    if finite is not None:
        plan.machine = _machine(plan, finite)
        return
    values_of = (*plan.prefix, plan.rest)
    try:
        if writing.spelling == "any" and _have_zeros(values_of):
            raise ManyTexts
        places = [_comparable(value, canonical) for value in values_of]
    except ManyTexts:
        _by_value(plan, canonical)
    else:
        if not _different(plan, places):
            _by_value(plan, canonical)


def _have_zeros(places: tuple[ValuePlan, ...]) -> bool:
    """Whether items are numbers that may end in zeros of a fraction. Not where values of an enum are many, or all there
    is: when they are nearly used up, looking for another takes too long where items are compared by value."""
    return any(value.numbers for value in places) and all(
        not value.values or (value.numbers and len(value.values) <= _SOUGHT) for value in places)


def _by_value(plan: ListPlan, canonical: Canonical) -> None:
    """Leaves it to the register, which compares the values of items whatever their texts."""
    plan.unlike = True
    if plan.machine is None and not plan.prefix:
        count = _number(plan.rest, canonical.plainly())
        if count is not None and count <= _MANY:
            plan.most = count if plan.most is None else min(plan.most, count)


def _number(plan: ValuePlan, canonical: Canonical) -> int | None:
    """How many values a plan has, at most one more than _MANY; None when that is not told."""
    try:
        found = _comparable(plan, canonical)
    except ManyTexts:
        return None
    if found is None:
        return 0
    return _MANY + 1 if found[1] is None else found[1]


def has_fewer(plan: ListPlan, canonical: Canonical) -> bool:
    """Where items are compared by value, and they have fewer values than there must be items: cuts the length to these,
    and says so. Which values are possible must be known."""
    if plan.machine is not None:
        lacking = any(_fewer(value, count, canonical) for value, count in plan.machine.asked if count > 1)
        if lacking:
            plan.machine = ItemMachine([[]], frozenset())
        return lacking
    if plan.prefix or plan.least < 2 or not _fewer(plan.rest, plan.least, canonical):
        return False
    plan.most = plan.least - 1 if plan.most is None else min(plan.most, plan.least - 1)
    return True


def _fewer(value: ValuePlan, many: int, canonical: Canonical) -> bool:
    count = _at_most(value, many, canonical)
    return count is not None and count < many


def _at_most(value: ValuePlan, many: int, canonical: Canonical) -> int | None:
    """How many values there are, as far as up to `many`; None when that is not told."""
    if many < 1 or endless(value):
        return many
    count = _number(value, canonical.plainly())
    return DistinctValues(canonical.plainly(), many).count(value) if count is None else min(count, many)


def values_of(plan: ValuePlan, most: int, canonical: Canonical) -> list[JsonValue] | None:
    """All values; None for more than `most`, or when that is not told. Which values are possible must be known."""
    listed = _values(plan)
    if listed is None and not endless(plan):
        count = _number(plan, canonical.plainly())
        few = count is None or count <= most
        found = DistinctValues(canonical.plainly(), most + 1).values(plan) if few else None
        listed = None if found is None else [json_of(value) for value in found]
    return None if listed is None or len(listed) > most else listed


def check_enough(plan: ListPlan, canonical: Canonical) -> None:
    """Where items are compared by value: there must always be another. Raises UnsupportedKeyword where that is not told
    for the values that a place has. Which values are possible must be known."""
    places = [(plan.rest, plan.least)]
    if plan.machine is not None:
        least = plan.machine.least() or 0
        many = {value: plan.machine.enough.get(id(value)) for arcs in plan.machine.arcs for value, _ in arcs}
        places = [(value, least if enough is None else enough) for value, enough in many.items()]
    for value, enough in places:
        plan.enough[id(value)] = max(enough, plan.enough.get(id(value), 0))
        if value.possible and enough > 1 and _at_most(value, enough, canonical) != enough:
            raise refuse("uniqueItems", plan.unique or plan.pointer,
                         f"is not enforced here: {STEPS} steps do not tell whether {enough} items differ")


def kinds_of(plan: ValuePlan) -> set[str]:
    """The types of its values: those of plans without a common one differ."""
    words = {type(value).__name__ for value in (*plan.values, *plan.words)} - {"int", "Decimal"}
    numbers = plan.numbers or any(isinstance(value, int | Decimal) for value in plan.values)
    return words | {name for name, some in (("number", numbers), ("str", plan.strings), ("list", plan.lists),
                                            ("dict", plan.objects)) if some}


def _values(plan: ValuePlan) -> list[JsonValue] | None:
    """All values, None when they are not listed."""
    if plan.numbers or plan.strings or plan.lists or plan.objects:
        return None
    return [*plan.values, *plan.words]


# What is remembered of the items of one place, and how many there are, None for many.
_Place = tuple[Comparable, int | None]


def _comparable(value: ValuePlan, canonical: Canonical) -> _Place | None:
    """None when there is none. Raises ManyTexts."""
    text, others = canonical.strings(value), scalars(value, canonical.meter)
    nested = canonical.nested(value, 0)
    parts = [part for part in (text, others, nested) if part is not None and not part.empty]
    if not parts:
        return None
    each = [_count(part) for part in parts]
    deeper = None if nested.empty else partial(canonical.nested, value)
    return Comparable(text, others, deeper), None if None in each else sum(count or 0 for count in each)


def _different(plan: ListPlan, places: list[_Place | None]) -> bool:
    """Lets the register compare the texts of items. False where that might run out of them at some place."""
    if None in places:
        most = places.index(None)
        places, plan.most = places[:most], most if plan.most is None else min(plan.most, most)
    found = [place for place in places if place is not None]
    if not found:
        plan.unique = None
        return True
    counts = [count for _, count in found]
    if len(found) > 1 and any(count is not None and count < plan.least for count in counts):
        return False
    plan.different = Different(tuple(place for place, _ in found), counts[0] if len(found) == 1 else None)
    if None not in counts:
        most = len(found) - 1 + (counts[-1] or 0)
        plan.most = most if plan.most is None else min(plan.most, most)
    elif plan.least > _MANY:
        raise refuse("uniqueItems", plan.unique or plan.pointer, f"is not enforced beside minItems above {_MANY}")
    return True


def _count(dfa: Dfa) -> int | None:
    words = words_of(dfa, _MANY) if longest(dfa) is not None else None
    return None if words is None else len(words)


def have_equal_items(plan: ListPlan, pointer: str) -> None:
    """Make some two items of a list equal, whose pairs are known. pointer: of uniqueItems."""
    finite = _finite(plan)
    if finite is not None and max(plan.least, plan.most or 0) <= _COUNTED:
        plan.machine, plan.pairs = _machine(plan, finite, repeating=True), []
    else:
        plan.alike = pointer


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
