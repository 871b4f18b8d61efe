"""Values of answers that are still being written: exact for every cut of every spelling."""

from __future__ import annotations

import json
import re
import threading
from itertools import pairwise
from random import Random
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import espalier as esp
from espalier.frontend.backends.scripted import Gate, Reply
from espalier.frontend.partial import PartialJson

from .conftest import Script

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters() | st.sampled_from('"\\/\b\n\x00𝄞é\ud834\udd1e'), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\n𝄞", max_size=3), inner, max_size=4),
    max_leaves=12,
)


def _spelled(value: Any, random: Random) -> str:
    """JSON text with spaces, and with some characters of its strings as escapes."""
    text = json.dumps(value, ensure_ascii=random.random() < 0.5, indent=random.choice([None, 1]))

    def string(found: re.Match[str]) -> str:
        return re.sub(r"[a-z/]", lambda c: f"\\u{ord(c[0]):04X}" if random.random() < 0.3 else c[0], found[0]) \
            if "\\" not in found[0] else found[0]
    return re.sub(r'"(?:[^"\\]|\\.)*"', string, text)


def _grown(pieces: list[str]) -> list[Any]:
    reader, found = PartialJson(), []
    for piece in pieces:
        if reader.feed(piece):
            found.append(reader.value)
    if reader.finish("".join(pieces)):
        found.append(reader.value)
    return found


@settings(max_examples=150, deadline=None)
@given(VALUES, st.randoms(use_true_random=False))
def test_the_last_value_is_the_whole_and_cuts_change_nothing(value: Any, random: Random) -> None:
    text = _spelled(value, random)
    assert _grown([text])[-1] == _grown(list(text))[-1] == json.loads(text)
    cuts = sorted(random.sample(range(len(text) + 1), min(4, len(text))))
    ends = [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in pairwise(ends)]
    each, reader = PartialJson(), PartialJson()
    for piece in pieces:
        reader.feed(piece)
        for character in piece:
            each.feed(character)
        assert each.value == reader.value


@settings(max_examples=150, deadline=None)
@given(VALUES, st.randoms(use_true_random=False))
def test_values_only_grow(value: Any, random: Random) -> None:
    grown = _grown(list(_spelled(value, random)))
    assert all(_grows(a, b) for a, b in pairwise(grown))


def _grows(a: Any, b: Any) -> bool:
    """Whether b is a, with more at the end of its last open part."""
    if isinstance(a, str) and isinstance(b, str):
        return b.startswith(a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) <= len(b) and a[:-1] == b[:len(a) - 1 if a else 0] and (not a or _grows(a[-1], b[len(a) - 1]))
    if isinstance(a, dict) and isinstance(b, dict):
        keys = list(a)
        return keys == list(b)[:len(a)] and all(a[k] == b[k] for k in keys[:-1]) and (
            not a or _grows(a[keys[-1]], b[keys[-1]]))
    return a == b and type(a) is type(b)


@pytest.mark.parametrize(("text", "value"), [
    ("", None), ("  ", None), ("{", {}), ('{"', {}), ('{"na', {}), ('{"name', {}), ('{"name"', {}), ('{"name":', {}),
    ('{"name":"', {"name": ""}), ('{"name":"Z', {"name": "Z"}), (r'{"name":"Z\u00', {"name": "Z"}),
    (r'{"name":"Z\u00eb', {"name": "Zë"}), (r'{"a":"\ud834', {"a": ""}), (r'{"a":"\ud834\u', {"a": ""}),
    (r'{"a":"\ud834\udd1', {"a": ""}), (r'{"a":"\ud834\udd1e', {"a": "𝄞"}), (r'{"a":"\ud834x', {"a": "\ud834x"}),
    (r'{"a":"\\', {"a": "\\"}), ('{"a":"\\', {"a": ""}), (r'{"a":"\\u00', {"a": "\\u00"}),
    ('{"a":4', {}), ('{"a":42', {}), ('{"a":42,', {"a": 42}), ('{"a":42}', {"a": 42}), ('{"a":4.', {}),
    ('{"a":1e5 ', {"a": 1e5}), ('{"a":tru', {}), ('{"a":true', {"a": True}), ('{"a":null', {"a": None}),
    ("[", []), ("[1", []), ("[1,", [1]), ("[[", [[]]), ('["a', ["a"]), ('["a"', ["a"]),
    ('[{"k":[1,"x', [{"k": [1, "x"]}]),
    ('"op', "op"), ("-12", None), ("false", False), ('{"a": {"b": {', {"a": {"b": {}}}),
])
def test_what_a_text_says_that_breaks_off(text: str, value: Any) -> None:
    whole, pieces = PartialJson(), PartialJson()
    whole.feed(text)
    for character in text:
        pieces.feed(character)
    assert whole.value == pieces.value == value


