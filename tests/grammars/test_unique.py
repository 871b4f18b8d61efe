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
from .engine import allowed, bind
from .naive import Naive
from .samplers import WAYS, answer, check_masks

PATIENT = Limits(seconds=120.0)
UNIQUE = {"type": "array", "uniqueItems": True}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}
DIGIT = {"type": "integer", "minimum": 0, "maximum": 3}
TABLE: list[tuple[Any, list[str], list[str]]] = [
    (INTEGER, ["[]", "[1]", "[1,2]", "[10,1,100]", "[-1,1]"], ["[1,1]", "[0,1,0]", "[10,1,10]"]),
    ({"type": "number"}, ["[1.5,1]", "[0.1,0.01,1]"], ["[1.5,1.5]", "[1,1.0]", "[0.10,0.1]"]),
    ({"type": "number", "multipleOf": 0.5}, ["[1.5,1,0]"], ["[1.5,1.5]", "[0.2]"]),
    ({"type": ["integer", "string", "null"]}, ['[1,"1",null,"null"]', '["a","b"]'], ['["1","1"]', "[null,null]"]),
    ({"type": ["boolean", "integer"]}, ["[true,1,0,false]"], ["[true,true]", "[1,true,1]"]),
    ({"enum": [1, 2.5, "a", "b", None, True, 100.0, -7]}, ['[2.5,"a",null,100]'], ['["a","a"]', "[100,100]", "[3]"]),
]
CLOSED = {"type": "object", "additionalProperties": False}
POINT = {**CLOSED, "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}, "required": ["x"]}
NESTED: list[tuple[Any, list[str], list[str]]] = [
    ({"type": "array", "items": {"type": "integer"}}, ["[[],[1],[1,1],[2]]"], ["[[],[1],[]]", "[[1,1],[1,1]]"]),
    ({"type": "array", "prefixItems": [INTEGER, {"type": "string"}], "items": False, "minItems": 1},
     ['[[1],[1,"a"],[2,"a"]]'], ['[[1,"a"],[1,"a"]]', "[[]]", '[["a"]]']),
    ({"type": "array", "items": {"type": "boolean"}, "contains": {"const": True}, "maxContains": 1},
     ["[[true],[false,true],[true,false]]"], ["[[true],[true]]", "[[false]]", "[[true,true]]"]),
    ({"type": ["object", "null", "integer"], "properties": {"a": {"type": "number"}}, "additionalProperties": False},
     ['[{"a":1},{},{"a":1.5},null,1]'],
     ['[{"a":1},{"a":1}]', '[{"a":0.5},{"a":0.50}]', "[{},{}]", "[1,1]", '[{"b":1}]']),
    ({"enum": [[1, 2], [1], {"a": [1]}, {}, [], "a", 1, {"a": 1.5}]}, ['[[1,2],[1],{"a":[1]},{},{"a":1.5},[]]'],
     ['[{"a":[1]},{"a":[1]}]', "[[],[]]", '[{"a":1.5},{"a":1.50}]', "[[2]]"]),
    ({"type": "array", "items": {"type": "array", "items": {"type": "string", "pattern": "^[ab]*$"}, "maxItems": 2}},
     ['[[["a"],[]],[[],["a"]],[["a","b"]]]'], ['[[["a"]],[["a"]]]', '[[["a","b","a"]]]']),
    (POINT, ['[{"x":1},{"x":1,"y":""},{"x":1,"y":"1"},{"x":11}]'],
     ['[{"x":1},{"x":1}]', '[{"x":1,"y":"a"},{"x":1},{"x":1,"y":"a"}]', '[{"y":"a"}]', '[{"x":1,"z":1}]']),
    ({**CLOSED, "properties": {"p": POINT, "q": {"type": "array", "items": POINT}}},
     ['[{"p":{"x":1}},{"p":{"x":1},"q":[]},{"q":[{"x":1},{"x":1}]},{}]'],
     ['[{"p":{"x":1}},{"p":{"x":1}}]', '[{"q":[{"x":1}]},{"q":[{"x":1}]}]', '[{"q":[{}]}]']),
    ({**CLOSED, "properties": {name: {"type": "boolean"} for name in "abc"}, "minProperties": 1, "maxProperties": 2},
     ['[{"a":true},{"a":false},{"a":true,"c":true},{"b":true,"c":true}]'],
     ["[{}]", '[{"a":true,"b":true,"c":true}]', '[{"b":true,"c":true},{"b":true,"c":true}]']),
    ({"anyOf": [POINT, {**CLOSED, "properties": {"x": {"type": "number"}, "z": {"const": "z"}}, "required": ["z"]}]},
     ['[{"x":1},{"x":1,"z":"z"},{"z":"z"}]'], ['[{"x":1,"z":"z"},{"x":1,"z":"z"}]', '[{"z":"z"},{"z":"z"}]']),
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


AB = {"pattern": "^[ab]{1,2}$", "maxLength": 1}
ANY_SPELLING: list[tuple[Any, list[str], list[str]]] = [
    ({"enum": ["a", "b", "c", "d", "e", "f", "ab", "\n"]}, ['["\\u0061","b","\\u000a"]', '["a","\\u0061b"]'],
     ['["\\u0061","a"]', '["a","\\u0061"]', '["\\n","\\u000A"]', '["\\u0067"]']),
    ({"type": "string", "pattern": "^[ab/]{1,3}$"}, ['["\\u0061","b","a\\u0061"]', '["\\/","a"]'],
     ['["aa","a\\u0061"]', '["/","\\/"]', '["\\u0063"]']),
    ({"type": "string", "maxLength": 2}, ['["\\ud83d\\ude00","\\u00e9"]'],
     ['["\\ud83d\\ude00","\U0001f600"]', '["\\ud83d"]']),
    (INTEGER, ["[1.0,2]", "[10,1.00]"], ["[1,1.0]", "[1.0,1.00]", "[1.5]"]),
    ({"type": ["string", "integer"], "minLength": 1}, ['["\\u0031",1.0]'], ['["1","\\u0031"]', "[1,1.0]"]),
    ({"anyOf": [{"enum": ["a", 1, 2, 3, 2.5, 5, 6, 7]}, {"type": "integer", "minimum": 10}]},
     ['[1.0,10.0,"\\u0061"]', "[2.50,2,12]"], ["[1,1.0]", "[10,10.00]", '["a","\\u0061"]', "[4.0]", "[10.5]"]),
    ({"type": "number"}, ["[1e1,1]", "[1.50,1.05]"], ["[10,1e1]", "[1.5,1.50]"]),
]


@pytest.mark.parametrize(("items", "fit", "unfit"), ANY_SPELLING)
def test_scalars_in_any_spelling_are_compared_decoded(items: Any, fit: list[str], unfit: list[str]) -> None:
    schema = json.dumps({**UNIQUE, "items": items})
    naive = Naive(compile_constraint(JsonSchema(schema, order="any", spelling="any"), PATIENT))
    assert [text for text in fit if not naive.accepts(text)] == []
    assert [text for text in unfit if naive.accepts(text)] == []


def test_an_escape_gives_no_value_that_was_written() -> None:
    """Of six values: behind four digits `a` is written, so an escape may give `b` alone."""
    grammar = _compiled({"type": ["string", "integer"], **AB, "minimum": 0, "maximum": 3}, "any", minItems=5)
    matcher = grammar.matcher(forcing=False, closing=False)
    for byte in b'["a",1,0,"\\u006':
        matcher.accept(LETTERS.index(byte))
    assert {chr(LETTERS[token]) for token in allowed(grammar, matcher)} == {"2"}


@pytest.mark.parametrize(("items", "fit", "unfit"), NESTED)
@pytest.mark.parametrize("spacing", ["compact", "spaced", "indented"])
def test_lists_and_objects_are_compared_by_value(
        items: Any, fit: list[str], unfit: list[str], spacing: Any) -> None:
    test_different_values_are_written_and_equal_ones_are_not(items, fit, unfit, spacing, "one")


TREE = {**CLOSED, "properties": {"below": {"$ref": "#/items"}}}


PAIR = {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True}
SMALL_OBJECT = {"type": "object", "maxProperties": 1, "additionalProperties": {"const": 0}}


@pytest.mark.parametrize("schema", [
    {"items": TREE, "minItems": 300}, {"items": SMALL_OBJECT, "minItems": 9}, {"items": PAIR, "minItems": 5},
    {"items": {"type": "array", "items": {"$ref": "#/items"}, "maxItems": 1}, "minItems": 40},
    {"items": {**PAIR, "contains": {"const": True}}, "minItems": 3},
    {"items": {"type": "array", "items": {"$ref": "#/items"}, "maxItems": 2, "uniqueItems": True}, "minItems": 30},
    {"prefixItems": [POINT, {"const": 1}], "items": TREE, "minItems": 3},
    {"items": INTEGER, "contains": {"enum": [5, 7]}, "minContains": 2, "minItems": 9},
    {"prefixItems": [INTEGER, {"type": "boolean"}, {"const": "a"}], "items": INTEGER, "minItems": 9},
])
def test_places_with_enough_values_are_told(schema: Any) -> None:
    assert compile_constraint(JsonSchema(json.dumps({**UNIQUE, **schema})), PATIENT)


@pytest.mark.parametrize("schema", [
    {"items": PAIR, "minItems": 6}, {"items": {**PAIR, "contains": {"const": True}}, "minItems": 4},
    {"items": {"type": "object", "maxProperties": 0}, "minItems": 2},
    {"items": {"type": "object", "patternProperties": {"^[ab]$": {"type": "boolean"}}, "additionalProperties": False},
     "minItems": 10},
    {"items": INTEGER, "contains": {"const": 5}, "minContains": 2},
])
@pytest.mark.parametrize("order", ["schema", "any"])
def test_places_with_too_few_values_are_unsatisfiable(schema: Any, order: Any) -> None:
    schema = {**UNIQUE, **schema}
    with pytest.raises(Unsatisfiable):
        compile_constraint(JsonSchema(json.dumps(schema), order=order), PATIENT)
    inside = {**CLOSED, "properties": {"a": schema, "b": INTEGER}}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(inside).replace("#/items", "#/properties/a/items"),
                                                order=order), PATIENT))
    assert naive.accepts('{"b":1}')
    assert not naive.accepts('{"a":[')


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
    ({"anyOf": [DIGIT, {"enum": ["a", "b", "c", "d"]}]}, 9, 8),
    ({"type": "array", "items": DIGIT, "minItems": 1, "maxItems": 2}, 21, 20),
    ({"type": "object", "properties": {"a": DIGIT, "b": {"const": 1}}, "additionalProperties": False}, 11, 10)])
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


