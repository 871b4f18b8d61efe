"""uniqueItems negated: lists in which some two items are equal, whatever their texts (ir.Unlike)."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema, Spacing, Spelling
from espalier.grammars.errors import Unsatisfiable, UnsupportedKeyword
from espalier.grammars.ir import Unlike
from espalier.grammars.limits import Limits
from espalier.grammars.masks.configuration import Limits as Few

from .drawn import small_vocabulary
from .engine import allowed, bind
from .naive import Naive
from .samplers import WAYS, answer, check_masks

PATIENT = Limits(seconds=120.0)  # of a wall clock, on machines that do other work too
NOT_UNIQUE: dict[str, Any] = {"type": "array", "not": {"uniqueItems": True}}
UNIQUE: dict[str, Any] = {"type": "array", "uniqueItems": True}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}
CLOSED = {"type": "object", "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": INTEGER}}
TABLE: list[tuple[Any, list[str], list[str]]] = [
    ({"items": STRING}, ['["a","a"]', '["b","a","c","a","d"]', '["a","a","a"]'], ["[]", '["a"]', '["a","b"]', "[1,1]"]),
    ({"items": {"type": "number"}}, ["[1,1.0]", "[0.5,7,0.50]", "[10,1e1]", "[0,0]"], ["[1,11]", "[1,2,3]"]),
    ({}, ['[1,"1",[1],[1.0]]', '[{"a":1,"b":2},null,{"b":2,"a":1}]', "[[],{},[]]"],
     ['[1,"1",true,[],{},null]', "[[1],[2]]", '[{"a":[1,2]},{"a":[2,1]}]', "[]", "{}"]),
    ({"items": OPEN, "minItems": 3}, ['[{"x":1},{},{}]', '[{},{},{"a":1}]'], ["[{},{}]", '[{},{"a":1},{"a":2}]']),
    ({"items": OPEN, "maxItems": 3}, ['[{"x":1},{},{}]', '[{},{},{"a":1}]', '[{"a":1},{"x":2},{"a":1}]'],
     ["[{}]", '[{},{"a":1},{"a":2}]', "[{},{},{},{}]"]),
    ({"items": STRING, "maxItems": 2}, ['["a","a"]', '["",""]'], ['["a","b"]', '["a"]', '["a","a","a"]']),
    ({"prefixItems": [STRING, {"enum": ["a", "b"]}]}, ['["a","a"]', '["b","b",1]', '["x","b",[1],"q",[1]]'],
     ['["x","x"]', '["a","b"]', '["a"]', "[1,1]"]),
    ({"prefixItems": [STRING, INTEGER], "items": {"type": ["integer", "null"]}},
     ['["a",1,1]', '["a",1,2,1]', '["a",1,null,null]', '["a",1,2,2]'], ['["a",1]', '["a",1,2,3]', '["a",1,null]']),
    ({"prefixItems": [STRING, OPEN, {}], "items": False}, ['["a",{"a":1},{"a":1}]', '["a",{"x":1},"a"]'],
     ['["a",{},1]', '["a","a"]', '["a",{"a":1},{"a":2}]']),
    ({"contains": INTEGER}, ['[1,"a",2,"a"]', '["a",1,"a"]', "[1,1]", '["a","a",1]', '["a",{},{},"a",7]'],
     ['["a","a"]', '[1,"a",2]', '["a",1]', "[]"]),
    ({"contains": {"maxLength": 1}, "minContains": 2, "maxContains": 3},
     ['["ab",1,"ab",2]', '[1,1]', '["ab",1,"abc",2,"ab",3]', '["ab","ab","x",1,[]]'],
     ['["ab","ab",1]', '["ab","ab",1,2,3,4]', '["ab",1,2]']),
    ({"contains": OPEN, "minContains": 0, "maxContains": 1, "prefixItems": [{"required": ["x"]}],
      "items": {"minimum": 3}},
     ['[1,5,5]', '[{"x":1},3,3]', '[5,5]', '["a","a"]'], ['[{"x":1},{"x":1}]', '[{},{}]', '[1,1]', '[{"x":1},3,4]']),
    ({"allOf": [{"contains": INTEGER}, {"contains": STRING, "maxContains": 1}]},
     ['["a",1,null,null]', '[1,1,"a"]', '[[],"a",[],1]'], ['["a","a",1]', '["a",1]', '["a",null,null]', '[1,1]']),
    ({"items": NOT_UNIQUE, "contains": {"minItems": 3}},
     ["[[1,1],[1,1],[1,1,1]]", "[[1,2,2],[1,2,2]]"], ["[[1,1],[1,1]]", "[[1,1],[2,2],[1,1,1]]"]),
    ({"items": {**UNIQUE, "items": OPEN}}, ['[[{}],[{}]]', '[[{},{"a":1}],[],[{},{"a":1}]]', "[[],[]]"],
     ['[[{},{}],[{},{}]]', '[[{}],[]]', '[[{"a":1},{}],[{},{"a":1}]]']),
    ({**UNIQUE, "not": False, "items": {**NOT_UNIQUE, "items": INTEGER}}, ["[[1,1],[2,2]]", "[]", "[[1,2,1]]"],
     ["[[1,1],[1,1]]", "[[1,2]]", "[[1,1],[2]]"]),
    ({"items": NOT_UNIQUE}, ["[[1,1],[1,1]]", "[[1,1],[2,2],[2,2]]"], ["[[1],[1]]", "[[1,2],[1,2]]", "[[1,1],[2,2]]"]),
]
SPACES: dict[str, dict[str, Any]] = {"compact": {"separators": (",", ":")}, "spaced": {}, "any": {"indent": 1}}


@pytest.mark.parametrize(("schema", "fit", "unfit"), TABLE)
@pytest.mark.parametrize(("spacing", "spelling"), [("compact", "one"), ("spaced", "any"), ("any", "any")])
def test_two_equal_items_are_asked_for(
        schema: Any, fit: list[str], unfit: list[str], spacing: Spacing, spelling: Spelling) -> None:
    schema = {**NOT_UNIQUE, **schema}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema), spacing, order="any", spelling=spelling), PATIENT))
    for texts, verdict in ((fit, True), (unfit, False)):
        for text in texts:
            written = json.dumps(json.loads(text), ensure_ascii=False, **SPACES[spacing])
            assert naive.accepts(written) == verdict, written
            assert Draft202012Validator(schema).is_valid(json.loads(text)) == verdict


@pytest.mark.parametrize("schema", [
    {"type": "array", "items": OPEN, "oneOf": [{"uniqueItems": True}, {"minItems": 3}]},
    {"type": "array", "items": OPEN, "if": {"uniqueItems": True}, "then": {"maxItems": 1}},
    {"type": "array", "items": INTEGER, "if": {"uniqueItems": True}, "then": {"maxItems": 1}, "else": {"minItems": 3}},
    {"oneOf": [{"type": "array", "uniqueItems": True, "items": {"type": ["object", "integer"]}},
               {"type": "array", "minItems": 3}]},
])
@pytest.mark.parametrize("one", [[], [{}], [{}, {}], [{}, {"a": 1}], [{}, {"a": 1}, {}], [{}, {"a": 1}, {"b": 1}],
                                 [1], [1, 1], [1, 2, 1], [1, 2, 3]])
def test_uniqueness_is_a_condition(schema: Any, one: list[Any]) -> None:
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema)), PATIENT))
    assert naive.accepts(json.dumps(one, separators=(",", ":"))) == Draft202012Validator(schema).is_valid(one)


@pytest.mark.parametrize("schema", [
    {"items": {"anyOf": [{"$ref": "#"}, INTEGER]}}, {"contains": INTEGER, "minContains": 40}])
def test_what_is_not_enforced_is_refused(schema: Any) -> None:
    with pytest.raises(UnsupportedKeyword) as caught:
        compile_constraint(JsonSchema(json.dumps({**NOT_UNIQUE, **schema})), PATIENT)
    assert caught.value.keyword == "uniqueItems"


LETTERS = b'{}[]",-.:\\abx0123456789eflnrstu '
WORDS = [b"1,", b",1", b"11", b"1]", b"[1", b"null", b"true", b",null", b'"a"', b'","', b'",', b'"]', b'["', b'{"',
         b'":', b'"}', b"},{", b"},", b"}]", b"],[", b'{"a":', b'{"a":1', b'":1},{"', b"]]", b"[[", b"1},", b',"b":',
         b'[{}', b'{}', b',{}', b"{},{", b'ab', b'a","a']
VOCABULARY = small_vocabulary(WORDS, LETTERS)
ITEMS = st.sampled_from([
    OPEN, {}, STRING, INTEGER, {"type": "array", "items": {"enum": [0, 1]}, "maxItems": 2},
    {"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^[ab]{2}$"}, {"enum": list(range(9, 20))},
    {"type": "object", "additionalProperties": INTEGER, "maxProperties": 1}, {"type": ["number", "null"]},
    {**CLOSED, "properties": {"a": {"type": "string", "maxLength": 1}, "b": {"const": 1}}, "required": ["a"]},
    {**CLOSED, "properties": {"a": {"$ref": "#/items"}, "b": {"enum": [1, 12]}}},
    {"type": "array", "uniqueItems": True, "items": STRING},
])
SMALL = st.integers(0, 4)
NESTED = st.sampled_from([{**kind, "items": item} for item in (STRING, INTEGER, OPEN, {})
                          for kind in (NOT_UNIQUE, UNIQUE)])
INSIDE = st.one_of(ITEMS, ITEMS, NESTED)
COUNTED = st.sampled_from([{}, OPEN, STRING, INTEGER, {"type": "string", "pattern": "^a"}, {"maxLength": 1},
                           {"minimum": 9}, {"required": ["a"]}, {"enum": [1, {"b": 1, "a": "x"}, "aa"]},
                           {"not": STRING}])
COUNTS = {"minContains": SMALL, "maxContains": SMALL, "minItems": SMALL, "maxItems": SMALL}
SCHEMAS = st.one_of(
    st.fixed_dictionaries({"items": ITEMS}, optional={"minItems": SMALL, "maxItems": SMALL}),
    st.fixed_dictionaries({"items": ITEMS, "contains": COUNTED}, optional=COUNTS),
    st.fixed_dictionaries({"contains": COUNTED}, optional={
        "items": COUNTED, "prefixItems": st.lists(COUNTED, min_size=1, max_size=2), **COUNTS}),
    st.fixed_dictionaries({"items": NESTED, "not": st.just(False), "uniqueItems": st.just(True)}, optional={
        "minItems": SMALL, "maxItems": SMALL, "prefixItems": st.lists(INSIDE, min_size=1, max_size=2)}),
    st.fixed_dictionaries({"items": INSIDE}, optional={
        "minItems": SMALL, "maxItems": SMALL, "prefixItems": st.lists(INSIDE, min_size=1, max_size=3)}))
PROFILES = st.sampled_from([{}, {"order": "any"}, {"order": "any", "spelling": "any"}, {"spacing": "any"},
                            {"order": "any", "spelling": "any", "spacing": "any"}])


def _exactly(text: str) -> int | Decimal:
    number = Decimal(text)
    return int(number) if number == int(number) else number


def _drawn(schema: dict[str, Any], profile: dict[str, Any]) -> CompiledGrammar:
    try:
        grammar = compile_constraint(JsonSchema(json.dumps({**NOT_UNIQUE, **schema}), **profile), PATIENT)
    except (Unsatisfiable, UnsupportedKeyword):
        assume(False)
        raise
    assume(any(isinstance(rule.register, Unlike) for rule in grammar.rules))
    return bind(grammar, VOCABULARY)


@settings(max_examples=40, deadline=None)
@given(SCHEMAS, PROFILES, st.randoms(use_true_random=False))
def test_a_mask_allows_what_can_be_read_and_closed(
        schema: dict[str, Any], profile: dict[str, Any], random: Random) -> None:
    check_masks(_drawn(schema, profile), random, 14)


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, PROFILES, st.integers(0, 40), st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_every_budget_from_the_least_one_up_closes(
        schema: dict[str, Any], profile: dict[str, Any], more: int, way: str, random: Random) -> None:
    grammar = _drawn(schema, profile)
    text = answer(grammar, grammar.min_tokens + more, way, random)
    value = json.loads(text, parse_float=_exactly)
    assert Draft202012Validator({**NOT_UNIQUE, **schema}).is_valid(value), (schema, text)


def test_the_least_budget_is_that_of_the_cheapest_item_twice() -> None:
    schema = {**NOT_UNIQUE, "items": STRING, "minItems": 3}
    grammar = bind(compile_constraint(JsonSchema(json.dumps(schema)), PATIENT), VOCABULARY)
    assert grammar.min_tokens == len('["","",""]')  # bytes


@pytest.mark.parametrize(("schema", "threads"), [
    ({"items": {"type": ["integer", "string"]}, "prefixItems": [STRING, {}, INTEGER]}, 24),
    ({"contains": INTEGER}, 21), ({"contains": INTEGER, "minContains": 3}, 45)])
def test_ways_do_not_multiply_with_items(schema: Any, threads: int) -> None:
    """Which items were chosen to come again is followed in all ways; those that chose less are dropped."""
    grammar = compile_constraint(JsonSchema(json.dumps({**NOT_UNIQUE, **schema})), PATIENT)
    grammar = bind(grammar, VOCABULARY, limits=Few(threads=threads))
    matcher = grammar.matcher(forcing=False)
    written = json.dumps(["a", "b", *(str(n) if n % 3 else n for n in range(40))], separators=(",", ":"))
    for byte in written.encode()[:-1]:
        matcher.accept(VOCABULARY.tokens.index(bytes([byte])))
    assert VOCABULARY.tokens.index(b"]") not in allowed(grammar, matcher)
