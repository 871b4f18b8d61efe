"""uniqueItems of any items: compared by value, whatever their texts (ir.Unlike)."""

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
from espalier.grammars.errors import BudgetTooSmall, ConstraintError, Unsatisfiable
from espalier.grammars.ir import Unlike
from espalier.grammars.limits import Limits

from .drawn import small_vocabulary
from .engine import allowed, bind
from .naive import Naive
from .samplers import WAYS, answer, check_masks, check_overlays

PATIENT = Limits(seconds=120.0)  # of a wall clock, on machines that do other work too
UNIQUE: dict[str, Any] = {"type": "array", "uniqueItems": True}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}
CLOSED = {"type": "object", "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": INTEGER}}
TREE = {**CLOSED, "properties": {"below": {"$ref": "#/items"}}}
FEW = {**CLOSED, "properties": {"a": {"type": "boolean"}, "b": {"enum": [0, 1]}}}
TABLE: list[tuple[Any, list[str], list[str]]] = [
    ({"items": OPEN}, ['[{"a":1},{"a":2},{},{"x":1}]'],
     ['[{"a":1},{"a":1}]', '[{"a":1,"x":"y"},{"x":"y","a":1}]', '[{"x":1},{"x":1.0}]', "[{},{}]"]),
    ({}, ['[1,"1",[1],{"a":1},null,true,[],{}]', '[{"a":[1,2]},{"a":[2,1]}]', "[[1],[1,1]]"],
     ["[1,1.0]", "[[1],[1.0]]", '[{"a":1,"b":[2]},{"b":[2],"a":1}]', "[[[]],[[]]]", "[null,null]", "[10,1e1]"]),
    ({"items": TREE}, ['[{},{"below":{}},{"below":{"below":{}}}]'], ["[{},{}]", '[{"below":{}},{"below":{}}]']),
    ({"items": {**UNIQUE, "items": STRING}}, ['[[],["a"],["a","b"],["b","a"]]'], ['[["a","a"]]', '[["a"],["a"]]']),
    ({"items": {**UNIQUE, "items": STRING, "contains": {"const": "a"}}}, ['[["a","b"],["b","a"],["a"]]'],
     ['[["a","a"]]', '[["b","b","a"]]', '[["a"],["a"]]', '[["b"]]']),
    ({"items": {**UNIQUE, "items": OPEN}}, ['[[{}],[{},{"a":1}]]'], ["[[{},{}]]", "[[{}],[{}]]"]),
    ({"items": STRING, "contains": {"minLength": 2}}, ['["a","bc"]', '["bc"]'], ['["a"]', '["bc","bc"]', "[]"]),
    ({"items": INTEGER, "contains": {"minimum": 5}, "maxContains": 1, "minItems": 2}, ["[1,5]", "[9,1,2]"],
     ["[5,6]", "[1,1,5]", "[5]"]),
    ({"prefixItems": [OPEN, STRING], "items": OPEN}, ['[{},"a",{"a":1}]'], ['[{},"a",{}]', '[{},"a","b"]']),
    ({"items": {"type": "object", "patternProperties": {"^x": STRING}, "additionalProperties": False}},
     ['[{"x":"a"},{"xy":"a"},{}]'], ['[{"x":"a"},{"x":"a"}]', '[{"y":"a"}]']),
    ({"items": FEW}, ['[{"a":true,"b":0},{"b":0},{}]'], ['[{"a":true,"b":1},{"a":true,"b":1}]']),
    ({"items": {"type": ["string", "array"], "items": {}}}, ['["[1]",[1],"é",["\\n"]]'],
     ['["\\u00e9","é"]', '[["\\n"],["\\u000a"]]']),
]
SPACES: dict[str, dict[str, Any]] = {"compact": {"separators": (",", ":")}, "spaced": {}, "any": {"indent": 1}}


@pytest.mark.parametrize(("schema", "fit", "unfit"), TABLE)
@pytest.mark.parametrize(("spacing", "spelling"), [("compact", "one"), ("spaced", "any"), ("any", "any")])
def test_items_are_compared_by_value(
        schema: Any, fit: list[str], unfit: list[str], spacing: Spacing, spelling: Spelling) -> None:
    order = "schema" if spelling == "one" else "any"
    schema = {**UNIQUE, **schema}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema), spacing, order=order, spelling=spelling), PATIENT))
    for texts, verdict in ((fit, True), (unfit, False)):
        for text in texts:
            written = json.dumps(json.loads(text), ensure_ascii=False, **SPACES[spacing])
            assert naive.accepts(written) == verdict, written
            assert Draft202012Validator(schema).is_valid(json.loads(text)) == verdict


@pytest.mark.parametrize(("items", "least", "enough"), [
    (FEW, 10, 9), ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, 8, 7)])
