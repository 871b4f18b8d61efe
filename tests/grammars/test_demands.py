"""Negations that ask for some property: several at once, met by one property or by several, in both orders of keys."""

from __future__ import annotations

import json
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import ConstraintError, ConstraintTooLarge
from espalier.grammars.limits import Limits

from .naive import Naive

PATIENT = Limits(seconds=120.0)
NAMES = ("a", "b", "c", "z")
VALUES = (1, "x")
OBJECTS = [dict(zip(names, values, strict=True)) for count in range(4) for names in permutations(NAMES, count)
           for values in product(VALUES, repeat=count)]
INSIDE = st.one_of(
    st.builds(lambda names: {"properties": dict.fromkeys(names, True), "additionalProperties": False},
              st.sets(st.sampled_from(NAMES[:3]), max_size=2)),
    st.builds(lambda name: {"properties": {name: True}, "additionalProperties": {"type": "string"}},
              st.sampled_from(NAMES[:3])),
    st.builds(lambda names: {"propertyNames": {"not": {"enum": sorted(names)}}},
              st.sets(st.sampled_from(NAMES), min_size=1, max_size=2)),
    st.builds(lambda text: {"patternProperties": {text: {"type": "string"}}},
              st.sampled_from(["^[ab]$", "^(c|z)$", "^a"])),
)
SCHEMAS = st.builds(lambda closed, nots: {"type": "object", "allOf": [{"not": one} for one in nots],
                                          **({"propertyNames": {"maxLength": 1}} if closed else {})},
                    st.booleans(), st.lists(INSIDE, min_size=1, max_size=4))


def _naive(schema: object, order: str) -> Naive | None:
    try:
        return Naive(compile_constraint(JsonSchema(json.dumps(schema), order=order), PATIENT))
    except ConstraintError:
        return None


@settings(max_examples=20, deadline=None)
@given(SCHEMAS)
def test_an_object_is_accepted_in_any_order_exactly_when_it_is_valid(schema: dict[str, object]) -> None:
    naive, valid = _naive(schema, "any"), Draft202012Validator(schema)
    for one in OBJECTS if naive else ():
        assert naive.accepts(json.dumps(one, separators=(",", ":"))) == valid.is_valid(one), (schema, one)


@settings(max_examples=20, deadline=None)
@given(SCHEMAS)
def test_of_all_orders_of_a_valid_object_one_is_accepted_and_no_invalid_one_is(schema: dict[str, object]) -> None:
    naive, valid = _naive(schema, "schema"), Draft202012Validator(schema)
    found: dict[frozenset[tuple[str, object]], bool] = {}
    for one in OBJECTS if naive else ():
        accepted = naive.accepts(json.dumps(one, separators=(",", ":")))
        assert not accepted or valid.is_valid(one), (schema, one)
        key = frozenset(one.items())
        found[key] = found.get(key, False) or accepted
    for key, accepted in found.items():
        assert accepted == valid.is_valid(dict(key)), (schema, key)


VALUE = st.sampled_from([True, False, {"const": 1}, {"type": "string"}, {"enum": [1, "x"]}])
OPTION = st.builds(
    lambda properties, required, others, least, most: {
        "type": "object", "properties": properties, "required": sorted(required), "minProperties": least,
        **({} if others is None else {"additionalProperties": others}),
        **({} if most is None else {"maxProperties": most})},
    st.dictionaries(st.sampled_from(NAMES[:3]), VALUE, max_size=2), st.sets(st.sampled_from(NAMES), max_size=2),
    st.one_of(st.none(), VALUE), st.integers(0, 1), st.sampled_from([None, None, 1, 2]))


@settings(max_examples=25, deadline=None)
@given(st.lists(OPTION, min_size=2, max_size=3))
def test_an_object_fits_exactly_one_option_whatever_tells_them_apart(options: list[dict[str, object]]) -> None:
    schema = {"oneOf": options}
    naive, valid = _naive(schema, "any"), Draft202012Validator(schema)
    for one in OBJECTS if naive else ():
        assert naive.accepts(json.dumps(one, separators=(",", ":"))) == valid.is_valid(one), (schema, one)


@pytest.mark.parametrize("other", [
    {"maxProperties": 1}, {"additionalProperties": {"type": "boolean"}}, {"properties": {"b": {"type": "null"}}},
])
def test_what_one_option_requires_tells_it_from_an_option_without(other: dict[str, object]) -> None:
    """An open object less another one asks for some property; told apart, both stay as they are."""
    one = {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    both = {"oneOf": [one, {"type": "object", **other}]}
    either = {"anyOf": both["oneOf"]}
    rules = [compile_constraint(JsonSchema(json.dumps(schema), order="any")).rules for schema in (both, either)]
    assert [rule.edges for rule in rules[0]] == [rule.edges for rule in rules[1]]


@pytest.mark.parametrize("order", ["schema", "any"])
def test_what_closed_objects_exclude_together_costs_no_more_than_what_tells_them_apart(order: str) -> None:
    closed = [{"properties": dict.fromkeys(names, True), "additionalProperties": False} for names in (
        ("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "a"))]
    naive = _naive({"type": "object", "allOf": [{"not": one} for one in closed]}, order)
    assert naive is not None
    assert naive.accepts('{"a":1,"d":1}')
    assert naive.accepts('{"z":1}')
    assert not naive.accepts('{"a":1,"b":1}')
    assert not naive.accepts("{}")


def test_two_undeclared_properties_that_are_asked_for_are_refused_in_any_order() -> None:
    schema = {"type": "object", "allOf": [
        {"not": {"patternProperties": {"^x": False}}},
        {"not": {"additionalProperties": False, "patternProperties": {"^x": True}}}]}
    assert Naive(compile_constraint(JsonSchema(json.dumps(schema)))).accepts('{"b":1,"xa":1}')
    with pytest.raises(ConstraintTooLarge):
        compile_constraint(JsonSchema(json.dumps(schema), order="any"))
