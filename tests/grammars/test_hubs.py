"""Masks by hubs equal the tokens one by one; loops are made once for all grammars of a vocabulary."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.bodies.loops import Loops
from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Constraint, Gbnf, Lark, Regex
from espalier.grammars.masks import finished
from espalier.grammars.vocabulary import Vocabulary

from .engine import allowed, bind
from .samplers import check_tokens
from .test_slices import large_vocabulary

NAMES = r"""
start: (assign "\n")+
assign: "let " NAME " = " value | "in " NAME "." NAME | call
call: NAME "(" (value ("," value)*)? ")"
value: NAME | NUMBER | STRING | call | "[" value? "]" | "-" value
NAME: /[a-zA-Z_][a-zA-Z0-9_]*/
NUMBER: /[0-9]+(\.[0-9]+)?/
STRING: /"[^"\\\n]*"|'[^'\\\n]*'/
%ignore / +/
"""
CASES: list[tuple[Constraint, str]] = [
    (Lark(NAMES), "let lap = call(in_1, \"le 漢t\", [-2.5])\nin letter.inn\nletter('a b')\n"),
    (Gbnf('root ::= ("if " n | n "=" s | [0-9]+)\nn ::= [a-z]+\ns ::= "\'" [^\']* "\'"'), "iffy='é d'"),
    (Regex(r"(def|class|de[a-z]+|\d+) .+"), "defer caf\u00e9 \u2019 12"),
    (Regex(r"([^<]|<[^t])*<tool>"), "a <b> < tool \u5b57<tool>"),
    (Regex(r"[\p{L}]+( [\p{L}]+)*\."), "Der \u00d6lbaum."),
    (Regex(r"[^a]*"), "h\u00e9llo"),
]
RULES = [
    'root ::= (w " "?)+\nw ::= [a-l]+',
    'root ::= e\ne ::= n ("+" e)* | "(" e ")"\nn ::= [a-l] [a-l0-2]*',
    'root ::= "ail" n | "lab(" n | n "=" (n | "\'" [^\']* "\'")\nn ::= [a-l]+',
    'root ::= (k | [a-lé-ü] [a-lé-ü]*) (" " root)? ","\nk ::= "ai" | "al+" root "l"',
    'root ::= ([a-z ] | "(" root ")")+ "ai="',
    'root ::= n "(" (n ("," n)*)? ")" "="\nn ::= [a-l]+',
    'root ::= n (root ".")?\nn ::= [a-l]+ | "(" n ")"',
    'root ::= [a-l]+ (n | ".")\nn ::= [a-l]+ "=" | "(" n ")"',
]


def with_loops(vocabulary: Vocabulary, worth: int) -> Vocabulary:
    twin = Vocabulary.__new__(Vocabulary)
    twin.__dict__.update(vocabulary.__dict__)
    twin.loops = Loops(vocabulary.bodies, worth)
    return twin


@pytest.mark.parametrize(("constraint", "text"), CASES)
def test_masks_of_a_real_vocabulary_are_the_same_by_hubs_and_without(
        smollm2: Vocabulary, monkeypatch: pytest.MonkeyPatch, constraint: Constraint, text: str) -> None:
    rules = compile_constraint(constraint)
    quick, quicker = bind(rules, smollm2), bind(rules, with_loops(smollm2, 16))
    monkeypatch.setattr(finished, "spreads", lambda tables: False)
    plain = bind(rules, smollm2)
    matchers = [(grammar, grammar.matcher(forcing=False)) for grammar in (quick, quicker, plain)]
    for token in smollm2.encode(text):
        one, same, other = (allowed(grammar, matcher) for grammar, matcher in matchers)
        assert one == same == other
        for _, matcher in matchers:
            matcher.accept(token)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return with_loops(large_vocabulary(), 4)


@pytest.mark.parametrize("rules", RULES)
@settings(max_examples=10, deadline=None)
@given(rng=st.randoms(use_true_random=False), spare=st.integers(0, 6))
def test_masks_equal_tests_of_each_token(vocabulary: Vocabulary, rules: str, rng: Random, spare: int) -> None:
    compiled = bind(compile_constraint(Gbnf(rules)), vocabulary)
    check_tokens(compiled, rng, 5, spare)


def test_loops_are_made_once_for_all_grammars_of_a_vocabulary(smollm2, monkeypatch):
    made, make = [], Loops._make
    monkeypatch.setattr(Loops, "_make", lambda self, *about: made.append(about) or make(self, *about))
    vocabulary = with_loops(smollm2, 1 << 10)
    for rules in ('root ::= [a-z]+ "." root | "x"', 'root ::= "(" [a-z]+ ")" | [a-z]+ "-"'):
        grammar = bind(compile_constraint(Gbnf(rules)), vocabulary)
        matcher = grammar.matcher(forcing=False)
        matcher.row(None)
        matcher.accept(smollm2.encode("ab")[0])
        matcher.row(None)
    assert len(made) == len({repr(about) for about in made}) > 0
