"""Random schemas against jsonschema: a value is accepted, its keys in some order, exactly when it is valid."""

from __future__ import annotations

import json
from itertools import permutations, product
from random import Random
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import ConstraintError, Unsatisfiable
from espalier.grammars.schemas import expand

from .drawn_schemas import DEFINITIONS, SCHEMAS, VALUES
from .naive import Naive


def _spellings(value: object) -> list[str]:
    """Compact texts of the value with its keys in every order; a schema declares one of them."""
    if isinstance(value, list):
        return ["[" + ",".join(parts) + "]" for parts in product(*map(_spellings, value))]
    if isinstance(value, dict):
        members = [[f"{json.dumps(key)}:{text}" for text in _spellings(item)] for key, item in value.items()]
        return ["{" + ",".join(parts) + "}" for order in permutations(members) for parts in product(*order)]
    return [json.dumps(value)]


@settings(max_examples=120, deadline=None)
@given(SCHEMAS, DEFINITIONS, st.lists(VALUES, min_size=4, max_size=12))
def test_valid_is_accepted_and_nothing_else(schema: object, definition: object, values: list[object]) -> None:
    _check(schema, definition, values)


@settings(max_examples=80, deadline=None)
@given(SCHEMAS, DEFINITIONS, st.lists(VALUES, min_size=4, max_size=12))
def test_pruning_of_unions_changes_nothing(schema: object, definition: object, values: list[object]) -> None:
    """What large unions are pruned by, on small ones."""
    with patch.object(expand, "_LOOK_FROM", 0):
        _check(schema, definition, values)


def _check(schema: object, definition: object, values: list[object]) -> None:
    if not isinstance(schema, dict):
        return
    full = {**schema, "$defs": {"d": definition}}
    validator = Draft202012Validator(full)
    try:
        naive = Naive(compile_constraint(JsonSchema(json.dumps(full))))
    except Unsatisfiable:
        assert not any(validator.is_valid(value) for value in values)
        return
    except ConstraintError:
        return
    for value in values:
        accepted = any(naive.accepts(text) for text in _spellings(value))
        assert accepted == validator.is_valid(value), (full, value)


@settings(max_examples=60, deadline=None)
@given(SCHEMAS, DEFINITIONS, st.randoms(use_true_random=False))
def test_no_text_runs_into_a_dead_end(schema: object, definition: object, random: Random) -> None:
    """Whatever allowed byte is written, the text may end or go on."""
    full = {**schema, "$defs": {"d": definition}} if isinstance(schema, dict) else schema
    try:
        naive = Naive(compile_constraint(JsonSchema(json.dumps(full))))
    except ConstraintError:
        return
    threads, text = naive.start(), b""
    for _ in range(50):
        followers = naive.followers(threads)
        if not followers:
            break
        byte = random.choice(sorted(followers))
        text += bytes([byte])
        threads = followers[byte]
    assert naive.may_end(threads) or naive.followers(threads), (full, text)
