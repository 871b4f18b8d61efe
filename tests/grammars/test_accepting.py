"""Accepting a token: configurations are met once, numbered, forgotten and met anew; what is no text is refused."""

from __future__ import annotations

import json

import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema, Regex
from espalier.grammars.masks.configuration import Limits
from espalier.grammars.matcher import TokenRejected
from espalier.grammars.vocabulary import Vocabulary

from .drawn import json_grammar
from .engine import allowed, bind

_DOCUMENT = b'{"a":[1,"xy",-2],"ab":{"a":{"b":[]}},"c":"zzzz"}'


def test_equal_places_are_one_configuration_however_many_there_are():
    compiled = bind(compile_constraint(Regex("(?:[a-c]{2}d?){900}")), Vocabulary.bytes_only())
    one, other = compiled.matcher(forcing=False), compiled.matcher(forcing=False)
    seen = set()
    for byte in b"abd" * 900:
        one.accept(byte)
        seen.add(id(one._position.configuration))
    for byte in b"cad" * 900:
        other.accept(byte)
        seen.add(id(other._position.configuration))
    assert one._position.configuration is other._position.configuration
    assert len(seen) == 2700
    assert one.must_end()


@pytest.mark.parametrize("most", [1, 3, 10])
def test_forgotten_configurations_are_met_anew(most):
    vocabulary = Vocabulary.bytes_only()
    forgetful, plain = bind(json_grammar(), vocabulary, limits=Limits(configurations=most)), bind(
        json_grammar(), vocabulary)
    one, other = forgetful.matcher(forcing=False), plain.matcher(forcing=False)
    for k, byte in enumerate(_DOCUMENT):
        assert allowed(forgetful, one) == allowed(plain, other)
        if k % 5 == 4:
            for matcher in (one, other):
                matcher.rollback(4)
            for again in _DOCUMENT[k - 4: k]:
                one.accept(again)
                other.accept(again)
        one.accept(byte)
        other.accept(byte)
        assert one.min_tokens() == other.min_tokens()
    assert one.must_end()


def test_a_text_read_again_adds_nothing_to_the_arena():
    schema = {"additionalProperties": {"type": "integer"}}
    compiled = bind(compile_constraint(JsonSchema(json.dumps(schema), order="any")), Vocabulary.bytes_only())
    text, before = b'{"key":1,"other":{', 0
    for _ in range(2):
        matcher = compiled.matcher(forcing=False)
        for byte in text[:-1]:
            matcher.accept(byte)
        with pytest.raises(TokenRejected):
            matcher.accept(text[-1])
        arena = matcher._explorer._space.arena.mark()
        assert before in (0, arena)
        before = arena
        for configuration in matcher._explorer._known:
            configuration.next.clear()


def test_ids_that_are_no_text_are_refused():
    vocabulary = Vocabulary([b"a", b"b", b"<s>", b"", b"b"], special=(2,), stop=(4,), encode=lambda text: [], size=8)
    matcher = bind(compile_constraint(Regex("[ab<s>]+")), vocabulary).matcher(forcing=False)
    for token in (-1, 2, 3, 4, 5, 7, 8, 1 << 40):
        with pytest.raises(TokenRejected):
            matcher.accept(token)
        assert not matcher.allows(token)
    matcher.accept(1)
    assert matcher.allows(4)
