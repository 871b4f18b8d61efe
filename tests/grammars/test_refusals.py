"""Law 3: a constraint is enforced whole or refused, and the refusal names the keyword and its place."""

from __future__ import annotations

import json

import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import AnyObject, Choices, JsonSchema, Order
from espalier.grammars.errors import (
    ConstraintError,
    ConstraintTooLarge,
    InvalidConstraint,
    Unsatisfiable,
    UnsupportedKeyword,
)
from espalier.grammars.limits import Limits

from .naive import Naive

UNSUPPORTED = [
    (json.dumps({"unevaluatedProperties": False, "anyOf": [{"properties": {c: True}} for c in "abcdefghi"]}),
     "unevaluatedProperties", "#/unevaluatedProperties"),
    ('{"$ref":"http://x/b","$defs":{"b":{"$id":"http://x/b","$dynamicRef":"#n","$defs":{"n":{"$dynamicAnchor":"n"}}},'
     '"c":{"$id":"http://x/c","$dynamicAnchor":"n"}}}', "$dynamicRef",
     "#/$defs/b/$dynamicRef"),
    ('{"items":{"$ref":"other.json"}}', "$ref", "#/items/$ref"),
    ('{"pattern":"(?<=a$)b"}', "lookbehind", "#/pattern"),
    ('{"pattern":"\\\\p{Greek}"}', "\\p", "#/pattern column 1"),
    ('{"pattern":"(?m:a)"}', "flags", "#/pattern column 1"),
    ('{"type":"array","contains":{"type":"integer"},"minContains":40,"not":{"uniqueItems":true}}', "uniqueItems", "#"),
]


@pytest.mark.parametrize(("schema", "keyword", "where"), UNSUPPORTED, ids=[row[0] for row in UNSUPPORTED])
def test_what_is_not_enforced_is_refused_by_name(schema: str, keyword: str, where: str) -> None:
    with pytest.raises(UnsupportedKeyword) as caught:
        compile_constraint(JsonSchema(schema))
    assert (caught.value.keyword, caught.value.where) == (keyword, where)


@pytest.mark.parametrize("schema", [
    '{"uniqueItems":false}', '{"uniqueItems":true,"maxItems":1,"type":"array"}', '{"then":false}', '{"minContains":3}',
    '{"unevaluatedProperties":true}', '{"contains":{"type":"null"},"minContains":0}', '{"if":false}',
    '{"$defs":{"a":{"uniqueItems":true,"type":"array"}}}', '{"dependentRequired":{}}',
])
def test_what_says_nothing_is_accepted(schema: str) -> None:
    assert compile_constraint(JsonSchema(schema)).notes == ()


@pytest.mark.parametrize(("schema", "told"), [
    ('{"maxLength":true}', "not true"), ('{"minimum":null}', "not null"), ('{"maxItems":1.5}', "not 1.5"),
    ('{"properties":{"a":2.5}}', 'not {"a": 2.5}'), ('{"type":"\u00e9"}', 'not "\u00e9"'),
])
def test_a_wrong_value_is_told_as_json(schema: str, told: str) -> None:
    with pytest.raises(InvalidConstraint) as caught:
        compile_constraint(JsonSchema(schema))
    assert caught.value.message.endswith(told)


INVALID = [
    ('{"properties":{"n":{"type":"int"}}}', "type", "#/properties/n/type"),
    ('{"type":[]}', "type", "#/type"),
    ('{"enum":1}', "enum", "#/enum"),
    ('{"minimum":"3"}', "minimum", "#/minimum"),
    ('{"minLength":-1}', "minLength", "#/minLength"),
    ('{"maxItems":1.5}', "maxItems", "#/maxItems"),
    ('{"required":["a","a"]}', "required", "#/required"),
    ('{"required":true}', "required", "#/required"),
    ('{"properties":[]}', "properties", "#/properties"),
    ('{"properties":{"a":1}}', "properties", "#/properties"),
    ('{"anyOf":[]}', "anyOf", "#/anyOf"),
    ('{"$schema":"https://json-schema.org/draft/2020-12/schema","items":[{}]}', "items", "#/items"),
    ('{"$ref":"#/nowhere"}', "$ref", "#/$ref"),
    ('{"$ref":"#none"}', "$ref", "#/$ref"),
    ('{"$ref":"#/enum","enum":[1]}', "$ref", "#/$ref"),
    ('{"$ref":"#"}', "$ref", "#"),
    ('{"anyOf":[{"type":"null"},{"$ref":"#"}]}', "$ref", "#"),
    ('{"not":{"$ref":"#"}}', "$ref", "#"),
    ('{"oneOf":[{"$ref":"#"},{"type":"null"}]}', "oneOf", "#"),
    ('{"pattern":"("}', "pattern", "#/pattern column 1"),
    ('{"pattern":1}', "pattern", "#/pattern"),
    ('{"a":1,"a":2}', "json", "line 1 column 8"),
    ('{"oneOf":[{"minimum":1},{"minLength":1}],"maximum":{}}', "maximum", "#/maximum"),
    ("[]", "schema", "#"),
    ("{", "json", "line 1 column 2"),
]


