"""Finished masks: forgotten when there are too many, and the same when walked again."""

from __future__ import annotations

import json
from random import Random

import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Choices, JsonSchema
from espalier.grammars.masks import finished

from .drawn import small_vocabulary
from .engine import allowed, bind

VOCABULARY = small_vocabulary([b"ab", b"ba", b'":', b'a":'], b'abcdefgh{}[]":,01')
TEXT = "".join(Random(5).choices("abcdefgh", k=700))
OBJECT = {"type": "object", "additionalProperties": {"const": 0},
          "properties": {f"{a}{b}{c}": {"const": 1} for a in "abcdefgh" for b in "abcdefgh" for c in "ab"}}
CONSTRAINTS = {"a long choice": Choices((TEXT, TEXT[:-1] + "1")),
               "many keys": JsonSchema(json.dumps(OBJECT), order="any")}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_masks_that_are_forgotten_are_walked_again(name, monkeypatch):
    grammar = compile_constraint(CONSTRAINTS[name])
    patient, forgetful = bind(grammar, VOCABULARY), bind(grammar, VOCABULARY)
    random, most = Random(1), 0
    one, other = (bound.matcher(forcing=False, closing=False) for bound in (patient, forgetful))
    for _ in range(400):
        found = allowed(patient, one)
        with monkeypatch.context() as patch:
            patch.setattr(finished, "_MOST", 0)
            patch.setattr(finished, "_MOST_MARKS", 0)
            assert allowed(forgetful, other) == found
        ids = sorted(found - {*VOCABULARY.stop})
        if not ids:
            break
        token = random.choice(ids)
        one.accept(token)
        other.accept(token)
        most = max(most, len(forgetful._finished.masks))
    assert len(forgetful._finished.masks) < most or most < len(patient._finished.masks)


@pytest.mark.parametrize("room", [(2, 4, 1), (2, 4096, 1024), (256, 4, 1024), (256, 4096, 1)])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_masks_are_the_same_whichever_of_their_tables_grow(name, room, monkeypatch):
    grammar, real = compile_constraint(CONSTRAINTS[name]), finished._room
    usual = bind(grammar, VOCABULARY)
    monkeypatch.setattr(finished, "_room", lambda *_: real(*room))
    narrow, random = bind(grammar, VOCABULARY), Random(1)
    one, other = (bound.matcher(forcing=False, closing=False) for bound in (usual, narrow))
    for _ in range(200):
        found = allowed(usual, one)
        assert allowed(narrow, other) == found
        ids = sorted(found - {*VOCABULARY.stop})
        if not ids:
            break
        token = random.choice(ids)
        one.accept(token)
        other.accept(token)
