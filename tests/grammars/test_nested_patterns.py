"""Strings that are patterns: groups to any depth where nothing else is asked of the string."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.vocabulary import Vocabulary

from .engine import bind
from .naive import Naive
from .samplers import WAYS, answer, check_masks

PATTERN: Any = {"type": "string", "format": "regex"}
DEEP = "((((a|b)))c(?:(?=(d)))*)?"
PROFILES: list[dict[str, Any]] = [{}, {"order": "any", "spelling": "any"}]
WORDS = ["((", "))", ")*", "(?:", "(?<=", "(?!", "\\\\1", "a", '"', "(a)\\\\1", "{2,3}", "[a-", '{"pattern":"(', ")])"]


def recogniser(schema: Any, profile: dict[str, Any]) -> Naive:
    return Naive(compile_constraint(JsonSchema(json.dumps(schema), "spaced", **profile)))


@pytest.mark.parametrize("profile", PROFILES, ids=str)
@pytest.mark.parametrize(("schema", "accepted", "rejected"), [
    (PATTERN,
     [DEEP, "", "()", "(" * 40 + ")" * 40, "(a)\\1", "(a)(?:b\\1?)+", "(['\"]).*?\\1", "(a)(\\1b)", "(?<=ab{2}[x-z])c",
      "(?<!\\b)x", "((a)|b)\\1{2}", "(?:(a))b|(c)\\1"],
     ["(", "(()", "a)", "\\1", "(a\\1)", "((a)\\1)", "(a)\\10", "(a)\\2", "(?:a)\\1", "(?<=a|b)", "(?<=a+)", "(?<=(a))",
      "(?=x)*", "(?<n>a)", "(?P<n>a)", "(*)", "(?:+)"]),
    ({"anyOf": [PATTERN, {"type": "null"}, {"enum": ["(", "a"]}]}, [DEEP, None, "(", "a"], ["((", 1]),
    ({"type": "array", "items": PATTERN}, [[DEEP, DEEP]], [["("]]),
    ({**PATTERN, "minLength": 2}, ["(((a)))"], ["a", DEEP, "(?<=a)b"]),
    ({"type": "array", "items": {"properties": {"a": PATTERN}}, "uniqueItems": True},
     [[{"a": "(((a)))"}, {"a": ""}]], [[{"a": ""}, {"a": ""}], [{"a": DEEP}]]),
    ({"type": "string", "not": {"format": "regex"}}, ["*a", "(" * 9], ["(a)\\1", DEEP]),
], ids=str)
def test_patterns_nest(schema: Any, accepted: list[Any], rejected: list[Any], profile: dict[str, Any]) -> None:
    naive = recogniser(schema, profile)
    assert [value for value in accepted if not naive.accepts(json.dumps(value))] == []
    assert [value for value in rejected if naive.accepts(json.dumps(value))] == []


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["(", "(?:", "(?=", "(?<!", ")", ")", ")", "a", "[a-c]", "\\1", "{2}", "?", "|", "1",
                                 "^"]), min_size=3, max_size=12).map("".join))
def test_whatever_is_taken_for_a_pattern_is_one(text: str) -> None:
    if ANY.accepts(json.dumps(text)):
        re.compile(text)


ANY = recogniser(PATTERN, {})


@pytest.fixture(scope="module", params=PROFILES, ids=str)
def compiled(request: pytest.FixtureRequest) -> CompiledGrammar:
    tokens = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS), b""]
    vocabulary = Vocabulary(tokens, special=(), stop=(len(tokens) - 1,), encode=lambda text: [*text.encode()])
    schema = {"type": "object", "properties": {"pattern": PATTERN}, "required": ["pattern"],
              "additionalProperties": False}
    return bind(compile_constraint(JsonSchema(json.dumps(schema), **request.param)), vocabulary)


@pytest.mark.parametrize("seed", range(2))
def test_masks_are_what_can_be_read(compiled: CompiledGrammar, seed: int) -> None:
    check_masks(compiled, Random(seed), 14)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("spare", [0, 1, 7, 30])
def test_answers_close_at_every_budget(compiled: CompiledGrammar, way: str, spare: int) -> None:
    for seed in range(4):
        text = answer(compiled, compiled.min_tokens + spare, way, Random(seed))
        re.compile(json.loads(text)["pattern"])
