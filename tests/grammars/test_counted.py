"""Classes that repeat within bounds, in written grammars: counted by a register, the same texts and the same masks."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Gbnf, Lark, Regex
from espalier.grammars.ir import Counter

from .drawn import small_vocabulary
from .engine import allowed, bind

VOCABULARY = small_vocabulary([b"ab", b"aaaa", b"a b", b"ba.", b".b", "aé".encode(), "é.".encode(), "éé".encode()],
                              "ab .ñé€😀".encode())
PATTERNS = {
    "all of it": "[ab]{3,40}", "exactly": "[ab]{20}", "without end": "[ab]{20,}", "maybe": "[ab]{0,30}",
    "between": "a\\.[ab]{1,25}\\.b", "before the same": "[ab]{17,20}b", "into a larger class": "[ab]{20}[ab ]*",
    "wide": "[^.]{2,30}\\.", "beyond ASCII": "[é-ñ€]{18,25}a", "twice": "([ab]{1,20} ){2,3}\\.",
    "again and again": "[ab]{1,20}( [ab]{1,20})*", "alternatives": "[ab]{18,20}|\\.[ab]{18,20}",
    "ends early": "a{1,18}|b", "overlapping": "[ab]{1,20}[b.]{1,20}", "no end of exits": "([ab]{2,20}\\.?)*",
}
piece = st.builds(lambda chars, low, more: f"[{chars}]{{{low},{low + more}}}", st.sampled_from(["ab", "a", "^. ", "b"]),
                  st.integers(0, 19), st.integers(0, 19))
part = st.builds("".join, st.lists(st.sampled_from([" ", "\\.", "a", "(a|\\.)"]), max_size=2).map("".join).flatmap(
    lambda text: st.tuples(st.just(text), piece, st.sampled_from([" ", "\\."]))))
patterns = st.builds(lambda parts, star: "|".join(parts) if star is None else f"({''.join(parts)}){star}",
                     st.lists(part, min_size=1, max_size=2), st.sampled_from([None, "*", "?", "{2}"]))


def same_along(pattern: str, seed: int, steps: int) -> None:
    """Masks along a drawn text are those of the language written out."""
    counted = bind(compile_constraint(Lark(f"start: /{pattern}/\n")), VOCABULARY)
    written = bind(compile_constraint(Regex(pattern)), VOCABULARY)
    one, other = (grammar.matcher(forcing=False, closing=False) for grammar in (counted, written))
    draw, last = random.Random(seed), VOCABULARY.stop[0]
    for _ in range(steps):
        may = allowed(counted, one)
        assert may == allowed(written, other), pattern
        tokens = sorted(may - {last})
        if not tokens:
            break
        token = draw.choice(tokens)
        one.accept(token)
        other.accept(token)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("seed", range(3))
def test_masks_are_those_of_the_class_written_out(pattern, seed):
    same_along(pattern, seed, 45)


@settings(max_examples=25, deadline=None)
@given(patterns, st.integers(0, 1 << 16))
def test_masks_of_drawn_repetitions_are_those_of_the_same_written_out(pattern, seed):
    same_along(f"a?({pattern})b*", seed, 25)


@pytest.mark.parametrize("name", ["all of it", "exactly", "without end", "between", "wide", "beyond ASCII", "twice"])
def test_a_register_counts_and_the_states_are_few(name):
    grammar = compile_constraint(Lark(f"start: /{PATTERNS[name]}/\n"))
    assert any(isinstance(rule.register, Counter) for rule in grammar.rules)
    assert sum(rule.states for rule in grammar.rules) < 40


@pytest.mark.parametrize("text", ["a" * 15, "a" * 16, "a" * 30, "a" * 31, "aé" * 8, "é" * 31, "a" * 20 + ".", ""])
def test_the_repetition_of_a_class_in_gbnf_is_counted_too(text):
    grammar = bind(compile_constraint(Gbnf('root ::= item | "<" root ">"\nitem ::= [^.<>]{16,30}')), VOCABULARY)
    matcher = grammar.matcher(forcing=False)
    fits = True
    for token in VOCABULARY.encode(text):
        fits = fits and token in allowed(grammar, matcher)
        if fits:
            matcher.accept(token)
    assert (fits and matcher.may_end()) == bool(re.fullmatch("[^.<>]{16,30}", text))


@pytest.mark.parametrize("pattern", ["[ab]{20,40}", "a\\.[ab]{20,40}\\.b", "[^.]{17,}\\."])
def test_every_budget_that_reaches_the_start_ends_in_a_text(pattern):
    grammar = bind(compile_constraint(Lark(f"start: /{pattern}/\n")), VOCABULARY)
    for budget in range(grammar.min_tokens, grammar.min_tokens + 4):
        matcher, left, text = grammar.matcher(forcing=False), budget, b""
        while not matcher.may_end():
            token = max(allowed(grammar, matcher, left))
            matcher.accept(token)
            text, left = text + VOCABULARY.tokens[token], left - 1
        assert left >= 0
        assert re.fullmatch(pattern, text.decode())


@pytest.mark.parametrize(("pattern", "texts"), [
    ("[ab ]{10,200}", ["a" * 9, "b" * 10, "ab" * 100, "a" * 201]),
    ("ab[^.]{1,300}\\.b", ["ab.b", "abé.b", "ab" + "€" * 300 + ".b", "ab" + "a" * 301 + ".b"]),
    ("([ab]{170,180}\\.)?", ["", "a" * 169 + ".", "b" * 180 + ".", "b" * 180]),
])
def test_a_long_count_of_a_regular_expression_is_a_register_too(pattern, texts):
    compiled = compile_constraint(Regex(pattern))
    assert any(isinstance(rule.register, Counter) for rule in compiled.rules)
    grammar = bind(compiled, VOCABULARY)
    for text in texts:
        matcher, fits = grammar.matcher(forcing=False), True
        for token in VOCABULARY.encode(text):
            fits = fits and token in allowed(grammar, matcher)
            if fits:
                matcher.accept(token)
        assert (fits and matcher.may_end()) == bool(re.fullmatch(pattern, text)), text
