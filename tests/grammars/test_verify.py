"""A broken grammar is found before the engine sees it."""

from __future__ import annotations

import msgspec
import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.ir import COUNT, KEY, OPEN_KEY, Call, Counter, Grammar, Order, Rule, pack_edges
from espalier.grammars.verify import BrokenGrammar, verify

A = (0, 97, 97, 1, 0)


def rule(*edges: tuple[int, int, int, int, int], calls: tuple[Call, ...] = (), finals: tuple[int, ...] = (1,),
         register: Counter | Order | None = None, states: int = 2) -> Rule:
    return Rule("r", "#", states, pack_edges(list(edges)), calls, finals, register)


BROKEN = [
    ("start", Grammar((rule(A),), 1)),
    ("version", Grammar((rule(A),), 0, version=99)),
    ("overlap", Grammar((rule(A, (0, 90, 100, 1, 0)),), 0)),
    ("out of range", Grammar((rule((0, 97, 97, 2, 0)),), 0)),
    ("out of range", Grammar((rule((0, 97, 256, 1, 0)),), 0)),
    ("out of range", Grammar((rule((0, 98, 97, 1, 0)),), 0)),
    ("out of range", Grammar((rule(A, calls=(Call(0, 7, 1),)),), 0)),
    ("out of range", Grammar((rule(A, finals=(2,)),), 0)),
    ("does not fit", Grammar((rule((0, 97, 97, 1, COUNT)),), 0)),
    ("does not fit", Grammar((rule((0, 97, 97, 1, OPEN_KEY), register=Counter(0, 1)),), 0)),
    ("does not fit", Grammar((rule((0, 97, 97, 1, KEY + 1), register=Order((True,), False)),), 0)),
    ("empty text", Grammar((rule(calls=(Call(0, 1, 1),)), rule(A, finals=(0, 1))), 0)),
    ("calls itself", Grammar((rule(calls=(Call(0, 1, 1),)), rule(A, calls=(Call(0, 0, 1),))), 0)),
    ("no states", Grammar((rule(A, states=0),), 0)),
]


@pytest.mark.parametrize(("message", "grammar"), BROKEN, ids=[f"{i} {row[0]}" for i, row in enumerate(BROKEN)])
def test_broken_grammars_are_refused(message: str, grammar: Grammar) -> None:
    with pytest.raises(BrokenGrammar, match=message):
        verify(grammar)


def test_a_grammar_survives_the_wire() -> None:
    grammar = compile_constraint(JsonSchema('{"type":"object","additionalProperties":{"type":"string","maxLength":3}}'))
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(grammar), type=Grammar)
    verify(copy)
    assert copy == grammar
