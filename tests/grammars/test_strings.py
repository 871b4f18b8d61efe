"""Lengths meet patterns: exact counts, no dead end, few states."""

from __future__ import annotations

import json
import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import Unsatisfiable
from espalier.grammars.ir import Grammar
from espalier.grammars.schemas import strings

from .drawn import small_vocabulary
from .engine import allowed, bind
from .naive import Naive

PATTERNS = ["a", "^a", "b$", "^(ab)*$", "^a{1,3}$", "^(a|bcc)$", "^[ab]*$", "\\S", "^a*b?c",
            "^(?!ab)", "(a.b|c)", "^.{3}"]


def compiled(**keywords: object) -> Grammar:
    return compile_constraint(JsonSchema(json.dumps({"type": "string", **keywords})))


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(PATTERNS), st.integers(0, 5), st.integers(0, 6),
       st.lists(st.text("abc ", max_size=7), min_size=8))
def test_pattern_and_length_both_hold(pattern: str, least: int, most: int, texts: list[str]) -> None:
    def valid(text: str) -> bool:
        return least <= len(text) <= most and re.search(pattern, text) is not None
    try:
        naive = Naive(compiled(pattern=pattern, minLength=least, maxLength=most))
    except Unsatisfiable:
        assert not any(map(valid, texts))
        return
    for text in texts:
        assert naive.accepts(json.dumps(text)) == valid(text), (pattern, least, most, text)
    threads = naive.start()
    for _ in range(2 * most + 4):  # take the last possible byte each time: no dead end on the way
        followers = naive.followers(threads)
        if not followers:
            break
        threads = followers[max(followers)]
    assert naive.may_end(threads) or naive.followers(threads)


def test_a_long_length_beside_a_pattern_is_exact() -> None:
    grammar = compiled(pattern="\\S", maxLength=50_000)
    assert grammar.notes == ()
    naive = Naive(grammar)
    assert naive.accepts('"' + " " * 9_999 + "x" + "y" * 100 + '"')
    assert not naive.accepts('"' + " " * 100 + '"')


def test_a_long_format_has_its_length_in_a_register() -> None:
    grammar = compiled(format="uri", minLength=1, maxLength=2083)  # what Pydantic says of an HttpUrl
    assert sum(rule.states for rule in grammar.rules) < 500
    naive = Naive(grammar)
    for count, fits in ((2075, True), (2076, False)):
        assert naive.accepts(json.dumps("http://a" + "b" * count)) == fits


@pytest.mark.parametrize(("pattern", "most"), [("^(?:[ab]+ +){0,2}[ab]+$", 5), ("ab", 5), ("^(aab)*$", 7), ("b$", 4)])
def test_a_register_beside_a_pattern_has_no_dead_ends(pattern: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine masks what could no longer be closed, so the register need not know the pattern."""
    monkeypatch.setattr(strings, "_GLADLY", 0)
    vocabulary = small_vocabulary([b"ab", b"a ", b'b"', b"aab", b"  ", b'ab"'], b'"ab ')
    bound = bind(compiled(pattern=pattern, maxLength=most), vocabulary)
    for seed in range(20):
        random, matcher, text = Random(seed), bound.matcher(forcing=False, closing=False), b""
        while True:
            token = random.choice(sorted(allowed(bound, matcher)))  # fails when nothing is allowed
            if token in vocabulary.stop:
                break
            matcher.accept(token)
            text += vocabulary.tokens[token]
        assert len(text) - 2 <= most
        assert re.search(pattern, text[1:-1].decode())


@pytest.mark.parametrize("pattern", ["^[a-z]*$", "^[^\\n]*$"])
def test_a_pattern_that_may_always_end_costs_no_states_for_its_length(pattern: str) -> None:
    sizes = {n: sum(rule.states for rule in compiled(pattern=pattern, maxLength=n).rules) for n in (50, 5000)}
    assert sizes[50] == sizes[5000]


@pytest.mark.parametrize("other", [{"enum": ["a\nb", "c"]}, {"type": "string", "pattern": "^\n"},
                                   {"type": "string", "format": "date"}, {"const": ["a\nb"]}])
@pytest.mark.parametrize("free", [{"type": "string"}, {"type": "string", "minLength": 2}, {}])
def test_a_string_beside_one_of_any_text_has_any_spelling(free: dict[str, object], other: dict[str, object]) -> None:
    naive = Naive(compile_constraint(JsonSchema(json.dumps({"anyOf": [free, other]}))))
    assert all(naive.accepts(text) for text in (r'"a\nb"', r'"\u0061\nb"', '"a/b"', r'"\n\n"', '"2026-11-30"'))
    assert naive.accepts(r'["a\nb"]') == (free == {} or "const" in other)
    assert naive.accepts(r'"a"') == ("minLength" not in free)
