"""A broken grammar is found before the engine sees it."""

from __future__ import annotations

import msgspec
import pytest

from espalier.grammars.binding.verify import BrokenGrammar, verify
from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.ir import COUNT, KEY, OPEN_KEY, Call, Counter, Grammar, Members, Names, Order, Rule, pack_edges

A = (0, 97, 97, 1, 0)


def rule(*edges: tuple[int, int, int, int, int], calls: tuple[Call, ...] = (), finals: tuple[int, ...] = (1,),
         register: Counter | Order | None = None, states: int = 2) -> Rule:
    return Rule("r", "#", states, pack_edges(list(edges)), calls, finals, register)


def named(names: Names, *edges: tuple[int, int, int, int, int], calls: tuple[Call, ...] = ()) -> Grammar:
    """Of two properties."""
    opened = pack_edges([(0, 0x22, 0x22, 2, OPEN_KEY), *edges])
    return Grammar((Rule("r", "", 3, opened, calls, (1,), Members((False, False)), names),), 0)


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
    ("names do not ascend", named(Names(("b", "a"), (0, 1), (1, 1)))),
    ("names do not ascend", named(Names(("a", "a"), (0, 1), (1, 1)))),
    ("names without", named(Names(("a", "b"), (0,), (1, 1)))),
    ("a name is out of range", named(Names(("a",), (2,), (1,)))),
    ("a name is out of range", named(Names(("a",), (0,), (3,)))),
    ("a name is out of range", named(Names(("a",), (0,), (1,), 3))),
    ("a name is out of range", Grammar((Rule("r", "", 3, b"", (), (), Counter(0, 1), Names((), (), (), 1)),), 0)),
    ("half of a pair", named(Names(("\ud800",), (0,), (1,)))),
    ("where its names begin", named(Names(("a",), (0,), (1,)), (2, 97, 97, 1, 0))),
    ("where its names begin", named(Names(("a",), (0,), (1,)), calls=(Call(2, 0, 1),))),
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
