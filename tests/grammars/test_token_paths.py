"""Law 4 for regular expressions whose counts are registers: budgets are exact, at every place of every text."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from espalier.grammars import compile as compiling
from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import Regex
from espalier.grammars.distances import token_moves
from espalier.grammars.errors import ConstraintError
from espalier.grammars.ir import Counter
from espalier.grammars.vocabulary import Vocabulary
from espalier.grammars.written import counted

from .drawn import small_vocabulary
from .engine import allowed, bind
from .naive import Naive
from .samplers import WAYS, answer

LETTERS = "ab.é€".encode()
BOUNDS = st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 12)))
COUNTED = st.builds(lambda chars, bounds: f"[{chars}]{{{bounds[0]},{'' if bounds[1] is None else sum(bounds)}}}",
                    st.sampled_from(["ab", "a", "^.", "aé", "é-ñ€"]), BOUNDS)
PIECES = st.one_of(COUNTED, COUNTED, st.sampled_from(["a", "\\.", "b*", "(ab|\\.a)", "é?", "\\.b"]))
GROUPS = st.builds(lambda parts, star: f"({''.join(parts)}){star}", st.lists(PIECES, min_size=1, max_size=3),
                   st.sampled_from(["", "*", "?", "{2}", "+"]))
PATTERNS = st.lists(st.one_of(PIECES, GROUPS), min_size=1, max_size=4).map("".join)
TOKENS = st.lists(st.text("ab.é€", min_size=2, max_size=6).map(str.encode), max_size=8, unique=True)
HALVES = st.lists(st.sampled_from([b"a\xc3", b"\xa9", b"\xa9.", b"\xac", b"\xe2\x82", b"\x82\xac.", b"\xc3", b"\xe2"]),
                  max_size=4, unique=True)


def _bound(pattern: str, vocabulary: Vocabulary, counting: bool) -> CompiledGrammar:
    """The pattern with as many of its counts as registers as there are, or with none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "_WRITTEN_OUT", 0 if counting else 1 << 30)
        patch.setattr(counted, "_LONG", 1)
        try:
            return bind(compile_constraint(Regex(pattern)), vocabulary)
        except ConstraintError:
            assume(False)
            raise


@settings(max_examples=80, deadline=None)
@given(PATTERNS, TOKENS, HALVES, st.booleans(), st.randoms(use_true_random=False))
def test_counted_or_written_out_the_fewest_tokens_are_the_same_everywhere(
        pattern: str, extra: list[bytes], halves: list[bytes], by_bytes: bool, random: Random) -> None:
    vocabulary = small_vocabulary([*extra, *halves], LETTERS)
    with pytest.MonkeyPatch.context() as patch:
        if by_bytes:
            patch.setattr(token_moves, "_NODES", 1)
        few, many = (_bound(pattern, vocabulary, counting) for counting in (True, False))
    assume(any(isinstance(rule.register, Counter) for rule in few.grammar.rules))
    one, other = few.matcher(forcing=False), many.matcher(forcing=False)
    for _ in range(30):
        assert one.min_tokens() == other.min_tokens(), pattern
        assert allowed(few, one, one.min_tokens()) == allowed(many, other, one.min_tokens())
        here = allowed(few, one)
        assert here == allowed(many, other)
        tokens = sorted(here - set(vocabulary.stop))
        if not tokens:
            break
        token = random.choice(tokens)
        one.accept(token)
        other.accept(token)


@settings(max_examples=40, deadline=None)
@given(PATTERNS, TOKENS, st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_no_text_has_fewer_tokens_and_adversaries_need_no_more(
        pattern: str, extra: list[bytes], way: str, random: Random) -> None:
    vocabulary = small_vocabulary(extra, LETTERS)
    grammar = _bound(pattern, vocabulary, True)
    naive = Naive(grammar.grammar)
    assume(grammar.min_tokens < 8)
    assert grammar.min_tokens == _fewest(naive, vocabulary, 8)
    assert naive.accepts(answer(grammar, grammar.min_tokens, way, random))


def _fewest(naive: Naive, vocabulary: Vocabulary, most: int) -> int | None:
    """The fewest tokens of any text, breadth first."""
    layer, seen = {naive.start()}, set[frozenset]()
    for depth in range(most):
        if any(naive.may_end(threads) for threads in layer):
            return depth
        seen |= layer
        layer = {_after(naive, threads, vocabulary.tokens[t]) for threads in layer for t in vocabulary.text_ids} - seen
        layer.discard(frozenset())
    return None


def _after(naive: Naive, threads: frozenset, text: bytes) -> frozenset:
    for byte in text:
        threads = naive.step(threads, byte)
    return threads
