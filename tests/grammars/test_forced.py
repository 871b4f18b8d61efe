"""Law 5: in forced stretches one token is allowed, the tokenizer's own; taking it unasked changes nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Choices, JsonSchema
from espalier.grammars.errors import ConstraintTooLarge, Unsatisfiable
from espalier.grammars.ir import Grammar
from espalier.grammars.masks.configuration import Limits
from espalier.grammars.vocabulary import Vocabulary

from .drawn import edge, grammars, rule, small_vocabulary, tokens
from .engine import allowed, bind

SCHEMA = {"type": "object", "required": ["dimensions", "name"], "additionalProperties": False,
          "properties": {"dimensions": {"type": "integer"}, "name": {"type": "string", "maxLength": 30},
                         "kind": {"enum": ["person", "place"]}}}


def _text(*words: str) -> Grammar:
    """The texts `words`, which differ in their first letter."""
    edges, states = [], 2
    for word in words:
        here = 0
        for letter in word[:-1]:
            edges += edge(here, letter, states)
            here, states = states, states + 1
        edges += edge(here, word[-1], 1)
    return Grammar((rule(states, edges, (1,)),), 0)


@settings(max_examples=80, deadline=None)
@given(grammars(), tokens, st.randoms(use_true_random=False), st.integers(1, 3))
def test_appending_forced_tokens_equals_masked_decoding_without_the_shortcut(grammar, extra, rng, limit):
    vocabulary = small_vocabulary(extra)
    try:
        compiled = bind(grammar, vocabulary, limits=Limits(threads=24))
        quick, slow, free = compiled.matcher(), compiled.matcher(), compiled.matcher(forcing=False)
        for _ in range(12):
            forced = quick.forced(limit)
            assert quick.forced(0) == []
            for token in forced:
                assert allowed(compiled, slow) == {token}
                assert token in allowed(compiled, free)
                for matcher in (quick, slow, free):
                    matcher.accept(token)
            assert allowed(compiled, quick) == allowed(compiled, slow)
            choices = sorted(allowed(compiled, quick) - set(vocabulary.stop))
            if not choices:
                break
            token = rng.choice(choices)
            for matcher in (quick, slow, free):
                matcher.accept(token)
    except Unsatisfiable:
        assume(False)
    except ConstraintTooLarge:
        reject()


def test_a_text_without_a_choice_is_forced_whole_in_the_tokenizers_own_tokens():
    vocabulary = small_vocabulary([b"ab", b"abc", b"bc"])
    compiled = bind(_text("abcab"), vocabulary)
    matcher = compiled.matcher()
    assert matcher.forced(9) == vocabulary.encode("abcab") == [5, 4]
    assert allowed(compiled, matcher) == {5}
    assert not matcher.allows(0)
    matcher.accept(5)
    assert matcher.forced(9) == [4]
    matcher.accept(4)
    assert matcher.must_end()


def test_a_token_that_another_could_overrun_is_left_open():
    vocabulary = small_vocabulary([b"bc", b"ca"])
    grammar = Grammar((rule(5, edge(0, "a", 1) + edge(1, "b", 2) + edge(2, "c", 3) + edge(2, "b", 4), (3, 4)),), 0)
    matcher = bind(grammar, vocabulary).matcher()
    assert matcher.forced(9) == [0]
    matcher.accept(0)
    assert matcher.forced(9) == []
    assert matcher.allows(1)
    assert matcher.allows(4)


def test_a_tokenizer_that_answers_with_other_text_forces_nothing():
    tokens = [b"a", b"b", b"", b""]
    for answer in ([2, 1], [0], [0, 0], []):
        vocabulary = Vocabulary(tokens, special=(2,), stop=(3,), encode=lambda text, answer=answer: answer)
        compiled = bind(_text("ab"), vocabulary)
        assert compiled.matcher().forced(9) == []
        assert allowed(compiled, compiled.matcher()) == {0}


def test_bytes_inside_a_character_are_never_given_to_the_tokenizer():
    def encode(text):
        assert text.encode().decode() == text
        return list(text.encode())

    vocabulary = Vocabulary([bytes([b]) for b in range(256)], special=(), stop=(), encode=encode)
    edges = [(0, 0xC3, 0xC3, 1, 0), (1, 0xA8, 0xA9, 2, 0), (2, 97, 97, 3, 0), (3, 0xC3, 0xC3, 4, 0),
             (4, 0xA0, 0xA1, 5, 0)]
    compiled = bind(Grammar((rule(6, edges, (5,)),), 0), vocabulary)
    matcher = compiled.matcher()
    assert matcher.forced(9) == []
    assert allowed(compiled, matcher) == {0xC3}
    matcher.accept(0xC3)
    matcher.accept(0xA9)
    assert 0xC3 not in matcher.forced(9)


def test_a_budget_that_leaves_one_way_forces_nothing():
    vocabulary = small_vocabulary([])
    grammar = Grammar((rule(4, edge(0, "a", 1) + edge(0, "b", 2) + edge(2, "b", 1), (1,)),), 0)
    compiled = bind(grammar, vocabulary)
    matcher = compiled.matcher()
    assert allowed(compiled, matcher, 1) == {0}
    assert matcher.forced(9) == []


def test_forced_tokens_of_a_real_schema_are_those_of_the_canonical_text(smollm2):
    compiled = bind(compile_constraint(JsonSchema(json.dumps(SCHEMA))), smollm2)
    text = json.dumps({"dimensions": 37, "name": "Ada Lovelace", "kind": "place"}, separators=(",", ":"))
    ids, matcher, forced = smollm2.encode(text), compiled.matcher(), 0
    assert len(matcher.forced(99)) >= 2
    for token in ids:
        plan = matcher.forced(99)
        assert not plan or plan[0] == token
        forced += bool(plan)
        assert token in allowed(compiled, matcher)
        matcher.accept(token)
    assert matcher.must_end()
    assert forced >= 6


@pytest.mark.parametrize("options", [("yes", "no"), ("alpha", "alphabet"), ("New York", "New Orleans", "Newark")])
def test_every_choice_can_be_produced_as_the_tokenizer_spells_it(smollm2, options):
    compiled = bind(compile_constraint(Choices(options)), smollm2)
    for option in options:
        matcher = compiled.matcher()
        for token in smollm2.encode(option):
            assert token in allowed(compiled, matcher)
            matcher.accept(token)
        assert matcher.may_end()
