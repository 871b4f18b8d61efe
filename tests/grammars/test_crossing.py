"""Vocabularies without some bytes: a constraint is refused only where no tokens write any of its texts, tokens that end
in rules further out than they began among them."""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from espalier.grammars import compiled as compiling
from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema, Lark
from espalier.grammars.errors import ConstraintTooLarge, MissingByte, Unsatisfiable
from espalier.grammars.ir import Grammar, Order
from espalier.grammars.missing_bytes import crossing
from espalier.grammars.vocabulary import Vocabulary

from .drawn import grammars, small_vocabulary
from .engine import allowed, bind
from .naive import Naive
from .samplers import WAYS, answer, check_masks

JSON = b'{}[]":,.-abcxyz0123456789truefalsn'


def _object(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _list(items: object, least: int = 1, **more: object) -> dict[str, object]:
    return {"type": "array", "items": items, "minItems": least, **more}


WHOLE = {"type": "integer"}


def _free(least: int, **more: object) -> dict[str, object]:
    return {"type": "object", "additionalProperties": WHOLE, "minProperties": least, **more}


def _alike(items: object, **more: object) -> dict[str, object]:
    return {"type": "array", "items": items, "not": {"uniqueItems": True}, **more}


NODE = {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"const": 1}}, "required": ["b"]}
# schema, a byte that is no token, tokens that cross
WRITTEN: list[tuple[dict[str, Any], bytes, list[bytes]]] = [
    (_object(a=_object(b=WHOLE)), b"}", [b"}}"]),
    (_object(a=_object(b={"type": "integer", "minimum": 20})), b"}", [b"1}}"]),
    (_object(a=_object(b=WHOLE), c=WHOLE), b"}", [b'0},"', b"1}"]),
    (_list(_list(_list(WHOLE))), b"]", [b"]]", b"]]]"]),
    (_list(_list(WHOLE)), b"[]", [b"[[7", b"]]"]),
    (_list(_object(a=WHOLE), 2), b"}", [b"},", b"}]"]),
    (_list({"type": "string", "maxLength": 3}, 2, maxItems=3), b'"', [b'","', b'["', b'"]']),
    (_list(WHOLE, uniqueItems=True), b"]", [b"8]"]),
    (_object(a=_list(WHOLE, 0)), b"]}", [b"]}", b"0]"]),
    (NODE, b"}", [b"1}", b"}}"]),
    (_list(NODE), b"}", [b"1}]"]),
    ({"type": "object", "additionalProperties": WHOLE, "minProperties": 1, "properties": {"a": WHOLE}}, b"}", [b"5}"]),
    (_list(_object(a=_list({"type": "object"}))), b"}", [b"{}]}", b"}]}]"]),
    ({"type": "object", "properties": {"ab": WHOLE, "b": _object(c=WHOLE)}, "required": ["b"]}, b'"', [b'{"b":{"c":4']),
    (_free(2), b"}", [b"5}"]), (_free(3), b"}:", [b"5}", b'":1']), (_list(_free(2), 2), b"}", [b"5}]", b"},{"]),
    (_free(2, propertyNames={"pattern": "^(a|bc)$"}), b"}", [b"5}"]),
    (_free(3, properties={"a": _list(_free(2))}), b"]}", [b"5}]", b"7}"]),
    (_list(WHOLE, 3, uniqueItems=True), b"],", [b"8]", b"1,", b"2,", b"3,"]),
    (_list({"type": ["string", "integer"]}, 3, uniqueItems=True), b"],", [b'"]', b'",']),
    (_list(_list(WHOLE), 3, uniqueItems=True), b"],", [b"8],", b"1],", b"2]]", b"3,", b"9]]", b"8]]"]),
    (_list(_free(0), 2, uniqueItems=True), b"}", [b"1},", b"2}]", b"1}]"]),
    (_list({}, 3, uniqueItems=True), b"]}", [b"1]", b"5}"]),
    (_list(_list(WHOLE, 0, uniqueItems=True), 3, uniqueItems=True), b"]", [b"1],", b"2],", b"2]]"]),
    ({"prefixItems": [{}, {}], "type": "array", "minItems": 3, "uniqueItems": True}, b"]}", [b"1]", b"5}"]),
    (_alike({"properties": {"a": WHOLE}, "type": "object"}), b"]", [b"}]"]),
    (_alike(WHOLE), b"]", [b"8]"]), (_alike(WHOLE, minItems=3, maxItems=4), b"]", [b"8]"]),
    (_object(a=_alike(_list(WHOLE, 0)), b=_list({}, 2, uniqueItems=True)), b"],", [b"1],[", b"1]]", b'],"', b"5,6]"]),
]


