"""uniqueItems where several places of a list compete for the same values: each that it must have finds one."""

from __future__ import annotations

import json
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import ConstraintError, ConstraintTooLarge, Unsatisfiable
from espalier.grammars.limits import Limits

from .drawn import small_vocabulary
from .engine import bind
from .naive import Naive
from .samplers import WAYS, answer, check_masks

PATIENT = Limits(seconds=120.0)
UNIQUE: dict[str, Any] = {"type": "array", "uniqueItems": True}
INTEGER, STRING, OBJECT = {"type": "integer"}, {"type": "string"}, {"type": "object"}
DIGITS: dict[str, Any] = {"enum": [1, 2, 3, 4, 5, 6, 7, 8]}
TREE = {"type": "object", "properties": {"below": {"$ref": "#/items"}}, "additionalProperties": False}
WORDS = [b"1,", b",1", b"[1", b"[1,", b"12", b"]]", b'"a"', b'["a"', b'"a",', b"[{}", b"},{", b"true", b'":1}', b"5,",
         b"[5,6"]
VOCABULARY = small_vocabulary(WORDS, b'{}[]",-.:\\abcefhlnorstuwx0123456789 ')


def _schema(places: list[Any], least: int, **others: Any) -> dict[str, Any]:
    return {**UNIQUE, "prefixItems": places, "minItems": least, **others}


TABLE: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (_schema([DIGITS, {"const": 1}], 2), ["[2,1]", "[8,1,9]"], ["[1,1]", "[1", "[2,1,2]", "[2]"]),
    (_schema([INTEGER, {"const": 1}], 2), ["[-1,1]", "[12,1]", "[0,1,[]]"], ["[1,1]", "[1,", "[1]"]),
    (_schema([STRING, {"const": "a"}], 2), ['["b","a"]', '["aa","a"]', '["","a"]'], ['["a",', '["a"]']),
    (_schema([OBJECT, {"const": {}}], 2), ['[{"a":1},{}]', '[{"a":{}},{},1]'], ["[{}", '[{"a":1},{"a":1}]']),
    (_schema([{}, {"const": None}], 2), ["[1,null]", "[[],null]"], ["[null", "[1,2]"]),
    (_schema([{"type": "array"}, {"enum": [[], [1]]}, {"const": [1]}], 3), ["[[2],[],[1]]"],
     ["[[]", "[[1]", "[[2],[1]"]),
    (_schema([DIGITS, {"enum": [1, 2, 3]}, {"enum": [2, 3]}, {"enum": [1, 3]}], 4),
     ["[4,1,2,3]", "[8,2,3,1]", "[5,3,2,1]"], ["[1", "[2", "[3", "[4,1,2,1]"]),
    (_schema([DIGITS, {"const": 1}], 1), ["[1]", "[2]", "[2,1]", "[2,1,1.5]"], ["[1,", "[]"]),
    (_schema([INTEGER, {"const": 5}], 3, items=INTEGER, contains={"const": 5}), ["[1,5,2]"], ["[5,", "[1,5]"]),
    (_schema([{"enum": [5, 6]}, {"enum": [5, 6]}], 0, items=INTEGER, contains={"enum": [5, 6, 7]}, minContains=3),
     ["[5,6,7]", "[6,5,1,7]"], ["[5,7", "[5,6]", "[5,6,1]"]),
    (_schema([{"type": "boolean"}, {"const": True}], 2, items=INTEGER, contains={"const": 5}, minContains=0,
             maxContains=1), ["[false,true]", "[false,true,5,1]"], ["[true", "[false,true,5,5]"]),
    (_schema([{"const": 3}, {"type": ["integer", "string"]}], 21, items={"enum": [*range(20)]}),
     [json.dumps([3, 20, *range(3), *range(4, 20)], separators=(",", ":")).replace("20", "77"),
      json.dumps([3, "a", *range(3), *range(4, 20)], separators=(",", ":"))], ["[3,4,", "[3,3,"]),
    (_schema([{"type": "boolean"}, {"const": True}], 4, items=TREE), ['[false,true,{},{"below":{}}]'], ["[true"]),
    ({"type": "object", "properties": {"a": _schema([INTEGER, {"const": 1}], 2)}, "additionalProperties": False},
     ['{"a":[2,1]}', "{}"], ['{"a":[1,']),
    ({"type": "array", "items": _schema([INTEGER, {"const": 1}], 2)}, ["[[2,1],[2,1]]"], ["[[2,1],[1,"]),
    ({**UNIQUE, "items": _schema([DIGITS, {"const": 1}], 2, items=False)}, ["[[2,1],[3,1]]"], ["[[2,1],[2,1]", "[[1"]),
    ({"anyOf": [_schema([INTEGER, {"const": 1}], 2), _schema([INTEGER, {"const": "a"}], 2)]},
     ["[2,1]", '[1,"a"]'], ["[1,1]", "[1,2"]),
    ({**_schema([INTEGER, {"const": 1}], 2), "not": {"minItems": 3}}, ["[2,1]"], ["[1,", "[2,1,3]"]),
]
TOO_FEW = [
    _schema([DIGITS, {"enum": [1, 2]}, {"enum": [1, 2]}, {"enum": [2, 1]}], 4),
    _schema([{"const": 1}, INTEGER, {"const": 1}], 3),
    _schema([{"const": {}}, {"enum": [{}]}], 2),
    _schema([{"enum": [5, 6]}, {"enum": [5, 6]}], 0, items=INTEGER, contains={"enum": [5, 6]}, minContains=3),
    _schema([{"const": 3}, {"type": ["integer", "string"]}], 22, items={"enum": [*range(20)]}),
]


