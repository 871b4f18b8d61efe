"""What is told along a key is what reading the whole token says, and one of several equal readings stands for all."""

from __future__ import annotations

import json
from random import Random

import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.masks.masking import NO_LIMIT

from .drawn import small_vocabulary
from .engine import allowed, bind

VOCABULARY = small_vocabulary(
    [b'"a', b'"a":', b'a":0', b'b":0', b'":0,"', b'":0}', b'\\u0061', b'\\u00', b'\\n', b'\\n":', b'n":0', b'"ab":0,"',
     b'":0,"a":0', b'":{"a":', b'0,"a":', b'":[', b'}],"a', b'"}', b',"b":', b"ab", b'\\/', b'\\\\":0'],
    b'{}[]":,-.\\/abnux016eflrst')
VALUE = {"const": 0}
OBJECT = {"type": "object", "additionalProperties": VALUE, "properties": {"a": VALUE, "ab": VALUE}}
CLOSED = {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(["a", "ab", "b", "n"], VALUE)}
SCHEMAS = {
    "open": OBJECT,
    "closed": CLOSED,
    "required": {**CLOSED, "required": ["b"]},
    "bounded": {**CLOSED, "minProperties": 2, "maxProperties": 3},
    "few": {**OBJECT, "maxProperties": 2},
    "by a pattern": {"type": "object", "patternProperties": {"^[ab]{1,2}$": VALUE}, "additionalProperties": False},
    "nested": {"type": "object", "additionalProperties": {"anyOf": [VALUE, OBJECT]}},
    "alike": {"anyOf": [{"type": "array", "items": [OBJECT], "minItems": n, "maxItems": n} for n in (1, 2, 3)]},
    "not alike": {"anyOf": [OBJECT, {**OBJECT, "required": ["b"]}, CLOSED]},
}


def _exact_row(grammar, explorer, configuration):
    explorer.walk(configuration, NO_LIMIT, exact=True)
    return grammar.table.add(explorer.words | VOCABULARY.stop_words * (configuration.distance == 0))


@pytest.mark.parametrize("spelling", ["one", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_are_those_of_an_exact_reading(name, spelling, monkeypatch):
    grammar = compile_constraint(JsonSchema(json.dumps(SCHEMAS[name]), order="any", spelling=spelling))
    quick, exact = bind(grammar, VOCABULARY), bind(grammar, VOCABULARY)
    monkeypatch.setattr(exact, "_plain_row", lambda explorer, configuration: _exact_row(exact, explorer, configuration))
    monkeypatch.setattr(exact._explorer._walker, "_representatives", lambda threads, depth: threads)
    for seed in range(12):
        random = Random(seed)
        one = quick.matcher(forcing=False, closing=False)
        other = exact.matcher(forcing=False, closing=False)
        for _ in range(24):
            found = allowed(quick, one)
            assert found == allowed(exact, other)
            ids = sorted(found - {*VOCABULARY.stop}, key=lambda i: VOCABULARY.tokens[i])
            if not ids:
                break
            token = random.choice(ids)
            one.accept(token)
            other.accept(token)
