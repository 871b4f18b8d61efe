"""Which free keys and items a way home writes that tokens lead over (crossing.py): these are named for the next search.

A key that was written twice is a named one from then on, so that the second time it is another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from .exits import Copies
from .ir import CHARACTER, CLOSE_KEY, NEXT_KEY, OPEN_KEY, Grammar, Members, Order, unpack_edges

_QUOTE = b'"'


class Step(NamedTuple):
    """From state to state of the tables, over a byte or, where that is -1, a call that begins at the place `called`."""

    source: int
    target: int
    byte: int
    called: int


class Way(NamedTuple):
    """path: from a place to where its copy ends. local: of a state, its copy of a rule, and its number there."""

    path: Callable[[int], list[Step]]
    local: Callable[[int], tuple[int, int]]


def keys_written(way: Way, copies: Copies,
                 marks: Mapping[int, Mapping[tuple[int, int], int]]) -> dict[int, list[bytes]]:
    """By rule, the keys that are written on the way from the start, in their order."""
    found: dict[int, list[bytes]] = {}
    places = [0]
    for place in places:  # grows while it runs
        key: bytes | None = None
        for step in way.path(place):
            if step.called >= 0:
                places.append(step.called)
                continue
            (copy, source), (_, target) = way.local(step.source), way.local(step.target)
            rule, states = copies.origins[copy]
            known = source < len(states) and target < len(states)
            action = marks.get(rule, {}).get((states[source], states[target]), 0) if known else 0
            if action in (CLOSE_KEY, NEXT_KEY) and key is not None:
                found.setdefault(rule, []).append(key)
            if action in (OPEN_KEY, NEXT_KEY):
                key = b""
            else:
                key = None if action == CLOSE_KEY or key is None else key + bytes([step.byte])
    return found


def with_keys(named: Mapping[int, tuple[tuple[int, ...], ...]], grammar: Grammar,
              written: Mapping[int, list[bytes]]) -> dict[int, tuple[tuple[int, ...], ...]] | None:
    """The named keys and more; None when there are no more."""
    found = dict(named)
    for rule, keys in written.items():
        texts = dict.fromkeys(tuple(_symbols(grammar, rule, key)) for key in keys)
        found[rule] = (*found.get(rule, ()), *(text for text in texts if text not in found.get(rule, ())))
    return None if found == dict(named) else found


def _symbols(grammar: Grammar, number: int, key: bytes) -> Iterator[int]:
    """What the edges of a rule read of a key: bytes, or the characters of a string in any spelling."""
    rule = grammar.rules[number]
    register = rule.register
    if not isinstance(register, Order | Members) or not register.decoded:
        yield from key
        return
    quoted = key.startswith(_QUOTE)
    if isinstance(register, Order) and not quoted:  # of a list: a number, a word
        yield from key
        return
    characters = json.loads(key if quoted else _QUOTE + key + _QUOTE)
    wide = rule.names is not None or any(low >= CHARACTER for _, low, *_ in unpack_edges(rule.edges))
    inside = [CHARACTER + ord(one) for one in characters] if wide else characters.encode()
    yield from (*_QUOTE, *inside, *_QUOTE) if quoted else inside
