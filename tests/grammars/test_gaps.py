"""Vocabularies without some bytes: texts that longer tokens can write are kept, and none ends in a gap."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import Choices, Constraint, JsonSchema, Regex
from espalier.grammars.errors import MissingByte, Unsatisfiable
from espalier.grammars.vocabulary import Vocabulary

from .drawn import grammars, small_vocabulary
from .engine import allowed, bind
from .naive import Naive

PIECES = st.sampled_from(["a", "b", "[abc]", "ab", "(ab|c)", "(a|bc)", "c{3}", "[ab]{2,5}", "(bca)?", "b*"])
FLAT = st.one_of(
    st.lists(PIECES, min_size=1, max_size=4).map(lambda parts: Regex("".join(parts))),
    st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=4).map(lambda o: Choices(tuple(o))),
)
TOKENS = st.lists(st.text("abc", min_size=2, max_size=4).map(str.encode), max_size=8, unique=True)
LETTERS = st.sets(st.sampled_from(list(b"abc")), min_size=1).map(lambda found: bytes(sorted(found)))


def _after(naive: Naive, threads: frozenset, text: bytes) -> frozenset:
    for byte in text:
        threads = naive.step(threads, byte)
    return threads


def _fewest(naive: Naive, vocabulary: Vocabulary, start: frozenset, most: int = 40) -> int | None:
    """The fewest tokens from `start` to an end, breadth first."""
    layer, seen = {start}, set()
    for depth in range(most):
        if any(naive.may_end(threads) for threads in layer):
            return depth
        seen |= layer
        layer = {_after(naive, threads, vocabulary.tokens[t]) for threads in layer for t in vocabulary.text_ids}
        layer = {threads for threads in layer if threads} - seen
    return None


def _bound(constraint: Constraint, vocabulary: Vocabulary) -> tuple[Naive, CompiledGrammar | None]:
    try:
        grammar = compile_constraint(constraint)
    except Unsatisfiable:
        assume(False)
        raise
    try:
        return Naive(grammar), bind(grammar, vocabulary)
    except MissingByte:
        return Naive(grammar), None


@settings(max_examples=80, deadline=None)
@given(FLAT, TOKENS, LETTERS)
def test_expressions_and_choices_are_refused_only_where_no_tokens_write_them(
        constraint: Constraint, extra: list[bytes], letters: bytes) -> None:
    vocabulary = small_vocabulary(extra, letters)
    naive, compiled = _bound(constraint, vocabulary)
    assert (None if compiled is None else compiled.min_tokens) == _fewest(naive, vocabulary, naive.start())


@settings(max_examples=60, deadline=None)
@given(FLAT, TOKENS, LETTERS, st.booleans(), st.randoms(use_true_random=False))
def test_a_mask_holds_the_tokens_behind_which_tokens_lead_to_the_end(
        constraint: Constraint, extra: list[bytes], letters: bytes, forcing: bool, random: Random) -> None:
    vocabulary = small_vocabulary(extra, letters)
    naive, compiled = _bound(constraint, vocabulary)
    assume(compiled is not None)
    assert compiled is not None
    matcher, threads = compiled.matcher(forcing=forcing, closing=False), naive.start()
    for _ in range(10):
        found = {t for t in vocabulary.text_ids if (after := _after(naive, threads, vocabulary.tokens[t]))
                 and _fewest(naive, vocabulary, after) is not None}
        here = allowed(compiled, matcher) - set(vocabulary.stop)
        assert here == found or (forcing and len(here) == 1 and here < found)
        if not here:
            assert naive.may_end(threads)
            break
        token = random.choice(sorted(here))
        matcher.accept(token)
        threads = _after(naive, threads, vocabulary.tokens[token])


def _close(compiled: CompiledGrammar, budget: int, random: Random) -> bytes:
    """A random text within the budget."""
    matcher, text = compiled.matcher(), b""
    for left in range(budget, 0, -1):
        token = random.choice(sorted(allowed(compiled, matcher, left)))
        matcher.accept(token)
        if token in compiled.vocabulary.stop:
            return text
        text += compiled.vocabulary.tokens[token]
    return text


@settings(max_examples=60, deadline=None)
@given(grammars(), TOKENS, LETTERS, st.integers(0, 6), st.randoms(use_true_random=False))
def test_every_budget_closes_under_drawn_grammars(
        grammar: object, extra: list[bytes], letters: bytes, more: int, random: Random) -> None:
    try:
        compiled = bind(grammar, small_vocabulary(extra, letters + b'"'))
    except (MissingByte, Unsatisfiable):
        return
    assert Naive(grammar).accepts(_close(compiled, compiled.min_tokens + more, random))


LATIN = b'{}[]":,abcdefghijklmnopqrstuvwxy0123456789 '
KEPT = [
    ({"const": "z"}, [b'"z"']), ({"const": "az"}, [b"az"]), ({"enum": ["az", "zz"]}, [b"zz"]),
    ({"type": "object", "properties": {"z": {"type": "integer"}}, "required": ["z"]}, [b'"z":']),
    ({"type": "array", "items": {"const": "z"}, "minItems": 2}, [b'["z', b',"z']),
    ({"type": "string", "pattern": "^z{3}$"}, [b"zz", b"zzz"]), ({"type": "string", "pattern": "^a{70}z$"}, [b"az"]),
    ({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"const": "xz"}}, "required": ["b"]}, [b":\"xz"]),
]


@pytest.mark.parametrize(("schema", "tokens"), KEPT)
def test_a_schema_is_kept_where_a_longer_token_holds_the_byte(schema: object, tokens: list[bytes]) -> None:
    grammar = compile_constraint(JsonSchema(json.dumps(schema)))
    compiled = bind(grammar, small_vocabulary(tokens, LATIN))
    for seed in range(5):
        text = _close(compiled, compiled.min_tokens + seed, Random(seed))
        assert Naive(grammar).accepts(text)
        assert b"z" in text
    with pytest.raises(MissingByte, match="0x7A"):
        bind(grammar, small_vocabulary([b"zq"], LATIN))


def test_objects_in_any_order_close_where_a_key_cannot_be_written_byte_by_byte() -> None:
    schema = {"type": "object", "properties": {"z": {"const": 1}, "a": {"enum": ["z", "b"]}}, "required": ["a"],
              "additionalProperties": False}
    grammar = compile_constraint(JsonSchema(json.dumps(schema), order="any"))
    compiled = bind(grammar, small_vocabulary([b'"z":', b'"z'], LATIN))
    texts = {_close(compiled, compiled.min_tokens + more, Random(seed)) for seed in range(20) for more in (0, 3, 9)}
    assert all(Naive(grammar).accepts(text) for text in texts)
