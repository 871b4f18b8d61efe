"""Bodies change no mask, and are shared by all grammars of a vocabulary."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.grammars.binding.trie import PLACE
from espalier.grammars.bodies.body_steps import BELOW, RAGGED, SPACES, WHOLE, byte_groups
from espalier.grammars.bodies.body_store import BodyStore
from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema, Regex
from espalier.grammars.standard import prepare_bodies
from espalier.grammars.vocabulary import Vocabulary

from .drawn import small_vocabulary
from .engine import allowed, bind

SCHEMAS = [
    ({"properties": {"name": {"type": "string"}, "named": {"maxLength": 9}}},
     {"name": "Zoë \"Q\" \\n", "nam": [1], "x": {}}),
    ({"properties": {"a": {"type": "string", "minLength": 6, "maxLength": 12}}}, {"a": "honey, 5 \u00e9\u20ac"}),
    ({"properties": {"a": {"type": "string", "pattern": "^[A-Za-z ,.]{1,40}$"}}}, {"a": "bees, honey"}),
    ({"properties": {"a": {"type": "string", "pattern": "^.+$"}}}, {"a": "\u20ac 5,\u00a0\u00e9 caf"}),
    ({"properties": {"a": {"type": "string", "pattern": "^[^:-]*:\\S+$"}}}, {"a": "a\u2028\u00df b:\u5b57\u2019x"}),
    ({"properties": {"a": {"type": "string", "pattern": "push", "maxLength": 90}}}, {"a": "pupush it"}),
    ({"properties": {"a": {"type": "string", "pattern": "^(\\d+\\.\\d+.*)$", "maxLength": 32}}}, {"a": "1.20 \u00e9t"}),
    ({"properties": {"a": {"type": "string", "pattern": "[0-9a-f]+", "minLength": 12, "maxLength": 12}}},
     {"a": "\u00e9 of 12 char"}),
    ({"properties": {"a": {"type": "string", "pattern": "[q-z]", "minLength": 3, "maxLength": 9}}}, {"a": "a honeéy"}),
    ({"properties": {"a": {"type": "string", "pattern": "[0-9A-F]"}}}, {"a": "é an odd number 5 of bees"}),
    ({"properties": {"a": {"anyOf": [{"type": "string", "minLength": 3, "maxLength": 9}, {"type": "null"}]}}},
     {"a": "honey"}),
    ({"properties": {"a": {"anyOf": [{"format": "hostname"}, {"format": "ipv6"}]}}}, {"a": "my-host.example"}),
    ({"properties": {"a": {"format": "idn-email"}}}, {"a": "jürgen.k@bücher.example"}),
    ({"type": "array", "items": {"enum": ["north", "south", "norther"]}}, ["north", "norther"]),
    ({"anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"a": {"maxLength": 3}}}]}, {"a": "abc", "b": "c"}),
]


def with_bodies(vocabulary: Vocabulary, **options: int) -> Vocabulary:
    twin = Vocabulary.__new__(Vocabulary)
    twin.__dict__.update(vocabulary.__dict__)
    twin.bodies = BodyStore(vocabulary.trie, vocabulary.spelled, vocabulary.words, **options)
    return twin


def without_bodies(vocabulary: Vocabulary) -> Vocabulary:
    return with_bodies(vocabulary, worth=1 << 40)


@pytest.mark.parametrize(("schema", "value"), SCHEMAS)
def test_masks_of_a_real_vocabulary_are_the_same_with_bodies_and_without(smollm2, schema, value):
    grammar = compile_constraint(JsonSchema(json.dumps(schema)))
    quick, plain = bind(grammar, smollm2), bind(grammar, without_bodies(smollm2))
    one, other = quick.matcher(forcing=False), plain.matcher(forcing=False)
    for token in smollm2.encode(json.dumps(value, ensure_ascii=False, separators=(",", ":"))):
        near = one.min_tokens() + 3
        assert allowed(quick, one) == allowed(plain, other)
        assert allowed(quick, one, near) == allowed(plain, other, near)
        one.accept(token)
        other.accept(token)


@pytest.mark.parametrize(("pattern", "text"), [
    ("<think>([^<]|\\n){1,2000}</think>\\n(yes|no)", "<think>First I add.\nThen\u2026</think>\nyes"),
    ("([A-Z][a-z]{1,20} ){3,12}end\\.", "Alpha Beta Gamma end."),
    ("([a-z]{100,200}|[0-9 ]{20,90})[!?]", "ab" * 60 + "!"),
    ("([^0-9]{14}[^a-z]{3}|\\w{9} )!?", "\u00e9 of many \u5b57 ch. 5!"),
])
def test_masks_of_counted_classes_behind_calls_are_the_same_with_bodies_and_without(smollm2, pattern, text):
    grammar = compile_constraint(Regex(pattern))
    quick, plain = bind(grammar, smollm2), bind(grammar, without_bodies(smollm2))
    one, other = quick.matcher(forcing=False), plain.matcher(forcing=False)
    for token in smollm2.encode(text):
        near = one.min_tokens() + 2
        assert allowed(quick, one) == allowed(plain, other)
        assert allowed(quick, one, near) == allowed(plain, other, near)
        one.accept(token)
        other.accept(token)


_CLASSES = st.sampled_from(["[^a]", "[a-c\u00e9]", "[^\u2019c]", "[^\u3000]", "[^\\n]", "[^x]", "[\u0800\u2007b]"])
_LINES = st.lists(st.tuples(_CLASSES, st.sampled_from(["", "?", "*", "{2}", "{1,3}", "{5}"])), min_size=1, max_size=4)
_CHARACTERS = "abc\n\u00e9\u0800\u2007\u2019\u3000\u5b57"
_BYTES_OF_TEXTS = {*_CHARACTERS.encode()}
_TEXTS = st.text(_CHARACTERS, min_size=1, max_size=6)


@given(_LINES, st.lists(_TEXTS, min_size=1, max_size=60), st.lists(_TEXTS, max_size=3), st.booleans())
def test_masks_of_lines_of_characters_are_the_same_with_bodies_and_without(parts, words, text, split):
    words = [first + word for first in ("", "b", "\u5b57") for word in words]
    cuts = [word.encode()[:-1] for word in words if split and len(word.encode()) > 1]
    tokens = sorted({*(word.encode() for word in words), *cuts, *(bytes([b]) for b in _BYTES_OF_TEXTS)})
    vocabulary = Vocabulary(tokens, special=(), stop=(), encode=lambda text: [])
    grammar = compile_constraint(Regex("".join(part + more for part, more in parts)))
    quick, plain = bind(grammar, with_bodies(vocabulary, worth=1, dense=3)), bind(grammar, without_bodies(vocabulary))
    one, other = quick.matcher(forcing=False), plain.matcher(forcing=False)
    for byte in "".join(text).encode():
        ids, near = allowed(quick, one), one.min_tokens() + 2
        assert ids == allowed(plain, other)
        assert allowed(quick, one, near) == allowed(plain, other, near)
        if tokens.index(bytes([byte])) not in ids:
            break
        one.accept(tokens.index(bytes([byte])))
        other.accept(tokens.index(bytes([byte])))
    assert allowed(quick, one) == allowed(plain, other)


def test_two_grammars_share_what_their_strings_read():
    vocabulary = small_vocabulary([b'xy', b'x"', b'"a', b'z"}'], bytes(range(0x20, 0x7F)))
    found = []
    for name in ("a", "bcd"):
        schema = {"properties": {name: {"type": "string"}}, "required": [name], "additionalProperties": False}
        compiled = bind(compile_constraint(JsonSchema(json.dumps(schema))), vocabulary)
        matcher = compiled.matcher(forcing=False)
        for letter in f'{{"{name}":"':
            matcher.accept(vocabulary.tokens.index(letter.encode()))
        configuration = matcher._position.configuration
        found.append(matcher._explorer._walker._bodies.of(int(configuration.threads[0, 0]), lambda: (), False,
                                                                  whole=False).rows)
    assert found[0] is found[1]


def test_the_store_forgets_what_was_used_longest_ago():
    vocabulary = small_vocabulary([b'xy'])
    store = BodyStore(vocabulary.trie, vocabulary.spelled, vocabulary.words, byte_budget=10)
    for code in (b"first", b"second", b"third"):
        store.put(code, None)
    assert store.get(b"first") == (False, None)
    assert store.get(b"third") == (True, None)


@pytest.mark.parametrize(("pattern", "extra", "accepted", "rejected"), [
    ("^[a-c ]{2,40}$", {}, ["ab", "a" * 40], ["", "a", "a" * 41, "ad"]),
    ("^[a-c]{0,20}$", {"maxLength": 18}, ["", "a" * 18], ["a" * 19]),
    ("^[a-c]{3,20}$", {"minLength": 7, "maxLength": 9}, ["a" * 7, "b" * 9], ["a" * 6, "a" * 10]),
    ("^[a-c]{20}$", {}, ["c" * 20], ["c" * 19, "c" * 21]),
    ("^[a-c]{20,}$", {}, ["c" * 20, "c" * 300], ["c" * 19]),
    ("^[a-c]{20,}$", {"maxLength": 30}, ["c" * 20, "c" * 30], ["c" * 19, "c" * 31]),
])
def test_a_class_that_repeats_is_counted_exactly(pattern, extra, accepted, rejected):
    vocabulary = small_vocabulary([b"ab", b'c"', b"aaaa"], bytes(range(0x20, 0x7F)))
    schema = {"type": "string", "pattern": pattern, **extra}
    compiled = bind(compile_constraint(JsonSchema(json.dumps(schema))), vocabulary)

    def fits(value):
        matcher = compiled.matcher(forcing=False)
        for token in vocabulary.encode(json.dumps(value)):
            if token not in allowed(compiled, matcher):
                return False
            matcher.accept(token)
        return matcher.may_end()

    assert [value for value in accepted if not fits(value)] == []
    assert [value for value in rejected if fits(value)] == []


@pytest.mark.parametrize(("least", "most"), [(0, 17), (3, 40), (17, 40), (20, 20)])
def test_masks_along_a_counted_text_are_those_of_its_length(least, most):
    vocabulary = small_vocabulary([b"ab", b'c"', b"aaaa"], bytes(range(0x20, 0x7F)))
    schema = {"type": "string", "pattern": f"^[a-c]{{{least},{most}}}$"}
    grammar = compile_constraint(JsonSchema(json.dumps(schema)))
    shared = bind(grammar, vocabulary)
    apart = bind(grammar, vocabulary)
    one, other = shared.matcher(forcing=False), apart.matcher(forcing=False)
    one.accept(vocabulary.tokens.index(b'"'))
    other.accept(vocabulary.tokens.index(b'"'))
    for length in range(most + 1):
        def fits(text, length=length):
            end = length + len(text.removesuffix('"'))
            return (not text.strip("abc") and end <= most) or (
                text.endswith('"') and not text[:-1].strip("abc") and least <= end <= most)

        apart._finished.clear()
        for budget in (None, *range(one.min_tokens(), one.min_tokens() + 9)):
            assert allowed(shared, one, budget) == allowed(apart, other, budget)
        assert allowed(shared, one) == {i for i, text in enumerate(vocabulary.tokens) if text and fits(text.decode())}
        if length < most:
            one.accept(vocabulary.tokens.index(b"a"))
            other.accept(vocabulary.tokens.index(b"a"))


@pytest.mark.parametrize(("order", "spelling"), [("schema", "one"), ("any", "one"), ("any", "any")])
def test_strings_and_keys_need_no_body_but_those_made_with_the_vocabulary(smollm2, order, spelling, monkeypatch):
    vocabulary = with_bodies(smollm2)
    prepare_bodies(vocabulary)
    made = []
    monkeypatch.setattr(vocabulary.bodies, "put", lambda code, rows: made.append(rows))
    schema = {"properties": {"b": {"type": "string"}, "c": {"minLength": 1, "maxLength": 400}}}
    grammar = compile_constraint(JsonSchema(json.dumps(schema), order=order, spelling=spelling))
    ready, plain = bind(grammar, vocabulary), bind(grammar, without_bodies(smollm2))
    one, other = ready.matcher(forcing=False), plain.matcher(forcing=False)
    for token in smollm2.encode('{"b":"bees, honey","c":"é","dare":["x",{"y":"z"}]}'):
        assert allowed(ready, one) == allowed(plain, other)
        one.accept(token)
        other.accept(token)
    assert made == []


def _groups_of(text: bytes) -> int:
    """The groups of body_steps.py in a text, as bits, as far as whole characters go."""
    groups, found = byte_groups(), 0
    while text:
        length = next((n for n in range(1, 5) if _decodes(text[:n])), 0)
        if not length:
            return found | 1 << RAGGED
        character = text[:length].decode()
        white = character in "\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" or "\u2000" <= character <= "\u200a"
        found |= 1 << (int(groups[text[0]]) if length == 1 else SPACES if white else WHOLE)
        text = text[length:]
    return found


def _decodes(text: bytes) -> bool:
    try:
        return len(text.decode()) == 1
    except UnicodeDecodeError:
        return False


_PIECES = st.sampled_from(["a", "z", "Q", "0", "\n", '"', "\u00a0", "\u00df", "\u0800", "\u2007", "\u2019", "\u205f",
                           "\u3000", "\ud7ff", "\ufeff", "\U00010000", "\U0010ffff"]).map(str.encode)
_BYTES = st.sampled_from([bytes([b]) for b in b"\x80\x8f\x90\x9f\xa0\xbf\xc0\xc2\xe0\xe2\xed\xef\xf0\xf4\xf5"])


@given(st.lists(st.lists(_PIECES | _BYTES, min_size=1, max_size=4).map(b"".join), min_size=1, max_size=12))
def test_what_is_below_a_node_is_told_by_whole_characters(texts):
    vocabulary = Vocabulary(texts, special=(), stop=(), encode=lambda text: [])
    trie, nodes, path = vocabulary.trie, vocabulary.bodies.nodes, b""
    for i in range(len(trie.byte)):
        path = path[: int(trie.depth[i]) - 1] + bytes([trie.byte[i]])
        expected = 0
        for text in texts:
            if text.startswith(path):
                expected |= _groups_of(text[len(path):])
        found = int(nodes[trie.nodes[i, PLACE], BELOW]) % (1 << 64)
        assert found >> RAGGED == expected >> RAGGED
        assert found >> RAGGED or found == expected


_RAGGED_TOKENS = small_vocabulary(
    [b"\x98\x80", b"\x80\x98", b"\x80" * 3, b"\xf0\x98", b"\x98\x80a", b"a\x98", b"\x98a"], bytes(range(256)))


@pytest.mark.parametrize("pattern", [".", "..", "[^a]", "\\S", ".{1,3}", "[^a]*"])
@pytest.mark.parametrize("text", [b"\xc2", b"\xe2", b"\xe2\x98", b"\xf0\x98", b"\xf0\x98\x80"])
@pytest.mark.parametrize("spare", [None, 0, 1])
def test_inside_a_character_a_mask_has_what_can_be_read(pattern, text, spare):
    compiled = bind(compile_constraint(Regex(pattern)), _RAGGED_TOKENS)
    matcher = compiled.matcher(forcing=False)
    for byte in text:
        matcher.accept(_RAGGED_TOKENS.tokens.index(bytes([byte])))
    budget = None if spare is None else matcher.min_tokens() + spare
    found = allowed(compiled, matcher, budget) - set(_RAGGED_TOKENS.stop)
    readable = {token for token in _RAGGED_TOKENS.text_ids if matcher.allows(token)}
    assert found == readable if spare is None else found <= readable
