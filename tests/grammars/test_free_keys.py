"""Law 4 where free keys must differ: wherever a text stands, some token leaves U at least one less."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema, Order, Spelling
from espalier.grammars.errors import ConstraintError

from .drawn import small_vocabulary
from .engine import allowed, bind
from .naive import Naive
from .samplers import WAYS, answer, check_masks
from .test_members import SCHEMAS

LETTERS = b'{}[]":,ab016\\u'
KEYS = st.sampled_from(["^[ab]{0,2}$", "^(a|bb|aba)$", "^a{0,3}$", "^(aa|babab)$", "^(aa|bab[ab]{3})$", "^[ab]{2,3}$",
                        "^b?a*$", "^(a{3}|b[ab]a*)$", "^(b|a[01]{4})$"])
SMALL = st.integers(0, 3)
Writing = tuple[Order, Spelling]
WRITINGS = st.sampled_from([("schema", "one"), ("any", "one"), ("any", "any")])
TOKENS = st.lists(st.sampled_from([
    b'{"', b'":', b'":0', b',"', b'"}', b'0}', b'a":', b'a":0', b'{"a":', b'ab', b'0,"', b'":0}', b'a":0,"b', b'0,"b":',
    b'""', b'aa":0}', b'abab":', b'bab', b'111":0}', b'b":0}',
    b'\\u00', b'\\u006', b'1":0', b'61":', b'\\u0061":0,"']), max_size=12, unique=True)


VALUES = st.sampled_from([{"enum": [0, 10]}, {"const": 1016}, {"const": ["a", "b"]}])


def _object(keys: str, other: str, least: int, more: int, kind: int, value: dict[str, object]) -> dict[str, object]:
    """kind: 0, names of one pattern; 2, properties of two; 1, both. value: of those of `other`."""
    found: dict[str, object] = {"type": "object", "minProperties": least}
    if more < 3:
        found["maxProperties"] = least + more
    if kind < 2:
        found |= {"propertyNames": {"pattern": keys}, "additionalProperties": {"const": 0}}
    if kind > 0:
        found |= {"patternProperties": {keys: {"const": 0}, other: value}, "additionalProperties": False}
    return found


OBJECTS = st.builds(_object, KEYS, KEYS, SMALL, st.integers(0, 4), st.integers(0, 2), VALUES)


def _bound(schema: object, writing: Writing, tokens: list[bytes]) -> CompiledGrammar:
    constraint = JsonSchema(json.dumps(schema), order=writing[0], spelling=writing[1])
    try:
        return bind(compile_constraint(constraint), small_vocabulary(tokens, LETTERS))
    except ConstraintError:
        assume(False)
        raise


@settings(max_examples=60, deadline=None)
@given(OBJECTS, WRITINGS, TOKENS, st.randoms(use_true_random=False))
def test_from_any_place_some_token_brings_the_end_nearer(
        schema: object, writing: Writing, tokens: list[bytes], random: Random) -> None:
    grammar = _bound(schema, writing, tokens)
    stop, matcher = set(grammar.vocabulary.stop), grammar.matcher(forcing=False)
    for _ in range(random.randint(4, 30)):
        need = matcher.min_tokens()
        near = allowed(grammar, matcher, need)
        assert near if need else near & stop
        assert all(_after(matcher, token) < need for token in near - stop)
        here = sorted(allowed(grammar, matcher) - stop)
        if not here:
            break
        matcher.accept(random.choice(here))


def _after(matcher, token: int) -> int:
    there = matcher.copy()
    there.accept(token)
    return there.min_tokens()


@settings(max_examples=40, deadline=None)
@given(OBJECTS, WRITINGS, TOKENS)
def test_no_text_has_fewer_tokens_than_the_least_budget_would_allow(
        schema: object, writing: Writing, tokens: list[bytes]) -> None:
    """U(start) is at least the fewest tokens of any text."""
    grammar = _bound(schema, writing, tokens)
    fewest = _fewest(Naive(grammar.grammar), grammar, min(grammar.min_tokens, 9))
    assert fewest is None or fewest <= grammar.min_tokens


MIXED = SCHEMAS.map(lambda schema: {"additionalProperties": {"const": 0}, **schema})


@settings(max_examples=40, deadline=None)
@given(MIXED, st.sampled_from([("any", "one"), ("any", "any")]), TOKENS)
def test_objects_in_any_order_need_no_fewer_tokens_than_their_shortest_text(
        schema: object, writing: Writing, tokens: list[bytes]) -> None:
    """Required, optional and free keys, least and greatest numbers of them, and what depends on others."""
    grammar = _bound(schema, writing, tokens)
    fewest = _fewest(Naive(grammar.grammar), grammar, min(grammar.min_tokens, 9))
    assert fewest is None or fewest <= grammar.min_tokens


def _fewest(naive: Naive, grammar: CompiledGrammar, most: int, patience: int = 1_500) -> int | None:
    """The fewest tokens of any text, breadth first; None past `most` or many places."""
    layer, seen, vocabulary = {naive.start()}, set[frozenset](), grammar.vocabulary
    for depth in range(most + 1):
        if any(naive.may_end(threads) for threads in layer):
            return depth
        seen |= layer
        following = set[frozenset]()
        for threads in layer:
            following |= {_read(naive, threads, vocabulary.tokens[token]) for token in vocabulary.text_ids}
            if len(seen) + len(following) > patience:
                return None
        layer = following - seen - {frozenset()}
    return None if most == 9 else most + 1


def _read(naive: Naive, threads: frozenset, text: bytes) -> frozenset:
    for byte in text:
        threads = naive.step(threads, byte)
    return threads


ZERO = {"const": 0}


@pytest.mark.parametrize(("schema", "shortest"), [
    ({"additionalProperties": ZERO, "minProperties": 2}, '{"":0,"a":0}'),
    ({"additionalProperties": ZERO, "minProperties": 3, "propertyNames": {"pattern": "^[ab]?$"}}, '{"":0,"a":0,"b":0}'),
    ({"patternProperties": {"^(aa|babab)$": ZERO}, "additionalProperties": False, "minProperties": 2},
     '{"aa":0,"babab":0}'),
    ({"patternProperties": {"^aa?$": ZERO, "^b": {"const": [0, 1, 0]}}, "additionalProperties": False,
      "minProperties": 3}, '{"a":0,"aa":0,"b":[0,1,0]}'),
    ({"patternProperties": {"^a$": ZERO, "^b$": {"patternProperties": {"^a$": ZERO, "^b": {"const": "bbaa"}},
                                                 "additionalProperties": False, "minProperties": 2, "type": "object"}},
      "additionalProperties": False, "minProperties": 2}, '{"a":0,"b":{"a":0,"b":"bbaa"}}'),
])
def test_several_free_keys_are_counted_as_different(schema: dict[str, object], shortest: str) -> None:
    full = {"type": "object", **schema}
    grammar = bind(compile_constraint(JsonSchema(json.dumps(full))), small_vocabulary([], LETTERS))
    assert grammar.min_tokens >= len(shortest)
    for seed, way in enumerate(WAYS * 3):
        text = answer(grammar, grammar.min_tokens, way, Random(seed))
        assert Draft202012Validator(full).is_valid(json.loads(text)), text


@pytest.mark.parametrize("pattern", [
    "^(a{3}|b[ab]a*)$", "^[ab]{0,2}$", "^(\"|\\\\|\n)$", "^𝄞?[ab]$", "^[\\x01\\x02]b?$",
])
def test_no_escape_is_begun_whose_characters_are_used(pattern: str) -> None:
    """Keys of any spelling, finitely many of them."""
    schema = {"type": "object", "propertyNames": {"pattern": pattern}, "additionalProperties": ZERO, "minProperties": 2}
    constraint = JsonSchema(json.dumps(schema), order="any", spelling="any")
    letters = LETTERS + bytes(b for b in b"23456789cdefnrtx" if b not in LETTERS) + "𝄞".encode()
    grammar = bind(compile_constraint(constraint), small_vocabulary([], letters))
    for seed, way in enumerate(WAYS * 4):
        text = answer(grammar, grammar.min_tokens + 5 * (seed % 4), way, Random(seed))
        assert len(json.loads(text)) >= 2, text
        assert Draft202012Validator(schema).is_valid(json.loads(text)), text


NEVER = {"type": "object", "required": ["b"], "properties": {"b": False}}  # told so once all values are known


@pytest.mark.parametrize(("schema", "token"), [
    ({"patternProperties": {"^(b1|[ab]{12}0)$": ZERO}, "additionalProperties": False, "minProperties": 2}, b'"b1":'),
    ({"patternProperties": {"^a": NEVER, "^(b|bb)$": ZERO}, "additionalProperties": False, "minProperties": 2}, b'":0'),
    ({"patternProperties": {"^a": NEVER, "^b$": ZERO}, "additionalProperties": False, "minProperties": 2,
      "properties": {"0": ZERO}}, b'{"b'),
    ({"properties": {"a": ZERO, "b": ZERO, "ab": ZERO}, "required": ["b", "ab"], "maxProperties": 2}, b'{"a":'),
    ({"properties": {"a": ZERO}, "required": ["a"], "additionalProperties": ZERO, "maxProperties": 1}, b'{"b":'),
])
@pytest.mark.parametrize("writing", [("schema", "one"), ("any", "one"), ("any", "any")])
def test_numbers_of_keys_are_kept_where_few_are_possible(
        schema: dict[str, object], token: bytes, writing: Writing) -> None:
    full = {"type": "object", **schema}
    grammar = _bound(full, writing, [token])
    for seed, way in enumerate(WAYS * 2):
        check_masks(grammar, Random(seed), 12)
        text = answer(grammar, grammar.min_tokens + 2 * (seed % 3), way, Random(seed))
        assert Draft202012Validator(full).is_valid(json.loads(text)), text
