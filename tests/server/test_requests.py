"""Bodies and requests as pure functions: any bytes and any JSON end in a value or in a typed error."""

from __future__ import annotations

import contextlib
import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.runtime.errors import InvalidParameter
from espalier.runtime.server.body import MOST_DEPTH, parse
from espalier.runtime.server.errors import InvalidBody
from espalier.runtime.server.requests import ChatRequest, parse_chat

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
FIELDS = [*ChatRequest.model_fields, "role", "content", "type", "text", "name", "schema", "json_schema", "tools"]
GOOD: dict[str, object] = {
    "model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
    "temperature": Decimal("0.5"),
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"a": [1]}}}, "stream": True,
    "stream_options": {"include_usage": True}, "stop": None, "max_tokens": 5,
}


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_valid_json_is_read_as_python_reads_it(value: object) -> None:
    assert parse(json.dumps(value).encode()) == value


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=64) | st.text(alphabet='{}[]",:0123456789.eE+-\\untrfalsN ', max_size=32).map(str.encode))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with contextlib.suppress(InvalidBody):
        parse(raw)


@pytest.mark.parametrize("levels", [MOST_DEPTH - 1, MOST_DEPTH])
def test_the_limit_of_depth_is_exact(levels: int) -> None:
    body = b"[" * levels + b"]" * levels
    if levels < MOST_DEPTH:
        parse(body)
    else:
        parse(body)
        with pytest.raises(InvalidBody):
            parse(b"[" + body + b"]")


@st.composite
def damaged(draw: st.DrawFn) -> object:
    """The good request with one place changed, or one field added."""

    def change(value: object) -> object:
        if isinstance(value, dict) and value and draw(st.integers(0, 3)):
            if draw(st.booleans()):
                return {**value, draw(st.sampled_from(FIELDS) | st.text(max_size=6)): draw(JSON)}
            key = draw(st.sampled_from(sorted(value)))
            return {**value, key: change(value[key])}
        if isinstance(value, list) and value and draw(st.integers(0, 3)):
            at = draw(st.integers(0, len(value) - 1))
            return [*value[:at], change(value[at]), *value[at + 1 :]]
        return draw(JSON)

    return change(GOOD)


@settings(max_examples=300, deadline=None)
@given(damaged())
def test_any_request_is_taken_or_refused_with_its_place(body: object) -> None:
    refused = refusal_of(body)
    if refused is not None:
        assert refused.where or not isinstance(body, dict)
        assert len(refused.message) < 500


def refusal_of(body: object) -> InvalidParameter | None:
    try:
        parse_chat(body)  # type: ignore[arg-type]
    except InvalidParameter as refused:
        return refused
    return None


def test_the_good_request_is_good() -> None:
    chat = parse_chat(GOOD)  # type: ignore[arg-type]
    assert (chat.messages[0].content, chat.form.temperature, chat.form.budget) == ("x", 0.5, 5)
