"""Law 4's distances: U(start) is the length of the shortest text, whatever the counters, orders and calls."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from espalier.grammars.binding import tables
from espalier.grammars.binding.flat import COUNTER
from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Choices, JsonSchema, Regex
from espalier.grammars.distances import token_moves
from espalier.grammars.errors import MissingByte, Unsatisfiable
from espalier.grammars.ir import CLOSE_KEY, COUNT, KEY, OPEN_KEY, Call, Counter, Grammar, Order
from espalier.grammars.schemas import strings
from espalier.grammars.vocabulary import Vocabulary

from .drawn import edge, grammars, json_grammar, rule, small_vocabulary, tokens
from .engine import allowed, bind
from .naive import Naive
from .reference import Reference, UndecidedError


@settings(max_examples=100, deadline=None)
@given(grammars())
def test_the_least_budget_is_the_length_of_the_shortest_text(grammar):
    reference = Reference(grammar, frozenset(b'abc"'))
    try:
        expected = reference.distance(reference.start)
    except UndecidedError:
        assume(False)
    try:
        found = bind(grammar, small_vocabulary([])).min_tokens
    except Unsatisfiable:
        found = None
    assert found == expected


def _fewest(naive, vocabulary):
    """The fewest tokens of any text, breadth first."""
    layer, seen, depth = {naive.start()}, set(), 0
    while layer:
        if any(naive.may_end(threads) for threads in layer):
            return depth
        seen |= layer
        layer = {_after(naive, threads, vocabulary.tokens[t]) for threads in layer for t in vocabulary.text_ids}
        layer, depth = {threads for threads in layer if threads} - seen, depth + 1
    return None


def _after(naive, threads, text):
    for byte in text:
        threads = naive.step(threads, byte)
    return threads


PIECES = st.sampled_from(["a", "b", "[abc]", "ab", "(ab|c)", "[^a]", "(a|bc)", "c{3}", "[ab]{2,5}", "(bca)?", "b*"])
CONSTRAINTS = st.one_of(
    st.lists(PIECES, min_size=1, max_size=4).map(lambda parts: Regex("".join(parts))),
    st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=4).map(lambda o: Choices(tuple(o))),
)


@settings(max_examples=100, deadline=None)
@given(CONSTRAINTS, tokens, st.booleans())
def test_expressions_and_choices_know_the_fewest_tokens_exactly(constraint, extra, by_bytes):
    vocabulary = small_vocabulary(extra)
    with pytest.MonkeyPatch.context() as patch:
        if by_bytes:
            patch.setattr(token_moves, "_NODES", 1)
        try:
            grammar = compile_constraint(constraint)
            compiled = bind(grammar, vocabulary)
        except (MissingByte, Unsatisfiable):
            assume(False)
    assert compiled.min_tokens == _fewest(Naive(grammar), vocabulary)


@settings(max_examples=100, deadline=None)
@given(grammars(), tokens)
def test_tokens_of_several_bytes_bring_the_end_no_farther(grammar, extra):
    try:
        short, long = bind(grammar, small_vocabulary(extra)), bind(grammar, small_vocabulary([]))
    except Unsatisfiable:
        assume(False)
    assert short.min_tokens <= long.min_tokens
    assert (short.tables.distance <= long.tables.distance).all()


def test_an_object_is_counted_in_the_tokens_along_its_shortest_text():
    schema = '{"type":"object","properties":{"name":{"type":"string","minLength":2},"ok":{"type":"boolean"}},' \
             '"required":["name","ok"]}'
    words = [b'{"', b"name", b'":"', b'","', b'ok":', b"true", b"  "]
    vocabulary = Vocabulary([*(bytes([b]) for b in range(256)), *words, b""], special=(), stop=(263,),
                            encode=lambda text: list(text.encode()))
    compiled = bind(compile_constraint(JsonSchema(schema)), vocabulary)
    assert compiled.min_tokens == len(['{"', "name", '":"', "  ", '"', ",", '"', 'ok":', "true", "}"])


def test_forced_text_that_the_budget_has_no_room_for_is_not_forced():
    """The tokenizer's own tokens of a text may be more than the fewest."""
    vocabulary = Vocabulary([b"a", b"b", b"ab", b""], special=(), stop=(3,),
                            encode=lambda text: ["ab".index(c) for c in text])
    compiled = bind(compile_constraint(Choices(("abab",))), vocabulary)
    assert compiled.min_tokens == 2
    matcher = compiled.matcher()
    assert matcher.forced(9) == [0, 1, 0, 1]
    assert matcher.forced(9, 4) == [0, 1, 0, 1]
    assert allowed(compiled, matcher, 3) == {0, 2}
    assert matcher.forced(9, 3) == []
    matcher.accept(2)
    assert allowed(compiled, matcher, 1) == {2}
    matcher.accept(2)
    assert matcher.must_end()


@pytest.mark.parametrize(("low", "high"), [(0, None), (3, None), (0, 0), (0, 5000), (17, 5000), (40, 41), (2500, 2500)])
def test_every_register_value_knows_its_distance(low, high):
    counted = rule(3, [*edge(0, '"', 1), *edge(1, "a", 1, COUNT), *edge(1, '"', 2)], (2,), register=Counter(low, high))
    compiled = bind(Grammar((counted,), 0), small_vocabulary([]))
    matcher = compiled.matcher(forcing=False)
    assert compiled.min_tokens == low + 2
    matcher.accept(3)
    top = low + 60 if high is None else high
    for written in range(min(top, 120)):
        assert matcher.min_tokens() == max(low - written, 0) + 1
        assert matcher.allows(3) == (written >= low)
        assert matcher.allows(0) == (high is None or written < high)
        matcher.accept(0)
    assert len(compiled.tables.distance) <= 3 * (low + 8)