def _checked(grammar: Grammar, vocabulary: Vocabulary, random: Random) -> CompiledGrammar:
    """Bound, and closed by adversaries under budgets from the least one on."""
    compiled, naive = bind(grammar, vocabulary), Naive(grammar)
    for more in (0, 1, 4):
        text = answer(compiled, compiled.min_tokens + more, random.choice(WAYS), random)
        assert naive.accepts(text), text
    return compiled


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(("schema", "gone", "tokens"), WRITTEN)
def test_a_schema_is_kept_where_tokens_close_several_rules(
        schema: dict[str, Any], gone: bytes, tokens: list[bytes], order: Any) -> None:
    grammar = compile_constraint(JsonSchema(json.dumps(schema), order=order))
    letters = bytes(byte for byte in JSON if byte not in gone)
    for seed in range(4):
        _checked(grammar, small_vocabulary(tokens, letters), Random(seed))
    with pytest.raises(MissingByte):
        bind(grammar, small_vocabulary([bytes([gone[0]]) + b"q"], letters))


def test_masks_of_items_compared_by_value_hold_tokens_with_bytes_that_are_none() -> None:
    schema = {"anyOf": [{"const": 1}, _list(_object(a=WHOLE, b=WHOLE), uniqueItems=True)]}
    grammar = compile_constraint(JsonSchema(json.dumps(schema)))
    vocabulary = small_vocabulary([b'{"a":1,"b', b'0,"b":2}', b'{"a'], bytes(byte for byte in JSON if byte != ord(",")))
    for seed in range(8):
        check_masks(bind(grammar, vocabulary), Random(seed), 12)
        _checked(grammar, vocabulary, Random(seed))


TEXT = {"type": "string"}
MANY = _object(**{key: WHOLE if key != "c" else TEXT for key in "abcxyztruel"})
# schemas of very many keys in any order, as above
LARGE: list[tuple[dict[str, Any], bytes, list[bytes]]] = [
    (MANY, b"}", [b'"}']),  # the string comes last
    ({**MANY, "additionalProperties": {"type": "boolean"}, "minProperties": 13}, b"}", [b"e}"]),
    ({**MANY, "additionalProperties": {"type": "boolean"}, "required": ["x"], "maxProperties": 2}, b"}", [b"e}"]),
    ({**MANY, "required": ["b", "u"]}, b"}x", [b'b":7,"u"', b'"}']),
    (_list({**MANY, "required": ["b", "u"]}, 2), b"}u", [b'"u":7,"b', b"5},", b"5}]"]),
    ({**MANY, "required": ["a"], "additionalProperties": TEXT, "not": {"propertyNames": {"pattern": "^a"}}}, b"}",
     [b'"}']),
]


@pytest.mark.parametrize("spelling", ["one", "any"])
@pytest.mark.parametrize(("schema", "gone", "tokens"), LARGE)
def test_of_very_many_keys_some_come_where_the_tokens_need_them(
        schema: dict[str, Any], gone: bytes, tokens: list[bytes], spelling: Any) -> None:
    grammar = compile_constraint(JsonSchema(json.dumps(schema), order="any", spelling=spelling))
    letters = bytes(byte for byte in JSON if byte not in gone)
    for seed in range(4):
        _checked(grammar, small_vocabulary(tokens, letters), Random(seed))


SCALARS = st.sampled_from([WHOLE, {"const": "a"}, {"enum": ["ab", "c", 12]}, {"type": "boolean"},
                           {"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^[abc]+$"}])
SCHEMAS = st.recursive(SCALARS, lambda inner: st.one_of(
    st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, min_size=1, max_size=2).map(lambda p: _object(**p)),
    st.builds(_list, inner, st.integers(0, 2))), max_leaves=4)


