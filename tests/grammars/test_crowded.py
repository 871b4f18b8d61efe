"""Texts with many readings: what items count for leaves one reading behind, what else there are many of is narrowed."""

from __future__ import annotations

import json
from random import Random

import pytest
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.masks.configuration import Limits
from espalier.grammars.matcher import Matcher, TokenRejected
from espalier.grammars.vocabulary import Vocabulary

from .engine import bind
from .kinds import VOCABULARY
from .samplers import WAYS, answer

INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
OPEN = {"type": "object", "properties": {"a": INTEGER}, "required": ["a"]}
BOTH = [{"contains": INTEGER, "minContains": 40}, {"contains": {"minimum": 5}, "minContains": 40}]
COUNTED = [
    ({"contains": INTEGER, "minContains": 300}, [*range(300)], [*range(299)]),
    ({"contains": INTEGER, "minContains": 300}, ["a", 1.5] * 300 + [*range(300)], ["a", 1.5] * 300 + [*range(299)]),
    ({"contains": INTEGER, "maxContains": 300}, [*range(300), "a"], [*range(300), "a", 1]),
    ({"contains": INTEGER, "minContains": 290, "maxContains": 310}, [1, 2.5] * 310, [1, 2.5] * 311),
    ({"contains": OPEN, "minContains": 20}, [{"a": 1}, {"a": "x"}, {}] * 20, [{"a": 1}, {"a": "x"}, {}] * 19),
    ({"contains": {"contains": INTEGER}, "minContains": 20}, [[], ["a", 1]] * 20, [[], ["a", 1]] * 19),
    ({"allOf": BOTH}, [1, 5.5, 7] * 20, [1, 5.5, 7] * 19),
    ({"prefixItems": [TEXT], "contains": INTEGER, "minContains": 30}, ["a", *range(30)], ["a", *range(29)]),
]
TREE = {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "maxItems": 4, "contains": {"anyOf": [
    {"$ref": "#/$defs/t"}, {"enum": [1, 2]}]}, "minContains": 2}}}
SIDES = {"$ref": "#/$defs/t", "$defs": {"t": {"type": ["object", "null"], "properties": {"a": {"$ref": "#/$defs/t"}},
    "anyOf": [{"properties": {"b": INTEGER}}, {"properties": {"b": TEXT}}, {"properties": {"x": TEXT}}]}}}
# Of its two kinds of lists the one that is nearer to its end has three values.
FEW_OR_FAR = {"$defs": {"t": {"anyOf": [
    {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 1},
    {"type": "array", "items": {"anyOf": [{"enum": [1, 2]}, {"$ref": "#/$defs/t"}]}, "minItems": 3}]}}}
UNIQUE = {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/t"}}


def _bound(schema: object, vocabulary: Vocabulary, threads: int = 256) -> CompiledGrammar:
    return bind(compile_constraint(JsonSchema(json.dumps(schema))), vocabulary, limits=Limits(threads=threads))


def _ends(matcher: Matcher, value: object) -> bool:
    try:
        for byte in json.dumps(value, separators=(",", ":")).encode():
            matcher.accept(byte)
    except TokenRejected:
        return False
    return matcher.may_end()


@pytest.mark.parametrize(("schema", "valid", "invalid"), COUNTED, ids=range(len(COUNTED)))
def test_a_list_counts_any_number_of_items(schema: dict[str, object], valid: list[object],
                                           invalid: list[object]) -> None:
    grammar = _bound({"type": "array", **schema}, Vocabulary.bytes_only(), threads=24)
    validator = Draft202012Validator(schema)
    for value in (valid, invalid):
        matcher = grammar.matcher(forcing=False)
        assert _ends(matcher, value) == validator.is_valid(value)
        assert matcher.left_out == 0


@pytest.mark.parametrize("schema", [TREE, SIDES, *({**UNIQUE, "$defs": one["$defs"]} for one in (TREE, SIDES))],
                         ids=["counting lists", "objects of three kinds", "different lists", "different objects"])
@pytest.mark.parametrize("way", WAYS)
def test_lists_and_objects_that_nest_without_end_close(schema: dict[str, object], way: str) -> None:
    grammar, validator = _bound(schema, VOCABULARY, threads=2), Draft202012Validator(schema)
    for spare in (0, 5, 60, 200):
        text = answer(grammar, grammar.min_tokens + spare, way, Random(spare))
        assert validator.is_valid(json.loads(text)), text


@pytest.mark.parametrize("least", [4, 9])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_a_reading_that_leaves_another_item_to_write_stays(least: int, threads: int, way: str) -> None:
    schema = {**UNIQUE, **FEW_OR_FAR, "minItems": least}
    grammar, validator = _bound(schema, VOCABULARY, threads), Draft202012Validator(schema)
    for spare in (0, 3, 20, 100):
        text = answer(grammar, grammar.min_tokens + spare, way, Random(spare))
        assert validator.is_valid(json.loads(text)), text
