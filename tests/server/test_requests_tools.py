"""Requests with tools and text completions as pure functions: any JSON ends in a value or in a typed error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.runtime.call_format import OWN
from espalier.runtime.errors import InvalidParameter
from espalier.runtime.server.completions import parse_completion, prompts_of
from espalier.runtime.server.requests import parse_chat

from .test_requests import JSON

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":[1]}'}}
CHAT: dict[str, object] = {
    "model": "m", "logprobs": True, "top_logprobs": 2, "n": 2, "parallel_tool_calls": False,
    "messages": [
        {"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": [{"type": "text", "text": "y"}], "tool_call_id": "c"},
    ],
    "tools": [{"type": "function", "function": {
        "name": "f", "description": "d", "strict": True,
        "parameters": {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}}}],
    "tool_choice": {"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]}},
}
COMPLETION: dict[str, object] = {
    "model": "m", "prompt": ["a", [1, 2]], "echo": True, "logprobs": 1, "stop": ["x"], "best_of": None, "stream": True,
    "stream_options": {"include_usage": True},
}
FIELDS = ["type", "name", "function", "tools", "parameters", "arguments", "content", "prompt", "suffix", "tool_choice"]


@st.composite
def damaged(draw: st.DrawFn, good: dict[str, object]) -> object:
    """The good request with one place changed, or one field added."""

    def change(value: object) -> object:
        if isinstance(value, dict) and value and draw(st.integers(0, 5)):
            if draw(st.booleans()):
                return {**value, draw(st.sampled_from(FIELDS)): draw(JSON)}
            key = draw(st.sampled_from(sorted(value)))
            return {**value, key: change(value[key])}
        if isinstance(value, list) and value and draw(st.integers(0, 5)):
            at = draw(st.integers(0, len(value) - 1))
            return [*value[:at], change(value[at]), *value[at + 1 :]]
        return draw(JSON)

    return change(good)


def read_chat(body: object) -> None:
    chat = parse_chat(body)  # type: ignore[arg-type]
    OWN.folded(chat.messages, chat.offer.told)
    if chat.offer.open:
        chat.offer.enforced(OWN)


def read_completion(body: object) -> None:
    prompts_of(parse_completion(body).prompt)  # type: ignore[arg-type]


@pytest.mark.parametrize(("good", "read"), [(CHAT, read_chat), (COMPLETION, read_completion)], ids=["chat", "text"])
def test_the_good_requests_are_good(good: dict[str, object], read: Callable[[object], None]) -> None:
    read(good)


@settings(max_examples=200, deadline=None)
@given(st.tuples(st.just(read_chat), damaged(CHAT)) | st.tuples(st.just(read_completion), damaged(COMPLETION)))
def test_any_request_is_taken_or_refused_with_its_place(case: tuple[Callable[[object], None], object]) -> None:
    refused = refusal_of(*case)
    if refused is not None:
        assert refused.where or not isinstance(case[1], dict)
        assert len(refused.message) < 500


def refusal_of(read: Callable[[object], None], body: object) -> InvalidParameter | None:
    try:
        read(body)
    except InvalidParameter as refused:
        return refused
    return None