@pytest.mark.parametrize("text", [
    "}", "{]", "[1 2", '{"a" 1', "{1:2}", "[01,", "[NaN,", "[tru,", r'"\q     "', '"\x01', "1 2", '{"a":1}}', "[,1]",
    "[1,]",
])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(esp.ProgramError, match="no JSON"):
        PartialJson().finish(text)


def test_deep_values_need_no_recursion() -> None:
    reader = PartialJson()
    reader.feed("[" * 5000)
    deep, levels = reader.value, 0
    while deep:
        deep, levels = deep[0], levels + 1
    assert levels == 4999


def test_values_given_earlier_stay_as_they_were() -> None:
    grown = _grown(['[["a', 'b"],{"k":[', '1,2', ']}]'])
    assert grown == [[["a"]], [["ab"], {"k": []}], [["ab"], {"k": [1]}], [["ab"], {"k": [1, 2]}]]


# In programs


class Person(pydantic.BaseModel):
    name: str
    age: int


def test_a_program_sees_a_typed_answer_grow(script: Script) -> None:
    @esp.function
    async def program(s: esp.AsyncState) -> tuple[list[Any], Person]:
        s += "Who? " + esp.gen("person", schema=Person)
        return [part async for part in s.partial("person")], await s.get("person")

    model = script([Reply(('{"na', 'me":"Z', 'oë"', ',"age":4', "3}"))])
    seen, person = program.run(backend=model).result
    assert seen == [{}, {"name": "Z"}, {"name": "Zoë"}, {"name": "Zoë", "age": 43}]
    assert person == Person(name="Zoë", age=43)


def test_values_come_before_the_answer_has_ended(script: Script) -> None:
    gates = Gate(), Gate()

    @esp.function
    def program(s: esp.State) -> list[Any]:
        s += esp.gen("first", schema=list[int]) + esp.gen("second", schema=list[int])
        threading.Timer(0.0, gates[0].open).start()
        seen = list(s.partial("first"))
        assert "second" in s
        gates[1].open()
        return [seen[-1], list(s.partial("second"))[-1]]

    model = script([Reply(("[1", ",2", "]"), gates[0]), Reply(("[", "7]"), gates[1])])
    assert program.run(backend=model).result == [[1, 2], [7]]


def test_text_grows_as_text_and_what_is_written_comes_once(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> list[list[Any]]:
        s += esp.gen("x") + esp.select("y", ["a", "b"]) + esp.gen("z", schema={})
        return [list(s.partial("x")), list(s.partial("y")), list(s.partial("x")), list(s.partial("z"))]

    model = script([Reply(("He", "llo")), '{"a":12}'], scores=lambda asked: [0.0, 1.0])
    state = program.run(backend=model)
    assert state.result[0][-1] == "Hello"
    assert state.result[1:3] == [["b"], ["Hello"]]
    assert list(state.partial("z")) == [{"a": 12}]


def test_a_failed_answer_ends_with_its_cause(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += esp.gen("x", schema={})
        for _ in s.partial("x"):
            pass

    with pytest.raises(RuntimeError, match="said no"):
        program.run(backend=script([Reply(('{"a', ), error=RuntimeError("said no"))]))
