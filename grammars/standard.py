"""The bodies that most schemas share, made once for a vocabulary, so that no request waits for them."""

from __future__ import annotations

import json
from functools import partial

from .binding.context import TABLES, TRIE, Context
from .binding.tables import BACK, CALLED_RULE, FINAL, RULE, Layout, Tables
from .bodies.bodies import DEEPEST, Bodies
from .compile import compile_constraint
from .compiled import CompiledGrammar
from .constraint import JsonSchema, Order, Spelling
from .distances.distance import compile_tables
from .errors import MissingByte
from .rows import MaskTable
from .vocabulary import Vocabulary

_WRITINGS: tuple[tuple[Order, Spelling], ...] = (("schema", "one"), ("any", "one"), ("any", "any"))
_STRINGS: tuple[dict[str, object], ...] = ({}, {"minLength": 1}, {"maxLength": 100}, {"minLength": 10},
                                             {"minLength": 10, "maxLength": 100}, {"pattern": "^a"})
_SCHEMA = {"type": "object", "properties": {str(k): {"type": "string", **more} for k, more in enumerate(_STRINGS)}}
_NUMBERS, _SOME = '{"type": "array", "items": {"type": ["string", "number"]}}', b'[1.5, "a"]'
_STATES, _COLUMNS = 1 << 14, 1 << 20  # of that schema, at most


def prepare_bodies(vocabulary: Vocabulary) -> None:
    """Makes the bodies of JSON's strings and keys, in each order and spelling, and takes the first masks: a tenth of a
    second for 128,000 ids, nothing for a vocabulary so small that its masks are walked."""
    if len(vocabulary.trie.byte) < vocabulary.bodies.worth:
        return
    for order, spelling in _WRITINGS:
        grammar = compile_constraint(JsonSchema(json.dumps(_SCHEMA), order=order, spelling=spelling))
        try:
            tables = compile_tables(grammar, Layout(grammar, _STATES, _COLUMNS, vocabulary.single),
                                    vocabulary.single, vocabulary.wide, vocabulary.trie, vocabulary.heads)
        except MissingByte:  # no JSON is written with this vocabulary
            return
        _find_all(tables, vocabulary)
    _take_masks(vocabulary)


def _take_masks(vocabulary: Vocabulary) -> None:
    """Takes masks of numbers and strings, so that no request waits for what first ones find unused: loops (loops.py),
    code, and how arrays are handed to it."""
    try:
        grammar = CompiledGrammar(compile_constraint(JsonSchema(_NUMBERS, spacing="spaced")), vocabulary,
                                  MaskTable(vocabulary.size, 0))
    except MissingByte:
        return
    matcher = grammar.matcher(forcing=False, closing=False)
    for node in vocabulary.heads[list(_SOME)].tolist() if vocabulary.single[list(_SOME)].all() else ():
        matcher.row(None)
        matcher.accept(int(vocabulary.trie.token[node]))
    matcher.close()


def _find_all(tables: Tables, vocabulary: Vocabulary) -> None:
    context = Context()
    context.put(TABLES, tables)
    context.put(TRIE, vocabulary.trie)
    bodies = Bodies(tables, context.address, vocabulary.bodies)
    callers: dict[int, list[int]] = {}
    for rule, back in tables.calls[:, [CALLED_RULE, BACK]].tolist():
        callers.setdefault(rule, []).append(back)
    for state, rule in enumerate(tables.states[:, RULE].tolist()):
        for frames in _stacks(tables, callers, rule, DEEPEST):
            bodies.of(state, partial(tuple, frames), False, whole=True)


def _stacks(tables: Tables, callers: dict[int, list[int]], rule: int, deepest: int) -> set[tuple[int, ...]]:
    """The frames that may lie below one of a rule, as Bodies.of wants them."""
    found: set[tuple[int, ...]] = {()}
    for back in callers.get(rule, ()) if deepest else ():
        state = tables.states[back]
        rests = _stacks(tables, callers, int(state[RULE]), deepest - 1) if state[FINAL] else {()}
        found.update((back, *rest) for rest in rests)
    return found