@st.composite
def _pieces(draw: st.DrawFn, text: bytes) -> list[bytes]:
    """The text cut into tokens."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=len(text))))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) if a < b]


def _cut(data: st.DataObject, grammar: Grammar, letters: bytes, kept: int) -> Vocabulary:
    """The tokens into which a text of the grammar is cut, and at most so many of the letters."""
    whole = bind(grammar, small_vocabulary([], letters))
    random = data.draw(st.randoms(use_true_random=False))
    text = answer(whole, whole.min_tokens + data.draw(st.integers(0, 8)), "any", random)
    pieces = data.draw(_pieces(text)) if text else []
    singles = data.draw(st.sets(st.sampled_from(letters), max_size=kept)).union(*(p for p in pieces if len(p) == 1))
    return small_vocabulary(list(dict.fromkeys(p for p in pieces if len(p) > 1)), bytes(sorted(singles)))


@settings(max_examples=60, deadline=None)
@given(SCHEMAS, st.sampled_from(["schema", "any"]), st.data())
def test_a_text_that_is_cut_into_tokens_is_written_by_them(schema: Any, order: Any, data: st.DataObject) -> None:
    grammar = compile_constraint(JsonSchema(json.dumps(schema), order=order))
    note((schema, order))
    _checked(grammar, _cut(data, grammar, JSON, 30), data.draw(st.randoms(use_true_random=False)))


KEYS = st.sampled_from(["", "^(a|bc)$", "^[ab]{1,2}$", "^a*b$"])
SEVERAL = st.one_of(
    st.builds(lambda least, keys, value: _free(least, propertyNames={"pattern": keys}, additionalProperties=value),
              st.integers(0, 3), KEYS, SCALARS),
    st.builds(lambda items, least: _list(items, least, uniqueItems=True), st.one_of(SCALARS, SCALARS.map(_list)),
              st.integers(0, 3)),
    st.builds(lambda items, least: _alike(items, minItems=least), st.one_of(st.just(WHOLE), SCALARS.map(_list)),
              st.integers(0, 3)))


@settings(max_examples=60, deadline=None)
@given(SEVERAL, st.booleans(), st.sampled_from(["schema", "any"]), st.data())
def test_several_keys_and_items_that_are_cut_into_tokens_are_written_by_them(
        schema: Any, inside: bool, order: Any, data: st.DataObject) -> None:
    """Free keys of an object, items of a list, each another one or two equal, at the end or inside a list."""
    try:
        grammar = compile_constraint(JsonSchema(json.dumps(_list(schema) if inside else schema), order=order))
    except Unsatisfiable:
        return
    note((schema, order))
    _checked(grammar, _cut(data, grammar, JSON, 30), data.draw(st.randoms(use_true_random=False)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([WHOLE, TEXT, {"const": "a"}, {"type": "boolean"}]), min_size=9, max_size=9),
       st.sets(st.sampled_from("abcxyztru"), min_size=1, max_size=5), st.booleans(), st.data())
def test_very_many_keys_that_are_cut_into_tokens_are_written_by_them(
        values: list[Any], required: set[str], free: bool, data: st.DataObject) -> None:
    properties = dict(zip("abcxyztru", values, strict=True))
    schema = {"properties": properties, "required": sorted(required), "additionalProperties": free and WHOLE}
    note(schema)
    grammar = compile_constraint(JsonSchema(json.dumps({"type": "object", **schema}), order="any"))
    with suppress(ConstraintTooLarge):  # of the sets of keys
        _checked(grammar, _cut(data, grammar, JSON, 30), data.draw(st.randoms(use_true_random=False)))


LARK = st.sampled_from([
    'start: "(" start ")" | "a"', 'start: item (";" item)*\nitem: "a" item "b" | "c"',
    'start: x x\nx: y "c"?\ny: "a"+ "b"?',
    'start: "a" start "b" | mid\nmid: "c" mid | "c"', 'start: word ";" | word "." start\nword: /[ab]+/ | word "c"',
])
TOKENS = st.lists(st.text("abc();.", min_size=2, max_size=4).map(str.encode), max_size=8, unique=True)
LETTERS = b'abc();."'


def _writable(naive: Naive, vocabulary: Vocabulary, most: int, start: frozenset, width: int = 200) -> bool:
    """Whether a way to an end of at most so many tokens was found, breadth first."""
    layer, seen = {start} - {frozenset()}, set[frozenset]()
    for _ in range(most):
        if any(naive.may_end(threads) for threads in layer):
            return True
        seen |= layer
        after = {_read(naive, threads, vocabulary.tokens[t]) for threads in layer for t in vocabulary.text_ids}
        layer = set([*(after - seen - {frozenset()})][:width])
    return any(naive.may_end(threads) for threads in layer)


def _read(naive: Naive, threads: frozenset, text: bytes) -> frozenset:
    for byte in text:
        threads = naive.step(threads, byte)
        if not threads:
            break
    return threads


def _refused_only_without_texts(grammar: Grammar, vocabulary: Vocabulary, random: Random) -> None:
    try:
        _checked(grammar, vocabulary, random)
    except MissingByte:
        naive = Naive(grammar)
        assert not _writable(naive, vocabulary, 5, naive.start())


@settings(max_examples=80, deadline=None)
@given(LARK, st.data())
def test_a_text_of_a_grammar_that_is_cut_into_tokens_is_written_by_them(source: str, data: st.DataObject) -> None:
    grammar = compile_constraint(Lark(source))
    _checked(grammar, _cut(data, grammar, LETTERS, 3), data.draw(st.randoms(use_true_random=False)))


def _keys_are_free(grammar: Grammar) -> bool:
    return any(isinstance(rule.register, Order) and rule.register.distinct for rule in grammar.rules)


def _crossed(grammar: Grammar, vocabulary: Vocabulary, ways: int) -> CompiledGrammar:
    """Bound as if nothing closed without tokens that cross rules. ways: copies of rules at one place, all kept."""

    def refused(*_: object) -> None:
        raise MissingByte("")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "compile_tables", refused)
        patch.setattr(crossing, "_WAYS", ways)
        patch.setattr(compiling, "regular", lambda *_: False)
        return bind(grammar, vocabulary)


@settings(max_examples=80, deadline=None)
@given(st.one_of(LARK.map(lambda source: compile_constraint(Lark(source))), grammars()), st.data())
def test_where_tokens_cross_rules_masks_hold_all_that_lead_to_the_end(grammar: Grammar, data: st.DataObject) -> None:
    assume(not _keys_are_free(grammar))
    random = data.draw(st.randoms(use_true_random=False))
    try:
        vocabulary = _cut(data, grammar, LETTERS, 3)
    except Unsatisfiable:
        return
    nearest, naive = _crossed(grammar, vocabulary, 1), Naive(grammar)
    for more in (0, 3):
        assert naive.accepts(answer(nearest, nearest.min_tokens + more, random.choice(WAYS), random))
    every = _crossed(grammar, vocabulary, 1 << 20)
    assert every.min_tokens == nearest.min_tokens
    with suppress(ConstraintTooLarge):  # so many copies
        _check_masks(every, naive, random)


def _check_masks(compiled: CompiledGrammar, naive: Naive, random: Random) -> None:
    """Along a random text, no token is missing that leads to the end with a few more."""
    vocabulary = compiled.vocabulary
    matcher, threads = compiled.matcher(forcing=False, closing=False), naive.start()
    for _ in range(6):
        here = allowed(compiled, matcher) - set(vocabulary.stop)
        after = {t: _read(naive, threads, vocabulary.tokens[t]) for t in vocabulary.text_ids}
        assert not any(_writable(naive, vocabulary, 3, there) for t, there in after.items() if t not in here)
        if not here:
            break
        token = random.choice(sorted(here))
        matcher.accept(token)
        threads = after[token]


@settings(max_examples=60, deadline=None)
@given(LARK, TOKENS, st.sets(st.sampled_from(LETTERS)).map(bytes), st.randoms(use_true_random=False))
def test_grammars_are_refused_only_where_no_tokens_write_them(
        source: str, extra: list[bytes], letters: bytes, random: Random) -> None:
    assume(extra or letters)
    _refused_only_without_texts(compile_constraint(Lark(source)), small_vocabulary(extra, letters), random)


@settings(max_examples=80, deadline=None)
@given(grammars(), st.data())
def test_drawn_rules_are_refused_only_where_no_tokens_write_them(grammar: Grammar, data: st.DataObject) -> None:
    try:
        vocabulary = _cut(data, grammar, b'abc"', 1)
    except Unsatisfiable:
        return
    _refused_only_without_texts(grammar, vocabulary, data.draw(st.randoms(use_true_random=False)))
