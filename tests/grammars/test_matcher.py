"""Masks equal the reference token by token; laws 4 and 6; rollback, copies, errors."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from espalier.grammars.errors import BudgetTooSmall, ConstraintTooLarge, MissingByte, Unsatisfiable
from espalier.grammars.ir import Call, Grammar
from espalier.grammars.masks.configuration import Limits
from espalier.grammars.matcher import TokenRejected
from espalier.grammars.vocabulary import Vocabulary

from .drawn import edge, grammars, json_grammar, rule, small_vocabulary, tokens
from .engine import allowed, bind
from .reference import Reference, UndecidedError

_FEW = Limits(threads=24)


def _compiled(grammar, vocabulary, reference):
    """The compiled grammar, None when the reference also finds no text."""
    try:
        return bind(grammar, vocabulary, limits=_FEW)
    except Unsatisfiable:
        assert reference.distance(reference.start) is None
        return None


def _expected(reference, threads, vocabulary):
    """The ids that the reference allows: readable, and the text can still be closed."""
    ids = set(vocabulary.stop) if reference.complete(threads) else set()
    for token in vocabulary.text_ids:
        after = reference.read(threads, vocabulary.tokens[token])
        if after and reference.distance(after) is not None:
            ids.add(token)
    return ids


@settings(max_examples=120, deadline=None)
@given(grammars(), tokens, st.randoms(use_true_random=False))
def test_every_mask_is_the_set_of_readable_tokens_that_can_still_close(grammar, extra, rng):
    vocabulary = small_vocabulary(extra)
    reference = Reference(grammar, frozenset(b'abc"'))
    try:
        compiled = _compiled(grammar, vocabulary, reference)
        assume(compiled is not None)
        matcher, threads = compiled.matcher(forcing=False, closing=False), reference.start
        for _ in range(8):
            expected = _expected(reference, threads, vocabulary)
            assert allowed(compiled, matcher) == expected
            assert matcher.may_end() == reference.complete(threads)
            assert {t for t in range(vocabulary.size) if matcher.allows(t)} == expected
            texts = sorted(expected - set(vocabulary.stop))
            assert matcher.must_end() == (not any(reference.step(threads, b) for b in b'abc"'
                                                  if _closes(reference, reference.step(threads, b))))
            if not texts:
                break
            token = rng.choice(texts)
            matcher.accept(token)
            threads = reference.read(threads, vocabulary.tokens[token])
    except (UndecidedError, ConstraintTooLarge):
        assume(False)


def _closes(reference, threads):
    return bool(threads) and reference.distance(threads) is not None


@contextlib.contextmanager
def _readable_in_few_ways():
    """Rejects drawn examples whose text became too ambiguous: that is an answer of its own."""
    try:
        yield
    except ConstraintTooLarge:
        reject()


def _uniform(rng, ids, compiled, matcher):
    return rng.choice(ids)


def _longest(rng, ids, compiled, matcher):
    return max(ids, key=lambda i: (len(compiled.vocabulary.tokens[i]), rng.random()))


def _farthest(rng, ids, compiled, matcher):
    def distance(token):
        ahead = matcher.copy()
        ahead.accept(token)
        return ahead.min_tokens()
    return max(ids, key=lambda i: (distance(i), rng.random()))


@settings(max_examples=150, deadline=None)
@given(grammars(), tokens, st.randoms(use_true_random=False), st.integers(0, 12), st.booleans(),
       st.sampled_from([_uniform, _longest, _farthest]))
def test_every_answer_closes_within_any_budget_from_the_least_up(grammar, extra, rng, spare, forcing, choose):
    vocabulary = small_vocabulary(extra)
    reference = Reference(grammar, frozenset(b'abc"'))
    try:
        compiled = bind(grammar, vocabulary, limits=_FEW)
    except Unsatisfiable:
        assume(False)
    with _readable_in_few_ways():
        matcher = compiled.matcher(forcing=forcing)
        threads, budget = reference.start, compiled.min_tokens + spare
        for _ in range(budget + 1):
            ids = allowed(compiled, matcher, budget)
            assert ids, matcher.explain()
            assert all(matcher.allows(i) for i in ids)
            assert matcher.min_tokens() <= budget
            stops = ids & set(vocabulary.stop)
            assert stops == (set(vocabulary.stop) if matcher.may_end() else set())
            if not ids - stops or (stops and rng.random() < 0.2):
                break
            token = choose(rng, sorted(ids - stops), compiled, matcher)
            assert token not in vocabulary.special
            matcher.accept(token)
            threads = reference.read(threads, vocabulary.tokens[token])
            budget -= 1
        assert reference.complete(threads)


@settings(max_examples=60, deadline=None)
@given(grammars(), tokens, st.randoms(use_true_random=False), st.booleans())
def test_rollback_and_copy_equal_a_replay(grammar, extra, rng, forcing):
    vocabulary = small_vocabulary(extra)
    try:
        compiled = bind(grammar, vocabulary, limits=_FEW)
    except Unsatisfiable:
        assume(False)
    with _readable_in_few_ways():
        matcher, ids = compiled.matcher(forcing=forcing), []
        for _ in range(12):
            choices = sorted(allowed(compiled, matcher) - set(vocabulary.stop))
            if not choices:
                break
            ids.append(rng.choice(choices))
            matcher.accept(ids[-1])
        kept = rng.randrange(len(ids) + 1)
        twin = matcher.copy()
        matcher.rollback(len(ids) - kept)
        replay = compiled.matcher(forcing=forcing)
        for token in ids[:kept]:
            replay.accept(token)
        assert allowed(compiled, matcher) == allowed(compiled, replay)
        assert matcher.min_tokens() == replay.min_tokens()
        for token in ids[kept:]:
            replay.accept(token)
        assert allowed(compiled, twin) == allowed(compiled, replay)


def test_a_rejected_token_is_named_and_leaves_the_matcher_where_it_was():
    compiled = bind(json_grammar(), Vocabulary.bytes_only())
    matcher = compiled.matcher()
    matcher.accept(ord("["))
    with pytest.raises(TokenRejected, match=r"token 125 .*expected .* or .* in array") as caught:
        matcher.accept(ord("}"))
    assert caught.value.token == ord("}")
    with pytest.raises(TokenRejected, match="not complete"):
        matcher.accept(256)
    with pytest.raises(ValueError, match="fewer were accepted"):
        matcher.rollback(2)
    matcher.accept(ord("]"))
    assert matcher.must_end()
    matcher.accept(256)
    assert allowed(compiled, matcher) == {256}
    with pytest.raises(TokenRejected, match="ended"):
        matcher.accept(ord("]"))
    matcher.accept(256)
    matcher.rollback(2)
    assert matcher.may_end()


def test_a_budget_below_the_shortest_answer_is_refused_by_name():
    compiled = bind(json_grammar(), Vocabulary.bytes_only())
    matcher = compiled.matcher()
    for byte in b'{"a":[1':
        matcher.accept(byte)
    with pytest.raises(BudgetTooSmall) as caught:
        matcher.row(1)
    assert caught.value.needed == 2


def test_a_needed_byte_without_a_token_is_named():
    grammar = Grammar((rule(3, edge(0, "a", 1) + edge(1, "z", 2), (2,)),), 0)
    with pytest.raises(MissingByte, match="0x7A"):
        bind(grammar, small_vocabulary([b"za"]))


def test_a_constraint_without_a_finite_text_is_refused():
    grammar = Grammar((rule(2, edge(0, "a", 1), (), [Call(1, 0, 1)], name="endless"),), 0)
    with pytest.raises(Unsatisfiable, match="endless"):
        bind(grammar, small_vocabulary([]))


def test_ten_thousand_levels_open_and_close_again():
    compiled = bind(json_grammar(), Vocabulary.bytes_only())
    matcher = compiled.matcher()
    for _ in range(10_000):
        matcher.accept(ord("["))
    assert matcher.min_tokens() == 10_000
    assert ord("]") in allowed(compiled, matcher, 10_000)
    assert ord("[") not in allowed(compiled, matcher, 10_000)
    for _ in range(10_000):
        matcher.accept(ord("]"))
    assert matcher.must_end()


def test_masks_are_walked_once_for_all_depths():
    compiled = bind(json_grammar(), Vocabulary.bytes_only())
    matcher = compiled.matcher()
    rows = set()
    for _ in range(50):
        matcher.accept(ord("["))
        rows.add(matcher.row(None))
    assert len(rows) == 1
    assert len(compiled._finished.masks) <= 2


def test_passing_the_stack_budget_fails_one_request_only():
    compiled = bind(json_grammar(), Vocabulary.bytes_only(), limits=Limits(nodes=1 << 10))
    matcher, other = compiled.matcher(), compiled.matcher()
    with pytest.raises(ConstraintTooLarge, match="1024"):
        _nest(matcher, 2000)
    before = allowed(compiled, matcher)
    assert ord("]") in before
    other.accept(ord("1"))
    assert ord("2") in allowed(compiled, other)
    fresh = compiled.matcher()
    for _ in range(300):
        fresh.accept(ord("["))


def _nest(matcher, levels):
    for _ in range(levels):
        matcher.accept(ord("["))


def test_used_keys_block_their_closing_quote_and_only_that():
    compiled = bind(json_grammar(), Vocabulary.bytes_only())
    matcher = compiled.matcher()
    rng = random.Random(1)
    keys = ["a", "ab", "b", "abc"]
    rng.shuffle(keys)
    for byte in ("{" + ",".join(f'"{k}":1' for k in keys) + ',"').encode():
        matcher.accept(byte)
    for prefix, free in (("", True), ("a", False), ("ab", False), ("abc", False), ("abcd", True), ("b", False)):
        here = matcher.copy()
        for byte in prefix.encode():
            here.accept(byte)
        assert (ord('"') in allowed(compiled, here)) is free
        assert here.allows(ord('"')) is free
        assert ord("x") in allowed(compiled, here)