@pytest.mark.parametrize(("schema", "keyword", "where"), INVALID, ids=[row[0] for row in INVALID])
def test_what_is_no_schema_is_refused_with_its_place(schema: str, keyword: str, where: str) -> None:
    with pytest.raises(InvalidConstraint) as caught:
        compile_constraint(JsonSchema(schema))
    assert (caught.value.keyword, caught.value.where) == (keyword, where)


UNSATISFIABLE = [
    ("false", "#"),
    ('{"enum":[]}', "#"),
    ('{"type":"string","minLength":3,"maxLength":2}', "#"),
    ('{"type":"string","pattern":"^a$","minLength":2}', "#"),
    ('{"type":"object","properties":{"a":false},"required":["a"]}', "#/properties/a"),
    ('{"type":"object","required":["a"],"additionalProperties":false}', "#/additionalProperties"),
    ('{"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]}', "#"),
    ('{"type":"array","minItems":2,"items":{"type":"string","enum":[1]}}', "#/items"),
    ('{"type":"object","minProperties":2,"properties":{"a":{}},"additionalProperties":false}', "#"),
    ('{"type":"object","maxProperties":1,"required":["a","b"]}', "#"),
    ('{"allOf":[{"type":"string"},{"type":"null"}]}', "#"),
]


@pytest.mark.parametrize(("schema", "where"), UNSATISFIABLE, ids=[row[0] for row in UNSATISFIABLE])
def test_what_nothing_fits_is_refused(schema: str, where: str) -> None:
    with pytest.raises(Unsatisfiable) as caught:
        compile_constraint(JsonSchema(schema))
    assert caught.value.where == where


def test_strict_keywords_refuse_what_is_no_keyword() -> None:
    with pytest.raises(UnsupportedKeyword) as caught:
        compile_constraint(JsonSchema('{"properties":{"a":{"x-b":1}}}', strict_keywords=True))
    assert caught.value.where == "#/properties/a/x-b"
    with pytest.raises(UnsupportedKeyword):
        compile_constraint(JsonSchema('{"type":"string","format":"own"}', strict_keywords=True))


def test_indented_text_of_endless_depth_is_refused() -> None:
    for constraint in (AnyObject("indented"), JsonSchema('{"type":"array","items":{"$ref":"#"}}', "indented")):
        with pytest.raises(UnsupportedKeyword) as caught:
            compile_constraint(constraint)
        assert caught.value.keyword == "spacing"


HUGE = [
    '{"allOf":[' + ",".join(f'{{"anyOf":[{{"minimum":{i}}},{{"maxLength":{i}}}]}}' for i in range(30)) + "]}",
    '{"type":"string","pattern":"^(a|b)*a(a|b){18}$"}',
    '{"type":"string","pattern":"((a{0,2000}){0,2000}b){0,2000}"}',
    '{"type":"object","minProperties":100000}',
    '{"type":"array","contains":{"type":"null"},"minContains":1e30}',
    "[" * 5000 + "]" * 5000,
    json.dumps({"const": "x" * 2000, "description": "y" * 9_000_000}),
]


@pytest.mark.parametrize("schema", HUGE, ids=["product", "subsets", "repeats", "counts", "contains", "depth", "bytes"])
def test_what_is_too_large_is_refused_by_a_stated_limit(schema: str) -> None:
    with pytest.raises(ConstraintTooLarge) as caught:
        compile_constraint(JsonSchema(schema), Limits(states=9_000))
    assert caught.value.keyword
    assert caught.value.where


@pytest.mark.parametrize("keyword", ["minLength", "minItems", "minProperties"])
@pytest.mark.parametrize("order", ["schema", "any"])
def test_a_least_count_that_no_answer_reaches_is_refused_and_a_greatest_one_bounds_nothing(
        keyword: str, order: Order) -> None:
    for bound in (1 << 25, 1 << 31, 10**25):
        with pytest.raises(ConstraintTooLarge) as caught:
            compile_constraint(JsonSchema(json.dumps({"properties": {"a": {keyword: bound}}}), order=order))
        assert (caught.value.keyword, caught.value.where) == (keyword, f"#/properties/a/{keyword}")
    for bound in (1 << 31, 10**25):
        greatest = json.dumps({"properties": {"a": {keyword.replace("min", "max"): bound}}})
        naive = Naive(compile_constraint(JsonSchema(greatest, order=order)))
        assert all(naive.accepts(f'{{"a":{text}}}') for text in ('"abc"', "[1,2,[]]", '{"b":{},"c":1}'))


def test_time_is_a_limit() -> None:
    with pytest.raises(ConstraintTooLarge, match="0 seconds"):
        compile_constraint(JsonSchema('{"properties":{"a":{"type":"string","maxLength":9}}}'), Limits(seconds=0))


def test_broken_choices_are_refused() -> None:
    for options in ((), ("",), ("", ""), ("a", "\ud800")):
        with pytest.raises(ConstraintError) as caught:
            compile_constraint(Choices(options))
        assert caught.value.where
