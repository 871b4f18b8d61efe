"""Thoughts before an answer, told apart from it by the template's delimiters: plain, streamed, under constraints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import openai
import pytest

from espalier.runtime.loading import bind_grammars, compile_grammar

from ..fakes import ByteTokenizer, ScriptedModel, ThinkingTemplate, scripted_runtime
from .live import LiveServer, live
from .scripted import CONFIG, WORDS, scripted_server
from .test_stopping import SCHEMA
from .test_tools import TIME, call

CALL = call("get_time", '{"zone": "Rome"}')
# What the model says after "assistant: ", the beginning of its thoughts included where it is begun for it.
SAYS = {
    "hi": "<think>\nA greeting.\n</think>\n\nHello!", "plain": "Hello!", "cut": "<think>\nA greeting of", "no": "yes",
    "who": '<think>\nA name.\n</think>\n\n{"name":"Ada END","age":36}',
    "call": f"<think>\nRome.\n</think>\n\nSo.\n{CALL}", "must": f"<think>\nRome.\n</think>\n\n{CALL}",
    "void": "<think>\nhm\n</think>\n\n",
    "early": f"<think>\nRome. {CALL}",
    "deep": '<think>\n"stop" in thought\n</think>\n\n{"name":"Ada END","age":36}',
}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with scripted_server(SAYS, template=ThinkingTemplate) as (server, _):
        yield server


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[openai.OpenAI]:
    with server.client() as client:
        yield client


def both(client: openai.OpenAI, text: str, **options: Any) -> tuple[Any, ...]:
    """Thoughts, content, arguments of calls and reason; of a stream they are the same."""
    body: dict[str, Any] = {
        "model": "scripted", "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 300,
        **options,
    }
    choice = client.chat.completions.create(**body).choices[0]
    told = choice.message.model_dump()
    made = [one["function"]["arguments"] for one in told["tool_calls"] or []]
    found = (told.get("reasoning_content"), told["content"], made, choice.finish_reason)
    parts = [chunk.choices[0] for chunk in client.chat.completions.create(**body, stream=True)]
    deltas = [part.delta.model_dump() for part in parts]
    thoughts = "".join(delta.get("reasoning_content") or "" for delta in deltas)
    content = "".join(delta["content"] or "" for delta in deltas)
    arguments = "".join(one["function"]["arguments"] for delta in deltas for one in delta["tool_calls"] or [])
    assert (thoughts or None, content, parts[-1].finish_reason) == (found[0], found[1] or "", found[3])
    assert arguments == "".join(made)
    return found


OFF = {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}
PARTED: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("hi", {}, ("A greeting.", "Hello!", [], "stop")),
    ("plain", {}, (None, "Hello!", [], "stop")),
    ("cut", {}, ("A greeting of", "", [], "stop")),
    ("hi", {"max_tokens": 10}, ("A greet", "", [], "length")),
    ("who", {"response_format": SCHEMA}, ("A name.", '{"name":"Ada END","age":36}', [], "stop")),
    ("void", {"response_format": {"type": "regex", "regex": "x*"}}, ("hm", "", [], "stop")),
    ("call", {"tools": [TIME]}, ("Rome.", "So.", ['{"zone": "Rome"}'], "tool_calls")),
    ("early", {"tools": [TIME]}, ("Rome.", None, ['{"zone": "Rome"}'], "tool_calls")),
    ("must", {"tools": [TIME], "tool_choice": "required"}, ("Rome.", None, ['{"zone": "Rome"}'], "tool_calls")),
    ("hi", {"stop": "greeting"}, ("A greeting.", "Hello!", [], "stop")),
    ("hi", {"stop": ["ell", "A"]}, ("A greeting.", "H", [], "stop")),
    ("deep", {"stop": ["stop", " END"], "response_format": SCHEMA}, ('"stop" in thought', '{"name":"Ada', [], "stop")),
]


@pytest.mark.parametrize(("text", "options", "told"), PARTED, ids=[f"{row[0]} {sorted(row[1])}" for row in PARTED])
def test_thoughts_are_told_apart_from_the_content(
    client: openai.OpenAI, text: str, options: dict[str, Any], told: tuple[Any, ...]
) -> None:
    assert both(client, text, **options) == told


def test_208_where_the_prompt_has_closed_the_thoughts_all_text_is_content(client: openai.OpenAI) -> None:
    """The fake says nothing that it was not told to after such a prompt: a bias speaks."""
    for off in (OFF, {"reasoning_effort": "none"}):
        options = {**off, "logit_bias": {"120": 30}, "max_tokens": 3}
        assert both(client, "no", **options) == (None, "xxx", [], "length")
    assert both(client, "hi", reasoning_effort="low")[0] == "A greeting."
    told = both(client, "no", **OFF, response_format=SCHEMA)
    assert told[0] is None
    assert set(json.loads(told[1])) == {"name", "age"}


@pytest.mark.parametrize(("text", "options", "thoughts"), [
    ("hi", {}, "<think>\nA greeting.\n</think>\n\n"), ("plain", {}, ""), ("cut", {}, "<think>\nA greeting of"),
    ("hi", {"stop": "e"}, "<think>\nA greeting.\n</think>\n\n"), ("early", {"tools": [TIME]}, "<think>\nRome. "),
    ("who", {"response_format": SCHEMA}, "A name.\n</think>\n\n"), ("void", {}, SAYS["void"]),
    ("hi", {"n": 2}, "<think>\nA greeting.\n</think>\n\n" * 2),
])
def test_usage_says_how_many_tokens_the_thoughts_took(
    client: openai.OpenAI, text: str, options: dict[str, Any], thoughts: str
) -> None:
    """The begin that the server writes for the model belongs to the prompt."""
    reply = client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": text}], temperature=0, max_tokens=300, **options)
    assert reply.usage is not None
    assert reply.usage.completion_tokens_details is not None
    assert reply.usage.completion_tokens_details.reasoning_tokens == len(ByteTokenizer(WORDS).encode(thoughts))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("budget", [34, 60, 300])
def test_191_behind_whatever_thoughts_the_content_fits(client: openai.OpenAI, seed: int, budget: int) -> None:
    """Also where the budget ends the thoughts, and at every temperature."""
    _, content, _, reason = both(
        client, "who", response_format=SCHEMA, seed=seed, temperature=2, max_tokens=budget, n=1
    )
    assert set(json.loads(content)) == {"name", "age"}
    assert reason in ("stop", "length")


def test_a_budget_below_thoughts_and_answer_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        both(client, "who", response_format=SCHEMA, max_tokens=20)
    assert caught.value.code == "budget_too_small"


def test_thoughts_of_the_history_reach_the_template(server: LiveServer) -> None:
    def tokens(**more: str) -> int:
        messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", **more},
                    {"role": "user", "content": "hi"}]
        reply = server.post({"model": "scripted", "messages": messages, "max_tokens": 1})
        return reply.json()["usage"]["prompt_tokens"]

    assert tokens(reasoning_content="hm") == tokens(reasoning="hm") == tokens() + len("(hm) ")


@pytest.mark.parametrize(("extra", "where", "code"), [
    ({"chat_template_kwargs": {"thinking": True}}, "chat_template_kwargs.thinking", "invalid_value"),
    ({"chat_template_kwargs": {"enable_thinking": 1}}, "chat_template_kwargs.enable_thinking", "invalid_value"),
    ({"response_format": {"type": "json_object"}, "tools": [TIME]}, "response_format", "invalid_value"),
    ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs.chat_template", "unknown_parameter"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs", "invalid_value"),
    ({"messages": [{"role": "user", "content": "x", "reasoning": "y"}]}, "messages[0].reasoning", "invalid_value"),
])
def test_what_cannot_be_told_to_the_template_is_refused(
    server: LiveServer, extra: dict[str, Any], where: str, code: str
) -> None:
    reply = server.post({"model": "scripted", "messages": [{"role": "user", "content": "hi"}], **extra})
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["code"]) == (400, where, code)


def test_a_constraint_is_refused_with_its_own_place(client: openai.OpenAI) -> None:
    wrong = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"properties": {"a": {"type": "nonsense"}}}}}
    with pytest.raises(openai.BadRequestError) as caught:
        both(client, "who", response_format=wrong)
    assert caught.value.param == "response_format.json_schema.schema.properties.a.type"


class SpecialDelimiters(ThinkingTemplate):
    """Of a model whose delimiters are special tokens, which text cannot spell."""

    def thinking_parts(self) -> tuple[str | int, ...]:
        return self._tokenizer.specials["<think>"], "\n"


@pytest.mark.parametrize(("options", "told"), [
    ({}, ("hm", "yes", "stop")), ({"stop": "e"}, ("hm", "y", "stop")), ({"stop": "hm"}, ("hm", "yes", "stop")),
    ({"response_format": {"type": "regex", "regex": "yes|no"}}, ("hm", "yes", "stop")),
    ({"response_format": {"type": "choices", "choices": ["no", "yes"]}, "stop": ["s", "m"]}, ("hm", "ye", "stop")),
    ({"max_tokens": 3}, ("h", "", "length")),
], ids=str)
def test_delimiters_may_be_special_tokens(options: dict[str, Any], told: tuple[str, str, str]) -> None:
    tokenizer = ByteTokenizer(specials=("<end>", "<turn>", "<think>", "</think>"))
    ids = tokenizer.specials
    says = (ids["<think>"], *b"\nhm\n", ids["</think>"], *b"\n\nyes")
    runtime = scripted_runtime(
        ScriptedModel(tokenizer, {"assistant: ": says}), tokenizer, CONFIG, compile=compile_grammar,
        constraints=bind_grammars(tokenizer, tokenizer.vocab_size, CONFIG), template=SpecialDelimiters,
    )
    with closing(runtime), live(runtime) as server, server.client() as client:
        thoughts, content, _, reason = both(client, "q", **options)
    assert (thoughts, content, reason) == told