def _naive(schema: Any, **profile: Any) -> Naive:
    return Naive(compile_constraint(JsonSchema(json.dumps(schema), **profile), PATIENT))


@pytest.mark.parametrize(("schema", "fit", "unfit"), TABLE)
@pytest.mark.parametrize("profile", [{}, {"order": "any", "spelling": "any"}])
def test_places_find_values_of_their_own(
        schema: dict[str, Any], fit: list[str], unfit: list[str], profile: dict[str, Any]) -> None:
    grammar = bind(compile_constraint(JsonSchema(json.dumps(schema), **profile), PATIENT), VOCABULARY)
    for text in fit:
        assert _reads(grammar, text), text
        assert Draft202012Validator(schema).is_valid(json.loads(text))
    for text in unfit:
        assert not _reads(grammar, text), text


def _reads(grammar: Any, text: str) -> bool:
    """Whether each byte is allowed, and behind a text that is whole the end."""
    matcher, bytes_of = grammar.matcher(forcing=False), grammar.vocabulary.spelled
    for byte in text.encode():
        token = bytes_of.index(bytes([byte]))
        if not matcher.allows(token):
            return False
        matcher.accept(token)
    try:
        json.loads(text)
    except ValueError:
        return True
    return matcher.may_end()


@pytest.mark.parametrize("schema", TOO_FEW)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_places_without_values_for_all_are_refused(schema: dict[str, Any], order: Any) -> None:
    with pytest.raises(Unsatisfiable):
        compile_constraint(JsonSchema(json.dumps(schema), order=order), PATIENT)
    inside = {"properties": {"a": schema, "b": INTEGER}, "type": "object", "additionalProperties": False}
    naive = _naive(inside, order=order)
    assert naive.accepts('{"b":1}')
    assert not naive.accepts('{"a":[')


def test_too_many_sets_of_values_are_refused() -> None:
    places = [{"enum": Random(place).sample(range(24), 12)} for place in range(24)]
    with pytest.raises(ConstraintTooLarge, match="compete"):
        compile_constraint(JsonSchema(json.dumps(_schema(places, 24))), PATIENT)


ONES: list[Any] = [0, 1, 2, "a", True, {}, [1]]
SETS = st.one_of(
    st.lists(st.sampled_from(ONES), min_size=1, max_size=4).map(lambda values: {"enum": values}),
    st.sampled_from([INTEGER, STRING, OBJECT, {}, {"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 1},
                     {"type": ["integer", "boolean"]}, {"type": "string", "maxLength": 1}, {"type": "array"},
                     {"enum": [*range(9)]}, {"not": {"const": 1}}]))
DRAWN = st.fixed_dictionaries({"prefixItems": st.lists(SETS, min_size=1, max_size=4), "minItems": st.integers(1, 5)},
                              optional={
    "items": SETS, "maxItems": st.integers(2, 5), "contains": SETS, "minContains": st.integers(0, 3),
    "maxContains": st.integers(1, 3)})
PROFILES = st.sampled_from([{}, {"order": "any"}, {"order": "any", "spelling": "any"}, {"spacing": "any"}])
LISTS = [list(items) for count in range(5) for items in permutations(ONES, count)]


@settings(max_examples=60, deadline=None)
@given(DRAWN, st.sampled_from(["one", "any"]))
def test_lists_are_read_as_the_standard_says(schema: dict[str, Any], spelling: Any) -> None:
    schema = {**UNIQUE, **schema}
    judge = Draft202012Validator(schema)
    try:
        naive = _naive(schema, order="any", spelling=spelling)
    except Unsatisfiable:
        assert not any(map(judge.is_valid, LISTS))
        return
    except ConstraintError:
        assume(False)
        raise
    for one in Random(len(repr(schema))).sample(LISTS, 60):
        assert naive.accepts(json.dumps(one, separators=(",", ":"))) == judge.is_valid(one), one


def _drawn(schema: dict[str, Any], profile: dict[str, Any]) -> Any:
    try:
        return bind(compile_constraint(JsonSchema(json.dumps({**UNIQUE, **schema}), **profile), PATIENT), VOCABULARY)
    except ConstraintError:
        assume(False)
        raise


@settings(max_examples=60, deadline=None)
@given(DRAWN, PROFILES, st.integers(0, 40), st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_every_budget_from_the_least_one_up_closes(
        schema: dict[str, Any], profile: dict[str, Any], more: int, way: str, random: Random) -> None:
    grammar = _drawn(schema, profile)
    text = answer(grammar, grammar.min_tokens + more, way, random)
    assert Draft202012Validator({**UNIQUE, **schema}).is_valid(json.loads(text)), (schema, text)


@settings(max_examples=25, deadline=None)
@given(DRAWN, PROFILES, st.randoms(use_true_random=False))
def test_a_mask_allows_what_can_be_read_and_closed(
        schema: dict[str, Any], profile: dict[str, Any], random: Random) -> None:
    check_masks(_drawn(schema, profile), random, 12)
