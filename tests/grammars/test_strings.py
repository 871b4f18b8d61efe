"""Lengths meet patterns: exact counts, no dead end, few states."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import Unsatisfiable
from espalier.grammars.ir import Grammar

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


def test_a_length_beyond_the_reach_of_a_pattern_is_noted() -> None:
    grammar = compiled(pattern="\\S", maxLength=50_000)
    assert any("within 4000 characters" in note for note in grammar.notes)
    naive = Naive(grammar)
    assert naive.accepts('"' + " " * 3999 + "x" + "y" * 100 + '"')
    assert not naive.accepts('"' + " " * 100 + '"')
    assert compiled(pattern="\\S", maxLength=200).notes == ()


def test_a_long_format_whose_length_is_in_its_states_has_no_register() -> None:
    grammar = compiled(format="uri", minLength=1, maxLength=2083)  # what Pydantic says of an HttpUrl
    assert all(rule.register is None for rule in grammar.rules)
    assert any("within 256 characters" in note for note in grammar.notes)
    naive = Naive(grammar)
    for count, fits in ((248, True), (249, False)):
        assert naive.accepts(json.dumps("http://a" + "b" * count)) == fits


@pytest.mark.parametrize("pattern", ["^[a-z]*$", "^[^\\n]*$"])
def test_a_pattern_that_may_always_end_costs_no_states_for_its_length(pattern: str) -> None:
    sizes = {n: sum(rule.states for rule in compiled(pattern=pattern, maxLength=n).rules) for n in (50, 5000)}
    assert sizes[50] == sizes[5000]
