"""uniqueItems: laws 3 and 4 where the items of a list are remembered."""

from __future__ import annotations

import json
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema, Spelling
from espalier.grammars.errors import ConstraintError, Unsatisfiable
from espalier.grammars.limits import Limits

from .drawn import small_vocabulary
from .engine import bind
from .naive import Naive
from .samplers import WAYS, answer, check_masks

PATIENT = Limits(seconds=120.0)  # of a wall clock, on machines that do other work too
UNIQUE = {"type": "array", "uniqueItems": True}
INTEGER = {"type": "integer"}
DIGIT = {"type": "integer", "minimum": 0, "maximum": 3}
TABLE: list[tuple[Any, list[str], list[str]]] = [
    (INTEGER, ["[]", "[1]", "[1,2]", "[10,1,100]", "[-1,1]"], ["[1,1]", "[0,1,0]", "[10,1,10]"]),
    ({"type": "number"}, ["[1.5,1]", "[0.1,0.01,1]"], ["[1.5,1.5]", "[1,1.0]", "[0.10,0.1]"]),
    ({"type": "number", "multipleOf": 0.5}, ["[1.5,1,0]"], ["[1.5,1.5]", "[0.2]"]),
    ({"type": ["integer", "string", "null"]}, ['[1,"1",null,"null"]', '["a","b"]'], ['["1","1"]', "[null,null]"]),
    ({"type": ["boolean", "integer"]}, ["[true,1,0,false]"], ["[true,true]", "[1,true,1]"]),
    ({"enum": [1, 2.5, "a", "b", None, True, 100.0, -7]}, ['[2.5,"a",null,100]'], ['["a","a"]', "[100,100]", "[3]"]),
]


def _compiled(items: Any, spelling: Spelling = "one", **others: Any) -> CompiledGrammar:
    schema = json.dumps({**UNIQUE, "items": items, **others})
    order = "schema" if spelling == "one" else "any"
    return bind(compile_constraint(JsonSchema(schema, order=order, spelling=spelling), PATIENT), VOCABULARY)


@pytest.mark.parametrize(("items", "fit", "unfit"), TABLE)
@pytest.mark.parametrize("spacing", ["compact", "spaced", "indented"])
@pytest.mark.parametrize("spelling", ["one", "any"])
def test_different_values_are_written_and_equal_ones_are_not(
        items: Any, fit: list[str], unfit: list[str], spacing: Any, spelling: Any) -> None:
    order = "schema" if spelling == "one" else "any"
    naive = Naive(compile_constraint(
        JsonSchema(json.dumps({**UNIQUE, "items": items}), spacing=spacing, order=order, spelling=spelling), PATIENT))
    spaces: dict[str, dict[str, Any]] = {
        "compact": {"separators": (",", ":")}, "spaced": {}, "indented": {"indent": 2}}
    for texts, verdict in ((fit, True), (unfit, False)):
        for text in texts:
            written = json.dumps(json.loads(text), **spaces[spacing])
            assert naive.accepts(written) == verdict, written
            assert Draft202012Validator({**UNIQUE, "items": items}).is_valid(json.loads(text)) == verdict


def test_strings_are_compared_decoded_beside_numbers() -> None:
    schema = json.dumps({**UNIQUE, "items": {"type": ["string", "integer"]}})
    naive = Naive(compile_constraint(JsonSchema(schema, order="any", spelling="any"), PATIENT))
    assert naive.accepts(r'["a",1,"\u0062"]')
    assert not naive.accepts(r'["a",1,"\u0061"]')


@pytest.mark.parametrize(("schema", "fit", "unfit"), [
    ({"prefixItems": [INTEGER, {"type": "string"}], "items": False}, ["[]", "[1]", '[1,"1"]'], ['["1"]', '[1,"1",2]']),
    ({"prefixItems": [INTEGER, INTEGER], "items": False, "minItems": 2}, ["[1,2]", "[-1,1]"], ["[1,1]", "[1]"]),
    ({"prefixItems": [{"type": "boolean"}], "items": {"type": ["boolean", "integer"]}},
     ["[true,false,1]", "[false,0]"], ["[true,true]", "[true,1,1]", "[1]"]),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "string", "maxLength": 2}},
     ['["abc","ab","a"]'], ['["ab","ab"]', '["a","abc"]']),
])
def test_places_of_their_own_are_compared_with_all_others(schema: Any, fit: list[str], unfit: list[str]) -> None:
    naive = Naive(compile_constraint(JsonSchema(json.dumps({**UNIQUE, **schema})), PATIENT))
    for texts, verdict in ((fit, True), (unfit, False)):
        for text in texts:
            assert naive.accepts(text) == verdict, text
            assert Draft202012Validator({**UNIQUE, **schema}).is_valid(json.loads(text)) == verdict, text


@pytest.mark.parametrize(("items", "least", "enough"), [
    (DIGIT, 5, 4), ({"type": ["boolean", "null"]}, 4, 3), ({"enum": list(range(20))}, 21, 20),
    ({"anyOf": [DIGIT, {"enum": ["a", "b", "c", "d"]}]}, 9, 8)])