@pytest.mark.parametrize("spelling", ["one", "any"])
def test_more_items_than_there_are_values_are_refused(
        items: Any, least: int, enough: int, spelling: Spelling) -> None:
    order = "schema" if spelling == "one" else "any"
    with pytest.raises(Unsatisfiable):
        compile_constraint(JsonSchema(json.dumps({**UNIQUE, "items": items, "minItems": least}), order=order,
                                      spelling=spelling), PATIENT)
    assert compile_constraint(JsonSchema(json.dumps({**UNIQUE, "items": items, "minItems": enough}), order=order,
                                         spelling=spelling), PATIENT)


LETTERS = b'{}[]",-.:\\abx0123456789eflnrstu '
WORDS = [b"1,", b",1", b"11", b"1]", b"[1", b"null", b"true", b",null", b'"a"', b'","', b'",', b'"]', b'["', b'{"',
         b'":', b'"}', b"},{", b"},", b"}]", b"],[", b'{"a":', b'{"a":1', b'":1},{"', b"]]", b"[[", b"1},", b',"b":',
         b'[{}', b'{}', b',{}', b"{},{"]
VOCABULARY = small_vocabulary(WORDS, LETTERS)
SINGLE = small_vocabulary([], LETTERS)
ITEMS = st.sampled_from([
    OPEN, FEW, {}, {"type": "array", "items": {"enum": [0, 1]}, "maxItems": 2}, {**UNIQUE, "items": STRING},
    {**UNIQUE, "items": {"enum": [0, 1, 2, 3, "a", "b", [], True]}}, {**UNIQUE, "items": {"type": ["object", "null"]}},
    {"type": "object", "additionalProperties": INTEGER, "maxProperties": 1},
    {"type": "object", "patternProperties": {"^[ab]$": {"type": "boolean"}}, "additionalProperties": False},
    {**CLOSED, "properties": {"a": {"type": "string", "maxLength": 1}, "b": {"const": 1}}, "required": ["a"]},
    {**CLOSED, "properties": {"a": {"$ref": "#/items"}, "b": {"enum": [1, 12]}}},
    {**CLOSED, "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 11}, "b": INTEGER}, "minProperties": 1},
    {"anyOf": [FEW, {**CLOSED, "properties": {"b": {"enum": [0, 1]}, "a": {"type": "boolean"}}}]},
])
SMALL = st.integers(0, 3)
SCHEMAS = st.fixed_dictionaries({"items": ITEMS}, optional={
    "minItems": SMALL, "maxItems": SMALL, "minContains": SMALL,
    "contains": st.sampled_from([{"type": "object"}, {"minProperties": 1}, {}, {"enum": [1, 2, "a"]},
                                {"const": 1}])})
PROFILES = st.sampled_from([{}, {"order": "any"}, {"order": "any", "spelling": "any"}, {"spacing": "any"},
                            {"order": "any", "spelling": "any", "spacing": "any"}])


def _drawn(schema: dict[str, Any], profile: dict[str, Any]) -> CompiledGrammar:
    try:
        grammar = compile_constraint(JsonSchema(json.dumps({**UNIQUE, **schema}), **profile), PATIENT)
        bound = bind(grammar, VOCABULARY)
    except ConstraintError:
        assume(False)
        raise
    assume(any(isinstance(rule.register, Unlike) for rule in grammar.rules))
    return bound


@settings(max_examples=40, deadline=None)
@given(SCHEMAS, PROFILES, st.randoms(use_true_random=False))
def test_a_mask_allows_what_can_be_read_and_closed(
        schema: dict[str, Any], profile: dict[str, Any], random: Random) -> None:
    check_masks(_drawn(schema, profile), random, 14)


@pytest.mark.parametrize(("text", "allowed_bytes"), [
    ('[[1],"a" ', " ]"), ('[[1],"a"  ', " ]"), ('[[],"a" ', " ],"), ('[[],"a",[1] ', " ]")])
def test_blanks_behind_the_last_value_lead_to_no_comma(text: str, allowed_bytes: str) -> None:
    schema = {**UNIQUE, "prefixItems": [{"type": "array"}], "items": {"enum": ["a", [1]]}}
    grammar = bind(compile_constraint(JsonSchema(json.dumps(schema), spacing="any"), PATIENT), SINGLE)
    matcher = grammar.matcher(forcing=False, closing=False)
    for byte in text.encode():
        matcher.accept(SINGLE.tokens.index(bytes([byte])))
    spelled = {SINGLE.tokens[token] for token in allowed(grammar, matcher)} - {b"\t", b"\n", b"\r"}
    assert spelled == {byte.encode() for byte in allowed_bytes}


@settings(max_examples=25, deadline=None)
@given(SCHEMAS, PROFILES, st.integers(0, 30), st.randoms(use_true_random=False))
def test_near_the_end_of_a_budget_a_mask_allows_exactly_what_can_still_close(
        schema: dict[str, Any], profile: dict[str, Any], spare: int, random: Random) -> None:
    check_overlays(_drawn(schema, profile), random, 10, spare)


@pytest.mark.parametrize(("items", "least", "tokens"), [
    ({}, 2, 5), ({}, 5, 11), ({}, 999, 3995), ({"oneOf": [{"type": "string", "format": "uuid"}, {}]}, 2, 5),
    (OPEN, 3, 18), ({"type": "array", "items": {"enum": ["abxab"]}}, 3, 40)])
def test_different_items_cost_what_the_shortest_of_so_many_do(items: Any, least: int, tokens: int) -> None:
    """Not what a search meets first, such as numbers of many digits."""
    constraint = JsonSchema(json.dumps({**UNIQUE, "items": items, "minItems": least}))
    assert bind(compile_constraint(constraint, PATIENT), SINGLE).min_tokens == tokens


@pytest.mark.parametrize(("schema", "profile"), [
    ({"items": {"anyOf": [{}, {"const": []}]}, "minItems": 2}, {"spacing": "any"}),
    ({"items": {"anyOf": [{"type": "string", "format": "uuid"}, {}]}, "minItems": 2}, {}),
    ({"items": {"type": "array", "items": {"type": ["null", "integer"]}, "maxItems": 3}, "minItems": 2}, {}),
    ({"items": {**UNIQUE, "items": INTEGER}, "minItems": 1}, {"spacing": "spaced", "spelling": "any"}),
    ({"items": {**UNIQUE, "items": {**UNIQUE, "items": {"maxLength": 1, "type": "string"}}, "minItems": 2},
      "minItems": 2}, {"spacing": "any"})])
def test_a_budget_below_the_fewest_tokens_is_refused_with_their_number(
        schema: dict[str, Any], profile: dict[str, Any]) -> None:
    grammar = bind(compile_constraint(JsonSchema(json.dumps({**UNIQUE, **schema}), order="any", **profile), PATIENT),
                   VOCABULARY)
    for seed in range(8):
        matcher, random = grammar.matcher(forcing=False), Random(seed)
        for _ in range(12):
            need = matcher.min_tokens()
            if need:
                with pytest.raises(BudgetTooSmall) as refused:
                    allowed(grammar, matcher, need - 1)
                assert refused.value.needed == need
            here = sorted(allowed(grammar, matcher) - set(grammar.vocabulary.stop))
            if not here:
                break
            matcher.accept(random.choice(here))


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, PROFILES, st.integers(0, 40), st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_every_budget_from_the_least_one_up_closes(
        schema: dict[str, Any], profile: dict[str, Any], more: int, way: str, random: Random) -> None:
    grammar = _drawn(schema, profile)
    text = answer(grammar, grammar.min_tokens + more, way, random)
    assert Draft202012Validator({**UNIQUE, **schema}).is_valid(json.loads(text, parse_float=_exactly)), (schema, text)


def _exactly(digits: str) -> float | Decimal:
    """A float where it is the number: one that is not may equal an item that it does not."""
    return float(digits) if Decimal(float(digits)) == Decimal(digits) else Decimal(digits)


@pytest.mark.parametrize(("items", "least"), [
    ({"anyOf": [CLOSED, {"type": "boolean"}]}, 3), ({"anyOf": [FEW, {"enum": [1, "abxab"]}]}, 5),
    ({**CLOSED, "properties": {"a": {**CLOSED, "required": ["b"], "patternProperties": {"^a": True}}}}, 0)])
@pytest.mark.parametrize("spelling", ["one", "any"])
def test_wherever_a_list_stands_some_token_brings_its_end_nearer(items: Any, least: int, spelling: Spelling) -> None:
    """Also between items, where the next is followed by a comma; and no comma stands where no item is left."""
    order = "schema" if spelling == "one" else "any"
    constraint = JsonSchema(json.dumps({**UNIQUE, "items": items, "minItems": least}), order=order, spelling=spelling)
    grammar = bind(compile_constraint(constraint, PATIENT), small_vocabulary(WORDS[::3], LETTERS))
    stop = set(grammar.vocabulary.stop)
    for seed in range(6):
        matcher, random = grammar.matcher(forcing=False), Random(seed)
        for _ in range(20):
            need = matcher.min_tokens()
            assert not need or allowed(grammar, matcher, need) - stop
            here = sorted(allowed(grammar, matcher) - stop)
            if not here:
                break
            matcher.accept(random.choice(here))


@pytest.mark.parametrize(("items", "least"), [
    ({**UNIQUE, "items": {"enum": [1, 2, 3]}}, 15),
    ({**CLOSED, "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}}}, 9),
    ({**CLOSED, "properties": {"a": {"type": "string", "pattern": "^[\x00-\x02a]$"}}, "required": ["a"]}, 4),
])
@pytest.mark.parametrize("way", WAYS)
def test_the_last_values_that_there_are_are_found_in_any_spelling(items: Any, least: int, way: str) -> None:
    schema = {**UNIQUE, "items": items, "minItems": least}
    constraint = JsonSchema(json.dumps(schema), order="any", spelling="any")
    grammar = bind(compile_constraint(constraint, PATIENT), VOCABULARY)
    for seed, spare in enumerate((0, 3, 40)):
        text = answer(grammar, grammar.min_tokens + spare, way, Random(seed))
        assert Draft202012Validator(schema).is_valid(json.loads(text)), text
