"""Objects whose keys come in any order: laws 3 and 4 on drawn schemas, and no order refused."""

from __future__ import annotations

import json
import re
from itertools import permutations
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema, Spelling
from espalier.grammars.errors import ConstraintError, Unsatisfiable
from espalier.grammars.limits import Limits
from espalier.grammars.vocabulary import Vocabulary

from .drawn import small_vocabulary
from .engine import bind
from .naive import Naive
from .samplers import WAYS, answer, check_masks

LETTERS = b'{}[]":,-.\\abx016eflnrstu'
WORDS = [b'\\u006', b'\\u00', b'1":', b'1"', b'"\\u0061":0', b'.0', b'0.0}',
         b'":', b'"}', b',"', b'{"', b'a":', b'"a":0', b'":0}', b'0}', b'0,"', b'ab', b'b":0,"', b'{"a":0}', b'":{"a":',
         b'{}}', b'}}', b'},"', b'""', b'"":0', b'0,"x":0}', b'tru']
VOCABULARY = small_vocabulary(WORDS, LETTERS)
SPELLINGS = st.sampled_from(["one", "any"])
PATIENT = Limits(seconds=120.0)
NAMES = ["a", "ab", "b", ""]
SMALL = st.integers(0, 3)
_LEAVES = st.sampled_from([{"const": 0}, {"const": ""}, {"enum": [0, 10, "a"]}, {"type": "boolean"}, False])


def _objects(inner: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    names = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)
    fits = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    optional: dict[str, st.SearchStrategy[object]] = {
        "properties": fits, "required": names, "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "x", "^[ab]?$"]), inner, max_size=2),
        "propertyNames": st.sampled_from([{"maxLength": 1}, {"pattern": "^[abx]*$"}, {"enum": ["a", "x"]}]),
        "minProperties": SMALL, "maxProperties": SMALL,
        "dependentRequired": st.just({"a": ["b"]}), "not": st.fixed_dictionaries({"additionalProperties": inner}),
        "oneOf": st.just([{"required": ["a"]}, {"required": ["b"]}]),
    }
    chosen = st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True)
    return chosen.flatmap(lambda keys: st.fixed_dictionaries(
        {"type": st.just("object"), **{key: optional[key] for key in sorted(keys)}}))


SCHEMAS = _objects(st.one_of(_LEAVES, _LEAVES, _objects(_LEAVES)))
# Free values would drown the walks in numbers and strings.
BOUNDED = SCHEMAS.map(lambda schema: {"additionalProperties": {"const": 0}, **schema})


def _compiled(schema: object, spelling: Spelling) -> CompiledGrammar:
    try:
        grammar = compile_constraint(JsonSchema(json.dumps(schema), order="any", spelling=spelling), PATIENT)
        return bind(grammar, VOCABULARY)
    except ConstraintError:
        assume(False)
        raise


@settings(max_examples=8, deadline=None)
@given(BOUNDED, SPELLINGS, st.randoms(use_true_random=False))
def test_a_mask_allows_what_can_be_read_and_closed(schema: object, spelling: Spelling, random: Random) -> None:
    check_masks(_compiled(schema, spelling), random, 8)


@settings(max_examples=40, deadline=None)
@given(BOUNDED, SPELLINGS, SMALL, st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_every_budget_from_the_least_one_up_closes(
        schema: object, spelling: Spelling, more: int, way: str, random: Random) -> None:
    grammar = _compiled(schema, spelling)
    assume(grammar.min_tokens < 80)
    text = answer(grammar, grammar.min_tokens + more, way, random)
    assert Draft202012Validator(schema).is_valid(json.loads(text, object_pairs_hook=_distinct)), (schema, text)


def _distinct(members: list[tuple[str, object]]) -> dict[str, object]:
    assert len({name for name, _ in members}) == len(members), members
    return dict(members)


VALUES = st.dictionaries(st.sampled_from([*NAMES, "x"]), st.sampled_from([0, 10, "", True, {"a": 0}, {}]), max_size=4)


@settings(max_examples=40, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=4))
def test_every_order_of_a_valid_object_is_accepted_and_no_invalid_one(
        schema: object, values: list[dict[str, object]]) -> None:
    validator = Draft202012Validator(schema)
    try:
        compiled = bind(compile_constraint(JsonSchema(json.dumps(schema), order="any"), PATIENT),
                        Vocabulary.bytes_only())
    except Unsatisfiable:
        assert not any(validator.is_valid(value) for value in values)
        return
    except ConstraintError:
        return
    for value in values:
        for members in list(permutations(value.items()))[:6]:
            text = json.dumps(dict(members), separators=(",", ":"))
            assert _accepts(compiled, text) == validator.is_valid(value), (schema, text)


