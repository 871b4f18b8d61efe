"""Calls are read out of an answer's text the same way however it is cut into pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.runtime.call_format import OWN, CallFormat
from espalier.runtime.conversation import Call
from espalier.runtime.server.call_reader import Arguments, Begun, CallReader, Content

BARE = CallFormat('{"name": "', '", "parameters": ', "}", None, "spaced", told=True)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6)
    | st.sampled_from(['"}', "</tool_call>", "\\", "{["]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2), max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=4), json_values, max_size=3)
names = st.sampled_from(["get", "get_prompt", "math.factorial"])
contents = st.sampled_from(["", "Let me see.", "1 < 2", "a {b} c", "<tool", "<tool_call", '{"nam'])


def read(calls: CallFormat, pieces: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    reader, content = CallReader(calls), ""
    found: list[tuple[str, str]] = []
    for news in [one for piece in pieces for one in reader.push(piece)] + reader.finish():
        match news:
            case Content(text):
                content += text
                assert not found
            case Begun(index, name):
                assert index == len(found)
                found.append((name, ""))
            case Arguments(index, text):
                assert index == len(found) - 1
                found[index] = (found[index][0], found[index][1] + text)
    return content, found


def cut(text: str, places: Sequence[int]) -> list[str]:
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(borders)]


@given(st.sampled_from([OWN, BARE]), contents, st.lists(st.tuples(names, objects), max_size=3),
       st.lists(st.integers(0, 1 << 20), max_size=12))
def test_content_and_calls_come_out_whole(
    calls: CallFormat, content: str, made: list[tuple[str, object]], places: list[int]
) -> None:
    made = made if calls.between is not None else made[:1]
    told = [(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in made]
    written = calls.written([Call("", name, arguments) for name, arguments in told])
    text = "\n".join(part for part in (content, written) if part)
    assert read(calls, cut(text, places)) == (content, told)
    assert read(calls, list(text)) == (content, told)


@pytest.mark.parametrize(("text", "content"), [
    ("  padded  ", "  padded  "), ("\n", "\n"), ("ends in <tool_ca", "ends in <tool_ca"), ("a <tool> b", "a <tool> b"),
])
def test_text_without_calls_is_kept_to_the_letter(text: str, content: str) -> None:
    assert read(OWN, list(text)) == (content, [])


def test_what_cannot_begin_a_call_is_told_at_once() -> None:
    reader = CallReader(OWN)
    assert reader.push("so <too") == [Content("so")]
    assert reader.push("l> and") == [Content(" <tool> and")]


@pytest.mark.parametrize(("before", "apart"), [
    ('<tool_call>\n{"name": "', True), ('{"name": "', True), ('[{"name": "', True), ("[TOOL_CALLS][{", True),
    ("<|python_tag|>", True), ('{"name":"', False), ('[{"name":"', False), ("true", False),
])
def test_a_beginning_that_compact_json_may_have_is_known(before: str, apart: bool) -> None:
    assert CallFormat(before, '": ', "}", None, "spaced", told=True).apart == apart


@given(json_values, st.lists(st.integers(0, 99), max_size=4))
def test_a_value_beside_calls_is_content_whatever_it_holds(value: object, places: list[int]) -> None:
    text = json.dumps({"name": value, OWN.before: [BARE.before]}, separators=(",", ":"))
    for calls in (OWN, BARE):
        reader = CallReader(calls, whole=True)
        found = [one for piece in cut(text, places) for one in reader.push(piece)] + reader.finish()
        assert "".join(one.text for one in found if isinstance(one, Content)) == text
        assert all(isinstance(one, Content) for one in found)
        written = calls.written((Call("1", "get", "{}"),))
        assert read(calls, [written]) == ("", [("get", "{}")])
