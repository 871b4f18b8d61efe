"""Fields beside the messages: what changes nothing is accepted, what is ours arrives, what an answer must be holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

import openai
import pytest

from .fake_runtime import FakeRuntime
from .live import LiveServer
from .scripted import scripted_server
from .test_chat import ask

WITHOUT_EFFECT = {
    "n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "logprobs": False, "top_logprobs": 0,
    "tools": [], "tool_choice": "none", "parallel_tool_calls": False, "store": False, "service_tier": "default",
    "modalities": ["text"], "verbosity": "medium", "metadata": {"job": "7"}, "prompt_cache_key": "k",
    "safety_identifier": "s", "user": "u", "ignore_eos": False, "top_k": 0, "min_p": 0, "audio": None,
    "reasoning_effort": None, "functions": None, "prediction": None, "response_format": {"type": "text"},
}


def test_what_changes_nothing_is_accepted(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    ask(client)
    for name, value in WITHOUT_EFFECT.items():
        ask(client, extra_body={name: value})
    ask(client, extra_body=WITHOUT_EFFECT)
    assert {repr(call.spec) for call in runtime.asked} == {repr(runtime.asked[0].spec)}


def test_our_own_fields_arrive_at_the_session(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    ask(client, extra_body={"top_k": 5, "min_p": 0.25, "ignore_eos": True})
    spec = runtime.asked[0].spec
    assert (spec.top_k, spec.min_p, spec.ignore_end) == (5, 0.25, True)


@pytest.fixture(scope="module")
def enforcing() -> Iterator[openai.OpenAI]:
    with scripted_server({"hi": "hello"}) as (server, _), server.client() as client:
        yield client


def form(kind: str, value: object) -> dict[str, object]:
    return {"type": kind, kind: value}


FORMS = [
    (form("regex", "[0-9]{3}-[a-c]+"), "[0-9]{3}-[a-c]+"),
    (form("choices", ["yes", "no", "não"]), "yes|no|não"),
    (form("lark", 'start: "a" ("+" "a")~2'), r"a\+a\+a"),
    (form("gbnf", 'root ::= "x" ("," "x"){1,2}'), "x(,x){1,2}"),
]


@pytest.mark.parametrize(("wanted", "pattern"), FORMS, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("temperature", [0, 2])
def test_an_answer_is_of_its_form(
    enforcing: openai.OpenAI, wanted: dict[str, object], pattern: str, temperature: int
) -> None:
    for _ in range(3):
        reply = enforcing.chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": "hi"}], response_format=wanted, max_tokens=20,
            temperature=temperature,
        )
        assert re.fullmatch(pattern, reply.choices[0].message.content or "")


@pytest.mark.parametrize(
    ("wanted", "code"),
    [(form("regex", "(a)\\1"), "unsupported_keyword"), (form("regex", "("), "invalid_constraint"),
     (form("lark", "start: missing"), "invalid_constraint"), (form("gbnf", "a ::= b"), "invalid_constraint")],
    ids=str,
)
def test_a_form_that_is_not_enforced_is_refused_by_its_field(
    enforcing: openai.OpenAI, wanted: dict[str, object], code: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        enforcing.chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": "hi"}], response_format=wanted
        )
    assert (caught.value.param, caught.value.code) == (f"response_format.{wanted['type']}", code)


@pytest.mark.parametrize("field", ["audio", "functions", "function_call", "prediction", "reasoning_effort",
                                   "web_search_options", "moderation"])
def test_a_field_of_openai_that_is_not_served_is_named_and_never_ignored(server: LiveServer, field: str) -> None:
    body = {"model": "org/tiny", "messages": [{"role": "user", "content": "x"}], field: {}}
    error = server.post(body).json()["error"]
    assert (error["param"], error["code"]) == (field, "invalid_value")
    assert "is not supported here" in error["message"]
