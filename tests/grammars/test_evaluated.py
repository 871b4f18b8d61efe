"""contains, uniqueItems, unevaluated*, negations and references: which values can be written, and which cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema

from .naive import Naive

INTEGER = {"type": "integer"}
UNIQUE = {"type": "array", "uniqueItems": True}
STRICT_TREE = {
    "$id": "http://x.org/strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": False,
    "$defs": {"tree": {"$id": "tree", "$dynamicAnchor": "node", "type": "object", "properties": {
        "data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}}}},
}
TABLE: list[tuple[Any, list[Any], list[Any]]] = [
    # contains
    ({"contains": INTEGER}, [[1], ["a", 1], [1, 1, "a"], "x", {}], [[], ["a"], [[1]]]),
    ({"contains": INTEGER, "maxContains": 1}, [["a", 1], [1]], [[], [1, 1], [1, "a", 2]]),
    ({"contains": INTEGER, "minContains": 2, "maxContains": 2, "maxItems": 3}, [[1, 2], [1, "a", 2]],
     [[1], [1, 2, 3], [1, "a", "b", 2]]),
    ({"contains": INTEGER, "minContains": 0, "maxContains": 1}, [[], ["a"], ["a", 1]], [[1, 1]]),
    ({"allOf": [{"contains": INTEGER}, {"contains": {"minimum": 5}}]}, [[6], [1, 5.5]], [[1], [5.5], []]),
    ({"not": {"contains": INTEGER}}, [[], ["a"]], [[1], ["a", 1], "x"]),
    ({"contains": INTEGER, "minContains": 0}, [[], ["a"]], []),
    # uniqueItems
    ({**UNIQUE, "items": {"type": "string"}}, [[], ["a", "b"], ["\n", "n"]],
     [["a", "a"], ["a", "b", "a"], ["\n", "\n"]]),
    ({**UNIQUE, "items": {"type": "string", "maxLength": 3}, "minItems": 2, "maxItems": 3},
     [["a", "b"], ["", "a", "é"]], [["a"], ["a", "a"], ["a", "b", "c", "d"], ["long", "a"]]),
    ({**UNIQUE, "items": {"enum": [f"w{i}" for i in range(40)]}, "minItems": 1}, [["w7", "w39"]], [["w7", "w7"], []]),
    ({**UNIQUE, "prefixItems": [{"type": "boolean"}, {"type": "boolean"}], "items": False},
     [[], [True], [False, True]], [[True, True], [True, False, True]]),
    # negations of every and some
    ({"not": {"items": INTEGER}}, [["a"], [1, "a"], [1, None, 1]], [[], [1], "x"]),
    ({"not": {"prefixItems": [{}], "items": INTEGER}}, [["a", "a"], [1, 2, "a"]], [["a"], ["a", 1]]),
    ({"not": {"additionalProperties": INTEGER}}, [{"a": "x"}, {"a": 1, "b": None}], [{}, {"a": 1}, 5]),
    ({"not": {"properties": {"a": {}}, "additionalProperties": INTEGER}}, [{"a": 1, "b": "x"}],
     [{"a": "x"}, {"a": "x", "b": 1}]),
    ({"not": {"patternProperties": {"^a": INTEGER}}}, [{"a": "x"}, {"b": 1, "ab": "x"}], [{}, {"a": 1}, {"b": "x"}]),
    ({"not": {"propertyNames": {"maxLength": 1}}}, [{"ab": 1}, {"a": 1, "bc": 1}], [{}, {"a": 1}]),
    ({"allOf": [{"not": {"patternProperties": {"^a": INTEGER}}}, {"not": {"additionalProperties": {"type": "string"}}}],
      "maxProperties": 1}, [{"a": None}], [{"a": "x"}, {"a": "x", "b": 1}, {"b": 1}]),
    ({"not": {"enum": [[1], {"a": 1}, 2]}}, [[], [1, 1], [2], {}, {"a": 2}, {"a": 1, "b": 1}, 3], [[1], {"a": 1}, 2]),
    ({"not": {"multipleOf": 3}}, [1, 1.5, -2], [3, 0, -6, 9.0, "x"]),
    ({"not": {"format": "date"}}, ["2020-02-30", ""], ["2020-02-29", 1]),
    ({"anyOf": [{"not": {"format": "own"}}, {"const": "y"}]}, ["y"], ["x", 1]),
    ({"not": {"minLength": 1}}, [""], ["a", 1]),
    ({"not": {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 2}}}, ["a", 1], ["ab", 2, None]),
    ({"not": {"oneOf": [INTEGER, {"minimum": 3}]}}, [4, 2.5], [1, 3.5, "x"]),
    ({"not": {"dependentRequired": {"a": ["b"]}}}, [{"a": 1}], [{}, {"a": 1, "b": 1}]),
    ({"not": {"dependentSchemas": {"a": {"maxProperties": 1}}}}, [{"a": 1, "b": 1}], [{"a": 1}, {"b": 1}]),
    # unevaluatedProperties, unevaluatedItems
    ({"allOf": [{"properties": {"a": True}}], "properties": {"b": True}, "unevaluatedProperties": False},
     [{}, {"a": 1}, {"b": 1}], [{"c": 1}]),
    ({"anyOf": [{"properties": {"a": INTEGER}, "required": ["a"]}, {"properties": {"b": INTEGER}, "required": ["b"]}],
      "unevaluatedProperties": {"type": "string"}},
     [{"a": 1}, {"a": 1, "b": 1}, {"a": 1, "b": "x"}, {"a": 1, "c": "x"}], [{"a": 1, "c": 1}, {"c": "x"}]),
    ({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "properties": {"b": True},
      "unevaluatedProperties": False}, [{"a": 1}, {"b": 1}, {}], [{"a": 2}]),
    ({"not": {"not": {"properties": {"a": True}}}, "unevaluatedProperties": False}, [{}], [{"a": 1}]),
    ({"unevaluatedProperties": False, "additionalProperties": True}, [{"a": 1}], []),
    ({"properties": {"a": {"$ref": "#/$defs/d"}}, "unevaluatedProperties": False, "$defs": {"d": {
        "properties": {"x": True}}}}, [{"a": {"x": 1, "y": 1}}], [{"x": 1}]),
    ({"prefixItems": [True], "unevaluatedItems": False}, [[], [1]], [[1, 2]]),
    ({"contains": INTEGER, "unevaluatedItems": {"type": "string"}}, [[1], [1, "a", 2]], [["a"], [1, None]]),
    ({"not": {"properties": {"a": True}, "unevaluatedProperties": {"type": "string"}}}, [{"b": 1}],
     [{"a": 1}, {"b": "x"}]),
    # references that depend on the way
    (STRICT_TREE, [{"data": 1}, {"children": [{"data": 1}]}], [{"daat": 1}, {"children": [{"daat": 1}]}]),
    ({"$dynamicRef": "#x", "$defs": {"y": {"$dynamicAnchor": "x", "type": "string"}}}, ["a"], [1]),
    ({"oneOf": [{"type": "null"},
                *({"type": "object", "properties": {"c": {"$ref": "#"}, **more}, "required": ["c", *more]}
                  for more in ({}, {"d": {"const": 1}}))]},
     [None, {"c": None}, {"c": {"c": None}}], [{"c": None, "d": 1}]),
    # spellings of older drafts, without $schema
    ({"dependencies": {"a": ["b"], "b": {"minProperties": 2}}}, [{"a": 1, "b": 1}, {"c": 1}], [{"a": 1}, {"b": 1}]),
    ({"items": [INTEGER], "additionalItems": {"type": "string"}}, [[1, "a"], []], [["a"], [1, 1]]),
    ({"minimum": 3, "exclusiveMinimum": True}, [4, "x"], [3]),
    ({"properties": {"a": {"$ref": "#/items/0"}}, "items": [INTEGER]}, [{"a": 1}], [{"a": "x"}]),
]


def _spelled(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(("schema", "accepted", "rejected"), TABLE, ids=[json.dumps(row[0])[:70] for row in TABLE])
def test_values_follow_the_schema(schema: Any, accepted: list[Any], rejected: list[Any]) -> None:
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema))))
    assert [value for value in accepted if not naive.accepts(_spelled(value))] == []
    assert [value for value in rejected if naive.accepts(_spelled(value))] == []


OLDER = [
    ("draft-04", {"const": 1, "contains": {"type": "null"}}, ["const", "contains"]),
    ("draft-06", {"if": True, "then": False}, ["if", "then"]),
    ("draft-07", {"$ref": "#/definitions/a", "type": "null", "definitions": {"a": INTEGER}}, ["type"]),
    ("draft-07", {"dependentRequired": {"a": ["b"]}}, ["dependentRequired"]),
    ("2019-09", {"prefixItems": [INTEGER]}, ["prefixItems"]),
]


@pytest.mark.parametrize(("draft", "schema", "ignored"), OLDER)
def test_an_older_draft_does_not_know_later_keywords(draft: str, schema: dict[str, Any], ignored: list[str]) -> None:
    full = {"$schema": f"http://json-schema.org/{draft}/schema#", **schema}
    grammar = compile_constraint(JsonSchema(json.dumps(full)))
    assert [note.split(" ")[0] for note in grammar.notes] == ignored
    assert Naive(grammar).accepts("2")


def test_unions_of_many_open_objects_are_pruned_to_what_can_differ() -> None:
    """Five options with shared properties, each excluding the others: multiplied out these are millions."""
    shared = {"env": {"type": "array", "items": INTEGER}, "name": {"type": "string"}, "port": INTEGER}
    options = [{"type": "object", "properties": {**shared, key: {"type": "string"}}, "required": ["name", key]}
               for key in "abcde"]
    naive = Naive(compile_constraint(JsonSchema(json.dumps({"oneOf": options}))))
    assert naive.accepts('{"env":[1],"name":"n","port":1,"a":"x"}')
    assert not naive.accepts('{"name":"n","a":"x","b":"x"}')
    assert naive.accepts('{"name":"n","a":"x","b":1}')


def test_a_reference_of_draft_7_has_no_base_of_its_own() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"x": {"type": "null"}},
              "items": {"$id": "http://x.org/y", "$ref": "#/definitions/x"}}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema))))
    assert naive.accepts("[null]")
    assert not naive.accepts("[1]")


def test_contains_of_2019_evaluates_nothing() -> None:
    schema = {"contains": INTEGER, "unevaluatedItems": {"type": "string"}}
    newer = Naive(compile_constraint(JsonSchema(json.dumps(schema))))
    older = Naive(compile_constraint(JsonSchema(json.dumps(
        {"$schema": "https://json-schema.org/draft/2019-09/schema", **schema}))))
    assert newer.accepts('[1,"a"]')
    assert not older.accepts('[1,"a"]')


def test_identifiers_of_draft_4_are_anchors() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "$ref": "#a",
              "definitions": {"x": {"id": "#a", "type": "null"}}}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema))))
    assert naive.accepts("null")
    assert not naive.accepts("1")
