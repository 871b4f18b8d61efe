"""Texts of a grammar that need little memory of keys and items: what is looked through for tokens that cross rules.

Some free keys of an object, and items of a list that are compared, are named, in certain orders (witness.py finds
them). Keys that are named come so, and among them one at most that is not; of items compared by value, where none is
named, one. Objects in any order keep which keys they have in their states; where these are too many, their keys come as
they are declared, none that may be one too many, and none is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeGuard

from ..binding.flat import SOURCE, Flat
from ..binding.names import with_names
from ..binding.verify import verify
from ..ir import Call, Grammar, Members, Order, Register, Rule, Unlike, pack_edges
from .declared import Declared, as_declared, by_states, in_order, loosely
from .orders import Named, Orders
from .remembered import Edge, Items, Keys, Literals, Marks

_WRITTEN_OUT = 1 << 13  # states of an object in any order, by the set of keys written
Floating = Mapping[int, frozenset[int]]


class Relaxed(NamedTuple):
    """marks: by rule, of the edges where keys begin or end, or both."""

    grammar: Grammar
    marks: dict[int, Marks]


def narrowed(grammar: Grammar, named: Named, floating: Floating) -> Grammar:
    """A grammar of some of its texts, with no registers but Counter and Order without `distinct`. floating: of the
    objects of very many keys in any order, by rule, the keys that do not come as they are declared."""
    flat, literals, rules = with_names(verify(grammar)), Literals(len(grammar.rules)), list[Rule]()
    for number, rule in enumerate(grammar.rules):
        register, edges, orders = rule.register, _edges(flat, number), Orders(named.get(number, frozenset()))
        if isinstance(register, Unlike):
            rules.append(Items(rule, edges, orders, literals).rule())
        elif has_keys(register):
            declared = _declared(flat, number, register, floating)
            rules.append(Keys(rule, register, edges, orders, declared).rule())
        else:
            rules.append(rule)
    return Grammar((*rules, *literals.rules), grammar.start, grammar.notes, grammar.specials)


def relaxed(grammar: Grammar, floating: Floating, *, loose: bool = False) -> Relaxed:
    """The same where keys, and items, may be alike. loose: those of very many keys that are not floating also lack, and
    come anywhere: all texts of the grammar are among its texts."""
    flat, marks, rules = with_names(verify(grammar)), dict[int, Marks](), list[Rule]()
    for number, rule in enumerate(grammar.rules):
        register, edges = rule.register, _edges(flat, number)
        if isinstance(register, Unlike):
            calls = tuple(Call(call.source, call.rule, call.target) for call in rule.calls)
            rules.append(Rule(rule.name, rule.pointer, rule.states, pack_edges(edges), calls, rule.finals))
        elif has_keys(register):
            declared = _declared(flat, number, register, floating, loose=loose)
            made = Keys(rule, register, edges, Orders(frozenset()), declared, repeating=True)
            rules.append(made.rule())
            marks[number] = made.marks
        else:
            rules.append(rule)
    return Relaxed(Grammar(tuple(rules), grammar.start, grammar.notes, grammar.specials), marks)


def large_objects(grammar: Grammar) -> dict[int, Members]:
    """The rules of objects of very many keys in any order."""
    flat = with_names(verify(grammar))
    return {number: rule.register for number, rule in enumerate(grammar.rules)
            if isinstance(rule.register, Members) and _is_large(flat, number, rule.register)}


def has_keys(register: Register | None) -> TypeGuard[Members | Order]:
    """Whether keys, or items, of a rule must differ."""
    return isinstance(register, Members) or (isinstance(register, Order) and register.distinct)


def _declared(flat: Flat, number: int, register: Members | Order, floating: Floating, *,
              loose: bool = False) -> Declared:
    if isinstance(register, Order):
        return as_declared(register)
    if not _is_large(flat, number, register):
        return by_states(register)
    return (loosely if loose else in_order)(register, floating.get(number, frozenset()))


def _is_large(flat: Flat, number: int, register: Members) -> bool:
    return int(flat.states[number]) << len(register.required) + 2 > _WRITTEN_OUT


def _edges(flat: Flat, number: int) -> list[Edge]:
    return [(a, b, c, d, e) for a, b, c, d, e in flat.edges_of(number)[:, SOURCE:].tolist()]