def test_more_items_than_there_are_values_are_refused(items: Any, least: int, enough: int) -> None:
    with pytest.raises(Unsatisfiable):
        compile_constraint(JsonSchema(json.dumps({**UNIQUE, "items": items, "minItems": least})), PATIENT)
    assert compile_constraint(JsonSchema(json.dumps({**UNIQUE, "items": items, "minItems": enough})), PATIENT)


FEW = st.sampled_from([{"enum": [1, 2]}, {"type": "boolean"}, {"enum": ["a", [1], {"b": 1}]}, {"const": 0}])
ONES = [1, 2, True, False, "a", [1], {"b": 1}, 0]
LISTS = [list(items) for count in range(4) for items in product(ONES, repeat=count)]


@settings(max_examples=15, deadline=None)
@given(st.fixed_dictionaries({"type": st.just("array"), "items": FEW}, optional={
    "minItems": st.integers(0, 3), "maxItems": st.integers(0, 3),
    "prefixItems": st.lists(FEW, min_size=1, max_size=2)}),
    st.sampled_from(["not", "oneOf"]), st.sampled_from(["one", "any"]))
def test_lists_with_equal_items_are_what_uniqueness_excludes(
        schema: dict[str, Any], way: str, spelling: Spelling) -> None:
    unique: dict[str, Any] = {"uniqueItems": True}
    schema = {**schema, **({"not": unique} if way == "not" else {"oneOf": [unique, {"maxItems": 1}]})}
    try:
        naive = Naive(compile_constraint(JsonSchema(json.dumps(schema), order="any", spelling=spelling), PATIENT))
    except Unsatisfiable:
        assert not any(Draft202012Validator(schema).is_valid(one) for one in LISTS)
        return
    for one in LISTS:
        written = json.dumps(one, separators=(",", ":"))
        assert naive.accepts(written) == Draft202012Validator(schema).is_valid(one), (schema, one)


@pytest.mark.parametrize("schema", [
    {"anyOf": [{**UNIQUE, "items": INTEGER}, {**UNIQUE, "items": INTEGER, "not": {"uniqueItems": True}}]},
    {**UNIQUE, "items": INTEGER, "oneOf": [{"uniqueItems": True, "minItems": 2}, {"maxItems": 1}]},
    {"not": {"uniqueItems": False}, "type": ["string", "array"]},
    {"type": "array", "items": INTEGER, "not": {"not": {"uniqueItems": True}}},
])
def test_what_is_unique_already_needs_no_negation(schema: dict[str, Any]) -> None:
    try:
        naive = Naive(compile_constraint(JsonSchema(json.dumps(schema)), PATIENT))
    except Unsatisfiable:
        assert schema["not"] == {"uniqueItems": False}
        return
    for one in ([], [1], [1, 2], [1, 1], ["a", "b"], ["a", "a"], ["abcd", "a"], [[], []]):
        written = json.dumps(one, separators=(",", ":"))
        assert naive.accepts(written) == Draft202012Validator(schema).is_valid(one), (schema, one)


LETTERS = b'{}[]",-.\\abx0123456789eflnrstu'
WORDS = [b"1,", b",1", b"1,2", b"11", b"1]", b"0.", b".5", b"[1", b"12,1", b"null", b"true", b",null", b'"a"', b'","',
         b'",', b'a",', b'"]', b'["', b"1,1", b"10", b"0,", b",0]"]
VOCABULARY = small_vocabulary(WORDS, LETTERS)
ITEMS = st.sampled_from([
    INTEGER, DIGIT, {"type": "number"}, {"type": "number", "minimum": 0, "maximum": 1},
    {"type": ["boolean", "integer"]},
    {"type": ["string", "null"], "maxLength": 1, "pattern": "^[abx]*$"}, {"type": "integer", "multipleOf": 5},
    {"type": "string"}, {"type": "string", "maxLength": 1}, {"enum": [0, 1, 10, 11, 100, "a", "b"]},
    {"type": "string", "pattern": "^[ab]{0,2}$"}, {"type": ["string", "integer"], "minimum": 0},
])
SMALL = st.integers(0, 4)
SCHEMAS = st.fixed_dictionaries({"items": ITEMS}, optional={
    "minItems": SMALL, "maxItems": SMALL, "prefixItems": st.lists(ITEMS, min_size=1, max_size=2)})
SPELLINGS = st.sampled_from(["one", "any"])


def _drawn(schema: dict[str, Any], spelling: Spelling) -> CompiledGrammar:
    try:
        return _compiled(spelling=spelling, **schema)
    except ConstraintError:
        assume(False)
        raise


@settings(max_examples=40, deadline=None)
@given(SCHEMAS, SPELLINGS, st.randoms(use_true_random=False))
def test_a_mask_allows_what_can_be_read_and_closed(
        schema: dict[str, Any], spelling: Spelling, random: Random) -> None:
    check_masks(_drawn(schema, spelling), random, 12)


@settings(max_examples=120, deadline=None)
@given(SCHEMAS, SPELLINGS, st.integers(0, 12), st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_every_budget_from_the_least_one_up_closes(
        schema: dict[str, Any], spelling: Spelling, more: int, way: str, random: Random) -> None:
    grammar = _drawn(schema, spelling)
    text = answer(grammar, grammar.min_tokens + more, way, random)
    assert Draft202012Validator({**UNIQUE, **schema}).is_valid(json.loads(text)), (schema, text)
