"""The short cuts of the walk change nothing: masks equal token-by-token tests on documents and on a real vocabulary."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import InvalidConstraint
from espalier.grammars.ir import COUNT, KEY, OPEN_KEY, Call, Counter, Grammar, Order

from .drawn import edge, json_grammar, rule, small_vocabulary
from .engine import allowed, bind
from .reference import Reference

_PRINTABLE = bytes(range(0x20, 0x7F))
_DOCUMENT = b'{"a":[1,"xy",-20],"ab":{"a":{"b":[]},"ab":""},"c":"zzzz"}'
_texts = st.lists(st.text('ab",:{}[]xyz09-', min_size=2, max_size=7).map(str.encode), min_size=5, max_size=60,
                  unique=True)


@settings(max_examples=40, deadline=None)
@given(_texts, st.sampled_from([0, 1, 4, 5, 30, None]))
@example([b"00", b"09", b"0:", b"}}", b"000"], 4)
def test_masks_along_a_document_equal_the_reference(extra, longest):
    vocabulary = small_vocabulary(extra, _PRINTABLE)
    grammar = json_grammar(longest)
    reference = Reference(grammar, frozenset(_PRINTABLE))
    compiled = bind(grammar, vocabulary)
    matcher, threads = compiled.matcher(forcing=False), reference.start
    for byte in _DOCUMENT:
        expected = {t for t in vocabulary.text_ids if reference.read(threads, vocabulary.tokens[t])}
        assert allowed(compiled, matcher) == expected | (set(vocabulary.stop) if reference.complete(threads) else set())
        token = vocabulary.tokens.index(bytes([byte]))
        if token not in expected:
            break
        matcher.accept(token)
        threads = reference.step(threads, byte)


@settings(max_examples=25, deadline=None)
@given(_texts, st.sampled_from([1, 4, None]), st.integers(0, 8))
def test_rows_under_a_budget_are_the_tokens_whose_successors_can_close_in_the_rest(extra, longest, spare):
    vocabulary = small_vocabulary(extra, _PRINTABLE)
    compiled = bind(json_grammar(longest), vocabulary)
    matcher, free = compiled.matcher(forcing=False), compiled.matcher(forcing=False)
    for byte in b'{"a":[1,{"ab":"","b":2}],"ab":[{"a':
        budget = matcher.min_tokens() + spare
        expected = set()
        for token in allowed(compiled, free):
            ahead = free.copy()
            ahead.accept(token)
            if token in vocabulary.stop or ahead.min_tokens() <= budget - 1:
                expected.add(token)
        assert allowed(compiled, matcher, budget) == expected
        token = vocabulary.tokens.index(bytes([byte]))
        if not matcher.allows(token):
            break
        matcher.accept(token)
        free.accept(token)


_SCHEMA = {"type": "object", "required": ["name"], "additionalProperties": {"type": "string", "minLength": 2},
           "properties": {"name": {"type": "string", "minLength": 3, "maxLength": 9}, "n": {"type": "integer",
                          "maximum": 99}, "list": {"type": "array", "items": {"type": "string"}, "maxItems": 2}}}


def test_masks_of_a_real_vocabulary_equal_tests_of_its_tokens(smollm2):
    rng = random.Random(5)
    compiled = bind(compile_constraint(JsonSchema(json.dumps(_SCHEMA))), smollm2)
    matcher = compiled.matcher(forcing=False)
    text = json.dumps({"name": "Zoë \"x\"", "n": 42, "list": ["a b", "日本語"], "free": "text", "fre": "ox"},
                      ensure_ascii=False, separators=(",", ":"))
    for token in smollm2.encode(text):
        ids = allowed(compiled, matcher)
        sample = {token, *rng.sample(range(smollm2.size), 600), *rng.sample(sorted(ids), min(60, len(ids)))}
        sample.update(i for i in smollm2.text_ids if b'"' in smollm2.tokens[i])
        assert {i for i in sample if matcher.allows(i)} == ids & sample
        matcher.accept(token)
    assert matcher.may_end()


@pytest.mark.parametrize("broken", [
    rule(2, [(0, 97, 99, 1, 0), (0, 98, 98, 1, 0)], (1,)),
    rule(2, edge(0, "a", 7), (1,)),
    rule(2, edge(0, "a", 1, COUNT), (1,)),
    rule(2, edge(0, "a", 1, KEY), (1,), register=Counter(0, 1)),
    rule(2, edge(0, "a", 1), (1,), [Call(1, 0, 1, OPEN_KEY)], register=Order((), True)),
    rule(2, edge(0, "a", 1), (1,), [Call(1, 3, 1)]),
])
def test_a_malformed_grammar_is_refused(broken):
    with pytest.raises(InvalidConstraint):
        bind(Grammar((broken,), 0), small_vocabulary([]))