PATTERNS = st.lists(st.sampled_from(["a", "[abc]", "(ab|c)", "(a|bc){2,9}", "[^a]", "(bca)?", "b*", "c+", "é"]),
                    min_size=1, max_size=4).map("".join)


@settings(max_examples=40, deadline=None)
@given(PATTERNS, st.integers(0, 9), st.integers(5, 60), st.sampled_from(["one", "any"]), st.booleans())
def test_counters_share_columns_only_where_no_distance_differs(pattern, low, more, spelling, search):
    schema = {"type": "string", "pattern": pattern if search else f"^{pattern}$", "minLength": low,
              "maxLength": low + more}
    constraint = JsonSchema(json.dumps(schema), order="any", spelling=spelling)
    vocabulary = Vocabulary([*(bytes([b]) for b in range(256)), b"ab", b"abc", b'c"', b"aa", b""], special=(),
                            stop=(260,), encode=lambda text: list(text.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strings, "_GLADLY", 0)  # else lengths are states
        try:
            grammar = compile_constraint(constraint)
        except Unsatisfiable:
            assume(False)
        patch.setattr(tables, "_LOOK_FROM", -1)
        few = bind(grammar, vocabulary)
        patch.setattr(tables, "_LOOK_FROM", 1 << 60)
        many = bind(grammar, vocabulary)
    assert len(few.tables.distance) <= len(many.tables.distance)
    for index, one in enumerate(grammar.rules):
        top = one.register.maximum if isinstance(one.register, Counter) else None
        assert all((_distances(few, index, r) == _distances(many, index, r)).all() for r in range((top or 0) + 1))


def _distances(compiled, rule, register):
    """Of all states of a rule, with that register."""
    layout = compiled._layout
    low, plateau, _ = layout.bounds[rule]
    column = min(register, low) + max(0, register - plateau) if layout.flat.kinds[rule] == COUNTER else 0
    base, count, width = layout.bases[rule], int(layout.flat.states[rule]), layout.columns[rule]
    return compiled.tables.distance[base: base + count * width].reshape(count, width)[:, column]


def test_a_large_maximum_does_not_cost_a_mask_for_every_length():
    counted = rule(3, [*edge(0, '"', 1), *edge(1, "a", 1, COUNT), *edge(1, '"', 2)], (2,), register=Counter(0, 5000))
    compiled = bind(Grammar((counted,), 0), small_vocabulary([b"aa", b"aaaa"]))
    matcher = compiled.matcher(forcing=False)
    matcher.accept(3)
    for written in range(5000):
        assert (5 in allowed(compiled, matcher)) == (written <= 4996)
        matcher.accept(0)
    assert len(compiled._finished.masks) <= 8


def test_a_property_that_can_no_longer_come_is_not_begun():
    names = [*edge(0, "a", 1), *edge(1, "b", 2, KEY), *edge(1, "c", 2, KEY + 1), *edge(0, "c", 2, KEY + 2),
             *edge(2, "a", 0)]
    thing = rule(3, names, (2,), register=Order((False, True, False), False))
    compiled = bind(Grammar((thing,), 0), small_vocabulary([]))
    matcher = compiled.matcher(forcing=False)
    assert allowed(compiled, matcher) == {0}
    for token in (0, 2, 0):
        matcher.accept(token)
    assert allowed(compiled, matcher) == {2}


def test_a_separator_is_not_written_when_every_free_key_is_used():
    keys = [*edge(0, '"', 1, OPEN_KEY), *edge(1, "ab", 2), *edge(2, '"', 3, CLOSE_KEY), *edge(3, "c", 4),
            *edge(4, '"', 1, OPEN_KEY)]
    compiled = bind(Grammar((rule(5, keys, (3,), register=Order((), True)),), 0), small_vocabulary([b'"a"', b'c"b"']))
    matcher = compiled.matcher(forcing=False)
    for token in (3, 0, 3, 2, 3):
        matcher.accept(token)
    assert allowed(compiled, matcher) == {1}
    matcher.accept(1)
    matcher.accept(3)
    assert matcher.must_end()
    assert allowed(compiled, matcher) == set(compiled.vocabulary.stop)


def test_the_shortest_free_key_may_be_used_and_the_budget_knows():
    compiled = bind(json_grammar(), Vocabulary.bytes_only())
    matcher = compiled.matcher(forcing=False)
    for byte in b'{"":1,':
        matcher.accept(byte)
    assert matcher.min_tokens() == len('"a":1}')


def test_the_byte_that_is_named_is_the_one_missing():
    from_call = Grammar((rule(2, edge(0, "a", 1), (), [Call(1, 1, 1)]), rule(2, edge(0, "x", 1), (1,))), 0)
    with pytest.raises((MissingByte, Unsatisfiable)):
        bind(from_call, small_vocabulary([]))
    needs = Grammar((rule(3, edge(0, "a", 1), (2,), [Call(1, 1, 2)]), rule(2, edge(0, "xy", 1), (1,))), 0)
    with pytest.raises(MissingByte, match=r"0x7[89]"):
        bind(needs, small_vocabulary([b"xa"]))
    assert bind(needs, small_vocabulary([b"ax"])).min_tokens == 1
