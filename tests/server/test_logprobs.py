"""Log-probabilities: one a token, finite, with the true bytes, the same streamed and plain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from espalier.runtime.messages import TokenLogprob
from espalier.runtime.server.logprobs import LOWEST, clamped, told

from .scripted import scripted_server
from .test_tools import TIME, call

ANSWERS = {
    "family": "é漢字👩‍👩‍👧 done", "compass": "north east south west", "hi": "hello",
    "rome": "So.\n" + call("get_time", '{"zone": "Rome"}'),
}


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with scripted_server(ANSWERS) as (server, _), server.client() as client:
        yield client


def plain(client: openai.OpenAI, text: str, **options: object) -> Any:
    return client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": text}], logprobs=True, temperature=0, **options
    ).choices[0]


def streamed(client: openai.OpenAI, text: str, **options: object) -> list[Any]:
    stream = client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": text}], logprobs=True, temperature=0, stream=True,
        **options,
    )
    return [one for chunk in stream if chunk.choices[0].logprobs for one in chunk.choices[0].logprobs.content]


def spelled(content: list[Any]) -> bytes:
    return b"".join(bytes(one.bytes) for one in content)


CASES = [
    ("family", {}), ("compass", {}), ("compass", {"max_tokens": 2}), ("compass", {"top_logprobs": 20}),
    ("hi", {"response_format": {"type": "regex", "regex": "😨"}, "top_logprobs": 3}),
    ("hi", {"response_format": {"type": "regex", "regex": r'\{"name": "[a-z]{3,8}", "ok": (true|false)\}'}}),
]


@pytest.mark.parametrize(("text", "options"), CASES, ids=str)
def test_213_the_bytes_of_all_tokens_are_those_of_the_text(
    client: openai.OpenAI, text: str, options: dict[str, Any]
) -> None:
    choice = plain(client, text, **options)
    content = choice.logprobs.content
    assert spelled(content) == choice.message.content.encode()
    for one in content:
        assert len(one.top_logprobs) == options.get("top_logprobs", 0)
        assert -9999 <= one.logprob <= 0
        assert all(top.token == bytes(top.bytes).decode("utf-8", "replace") for top in one.top_logprobs)
        assert [top.logprob for top in one.top_logprobs] == sorted((t.logprob for t in one.top_logprobs), reverse=True)
    assert [one.to_dict() for one in streamed(client, text, **options)] == [one.to_dict() for one in content]


def test_215_every_token_of_a_forced_text_is_counted_and_told(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "hi"}], logprobs=True,
        response_format={"type": "regex", "regex": "north east south"},
    )
    assert reply.usage is not None
    assert reply.choices[0].logprobs is not None
    assert len(reply.choices[0].logprobs.content or ()) == reply.usage.completion_tokens


@pytest.mark.parametrize("stop", ["ast so", "t", "th e", "漢"])
def test_a_stop_string_cuts_text_and_tokens_alike(client: openai.OpenAI, stop: str) -> None:
    for text in ("compass", "family"):
        choice = plain(client, text, stop=stop)
        assert choice.message.content.encode().startswith(spelled(choice.logprobs.content))
        assert [one.token for one in streamed(client, text, stop=stop)] == [
            one.token for one in choice.logprobs.content]


def test_calls_have_the_log_probabilities_of_all_their_tokens(client: openai.OpenAI) -> None:
    choice = plain(client, "rome", tools=[TIME])
    assert spelled(choice.logprobs.content).decode() == ANSWERS["rome"]
    assert spelled(streamed(client, "rome", tools=[TIME])).decode() == ANSWERS["rome"]
    assert choice.finish_reason == "tool_calls"


def test_every_choice_has_its_own(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "hi"}], logprobs=True, n=3, temperature=2, max_tokens=9,
        response_format={"type": "regex", "regex": "[a-z]{6}"},
    )
    for choice in reply.choices:
        assert choice.logprobs is not None
        assert spelled(choice.logprobs.content or []).decode() == choice.message.content


def test_without_logprobs_there_are_none(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "hi"}])
    assert reply.choices[0].logprobs is None


@pytest.mark.parametrize(("given", "said"), [
    (-0.5, -0.5), (0.0, 0.0), (1e-9, 0.0), (-math.inf, LOWEST), (math.nan, LOWEST), (-1e30, LOWEST),
])
def test_what_json_cannot_hold_is_the_floor(given: float, said: float) -> None:
    assert clamped(given) == said
    (one,) = told((1,), (TokenLogprob(given, ((2, given),)),), lambda token: b"\xf0").content
    assert (one.logprob, one.top_logprobs[0].logprob, one.bytes, one.token) == (said, said, (240,), "\ufffd")
