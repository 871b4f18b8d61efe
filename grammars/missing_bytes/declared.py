"""How the declared keys of an object are kept where tokens may cross rules (remembered.py): in its states, as far as
there is room for the sets of them, or by an Order, and then they come as they are declared."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..ir import Members, Order


class Declared(NamedTuple):
    """Sets of keys as bits. ordered: keys that an Order of `required` keeps. tracked: those in the states. loose:
    whether others come however often; else they do not. needed: of those tracked, and one bit more for the demand.
    least, most: how many there must be, and may be, of the tracked and free ones; None: any number."""

    required: tuple[bool, ...] | None
    ordered: int
    tracked: int
    loose: bool = False
    needed: int = 0
    least: int = 0
    most: int | None = None


def as_declared(register: Order) -> Declared:
    """Of an object that keeps the order of its keys anyway."""
    return Declared(register.required, (1 << len(register.required)) - 1, 0)


def by_states(register: Members) -> Declared:
    """All keys in states."""
    every = range(len(register.required))
    return Declared(None, 0, _set(every), False, _needed(register, every), register.least, register.most)


def in_order(register: Members, floating: Collection[int]) -> Declared:
    """Keys come as they are declared, but for those `floating`. Where more keys are needed than are required, the first
    ones are; where they are counted, only those may come."""
    keys, least = range(len(register.required)), register.least - sum(register.required[j] for j in floating)
    required = _enough([must and j not in floating for j, must in enumerate(register.required)], least, floating)
    counted = register.most is not None and register.most < len(keys)
    ordered = _set([j for j in keys if j not in floating and (required[j] or not counted)])
    others = sum(required) if counted else ordered.bit_count()
    most = None if register.most is None else max(0, register.most - others)
    return Declared(required, ordered, _set(floating), False, _needed(register, floating),
                    max(0, register.least - sum(required)), most)


def loosely(register: Members, floating: Collection[int]) -> Declared:
    """But for those `floating`, keys may lack, and come twice."""
    return Declared(None, 0, _set(floating), True, _needed(register, floating), most=register.most)


def _set(keys: Collection[int]) -> int:
    return sum(1 << j for j in keys)


def _needed(register: Members, keys: Collection[int]) -> int:
    return _set([j for j in keys if register.required[j]]) | register.demand << len(register.required)


def _enough(required: list[bool], least: int, but: Collection[int]) -> tuple[bool, ...]:
    more, found = least - sum(required), []
    for j, must in enumerate(required):
        found.append(must or (more > 0 and j not in but))
        more -= found[-1] and not must
    return tuple(found)
