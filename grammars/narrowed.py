"""Texts of a grammar that need no memory of keys and items: what is looked through for tokens that cross rules.

Of free keys one at most is written, and of lists of different items one item. Objects in any order keep what was
written in their states; where these are too many, no free key is written, and the others come in the order in which
they are declared, none that may be one too many.
"""

from __future__ import annotations

from .flat import SOURCE, Flat
from .ir import (
    CLOSE_KEY,
    KEY,
    MEET,
    NEXT_KEY,
    NOTHING,
    OPEN_KEY,
    Call,
    Grammar,
    Members,
    Order,
    Rule,
    Unlike,
    pack_edges,
)
from .names import with_names
from .verify import verify

_WRITTEN_OUT = 1 << 13  # states of an object in any order, by the set of keys written
_Edge = tuple[int, int, int, int, int]


def narrowed(grammar: Grammar) -> Grammar:
    """A grammar of some of its texts, with no registers but Counter and Order without `distinct`."""
    flat = with_names(verify(grammar))
    rules = tuple(_narrowed(rule, flat, number) for number, rule in enumerate(grammar.rules))
    return Grammar(rules, grammar.start, grammar.notes, grammar.specials)


def _narrowed(rule: Rule, flat: Flat, number: int) -> Rule:
    if isinstance(rule.register, Members):
        states = int(flat.states[number]) << len(rule.register.required) + 2
        return (_by_set if states <= _WRITTEN_OUT else _in_order)(rule, rule.register, flat, number)
    if isinstance(rule.register, Order) and rule.register.distinct:
        return _with_one_free(rule, rule.register, flat, number)
    return _of_one_item(rule, flat, number) if isinstance(rule.register, Unlike) else rule


def _edges(flat: Flat, number: int) -> list[_Edge]:
    return [(a, b, c, d, e) for a, b, c, d, e in flat.edges_of(number)[:, SOURCE:].tolist()]


def _made(rule: Rule, states: int, edges: list[_Edge], calls: tuple[Call, ...], finals: tuple[int, ...],
          register: Order | None) -> Rule:
    return Rule(rule.name, rule.pointer, states, pack_edges(edges), calls, finals, register)


def _by_set(rule: Rule, register: Members, flat: Flat, number: int) -> Rule:
    """States are those of the rule with what was written: a bit for each key, for the demand, and for a free key."""
    keys, order, numbers = len(register.required), [(0, 0)], {(0, 0): 0}
    demand, free = 1 << keys, 2 << keys
    needed = sum(1 << j for j, must in enumerate(register.required) if must) | demand * register.demand
    most = keys + 1 if register.most is None else register.most
    edges, calls, finals, given = list[_Edge](), list[Call](), list[int](), _by_source(_edges(flat, number))

    def place(state: int, written: int) -> int:
        at = numbers.setdefault((state, written), len(order))
        if at == len(order):
            order.append((state, written))
        return at

    for here, (state, written) in enumerate(order):  # grows while it runs
        amount = (written & ~demand).bit_count()
        if state in rule.finals and written & needed == needed and amount >= register.least:
            finals.append(here)
        for _, low, high, target, action in given.get(state, ()):
            bit = 1 << action - KEY if action >= KEY else free * (action == CLOSE_KEY)
            if not written & bit and not (bit and amount >= most):
                edges.append((here, low, high, place(target, written | bit), NOTHING))
        for call in rule.calls:
            if call.source == state:
                met = written | demand * (call.action == MEET)
                calls.append(Call(here, call.rule, place(call.target, met)))
    return _made(rule, len(order), edges, tuple(calls), tuple(finals), None)


def _by_source(edges: list[_Edge]) -> dict[int, list[_Edge]]:
    found: dict[int, list[_Edge]] = {}
    for edge in edges:
        found.setdefault(edge[0], []).append(edge)
    return found


def _in_order(rule: Rule, register: Members, flat: Flat, number: int) -> Rule:
    """Where more keys are needed than are required, the first ones are; where they are counted, only those may come."""
    required = _enough(register.required, register.least)
    counted = register.most is not None and register.most < len(required)
    closes = register.least <= sum(required) and not register.demand
    edges = [(source, low, high, target, NOTHING if action == OPEN_KEY else action)
             for source, low, high, target, action in _edges(flat, number)
             if action != CLOSE_KEY and not (counted and action >= KEY and not required[action - KEY])]
    calls = tuple(Call(call.source, call.rule, call.target) for call in rule.calls)
    return _made(rule, int(flat.states[number]), edges, calls, rule.finals if closes else (), Order(required, False))


def _enough(required: tuple[bool, ...], least: int) -> tuple[bool, ...]:
    more, found = least - sum(required), []
    for must in required:
        found.append(must or more > 0)
        more -= not must
    return tuple(found)


def _with_one_free(rule: Rule, register: Order, flat: Flat, number: int) -> Rule:
    """Behind its first free key, a second row of states where none begins; of a list, no second item."""
    edges, more = _edges(flat, number), rule.states
    if any(action == NEXT_KEY for *_, action in edges) or register.least is not None:
        kept = [(source, low, high, target, NOTHING) for source, low, high, target, action in edges
                if action != NEXT_KEY]
        return _made(rule, more, kept, rule.calls, rule.finals, None)
    behind = [(source + more, low, high, target + more, action) for source, low, high, target, action in edges
              if action not in (OPEN_KEY, CLOSE_KEY)]
    before = [(source, low, high, target + more * (action == CLOSE_KEY), action)
              for source, low, high, target, action in edges]
    calls = tuple(Call(call.source + row, call.rule, call.target + row, call.action)
                  for row in (0, more) for call in rule.calls)
    finals = (*rule.finals, *(state + more for state in rule.finals))
    return _made(rule, 2 * more, before + behind, calls, finals, Order(register.required, False))


def _of_one_item(rule: Rule, flat: Flat, number: int) -> Rule:
    """Behind the call of its first item, a second row of states that call nothing."""
    edges, more = _edges(flat, number), rule.states
    edges += [(source + more, low, high, target + more, action) for source, low, high, target, action in edges]
    calls = tuple(Call(call.source, call.rule, call.target + more) for call in rule.calls)
    finals = (*rule.finals, *(state + more for state in rule.finals))
    return _made(rule, 2 * more, edges, calls, finals, None)
