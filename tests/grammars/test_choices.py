"""Choices: exactly the given texts."""

from __future__ import annotations

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Choices

from .naive import Naive


def test_exactly_the_options_are_accepted() -> None:
    options = ("yes", "yes!", "no", "né", "", "a\nb")
    naive = Naive(compile_constraint(Choices(options)))
    assert all(naive.accepts(option) for option in options)
    for text in ("ye", "yes!!", "n", "ne", "a", "y", " yes"):
        assert not naive.accepts(text)


def test_thousands_of_options_share_their_heads_and_tails() -> None:
    grammar = compile_constraint(Choices(tuple(f"option_{i:04}_end" for i in range(3000))))
    assert sum(rule.states for rule in grammar.rules) < 40
