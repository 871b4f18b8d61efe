"""Plain chat completions, as the real client sees them."""

from __future__ import annotations

import contextlib

import openai
import pytest
from pydantic import BaseModel

from espalier.grammars.constraint import AnyObject, JsonSchema

from .fake_runtime import CONTEXT, FakeRuntime
from .live import LiveServer

MODEL = "org/tiny"


def ask(client: openai.OpenAI, text: str = "hi", **options: object) -> openai.types.chat.ChatCompletion:
    return client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}], **options)


def test_a_completion_has_every_field_of_the_contract(client: openai.OpenAI) -> None:
    reply = ask(client)
    assert reply.object == "chat.completion"
    assert reply.id.startswith("chatcmpl-")
    assert reply.model == MODEL
    choice = reply.choices[0]
    assert (choice.index, choice.finish_reason, choice.message.role) == (0, "stop", "assistant")
    assert choice.message.content == "Hello there!"
    assert choice.message.refusal is None
    usage = reply.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (2, 3, 5)
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 3
    assert reply._request_id


def test_ids_are_unique(client: openai.OpenAI) -> None:
    assert len({ask(client).id for _ in range(5)}) == 5


def test_parameters_arrive_at_the_session(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    ask(client, max_completion_tokens=7, temperature=0, top_p=0.5, seed=-3, stop=["a", "b"], user="u", n=1)
    spec = runtime.asked[0].spec
    assert (spec.max_tokens, spec.temperature, spec.top_p, spec.seed, spec.stop) == (7, 0.0, 0.5, -3, ("a", "b"))
    assert spec.constraint is None


def test_a_single_stop_string_is_a_list_of_one(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    ask(client, stop="\n")
    assert runtime.asked[0].spec.stop == ("\n",)


def test_null_means_unset_in_every_optional_field(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    names = ("max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "stream", "stream_options",
             "response_format", "user", "n")
    ask(client)
    ask(client, extra_body=dict.fromkeys(names))
    assert runtime.asked[0].spec == runtime.asked[1].spec


def test_roles_and_parts_become_messages(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    first = ask(client)
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        first.choices[0].message,
        {"role": "assistant", "content": "x", "tool_calls": None, "function_call": None, "refusal": None},
        {"role": "user", "content": ""},
    ]
    client.chat.completions.create(model=MODEL, messages=messages)
    assert runtime.asked[1].messages == [
        ("system", "be brief"), ("user", "ab"), ("assistant", "Hello there!"), ("assistant", "x"), ("user", ""),
    ]


def test_without_max_tokens_the_answer_may_use_the_rest_of_the_context(
    client: openai.OpenAI, runtime: FakeRuntime
) -> None:
    ask(client, "one two three")
    assert runtime.asked[0].spec.max_tokens == CONTEXT - 4


def test_an_answer_that_the_budget_cut_says_length(client: openai.OpenAI) -> None:
    assert ask(client, "endless", max_tokens=4).choices[0].finish_reason == "length"


def test_a_closed_answer_is_valid_and_says_length(client: openai.OpenAI) -> None:
    choice = ask(client, "closed").choices[0]
    assert (choice.message.content, choice.finish_reason) == ('{"name":""}', "length")


class Person(BaseModel):
    name: str
    age: int


def test_parse_gives_the_pydantic_object(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    reply = client.chat.completions.parse(
        model=MODEL, messages=[{"role": "user", "content": "json"}], response_format=Person
    )
    assert reply.choices[0].message.parsed == Person(name="Ada", age=36)
    constraint = runtime.asked[0].spec.constraint
    assert isinstance(constraint, JsonSchema)
    assert '"additionalProperties":false' in constraint.schema


def test_a_schema_keeps_its_order_and_its_numbers(server: LiveServer, runtime: FakeRuntime) -> None:
    schema = '{"b":1.0,"a":0.10000000000000000000001,"big":1E+400,"whole":123456789012345678901234567890,"é":"\\n"}'
    body = (
        '{"model":"org/tiny","messages":[{"role":"user","content":"json"}],"response_format":'
        '{"type":"json_schema","json_schema":{"name":"x","schema":' + schema + "}}}"
    )
    assert server.post(body.encode()).status_code == 200
    constraint = runtime.asked[0].spec.constraint
    assert isinstance(constraint, JsonSchema)
    assert constraint.schema == schema


def test_json_object_is_any_object(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    ask(client, "json", response_format={"type": "json_object"})
    ask(client, "json", response_format={"type": "text"})
    assert [call.spec.constraint for call in runtime.asked] == [AnyObject(), None]


@pytest.mark.parametrize("stream", [True, False])
def test_keywords_without_effect_are_told_in_a_header(server: LiveServer, runtime: FakeRuntime, stream: bool) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
    whole = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "stream": stream}
    runtime.notes = ("x-é at /a\r\nset-cookie: evil", "b at /c")
    reply = server.post({**whole, "response_format": form})
    assert reply.headers["x-espalier-notes"] == "x-\\xe9 at /a\\r\\nset-cookie: evil; b at /c"
    assert "set-cookie" not in reply.headers
    assert "x-espalier-notes" not in server.post(whole).headers


def test_models_are_listed_and_found(client: openai.OpenAI) -> None:
    (card,) = client.models.list().data
    assert (card.id, card.object, card.owned_by) == (MODEL, "model", "espalier")
    assert card.model_extra is not None
    assert (card.model_extra["root"], card.model_extra["max_model_len"]) == (MODEL, CONTEXT)
    assert client.models.retrieve(MODEL) == card


@pytest.mark.parametrize("text", ["hi", "crash", "fault", "full", "lookbehind", "midway"])
def test_every_session_is_closed(client: openai.OpenAI, runtime: FakeRuntime, text: str) -> None:
    with contextlib.suppress(openai.APIStatusError):
        ask(client, text)
    assert (runtime.open_sessions, runtime.running) == (0, 0)
