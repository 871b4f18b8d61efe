"""Unions that multiply: what is left out or made disjoint changes no verdict, and saves what it should."""

from __future__ import annotations

import json
from itertools import permutations, product
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import ConstraintError, ConstraintTooLarge, Unsatisfiable
from espalier.grammars.limits import Limits
from espalier.grammars.schemas import expand

from .drawn_schemas import DEFINITIONS, VALUES
from .drawn_schemas import SCHEMAS as ANY_SCHEMAS
from .naive import Naive

PATIENT = Limits(seconds=120.0)
NAMES = ("a", "b", "c")
OBJECTS = [dict(zip(names, values, strict=True)) for count in range(4) for names in permutations(NAMES, count)
           for values in product((1, "x"), repeat=count)]
VALUE = st.sampled_from([True, {"const": 1}, {"type": "string"}, {"enum": [1, "x"]}, {"not": {"const": 1}}])
OPTION = st.builds(
    lambda properties, required, kind, others: {
        "properties": properties, "required": sorted(required), **({"type": "object"} if kind else {}),
        **({} if others is None else {"additionalProperties": others})},
    st.dictionaries(st.sampled_from(NAMES), VALUE, max_size=3), st.sets(st.sampled_from(NAMES), max_size=2),
    st.booleans(), st.sampled_from([None, None, None, False, {"type": "string"}]))
SCHEMAS = st.builds(
    lambda keyword, options, required, other: {"type": "object", "required": sorted(required),
                                               "allOf": [{keyword: options}, {"not": other}]},
    st.sampled_from(["oneOf", "oneOf", "anyOf"]), st.lists(OPTION, min_size=2, max_size=5),
    st.sets(st.sampled_from(NAMES), max_size=1), OPTION)


def _looking(schema: object) -> Naive:
    """Compiled with a look at each union, however small."""
    with patch.object(expand, "_LOOK_FROM", 0):
        return Naive(compile_constraint(JsonSchema(json.dumps(schema), order="any"), PATIENT))


@settings(max_examples=30, deadline=None)
@given(SCHEMAS)
def test_of_many_unions_exactly_the_valid_objects_are_left(schema: dict[str, object]) -> None:
    valid, naive = Draft202012Validator(schema), None
    try:
        naive = _looking(schema)
    except Unsatisfiable:
        pass
    except ConstraintTooLarge:  # several properties among the undeclared ones
        return
    for one in OBJECTS:
        accepted = naive is not None and naive.accepts(json.dumps(one, separators=(",", ":")))
        assert accepted == valid.is_valid(one), (schema, one)


@settings(max_examples=60, deadline=None)
@given(ANY_SCHEMAS, DEFINITIONS, st.lists(VALUES, min_size=4, max_size=10))
def test_no_verdict_changes_with_the_look(schema: object, definition: object, values: list[object]) -> None:
    if isinstance(schema, dict):
        schema = {**schema, "$defs": {"d": definition}}
    try:
        naive = _looking(schema)
        plain = Naive(compile_constraint(JsonSchema(json.dumps(schema), order="any"), PATIENT))
    except ConstraintError:
        return
    for value in values:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        assert naive.accepts(text) == plain.accepts(text), (schema, text)


def _tagged(count: int) -> dict[str, object]:
    """Objects told apart by a tag, which only the schema around them requires."""
    options = [{"type": "object", "properties": {"type": {"enum": [f"t{i}"]}, f"p{i}": {"type": "integer"},
                                                 "more": {"type": "object", "properties": {f"q{i}": {"const": i}}}}}
               for i in range(count)]
    return {"type": "object", "required": ["type"], "allOf": [{"oneOf": options}]}


def _named(count: int) -> dict[str, object]:
    """Open objects told apart by which name they have."""
    options = [{"type": "object", "required": ["name", f"p{i}"],
                "properties": {"name": {"type": "string"}, f"p{i}": {"type": "string"}}} for i in range(count)]
    return {"oneOf": options}


@pytest.mark.parametrize(("schema", "accepted", "rejected", "most"), [
    (_tagged(30), ['{"type":"t7","p7":1}', '{"p7":"x","type":"t8"}', '{"type":"t2","more":{"q2":2}}'],
     ['{"type":"t7","p7":"x"}', '{"type":"t30"}', '{"type":"t2","more":{"q2":3}}'], 150),
    (_named(12), ['{"name":"n","p3":"x"}', '{"p3":"x","name":"n","p4":1}'],
     ['{"name":"n"}', '{"name":"n","p3":"x","p4":"y"}'], 60),
], ids=["tagged", "named"])
def test_exclusive_choices_cost_no_product(schema: object, accepted: list[str], rejected: list[str], most: int) -> None:
    grammar = compile_constraint(JsonSchema(json.dumps(schema), order="any"))
    assert len(grammar.rules) <= most
    naive = Naive(grammar)
    assert [text for text in accepted if not naive.accepts(text)] == []
    assert [text for text in rejected if naive.accepts(text)] == []


def test_more_alternatives_than_an_answer_may_have_readings_are_refused() -> None:
    with pytest.raises(ConstraintTooLarge, match="more than 256 that begin alike") as caught:
        compile_constraint(JsonSchema(json.dumps({"properties": {"x": {
            "anyOf": [{"type": "object", "required": [f"p{i}"]} for i in range(257)]}}})))
    assert (caught.value.keyword, caught.value.where) == ("anyOf", "#/properties/x")
