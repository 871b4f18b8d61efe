"""What texts intern fills an explorer: those of many go on in another, one that fills it alone is closed in time."""

from __future__ import annotations

import gc
import json
from random import Random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.masks.configuration import Configuration, Limits
from espalier.grammars.matcher import Matcher

from .engine import allowed, bind
from .kinds import VOCABULARY

OBJECT = {"type": "object"}
UNIQUE: dict[str, Any] = {"type": "array", "uniqueItems": True}
TREE = {"$defs": {"n": {**UNIQUE, "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
AGAIN = {"type": "array", "items": OBJECT, "not": {"uniqueItems": True}}
CLOSING = frozenset(b"]}")


def _bound(schema: object, nodes: int, **more: int) -> CompiledGrammar:
    return bind(compile_constraint(JsonSchema(json.dumps(schema))), VOCABULARY, limits=Limits(nodes=nodes, **more))


def _going_on(matcher: Matcher, ids: set[int], random: Random) -> int | None:
    """A token of these that does not close, where there is one; None at the end."""
    tokens = sorted(ids - set(VOCABULARY.stop))
    longer = [token for token in tokens if not CLOSING & set(VOCABULARY.spelled[token])]
    return random.choice(longer or tokens) if tokens else None


@pytest.mark.parametrize(("schema", "nodes", "steps"), [(OBJECT, 1 << 10, 250), (UNIQUE, 1 << 12, 250)])
def test_many_texts_go_on_as_in_one_explorer_without_end(schema: object, nodes: int, steps: int) -> None:
    random, wide, narrow = Random(1), _bound(schema, 1 << 20), _bound(schema, nodes)
    pairs = [(wide.matcher(forcing=False), narrow.matcher(forcing=False)) for _ in range(8)]
    first = {id(pair[1]._explorer) for pair in pairs}
    for step in range(steps):
        for at, (plain, moving) in enumerate(pairs):
            ids = allowed(wide, plain, steps - step)
            assert allowed(narrow, moving, steps - step) == ids
            token = _going_on(plain, ids, random)
            if token is None:
                continue
            if random.random() < 0.1:  # a draft, taken back
                pairs[at] = plain.copy(), moving.copy()
                for matcher in (plain, moving):
                    matcher.accept(token)
                    matcher.rollback(1)
            for matcher in pairs[at]:
                matcher.accept(token)
    explorers = {id(pair[1]._explorer) for pair in pairs}
    assert explorers - first
    assert not any(pair[1]._alone for pair in pairs)


@pytest.mark.parametrize(("schema", "nodes"), [
    (OBJECT, 1 << 11), (UNIQUE, 1 << 12), (TREE, 1 << 13), (AGAIN, 1 << 13), ({}, 1 << 10)])
def test_one_text_that_fills_an_explorer_is_closed(schema: Any, nodes: int) -> None:
    random, grammar, text, budget = Random(1), _bound(schema, nodes), b"", 5_000
    matcher = grammar.matcher(forcing=False)
    for left in range(budget, -1, -1):
        ids = allowed(grammar, matcher, left)
        assert ids
        nesting = [token for token in ids if VOCABULARY.spelled[token] in (b"[", b'{"', b'":{"')]
        token = random.choice(nesting) if nesting and random.random() < 0.9 else _going_on(matcher, ids, random)
        if token is None:
            break
        matcher.accept(token)
        text += VOCABULARY.spelled[token]
    assert left > budget // 5  # not by its budget
    assert Draft202012Validator(schema).is_valid(json.loads(text))


def test_forgotten_configurations_are_gone() -> None:
    grammar = _bound(OBJECT, 1 << 20, configurations=50)
    gc.collect()
    before = sum(type(one) is Configuration for one in gc.get_objects())
    for number in range(60):
        matcher = grammar.matcher(forcing=False)
        for byte in b'{"%d":[{"' % number:
            matcher.accept(VOCABULARY.tokens.index(bytes([byte])))
    gc.collect()
    assert sum(type(one) is Configuration for one in gc.get_objects()) < before + 120
