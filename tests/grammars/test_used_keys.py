"""Keys and items that must differ, against all texts there are: also where answers of one grammar take turns, so that
what is remembered of the keys of one is no longer of use."""

from __future__ import annotations

import json
from itertools import permutations
from random import Random

import pytest
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema, Order, Spelling
from espalier.grammars.vocabulary import Vocabulary

from .engine import allowed, bind
from .kinds import VOCABULARY
from .samplers import WAYS, answer

NAMES = ["", "a", "ab", 'b"', "é"]
PAIRS = ["a", "b", "aa", "ab", "ba", "bb"]
ONE = {"const": True}
CASES = [
    ({"type": "array", "uniqueItems": True, "items": {"enum": NAMES}}, NAMES, 5),
    ({"type": "array", "uniqueItems": True, "items": {"enum": NAMES}, "minItems": 4}, NAMES, 5),
    ({"type": "object", "propertyNames": {"enum": NAMES}, "additionalProperties": ONE}, NAMES, 5),
    ({"type": "object", "propertyNames": {"enum": NAMES}, "additionalProperties": ONE, "maxProperties": 3}, NAMES, 3),
    ({"type": "object", "properties": {"ab": ONE}, "additionalProperties": ONE, "propertyNames": {"enum": NAMES},
      "required": ["ab"], "maxProperties": 2}, NAMES, 2),
    ({"type": "object", "patternProperties": {"^[ab]{1,2}$": ONE}, "additionalProperties": False}, PAIRS, 6),
    ({"type": "object", "patternProperties": {"^[ab]{1,2}$": ONE}, "additionalProperties": False,
      "maxProperties": 2}, PAIRS, 2),
]


def _texts(schema: dict[str, object], names: list[str], most: int) -> list[bytes]:
    """All texts of the schema, in which at most so many names come."""
    found = []
    for size in range(most + 1):
        for chosen in permutations(names, size):
            value: object = list(chosen) if schema["type"] == "array" else dict.fromkeys(chosen, True)
            if size >= int(str(schema.get("minItems", 0))) and {*map(str, schema.get("required", ()))} <= {*chosen}:
                found.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    return found


def _following(texts: list[bytes]) -> dict[bytes, set[int]]:
    """By what a text begins with, the bytes that may come next."""
    found: dict[bytes, set[int]] = {}
    for text in texts:
        for k in range(len(text)):
            found.setdefault(text[:k], set()).add(text[k])
    return found


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize(("spelling", "escapes"), [("one", b""), ("any", b"\\u")])
def test_only_what_was_not_written_may_come(case: int, spelling: Spelling, escapes: bytes) -> None:
    schema, names, most = CASES[case]
    texts, random = _texts(schema, names, most), Random(case)
    grammar = bind(compile_constraint(JsonSchema(json.dumps(schema), order="any", spelling=spelling)),
                   Vocabulary.bytes_only())
    following = _following(texts)
    walks = [(grammar.matcher(forcing=False), text) for text in random.sample(texts, min(len(texts), 60))]
    reached = dict.fromkeys(range(len(walks)), 0)
    while reached:
        k = random.choice(list(reached))
        (matcher, text), at = walks[k], reached[k]
        bytes_here = allowed(grammar, matcher) - {*grammar.vocabulary.stop}
        expected = following.get(text[:at], set())
        assert expected <= bytes_here <= expected | {*escapes}, text[:at]
        assert matcher.may_end() == (text[:at] in texts)
        if at == len(text):
            del reached[k]
        else:
            matcher.accept(text[at])
            reached[k] += 1


def _owes(*names: str) -> dict[str, object]:
    """An object must have one of these properties."""
    return {"not": {"propertyNames": {"not": {"enum": [*names]}}}}


OWING = [
    {"type": "object", "allOf": [_owes("1", "3"), _owes("2", "3")], "minProperties": 3},
    {"type": "object", "allOf": [_owes("1", "3"), _owes("2", "3")]},
    {"type": "object", "allOf": [_owes("a"), _owes("b"), _owes("a", "c")], "minProperties": 2},
    {"type": "object", **_owes("aa", "bbbbbbbbbb"), "additionalProperties": {"const": 1}, "minProperties": 4},
    {"type": "object", "not": {"additionalProperties": {"type": "integer"}}, "minProperties": 3},
]


@pytest.mark.parametrize("schema", OWING, ids=range(len(OWING)))
@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("way", WAYS)
def test_an_object_that_owes_a_key_closes(schema: dict[str, object], order: Order, way: str) -> None:
    grammar = bind(compile_constraint(JsonSchema(json.dumps(schema), order=order)), VOCABULARY)
    validator = Draft202012Validator(schema)
    for seed, spare in enumerate((0, 1, 3, 10, 40, 120)):
        text = answer(grammar, grammar.min_tokens + spare, way, Random(seed))
        assert validator.is_valid(json.loads(text)), text
