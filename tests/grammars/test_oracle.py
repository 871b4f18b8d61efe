"""Random schemas against jsonschema: a value is accepted, its keys in some order, exactly when it is valid."""

from __future__ import annotations

import json
from itertools import permutations, product
from random import Random
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars import expand
from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import ConstraintError, Unsatisfiable

from .naive import Naive

NAMES = ["a", "ab", "b", "c"]  # also the order in which instances write them; other keys follow
SCALARS = st.sampled_from([None, True, False, 0, 1, -2, 5, 1.5, "", "a", "ab", "bb", "abc"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "x", "y"]), inner, max_size=3),
    max_leaves=6,
)
SMALL = st.integers(0, 3)


def _ordered(draw_map: dict[str, object]) -> dict[str, object]:
    return {name: draw_map[name] for name in sorted(draw_map)}


def _keywords(inner: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    some = st.lists(inner, min_size=1, max_size=2)
    maps = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3).map(_ordered)
    names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(sorted)
    types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
    optional: dict[str, st.SearchStrategy[object]] = {
        "type": st.one_of(types, st.lists(types, min_size=1, max_size=3, unique=True)),
        "enum": st.lists(VALUES, min_size=1, max_size=4),
        "const": VALUES,
        "minimum": st.integers(-3, 3), "exclusiveMaximum": st.integers(0, 6),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": SMALL, "maxLength": SMALL, "pattern": st.sampled_from(["a", "^a", "b$", "^[ab]*$", "^(?!ab)"]),
        "contains": inner, "minContains": SMALL, "maxContains": SMALL,
        "items": inner, "prefixItems": some, "uniqueItems": st.booleans(), "minItems": SMALL, "maxItems": SMALL,
        "properties": maps, "required": names, "additionalProperties": inner, "minProperties": SMALL,
        "maxProperties": SMALL,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "x"]), inner, max_size=2),
        "propertyNames": st.sampled_from([{"maxLength": 1}, {"pattern": "^[abx]"}, {"enum": ["a", "x"]}, True]),
        "anyOf": some, "allOf": some, "oneOf": some, "not": inner,
        "if": inner, "then": inner, "else": inner, "dependentRequired": st.just({"a": ["b"]}),
        "unevaluatedProperties": inner, "unevaluatedItems": inner,
        "dependentSchemas": st.fixed_dictionaries({"b": inner}),
        "$ref": st.just("#/$defs/d"),
    }
    chosen = st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True)
    return chosen.flatmap(lambda keys: st.fixed_dictionaries({key: optional[key] for key in sorted(keys)}))


SCHEMAS = st.recursive(st.one_of(st.booleans(), _keywords(st.booleans())), _keywords, max_leaves=4)


def _without_references(schema: object) -> object:
    """A definition that refers to itself, with no instance in between, has no meaning; the oracle would not end."""
    if isinstance(schema, list):
        return [_without_references(item) for item in schema]
    if isinstance(schema, dict):
        return {key: _without_references(item) for key, item in schema.items() if key != "$ref"}
    return schema


DEFINITIONS = SCHEMAS.map(_without_references)


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