LETTERS = b'{}[]",-.:\\abx0123456789eflnrstu'
WORDS = [b"1,", b",1", b"1,2", b"11", b"1]", b"0.", b".5", b"[1", b"12,1", b"null", b"true", b",null", b'"a"', b'","',
         b'",', b'a",', b'"]', b'["', b"1,1", b"10", b"0,", b",0]",
         b'{"', b'":', b'"}', b"},{", b"],[", b'{"a":', b'"}]', b"]]", b"[["]
VOCABULARY = small_vocabulary(WORDS, LETTERS)
ITEMS = st.sampled_from([
    INTEGER, DIGIT, {"type": "number"}, {"type": "number", "minimum": 0, "maximum": 1},
    {"type": ["boolean", "integer"]},
    {"type": ["string", "null"], "maxLength": 1, "pattern": "^[abx]*$"}, {"type": "integer", "multipleOf": 5},
    {"type": "string"}, {"type": "string", "maxLength": 1}, {"enum": [0, 1, 10, 11, 100, "a", "b"]},
    {"type": "string", "pattern": "^[ab]{0,2}$"}, {"type": ["string", "integer"], "minimum": 0},
    {"enum": ["a", "b", "x", "ab", "abx", "\n", "", "n"]},
    {**AB, "type": ["string", "integer"], "minimum": 0, "maximum": 3},
    {"type": "array", "items": {"enum": [0, 1, "a"]}, "maxItems": 2}, {"type": "array", "items": {"type": "string"}},
    {"type": "array", "prefixItems": [INTEGER, {"type": "boolean"}], "items": False, "minItems": 2},
    {**CLOSED, "properties": {"a": {"type": "string"}, "b": {"enum": [0, 1]}}, "required": ["b"]},
    {**CLOSED, "properties": {"a": {"enum": [1, 2, "a"]}, "b": {"const": 1}}},
    {**CLOSED, "properties": {"a": {"type": ["string", "null"]}}}, {"enum": [[1], [2], {"a": 1}, {"a": 11}, 1, 2, 12]},
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
@given(SCHEMAS, SPELLINGS, st.integers(0, 40), st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_every_budget_from_the_least_one_up_closes(
        schema: dict[str, Any], spelling: Spelling, more: int, way: str, random: Random) -> None:
    grammar = _drawn(schema, spelling)
    text = answer(grammar, grammar.min_tokens + more, way, random)
    assert Draft202012Validator({**UNIQUE, **schema}).is_valid(json.loads(text)), (schema, text)


@pytest.mark.parametrize("spelling", ["one", "any"])
@pytest.mark.parametrize("least", [0, 300])
def test_different_strings_outgrow_the_room_for_keys(least: int, spelling: Spelling) -> None:
    grammar = _compiled({"type": "string"}, spelling, minItems=least)
    matcher = grammar.matcher()
    for byte in json.dumps([f"{number:03}ab{number:03}" for number in range(300)], separators=(",", ":")).encode():
        matcher.accept(LETTERS.index(byte))
    assert matcher.may_end()
