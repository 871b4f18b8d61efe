"""Texts of a grammar that need little memory of keys and items: what is looked through for tokens that cross rules.

Some free keys of an object, and items of a list that are compared, are named, in certain orders (witness.py finds
them). Keys that are named come so, and among them one at most that is not; of items compared by value, where none is
named, one. Objects in any order keep which keys they have in their states; where these are too many, their keys come as
they are declared, none that may be one too many, and none is free.
"""

from __future__ import annotations

from typing import NamedTuple

from .flat import SOURCE, Flat
from .ir import (
    CLOSE_KEY,
    KEY,
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
from .orders import Named, Orders
from .remembered import Edge, Items, Keys, Literals, Marks
from .verify import verify

_WRITTEN_OUT = 1 << 13  # states of an object in any order, by the set of keys written


class Relaxed(NamedTuple):
    """marks: by rule, of the edges where keys begin or end, or both."""

    grammar: Grammar
    marks: dict[int, Marks]


def narrowed(grammar: Grammar, named: Named) -> Grammar:
    """A grammar of some of its texts, with no registers but Counter and Order without `distinct`."""
    flat, literals, rules = with_names(verify(grammar)), Literals(len(grammar.rules)), list[Rule]()
    for number, rule in enumerate(grammar.rules):
        register, edges, orders = rule.register, _edges(flat, number), Orders(named.get(number, frozenset()))
        if isinstance(register, Unlike):
            rules.append(Items(rule, edges, orders, literals).rule())
        elif isinstance(register, Members) and _is_large(flat, number, register):
            rules.append(_in_order(rule, register, edges, int(flat.states[number])))
        elif isinstance(register, Members) or (isinstance(register, Order) and register.distinct):
            rules.append(Keys(rule, register, edges, orders).rule())
        else:
            rules.append(rule)
    return Grammar((*rules, *literals.rules), grammar.start, grammar.notes, grammar.specials)


def relaxed(grammar: Grammar) -> Relaxed:
    """The same where keys, and items, may be alike."""
    flat, marks, rules = with_names(verify(grammar)), dict[int, Marks](), list[Rule]()
    for number, rule in enumerate(grammar.rules):
        register, edges = rule.register, _edges(flat, number)
        if isinstance(register, Unlike):
            calls = tuple(Call(call.source, call.rule, call.target) for call in rule.calls)
            rules.append(_made(rule, rule.states, edges, calls, rule.finals))
        elif isinstance(register, Members) and _is_large(flat, number, register):
            rules.append(_in_order(rule, register, edges, int(flat.states[number])))
        elif isinstance(register, Members) or (isinstance(register, Order) and register.distinct):
            made = Keys(rule, register, edges, Orders(frozenset()), repeating=True)
            rules.append(made.rule())
            marks[number] = made.marks
        else:
            rules.append(rule)
    return Relaxed(Grammar(tuple(rules), grammar.start, grammar.notes, grammar.specials), marks)


def _is_large(flat: Flat, number: int, register: Members) -> bool:
    return int(flat.states[number]) << len(register.required) + 2 > _WRITTEN_OUT


def _edges(flat: Flat, number: int) -> list[Edge]:
    return [(a, b, c, d, e) for a, b, c, d, e in flat.edges_of(number)[:, SOURCE:].tolist()]


def _made(rule: Rule, states: int, edges: list[Edge], calls: tuple[Call, ...], finals: tuple[int, ...],
          register: Order | None = None) -> Rule:
    return Rule(rule.name, rule.pointer, states, pack_edges(edges), calls, finals, register)


def _in_order(rule: Rule, register: Members, given: list[Edge], states: int) -> Rule:
    """Where more keys are needed than are required, the first ones are; where they are counted, only those may come."""
    required = _enough(register.required, register.least)
    counted = register.most is not None and register.most < len(required)
    closes = register.least <= sum(required) and not register.demand
    edges = [(source, low, high, target, NOTHING if action == OPEN_KEY else action)
             for source, low, high, target, action in given
             if action != CLOSE_KEY and not (counted and action >= KEY and not required[action - KEY])]
    calls = tuple(Call(call.source, call.rule, call.target) for call in rule.calls)
    return _made(rule, states, edges, calls, rule.finals if closes else (), Order(required, False))


def _enough(required: tuple[bool, ...], least: int) -> tuple[bool, ...]:
    more, found = least - sum(required), []
    for must in required:
        found.append(must or more > 0)
        more -= not must
    return tuple(found)