def _escaped(text: str, random: Random) -> str:
    """JSON text with some of its letters and digits written as escapes, where they stand in strings, and some of its
    integers with a fraction of zeros."""
    def string(found: re.Match[str]) -> str:
        units = [f"\\u{ord(c):04{random.choice('xX')}}" if random.random() < 0.5 else c for c in found[0][1:-1]]
        return f'"{"".join(units)}"'
    text = re.sub(r'"[^"]*"', string, text)
    return re.sub(r"(?<![\\\w])\d+(?![\w])", lambda found: found[0] + random.choice(["", ".0", ".000"]), text)


@settings(max_examples=25, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_every_spelling_of_a_valid_object_is_accepted_and_of_no_invalid_one(
        schema: object, values: list[dict[str, object]], random: Random) -> None:
    validator = Draft202012Validator(schema)
    try:
        constraint = JsonSchema(json.dumps(schema), order="any", spelling="any")
        compiled = bind(compile_constraint(constraint, PATIENT), Vocabulary.bytes_only())
    except ConstraintError:
        return
    for value in values:
        for text in (_escaped(json.dumps(value, separators=(",", ":")), random) for _ in range(3)):
            assert _accepts(compiled, text) == validator.is_valid(value), (schema, text)


SPELLED = [
    ({"const": "a/é\n𝄞"}, ['"a/é\\n𝄞"', r'"\u0061\/\u00E9\u000a\ud834\uDD1E"'],
     [r'"a/é\n\ud834"', r'"a/é\n\udd1e\ud834"', '"a/e\\n𝄞"']),
    ({"pattern": "^[a-c]{2}$", "type": "string"}, ['"ab"', r'"\u0061b"', r'"a\u0063"'], [r'"\u0064a"', '"a"']),
    ({"enum": [1, 2.5, "x"]}, ["1", "1.0", "1.000", "2.5", "2.50", '"x"', r'"\u0078"'], ["1.1", "1e0", "2", "-1"]),
    ({"type": "integer", "maximum": 12}, ["3", "3.0", "12.00", "-7.0"], ["12.01", "13.0", "-0.0", "1.", "3.10"]),
    ({"const": {"b": [1, {"c": 2}], "a": None}}, ['{"a":null,"b":[1.0,{"c":2}]}', r'{"b":[1,{"c":2}],"\u0061":null}'],
     ['{"a":null}', '{"a":null,"b":[1,{"c":2}],"c":1}']),
    ({"type": "object"}, [r'{"a":0,"A":1}', r'{"\u0041":0,"\u0061":1}', r'{"\t":1,"\u000a":2}'],
     [r'{"a":0,"\u0061":1}', r'{"\u0009":0,"\t":1}', r'{"\ud834\udd1e":0,"𝄞":1}', r'{"\"":0,"\u0022":1}',
      r'{"/":0,"\/":1}', r'{"\u00e9":0,"é":1}', r'{"\u20AC":0,"€":1}']),
    ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, [r'["a","\u0062"]'], [r'["a","\u0061"]']),
    ({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}, ["[1.0,2]", "[]"], ["[1,1.0]", "[2,2]"]),
]


@pytest.mark.parametrize(("schema", "accepted", "rejected"), SPELLED)
def test_what_means_the_same_is_the_same(schema: object, accepted: list[str], rejected: list[str]) -> None:
    constraint = JsonSchema(json.dumps(schema), order="any", spelling="any")
    compiled = bind(compile_constraint(constraint), Vocabulary.bytes_only())
    assert [text for text in accepted if not _accepts(compiled, text)] == []
    assert [text for text in rejected if _accepts(compiled, text)] == []


def _accepts(compiled: CompiledGrammar, text: str) -> bool:
    matcher = compiled.matcher(forcing=False)
    for byte in text.encode():
        if not matcher.allows(byte):
            return False
        matcher.accept(byte)
    return matcher.may_end()


