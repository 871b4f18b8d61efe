"""Text completions: prompts as text and tokens, echoed and scored, as the real client and evaluation tools use them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import openai
import pytest

from espalier.runtime.loading import bind_grammars, compile_grammar
from espalier.runtime.messages import Stats
from espalier.runtime.runtime import Runtime

from ..fakes import ByteTokenizer, scripted_runtime
from .fake_runtime import FakeRuntime, Script
from .live import LiveServer, eventually, live
from .scripted import CONFIG
from .test_chat import MODEL
from .test_errors import assert_shape
from .test_stream import data_lines

WORDS = ("Hello", " world", " again", "漢字")


def falling(size: int) -> Callable[[tuple[int, ...]], Sequence[float]]:
    """Every token is followed by the byte one above its own; single bytes from a to y."""

    def model(prefix: tuple[int, ...]) -> Sequence[float]:
        logits = [0.0] * size
        last = prefix[-1]
        logits[last + 1 if ord("a") <= last < ord("y") else ord("a")] = 9.0
        return logits

    return model


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[LiveServer, Runtime]]:
    tokenizer = ByteTokenizer(WORDS)
    runtime = scripted_runtime(
        falling(tokenizer.vocab_size), tokenizer, CONFIG, compile=compile_grammar, context=512,
        constraints=bind_grammars(tokenizer, tokenizer.vocab_size, CONFIG),
    )
    with closing(runtime), live(runtime) as server:
        yield server, runtime


@pytest.fixture(scope="module")
def writer(scripted: tuple[LiveServer, Runtime]) -> Iterator[openai.OpenAI]:
    with scripted[0].client() as client:
        yield client


def complete(client: openai.OpenAI, prompt: Any, **options: Any) -> Any:
    return client.completions.create(**{"model": "scripted", "prompt": prompt, "temperature": 0} | options)


def streamed(client: openai.OpenAI, prompt: Any, **options: Any) -> list[Any]:
    return [chunk.choices[0] for chunk in complete(client, prompt, stream=True, **options)]


def test_a_completion_has_every_field_of_the_contract(writer: openai.OpenAI) -> None:
    reply = complete(writer, "so abc", max_tokens=4)
    assert (reply.object, reply.model, reply.id[:5]) == ("text_completion", "scripted", "cmpl-")
    choice = reply.choices[0]
    assert (choice.index, choice.text, choice.finish_reason, choice.logprobs) == (0, "defg", "length", None)
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (6, 4, 10)
    assert len(complete(writer, "x").choices[0].text) == 16


PROMPTS = [
    ("ab", ["cd"]), (["ab", "xyq", "m"], ["cd", "rs", "no"]), ([97, 98], ["cd"]), ([[97], [98, 120]], ["bc", "ya"]),
]


@pytest.mark.parametrize(("prompt", "texts"), PROMPTS, ids=str)
def test_prompts_are_texts_or_tokens_alone_or_several(writer: openai.OpenAI, prompt: Any, texts: list[str]) -> None:
    reply = complete(writer, prompt, max_tokens=2, n=2)
    assert [choice.index for choice in reply.choices] == list(range(2 * len(texts)))
    assert [choice.text for choice in reply.choices] == [text for text in texts for _ in range(2)]
    assert reply.usage.completion_tokens == 4 * len(texts)
    found = streamed(writer, prompt, max_tokens=2, n=2)
    joined = ["".join(one.text for one in found if one.index == index) for index in range(2 * len(texts))]
    assert joined == [choice.text for choice in reply.choices]
    assert sorted(one.index for one in found if one.finish_reason) == list(range(2 * len(texts)))


def test_a_stop_string_and_a_form_end_a_completion(writer: openai.OpenAI) -> None:
    choice = complete(writer, "ab", stop="fg").choices[0]
    assert (choice.text, choice.finish_reason) == ("cde", "stop")
    wanted = {"response_format": {"type": "regex", "regex": "[0-9]{3}"}}
    choice = complete(writer, "ab", extra_body=wanted).choices[0]
    assert choice.text.isdigit()
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize("prompt", ["Hello world", "Hé llo 漢字 漢", [72, 233, 97], "x"], ids=str)
def test_166_an_echoed_prompt_is_scored_without_generating(writer: openai.OpenAI, prompt: Any) -> None:
    reply = complete(writer, prompt, echo=True, max_tokens=0, logprobs=1)
    choice = reply.choices[0]
    if isinstance(prompt, str):
        assert choice.text == prompt
    logprobs = choice.logprobs
    assert len(logprobs.tokens) == len(logprobs.top_logprobs) == reply.usage.prompt_tokens
    assert logprobs.token_logprobs[0] is None
    assert logprobs.top_logprobs[0] is None
    assert all(-9999 <= one <= 0 for one in logprobs.token_logprobs[1:])
    assert all(len(top) in (1, 2) for top in logprobs.top_logprobs[1:])
    assert (reply.usage.completion_tokens, choice.finish_reason) == (0, "length")


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"max_tokens": 1}, {"max_tokens": 1, "n": 2}], ids=str)
def test_an_echoed_prompt_that_is_not_scored_comes_from_the_cache(
    scripted: tuple[LiveServer, Runtime], writer: openai.OpenAI, options: dict[str, Any]
) -> None:
    prompt = f"a long prompt that was met before, with {options}"
    complete(writer, prompt, echo=True, **options)
    before = asyncio.run(scripted[1].stats())
    reply = complete(writer, prompt, echo=True, **options)
    after = asyncio.run(scripted[1].stats())
    assert reply.choices[0].text.startswith(prompt)
    assert reply.usage.prompt_tokens_details.cached_tokens >= len(prompt) - 1
    assert after.tokens_computed - before.tokens_computed <= options.get("n", 1)


def test_216_two_salts_share_nothing(writer: openai.OpenAI) -> None:
    prompt = "a prompt of some tenant"

    def cached(**more: str) -> int:
        usage = complete(writer, prompt, extra_body=more).usage
        return usage.prompt_tokens_details.cached_tokens

    first = [cached(), cached(cache_salt="a"), cached(cache_salt="b")]
    second = [cached(), cached(cache_salt="a"), cached(cache_salt="b")]
    assert max(first) < 4  # others may have begun with the same letters
    assert min(second) >= len(prompt) - 4


def test_scores_are_those_of_the_model_and_tell_whether_a_token_is_the_likeliest(writer: openai.OpenAI) -> None:
    logprobs = complete(writer, "abx", echo=True, max_tokens=1, logprobs=2).choices[0].logprobs
    assert logprobs.tokens == ["a", "b", "x", "y"]
    assert [value > -1 for value in logprobs.token_logprobs[1:]] == [True, False, True]
    best = [max(top, key=top.__getitem__) for top in logprobs.top_logprobs[1:]]
    assert best == ["b", "c", "y"]
    assert logprobs.top_logprobs[2]["x"] == logprobs.token_logprobs[2]


@pytest.mark.parametrize("options", [
    {"echo": True, "logprobs": 0}, {"echo": True, "logprobs": 5, "n": 2}, {"logprobs": 0}, {"echo": True},
    {"logprobs": 2, "stop": ["fg"]}, {"echo": True, "logprobs": 1, "stop": "d"},
], ids=str)
@pytest.mark.parametrize("prompt", ["Hé llo", "漢字abc", "Hello world"])
def test_167_offsets_are_code_points_of_the_whole_text(writer: openai.OpenAI, prompt: str, options: Any) -> None:
    reply = complete(writer, prompt, max_tokens=6, **options)
    chunks = streamed(writer, prompt, max_tokens=6, **options)
    for choice in reply.choices:
        own = [one for one in chunks if one.index == choice.index]
        assert "".join(one.text for one in own) == choice.text
        assert choice.text.startswith(prompt) is bool(options.get("echo"))
        if "logprobs" not in options:
            continue
        told = choice.logprobs
        for offset, token in zip(told.text_offset, told.tokens, strict=True):
            assert choice.text[offset:].startswith(token)
        assert "".join(told.tokens) == choice.text[:len("".join(told.tokens))]
        parts = [one.logprobs for one in own if one.logprobs is not None]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            assert [value for part in parts for value in getattr(part, name)] == getattr(told, name)


def test_usage_comes_last_in_a_stream(scripted: tuple[LiveServer, Runtime]) -> None:
    body = {"model": "scripted", "prompt": "ab", "max_tokens": 3, "temperature": 0}
    plain = scripted[0].complete(body).json()["usage"]
    reply = scripted[0].complete({**body, "stream": True, "stream_options": {"include_usage": True}})
    *chunks, last, done = data_lines(reply)
    assert done == "[DONE]"
    assert json.loads(last)["choices"] == []
    assert json.loads(last)["usage"]["completion_tokens"] == plain["completion_tokens"]
    assert all(json.loads(chunk)["usage"] is None for chunk in chunks)


WRONG = [
    ({"prompt": None}, "prompt", "invalid_value"), ({"prompt": ""}, "prompt", "invalid_value"),
    ({"prompt": []}, "prompt", "invalid_value"), ({"prompt": 3}, "prompt", "invalid_value"),
    ({"prompt": ["a", ""]}, "prompt[1]", "invalid_value"), ({"prompt": ["a", 1]}, "prompt[1]", "invalid_value"),
    ({"prompt": [[]]}, "prompt[0]", "invalid_value"), ({"prompt": [[1], [-1]]}, "prompt[1]", "invalid_value"),
    ({"prompt": [10**9]}, "prompt", "invalid_value"), ({"prompt": [10**40]}, "prompt", "invalid_value"),
    ({"prompt": [True]}, "prompt[0]", "invalid_value"), ({"prompt": [1.5]}, "prompt[0]", "invalid_value"),
    ({"prompt": ["a"] * 129}, "prompt", "invalid_value"), ({"prompt": {"a": 1}}, "prompt", "invalid_value"),
    ({"prompt": "x" * 600}, "prompt", "context_length_exceeded"),
    ({"max_tokens": 600}, "prompt", "context_length_exceeded"),
    ({"max_tokens": -1}, "max_tokens", "invalid_value"), ({"logprobs": 6}, "logprobs", "invalid_value"),
    ({"logprobs": True}, "logprobs", "invalid_value"), ({"suffix": "z"}, "suffix", "invalid_value"),
    ({"best_of": 2}, "best_of", "invalid_value"), ({"best_of": 1, "n": 2}, "best_of", "invalid_value"),
    ({"messages": []}, "messages", "unknown_parameter"), ({"echo": 1}, "echo", "invalid_value"),
    ({"presence_penalty": 3}, "presence_penalty", "invalid_value"),
    ({"logit_bias": {"99999": 1}}, "logit_bias", "invalid_value"),
    ({"logit_bias": {"9": -101}}, "logit_bias[9]", "invalid_value"),
    ({"stream_options": {}}, "stream_options", "invalid_value"),
    ({"response_format": {"type": "regex", "regex": "("}}, "response_format.regex", "invalid_constraint"),
    ({"response_format": {"type": "json_object"}, "min_tokens": 1}, "min_tokens", "invalid_value"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing_required_parameter"),
]


@pytest.mark.parametrize(("change", "param", "code"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_field_is_named_by_its_path(
    scripted: tuple[LiveServer, Runtime], change: dict[str, Any], param: str, code: str
) -> None:
    reply = scripted[0].complete({"model": "scripted", "prompt": "ab", "temperature": 0} | change)
    assert reply.status_code == 400
    error = assert_shape(reply)
    assert (error["param"], error["code"]) == (param, code)


def test_a_bias_of_no_token_is_refused_before_a_stream_begins(scripted: tuple[LiveServer, Runtime]) -> None:
    reply = scripted[0].complete({"model": "scripted", "prompt": "ab", "logit_bias": {"9999": 1}, "stream": True})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "logit_bias")


def test_a_missing_prompt_and_an_unknown_model_are_told(server: LiveServer) -> None:
    error = assert_shape(server.complete({"model": MODEL}))
    assert (error["param"], error["code"]) == ("prompt", "missing_required_parameter")
    assert server.complete({"model": "x", "prompt": "a"}).status_code == 404
    assert server.http.get("/v1/completions").status_code == 405


def test_what_changes_nothing_is_accepted(server: LiveServer, runtime: FakeRuntime) -> None:
    inert = {"n": 1, "best_of": 1, "echo": False, "logprobs": None, "suffix": None, "frequency_penalty": 0,
             "presence_penalty": 0, "logit_bias": {}, "repetition_penalty": 1, "user": "u", "top_k": 0, "stream": False,
             "stop": None}
    for body in ({}, inert):
        assert server.complete({"model": MODEL, "prompt": "hi", **body}).status_code == 200
    assert repr(runtime.asked[0].spec) == repr(runtime.asked[1].spec)


def test_what_fails_midway_is_an_error_event_and_frees_everything(server: LiveServer, runtime: FakeRuntime) -> None:
    runtime.scripts = {"bad": Script(("one",), ValueError("CANARY"))}
    reply = server.complete({"model": MODEL, "prompt": ["bad", "bad"], "n": 2, "stream": True})
    assert "error" in json.loads(data_lines(reply)[-1])
    assert "CANARY" not in reply.text
    assert eventually(lambda: (runtime.running, runtime.open_sessions) == (0, 0))


def test_completions_leave_nothing_behind(scripted: tuple[LiveServer, Runtime], writer: openai.OpenAI) -> None:
    stream = complete(writer, ["ab", "cd"], n=3, stream=True, max_tokens=400, echo=True, logprobs=1)
    next(stream)
    stream.close()

    def held() -> tuple[int, int]:
        now: Stats = asyncio.run(scripted[1].stats())
        return now.running, now.pages_held

    assert eventually(lambda: held() == (0, 0))
