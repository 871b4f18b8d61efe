"""Blanks between the tokens of JSON: as many as one likes, where that is asked for, and nowhere else."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema, Order
from espalier.grammars.limits import Limits

from .drawn import small_vocabulary
from .engine import allowed, bind
from .naive import Naive
from .samplers import readable

PATIENT = Limits(seconds=120.0)
BLANKS = st.text(" \t\r\n", max_size=3)
SCHEMA: dict[str, Any] = {
    "type": "object", "required": ["a"], "additionalProperties": {"type": "boolean"},
    "properties": {"a": {"type": ["integer", "string"], "minLength": 1}, "b": {"items": {"type": "integer"}},
                   "c": {"enum": [{"x": [1, {}], "y": None}, [], "t t"]},
                   "d": {"prefixItems": [{"type": "null"}], "items": {"type": "string"}, "maxItems": 3},
                   "e": {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
                   "f": {"type": "array", "contains": {"const": 1}}}}
INSTANCES: list[dict[str, Any]] = [
    {"a": 1}, {"a": "x y", "b": []}, {"a": 1, "b": [1, 22, 3]}, {"a": 1, "c": {"x": [1, {}], "y": None}},
    {"a": 1, "c": []}, {"a": 1, "c": "t t", "d": [None, "", "z"]}, {"a": 1, "e": ["k", "l"], "z": True},
    {"a": 1, "f": [2, {"p": [None]}, 1], "zz": False},
]


def _written(value: object, blank: Any) -> str:
    """JSON with blanks before and after every token but the first and the last."""
    if isinstance(value, dict):
        inside = ",".join(f"{blank()}{json.dumps(key)}{blank()}:{blank()}{_written(item, blank)}{blank()}"
                          for key, item in value.items())
        return "{" + (inside or blank()) + "}"
    if isinstance(value, list):
        return "[" + (",".join(f"{blank()}{_written(item, blank)}{blank()}" for item in value) or blank()) + "]"
    return json.dumps(value)



@pytest.fixture(scope="module", params=["schema", "any"])
def naive(request: pytest.FixtureRequest) -> Naive:
    return Naive(compile_constraint(JsonSchema(json.dumps(SCHEMA), spacing="any", order=request.param), PATIENT))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(INSTANCES), st.data())
def test_any_blanks_stand_between_the_tokens(naive: Naive, instance: dict[str, Any], data: st.DataObject) -> None:
    text = _written(instance, lambda: data.draw(BLANKS))
    assert naive.accepts(text)
    assert naive.accepts(json.dumps(instance))
    assert naive.accepts(json.dumps(instance, indent=3))


@pytest.mark.parametrize("text", ['{"a": 1 2}', '{" a":1}', '{"a":1\x0b}', '{"a":1\xa0}', '{"a":1,,}', '{"a":1, }',
                                  '{"a":1,"c":"t  t"}', '{"a":1,"e":["k", "k"]}', '{"a":1,"e":["k" ,"l"], "f":[ 2 ]}'])
def test_blanks_are_nothing_else(naive: Naive, text: str) -> None:
    assert not naive.accepts(text)


@pytest.mark.parametrize("spacing", ["compact", "spaced", "indented"])
def test_other_spacings_take_their_own_blanks_only(spacing: Any) -> None:
    naive = Naive(compile_constraint(JsonSchema(json.dumps({"items": {"type": "integer"}, "type": "array"}), spacing)))
    assert not naive.accepts("[ 1]")
    assert not naive.accepts("[1 ,2]")


def test_numbers_that_must_differ_stand_close_to_their_commas() -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema), "any")))
    assert naive.accepts("[1,2]")
    assert not naive.accepts("[1,1]")
    assert not naive.accepts("[1, 1]")


VOCABULARY = small_vocabulary([b" {", b'": ', b"  ", b" ,", b"],", b"[ ", b'"a"', b", ", b" }", b"\n\t"],
                              b'{}[]",:abx012 \n\ttrue')


@pytest.mark.parametrize("order", ["schema", "any"])
def test_a_mask_allows_what_can_be_read_and_closed(order: Order) -> None:
    schema = {"type": "object", "properties": {"a": {"items": {"type": "integer"}, "type": "array", "minItems": 1}},
              "required": ["a"], "propertyNames": {"maxLength": 1}, "additionalProperties": {"const": True}}
    grammar = bind(compile_constraint(JsonSchema(json.dumps(schema), "any", order=order), PATIENT), VOCABULARY)
    reference = Naive(grammar.grammar)
    for seed in range(3):
        random, matcher, threads = Random(seed), grammar.matcher(forcing=False, closing=False), reference.start()
        for _ in range(14):
            here = allowed(grammar, matcher)
            assert here == readable(grammar, matcher, reference, threads)
            tokens = sorted(here - set(VOCABULARY.stop))
            if not tokens:
                break
            token = random.choice(tokens)
            matcher.accept(token)
            for byte in VOCABULARY.tokens[token]:
                threads = reference.step(threads, byte)