def test_many_keys_need_no_more_states_than_their_text() -> None:
    names = [f"key{i}" for i in range(300)]
    schema = {"properties": {name: {"const": 0} for name in names}, "required": names[::2],
              "additionalProperties": False, "type": "object"}
    grammar = compile_constraint(JsonSchema(json.dumps(schema), order="any"))
    assert sum(rule.states for rule in grammar.rules) < 2_000
    compiled = bind(grammar, Vocabulary.bytes_only())
    text = json.dumps(dict.fromkeys(reversed(names), 0), separators=(",", ":"))
    assert _accepts(compiled, text)
    assert not _accepts(compiled, text.replace('"key298":0,', ""))
    assert compiled.min_tokens == len(json.dumps(dict.fromkeys(names[::2], 0), separators=(",", ":")))


@pytest.mark.parametrize(("schema", "least"), [
    ({"required": ["a"], "properties": {"a": {"const": 1}}}, '{"a":1}'),
    ({"required": ["a", "bb"], "properties": {"bb": {"const": True}}}, '{"a":0,"bb":true}'),
    ({"minProperties": 2, "properties": {"a": {"const": 1}}, "additionalProperties": False, "required": ["a"]}, None),
    ({"minProperties": 2, "properties": {"a": {"const": 1}, "b": {"const": 22}}, "additionalProperties": False},
     '{"a":1,"b":22}'),
])
def test_the_least_budget_sums_what_is_missing(schema: dict[str, object], least: str | None) -> None:
    constraint = JsonSchema(json.dumps({"type": "object", **schema}), order="any")
    if least is None:
        with pytest.raises(Unsatisfiable):
            compile_constraint(constraint)
        return
    assert bind(compile_constraint(constraint), Vocabulary.bytes_only()).min_tokens == len(least)


ZERO = {"const": 0}
IN_TOKENS = [
    ({"required": ["a"], "properties": {"a": ZERO}}, [b'{"', b'a":0'], 3),
    ({"required": ["a", "b"], "properties": {"a": ZERO, "b": ZERO}}, [b'{"', b'a":0', b',"', b'b":'], 6),
    ({"required": ["a"], "properties": {"a": {"type": "object", "required": ["b"], "properties": {"b": ZERO}}}},
     [b'{"', b'a":{"', b'b":0'], 5),
    ({"required": ["a"], "properties": {"a": {"type": "object"}}}, [b'{"', b'a":{}'], 3),
    ({"minProperties": 1, "properties": {"abb": ZERO}, "additionalProperties": False}, [b'{"', b'abb":0'], 3),
    ({"patternProperties": {"^x$": {"const": "abab"}}, "additionalProperties": False, "minProperties": 1},
     [b'"abab"', b'{"'], 6),
]


@pytest.mark.parametrize(("schema", "tokens", "least"), IN_TOKENS)
def test_the_least_budget_counts_tokens(schema: dict[str, object], tokens: list[bytes], least: int) -> None:
    grammar = compile_constraint(JsonSchema(json.dumps({"type": "object", **schema}), order="any"))
    compiled = bind(grammar, small_vocabulary(tokens, LETTERS))
    assert compiled.min_tokens == least
    for way in WAYS:
        text = answer(compiled, least, way, Random(0))
        assert Draft202012Validator(schema).is_valid(json.loads(text)), text


@pytest.mark.parametrize("spelling", ["one", "any"])
@pytest.mark.parametrize(("patterns", "accepted", "refused"), [
    ({"^a": {"const": 2}, "^x": {"type": "integer"}},
     [{"xc": 1}, {"abc": 2}, {"a": 2}, {"x": 7, "xc": 1}, {"xcd": 3}], [{"xc": 3}, {"ab": 2}, {"abc": 3}, {"y": 1}]),
    ({"^(ab?|xc|xd)$": {"type": "integer"}}, [{"a": 1}, {"xc": 1, "xd": 5}], [{"ab": 1}, {"xc": 5}, {"abc": 1}]),
])
def test_declared_names_are_told_from_those_that_patterns_allow(spelling, patterns, accepted, refused):
    schema = {"type": "object", "properties": {"ab": False, "xc": {"const": 1}}, "patternProperties": patterns,
              "additionalProperties": False}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema), "spaced", order="any", spelling=spelling)))
    assert [value for value in accepted if not naive.accepts(json.dumps(value))] == []
    assert [value for value in refused if naive.accepts(json.dumps(value))] == []
