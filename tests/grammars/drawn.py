"""Small grammars and vocabularies, drawn and by hand, for the tests of the engine."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from espalier.grammars.bodies.body_store import BodyStore
from espalier.grammars.bodies.loops import Loops
from espalier.grammars.ir import (
    CLOSE_KEY,
    COUNT,
    KEY,
    NOTHING,
    OPEN_KEY,
    Call,
    Counter,
    Grammar,
    Order,
    Rule,
    pack_edges,
)
from espalier.grammars.vocabulary import Vocabulary

LETTERS = b'abc"'
Edge = tuple[int, int, int, int, int]


def rule(states: int, edges: Sequence[Edge], finals: Sequence[int], calls: Sequence[Call] = (), name: str = "rule",
         register: Counter | Order | None = None) -> Rule:
    return Rule(name, "", states, pack_edges(list(edges)), tuple(calls), tuple(finals), register)


def edge(source: int, chars: str, target: int, action: int = NOTHING) -> list[Edge]:
    return [(source, ord(c), ord(c), target, action) for c in chars]


def small_vocabulary(extra: Sequence[bytes], letters: bytes = LETTERS, names: Sequence[str] = ()) -> Vocabulary:
    """The letters, `extra`, one special token that looks like text, a stop id, and special tokens that a grammar may
    name. Encodes greedily, what no token spells as the special one."""
    tokens = [bytes([c]) for c in letters] + list(extra)
    special = len(tokens)

    def encode(text: str) -> list[int]:
        data, ids = text.encode(), []
        while data:
            best = max((i for i, t in enumerate(tokens) if data.startswith(t)), key=lambda i: len(tokens[i]),
                       default=special)
            ids.append(best)
            data = data[len(tokens[best]) if best < special else 1:]
        return ids

    named = {name: special + 2 + i for i, name in enumerate(names)}
    vocabulary = Vocabulary([*tokens, letters[:1], b""], special=(special, *named.values()), stop=(special + 1,),
                            encode=encode, size=special + 5 + len(names), specials=named)
    # Bodies and loops are for large vocabularies: here every state gets one, so that the references judge them too.
    vocabulary.bodies = BodyStore(vocabulary.trie, vocabulary.spelled, vocabulary.words, worth=0, dense=2)
    vocabulary.loops = Loops(vocabulary.bodies, worth=2)
    return vocabulary


tokens = st.lists(st.text(LETTERS.decode(), min_size=2, max_size=5).map(str.encode), max_size=12, unique=True)


@st.composite
def grammars(draw: st.DrawFn) -> Grammar:
    """Up to four rules of up to four states, with counters, orders, distinct keys, competing and nested calls."""
    count = draw(st.integers(1, 4))
    return Grammar(tuple(draw(_rules(index, count)) for index in range(count)), 0)


@st.composite
def _rules(draw: st.DrawFn, index: int, count: int) -> Rule:
    states = draw(st.integers(2, 4))
    register = draw(st.sampled_from([None, Counter(0, 2), Counter(2, 3), Counter(1, None), Order((True, False), False),
                                     Order((False, True), True), Order((), True)]))
    if isinstance(register, Order):
        return draw(_objects(index, count, register))
    edges = []
    for source in range(states):
        for letter in draw(st.lists(st.sampled_from(LETTERS.decode()), max_size=3, unique=True)):
            action = draw(st.sampled_from([NOTHING, COUNT])) if register else NOTHING
            edges += edge(source, letter, draw(st.integers(1, states - 1)), action)
    calls = []
    for source in range(1, states):
        if draw(st.booleans()):
            action = draw(st.sampled_from([NOTHING, COUNT])) if register else NOTHING
            calls.append(Call(source, draw(st.integers(0, count - 1)), draw(st.integers(1, states - 1)), action))
    if index + 1 < count and draw(st.booleans()):
        calls.append(Call(0, draw(st.integers(index + 1, count - 1)), 1))
    finals = draw(st.lists(st.integers(1, states - 1), min_size=1, max_size=2, unique=True))
    return rule(states, edges, finals, calls, f"rule {index}", register)


@st.composite
def _objects(draw: st.DrawFn, index: int, count: int, register: Order) -> Rule:
    """A rule in the form of an object: keys between quotes, `c` between members, perhaps a call as the value."""
    keys = [edge(0, '"', 1, OPEN_KEY), edge(2, "c", 3), edge(3, '"', 1, OPEN_KEY)]
    keys.append(draw(st.sampled_from([
        edge(1, "ab", 1) + edge(1, '"', 2, CLOSE_KEY),
        edge(1, "a", 4) + edge(1, "b", 5) + edge(4, "b", 5) + edge(4, '"', 2, CLOSE_KEY) + edge(5, '"', 2, CLOSE_KEY),
    ])))
    for j in range(len(register.required)):
        keys += [edge(source, "ab"[j], 2, KEY + j) for source in (0, 3)]
    calls = [Call(2, draw(st.integers(0, count - 1)), 6)] if draw(st.booleans()) else []
    keys += [edge(6, "a", 6), edge(6, "c", 3)]
    return rule(7, [e for group in keys for e in group], (2, 6), calls, f"object {index}", register)


def json_grammar(longest_string: int | None = 5) -> Grammar:
    """Compact JSON: strings of printable ASCII without escapes, integers, arrays, objects with distinct keys."""
    text = [(s, low, high, 1, COUNT) for s in (1,) for low, high in ((32, 33), (35, 91), (93, 126))]
    string = rule(3, [*edge(0, '"', 1), *text, *edge(1, '"', 2)], (2,), name="string",
                  register=Counter(0, longest_string))
    integer = rule(4, [*edge(0, "-", 1), *edge(0, "0", 2), *edge(1, "0", 2), (0, 49, 57, 3, 0), (1, 49, 57, 3, 0),
                       (3, 48, 57, 3, 0)], (2, 3), name="integer")
    value = rule(2, [], (1,), [Call(0, 0, 1), Call(0, 1, 1), Call(0, 3, 1), Call(0, 4, 1)], name="value")
    array = rule(4, [*edge(0, "[", 1), *edge(1, "]", 3), *edge(2, "]", 3), *edge(2, ",", 4 - 3 + 0)], (3,),
                 [Call(1, 2, 2)], name="array")
    members = [*edge(0, "{", 1), *edge(1, '"', 2, OPEN_KEY), *edge(2, '"', 3, CLOSE_KEY), *edge(3, ":", 4),
               *edge(5, ",", 6), *edge(6, '"', 2, OPEN_KEY), *edge(5, "}", 7), *edge(1, "}", 7),
               (2, 97, 122, 2, NOTHING)]
    thing = rule(8, members, (7,), [Call(4, 2, 5)], name="object", register=Order((), True))
    return Grammar((string, integer, value, array, thing), 2)
