"""unevaluatedProperties and unevaluatedItems beside branches, as they stand and negated, against a validator."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import ConstraintTooLarge, Unsatisfiable

from .naive import Naive

INTEGER, STRING = {"type": "integer"}, {"type": "string"}
NAMES = ["a", "b", "xa", "c"]
OBJECTS: list[Any] = [{}, *({name: value} for name in NAMES for value in (1, "s")),
                      *({one: first, two: second} for one in NAMES for two in NAMES if one < two
                        for first, second in ((1, 1), (1, "s"), ("s", 1))), {"a": 1, "b": 1, "c": 1}]
ITEMS: list[Any] = [1, "s", None]
LISTS: list[Any] = [[], *([one] for one in ITEMS), *([one, two] for one in ITEMS for two in ITEMS),
                    [1, "s", 1], ["s", 1, None], [1, 1, 1]]
VALUES = [*OBJECTS, *LISTS, "s", 1]
OWN = st.sampled_from([True, False, INTEGER, STRING])
NAMED = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([True, INTEGER, STRING]), min_size=1, max_size=2)
OF_OBJECTS = st.fixed_dictionaries({}, optional={
    "properties": NAMED, "required": st.lists(st.sampled_from(NAMES), max_size=1),
    "patternProperties": st.fixed_dictionaries({"^x": OWN}), "additionalProperties": OWN})
OF_LISTS = st.fixed_dictionaries({}, optional={
    "prefixItems": st.lists(OWN, min_size=1, max_size=2), "items": OWN, "contains": st.sampled_from([INTEGER, STRING]),
    "minItems": st.integers(0, 2)})


def _branched(plain: st.SearchStrategy[Any], keyword: str) -> st.SearchStrategy[Any]:
    """Schemas with the keyword, beside plain ones in branches, some of them nested."""
    nested = st.builds(lambda one, two: {**one, "anyOf": [two, {"minProperties": 2}]}, plain, plain)
    branch = st.one_of(plain, plain, nested)
    branches = st.one_of(
        st.builds(lambda of, options: {of: options}, st.sampled_from(["anyOf", "oneOf", "allOf"]),
                  st.lists(branch, min_size=1, max_size=3)),
        st.builds(lambda one, two, three: {"if": one, "then": two, "else": three}, branch, plain, plain),
        st.builds(lambda one: {"dependentSchemas": {"a": one}}, plain),
        st.builds(lambda one: {"not": {"not": one}}, plain))
    return st.builds(lambda rest, own, more: {**own, **more, keyword: rest}, OWN, plain, branches)


SCHEMAS = st.one_of(_branched(OF_OBJECTS, "unevaluatedProperties"), _branched(OF_LISTS, "unevaluatedItems"))
AROUND = st.sampled_from([
    lambda schema: {"not": schema}, lambda schema: schema,
    lambda schema: {"oneOf": [schema, {"minProperties": 1, "minItems": 1}]},
    lambda schema: {"if": schema, "then": {"maxProperties": 1}, "else": {"maxItems": 2}}])


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, AROUND)
def test_a_value_is_accepted_where_a_validator_accepts_it(schema: Any, around: Any) -> None:
    schema = around(schema)
    try:
        naive = Naive(compile_constraint(JsonSchema(json.dumps(schema), order="any")))
    except (Unsatisfiable, ConstraintTooLarge):
        assume(False)
        raise
    valid = Draft202012Validator(schema).is_valid
    assert [value for value in VALUES if naive.accepts(json.dumps(value, separators=(",", ":"))) != valid(value)] == []


@pytest.mark.parametrize("rest", [False, STRING])
def test_options_that_exclude_each_other_may_be_many(rest: Any) -> None:
    options = [{"properties": {"kind": {"const": kind}, f"p{kind}": INTEGER}, "required": ["kind"]}
               for kind in range(20)]
    schema = {"type": "object", "anyOf": options, "unevaluatedProperties": rest}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema))))
    assert naive.accepts('{"kind":7,"p7":1}')
    assert not naive.accepts('{"kind":7,"p8":1}')


def test_options_that_evaluate_nothing_more_are_not_combined() -> None:
    options = [{"properties": {"a": {"multipleOf": step}}} for step in range(2, 20)]
    naive = Naive(compile_constraint(JsonSchema(json.dumps(
        {"type": "object", "anyOf": options, "unevaluatedProperties": False}))))
    assert naive.accepts('{"a":49}')
    assert not naive.accepts('{"a":23}')
    assert not naive.accepts('{"b":2}')

