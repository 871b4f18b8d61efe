"""/v1/responses as the real client sees it: text, JSON, calls and thoughts as items, plain and streamed; stateless."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from espalier.runtime.errors import InvalidParameter, Overloaded
from espalier.runtime.server.response_form import ResponsesRequest
from espalier.runtime.server.response_input import conversation
from espalier.runtime.server.responses import COMPLAINTS

from ..fakes import ThinkingTemplate
from .fake_runtime import FakeRuntime, Script
from .live import LiveServer, live
from .scripted import scripted_server
from .test_requests import JSON
from .test_requests_tools import damaged
from .test_tools import ANSWERS, TIME

SAYS = ANSWERS | {
    "hello": "good day", "who": '{"name":"Ada","age":36}', "two": "one two three four five",
    "rome": "One moment.\n" + ANSWERS["rome and oslo"],
}
FLAT: dict[str, Any] = {"type": "function", **TIME["function"]}


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with scripted_server(SAYS) as (server, _):
        yield server


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[openai.OpenAI]:
    with server.client() as client:
        yield client


def ask(client: openai.OpenAI, input: Any, **options: Any) -> Any:
    return client.responses.create(model="scripted", input=input, temperature=0, **options)


def post(server: LiveServer, body: dict[str, Any]) -> Any:
    return server.http.post("/v1/responses", json={"model": "scripted", "input": "hello", "temperature": 0} | body)


def test_a_text_is_answered(client: openai.OpenAI) -> None:
    reply = ask(client, "hello", instructions="Be kind.", metadata={"job": "7"}, max_output_tokens=40)
    assert (reply.output_text, reply.status, reply.incomplete_details) == ("good day", "completed", None)
    assert [item.type for item in reply.output] == ["message"]
    assert (reply.instructions, reply.metadata, reply.max_output_tokens) == ("Be kind.", {"job": "7"}, 40)
    assert reply.usage.input_tokens == len("system: Be kind.|user: hello|assistant: ")
    assert reply.usage.output_tokens == reply.usage.total_tokens - reply.usage.input_tokens
    assert reply.usage.output_tokens_details.reasoning_tokens == 0
    again = ask(client, [{"role": "developer", "content": "Be kind."}, {"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "hel"}, {"type": "input_text", "text": "lo"}]}])
    assert again.output_text == "good day"
    assert again.usage.input_tokens_details.cached_tokens == again.usage.input_tokens - 1
    assert again.id != reply.id


def test_an_answer_that_the_budget_cut_is_incomplete(client: openai.OpenAI) -> None:
    reply = ask(client, "two", max_output_tokens=3)
    assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert reply.output[0].status == "incomplete"
    *_, last = ask(client, "two", max_output_tokens=3, stream=True)
    assert (last.type, last.response.status, last.response.output_text) == (
        "response.incomplete", "incomplete", reply.output_text)


def test_a_class_is_parsed(client: openai.OpenAI) -> None:
    reply = client.responses.parse(model="scripted", input="who", text_format=Person, max_output_tokens=80)
    assert reply.output_parsed == Person(name="Ada", age=36)
    for text in ("hello", "two"):  # whatever the model says, it fits
        wild = client.responses.parse(model="scripted", input=text, text_format=Person, temperature=2,
                                      max_output_tokens=30)
        assert isinstance(wild.output_parsed, Person)
    free = ask(client, "two", text={"format": {"type": "json_object"}}, max_output_tokens=20)
    assert isinstance(json.loads(free.output_text), dict)


def kinds(events: list[Any]) -> list[str]:
    """In order, each run of deltas as one."""
    told = [event.type for event in events]
    return [kind for at, kind in enumerate(told) if not at or kind != told[at - 1]]


PREFIX = ["response.created", "response.in_progress"]


def text_item(kind: str) -> list[str]:
    return ["response.output_item.added", "response.content_part.added", f"response.{kind}.delta",
            f"response.{kind}.done", "response.content_part.done", "response.output_item.done"]


CALL = ["response.output_item.added", "response.function_call_arguments.delta",
        "response.function_call_arguments.done", "response.output_item.done"]


def same(plain: Any, streamed: Any) -> bool:
    """But for what is fresh in each."""
    def known(response: Any) -> object:
        told = response.model_dump(exclude={"id", "created_at", "usage"})
        for item in told["output"]:
            item.pop("id")
            item.pop("call_id", None)
        return told

    return known(plain) == known(streamed)


@pytest.mark.parametrize(("text", "options", "order"), [
    ("hello", {}, text_item("output_text")),
    ("who", {"text": {"format": {"type": "json_object"}}}, text_item("output_text")),
    ("rome", {"tools": [FLAT]}, text_item("output_text") + CALL + CALL),
    ("who", {"text": {"format": {"type": "json_object"}}, "tools": [FLAT]}, text_item("output_text")),
    ("rome and oslo", {"text": {"format": {"type": "json_object"}}, "tools": [FLAT]}, CALL + CALL),
    ("rome and oslo", {"tools": [FLAT], "tool_choice": "required", "parallel_tool_calls": False}, CALL),
    ("nothing to say", {}, [one for one in text_item("output_text") if "delta" not in one]),
])
def test_a_stream_tells_the_same_in_the_right_order(
    client: openai.OpenAI, text: str, options: dict[str, Any], order: list[str]
) -> None:
    events = list(ask(client, text, stream=True, **options))
    assert kinds(events) == [*PREFIX, *order, "response.completed"]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.response.output for event in events[:2]] == [[], []]
    final, items = events[-1].response, [event for event in events if event.type == "response.output_item.done"]
    assert [event.item for event in items] == final.output
    assert [event.output_index for event in items] == list(range(len(items)))
    for item in final.output:
        deltas = [event.delta for event in events if event.type.endswith(".delta") and event.item_id == item.id]
        assert "".join(deltas) == (item.arguments if item.type == "function_call" else item.content[0].text)
    assert same(ask(client, text, **options), final)


def test_the_stream_helper_gathers_and_parses(client: openai.OpenAI) -> None:
    with client.responses.stream(model="scripted", input="who", text_format=Person) as stream:
        seen = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_parsed == Person(name="Ada", age=36)
    assert seen[-1] == "response.completed"
    tool = openai.pydantic_function_tool(Person)["function"]
    with client.responses.stream(model="scripted", input="rome", tools=[FLAT | {"strict": True}]) as stream:
        calls = [item for item in stream.get_final_response().output if item.type == "function_call"]
    assert [call.parsed_arguments for call in calls] == [{"zone": "Rome"}, {"zone": "Oslo"}]
    assert tool["name"] == "Person"


def test_calls_are_answered_by_sending_the_output_back(client: openai.OpenAI) -> None:
    first = ask(client, "rome and oslo", tools=[FLAT])
    rome, oslo = first.output
    assert (rome.name, json.loads(rome.arguments), json.loads(oslo.arguments)) == (
        "get_time", {"zone": "Rome"}, {"zone": "Oslo"})
    assert (first.tool_choice, first.tools[0].name, first.parallel_tool_calls) == ("auto", "get_time", True)
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": "ok"} for call in (rome, oslo)][:1]
    history = [{"role": "user", "content": "rome and oslo"}, rome, *results]
    assert ask(client, history, tools=[FLAT]).output_text == "It is ten."
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, [*history[:1], *results], tools=[FLAT])
    assert caught.value.param == "input[1].call_id"


def test_messages_calls_and_thoughts_become_a_conversation() -> None:
    body: Any = {"model": "m", "instructions": "Be brief.", "input": [
        {"role": "user", "content": "q"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "so", "annotations": [], "logprobs": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "b", "output": "1"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "2"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x":1}'},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "cut"}]},
        {"role": "user", "content": "so?"},
    ]}
    told = conversation(COMPLAINTS.read(ResponsesRequest, body))
    assert [(one.role, one.content, one.reasoning, [call.id for call in one.calls], one.answers and one.answers.name)
            for one in told] == [
        ("system", "Be brief.", "", [], None), ("user", "q", "", [], None), ("assistant", "so", "hm", ["a", "b"], None),
        ("tool", "1", "", [], "g"), ("tool", "2", "", [], "f"), ("assistant", "", "", ["c"], None),
        ("assistant", "", "cut", [], None), ("user", "so?", "", [], None),
    ]


def test_thoughts_are_an_item_before_the_message() -> None:
    says = {"hi": "<think>\nA greeting.\n</think>\n\nHello!", "who": '<think>\nhm\n</think>\n\n{"name":"A","age":1}'}
    with scripted_server(says, template=ThinkingTemplate) as (server, _), server.client() as client:
        reply, events = ask(client, "hi"), list(ask(client, "hi", stream=True))
        assert [item.type for item in reply.output] == ["reasoning", "message"]
        assert (reply.output[0].content[0].text, reply.output_text) == ("A greeting.", "Hello!")
        assert reply.usage.output_tokens_details.reasoning_tokens > 10
        assert kinds(events) == [*PREFIX, *text_item("reasoning_text"), *text_item("output_text"), "response.completed"]
        assert same(reply, events[-1].response)
        parsed = client.responses.parse(model="scripted", input="who", text_format=Person, temperature=0)
        assert parsed.output_parsed == Person(name="A", age=1)
        off = ask(client, "hi", reasoning={"effort": "none"}, max_output_tokens=4)
        assert [item.type for item in off.output] == ["message"]
        history = [{"role": "user", "content": "hi"}, *reply.output, {"role": "user", "content": "hi"}]
        assert ask(client, history).usage.input_tokens > reply.usage.input_tokens + len("(A greeting.)")


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"previous_response_id": "resp_1"}, "previous_response_id", "invalid_value"),
    ({"conversation": "c"}, "conversation", "invalid_value"),
    ({"background": True}, "background", "invalid_value"), ({"store": True}, "store", "invalid_value"),
    ({"store": 0}, "store", "invalid_value"), ({"truncation": "auto"}, "truncation", "invalid_value"),
    ({"include": ["message.output_text.logprobs"]}, "include[0]", "invalid_value"),
    ({"top_logprobs": 2}, "top_logprobs", "invalid_value"), ({"n": 2}, "n", "invalid_value"),
    ({"max_tokens": 5}, "max_tokens", "invalid_value"),
    ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
    ({"messages": []}, "messages", "unknown_parameter"),
    ({"response_format": {"type": "text"}}, "response_format", "unknown_parameter"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "invalid_value"),
    ({"tools": [TIME]}, "tools[0].name", "missing_required_parameter"),
    ({"tools": [FLAT, FLAT]}, "tools[1].name", "invalid_value"),
    ({"tools": [FLAT], "tool_choice": {"type": "function", "name": "x"}}, "tool_choice.name", "invalid_value"),
    ({"tools": [FLAT], "tool_choice": {"type": "function"}}, "tool_choice.name", "missing_required_parameter"),
    ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
    ({"tools": [FLAT], "text": {"format": {"type": "json_schema", "name": "x",
                                                  "schema": {"properties": {"a": {"type": "x"}}}}}},
     "text.format.schema.properties.a.type", "invalid_constraint"),
    ({"tools": [FLAT | {"parameters": {"properties": {"a": {"type": "x"}}}}]}, "tools[0].parameters.properties.a.type",
     "invalid_constraint"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema", "missing_required_parameter"),
    ({"text": {"format": {"type": "text", "name": "x"}}}, "text.format.name", "invalid_value"),
    ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"properties": {"a": {"type": "x"}}}}}},
     "text.format.schema.properties.a.type", "invalid_constraint"),
    ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "string", "minLength": 9}}},
      "max_output_tokens": 3}, "max_output_tokens", "budget_too_small"),
    ({"reasoning": {"effort": "low"}}, "reasoning.effort", "invalid_value"),
    ({"reasoning": {"summary": "auto"}}, "reasoning.summary", "invalid_value"),
    ({"stream_options": {"include_usage": True}, "stream": True}, "stream_options.include_usage", "invalid_value"),
    ({"input": []}, "input", "invalid_value"), ({"input": None}, "input", "invalid_value"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]", "invalid_value"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0].type",
     "invalid_value"),
    ({"input": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "[]"}]}, "input[0].arguments",
     "invalid_value"),
    ({"input": "x" * 5000}, "input", "context_length_exceeded"),
]


@pytest.mark.parametrize(("body", "param", "code"), REFUSED, ids=[f"{row[1]} {row[2]}" for row in REFUSED])
def test_what_is_not_done_is_refused_by_name(server: LiveServer, body: dict[str, Any], param: str, code: str) -> None:
    for stream in ({}, {"stream": True}):
        reply = post(server, stream | body)
        assert reply.status_code == 400, reply.text
        assert (reply.json()["error"]["param"], reply.json()["error"]["code"]) == (param, code)


def test_what_changes_nothing_is_accepted(server: LiveServer) -> None:
    nothing = {"store": False, "background": False, "truncation": "disabled", "tool_choice": "auto", "tools": [],
               "include": ["reasoning.encrypted_content"], "text": {"verbosity": "medium"}, "service_tier": "auto",
               "previous_response_id": None, "reasoning": {"effort": None}, "metadata": None, "user": "u",
               "parallel_tool_calls": True, "top_logprobs": 0, "prompt_cache_key": "k", "stream_options": None,
               "max_output_tokens": None}
    for body in ({name: value} for name, value in nothing.items()):
        assert post(server, body).json()["output"][0]["content"][0]["text"] == "good day"
    assert post(server, nothing).status_code == 200


GOOD: dict[str, object] = {
    "model": "m", "instructions": "x", "tools": [FLAT], "text": {"format": {"type": "text"}},
    "input": [{"role": "user", "content": "x"}, {"type": "reasoning", "content": []},
              {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":[1]}'},
              {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "y"}]}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_time"}]},
}


@settings(max_examples=200)
@given(st.one_of(damaged(GOOD), JSON))
def test_any_json_is_a_request_or_a_typed_error(body: Any) -> None:
    with suppress(InvalidParameter):
        conversation(COMPLAINTS.read(ResponsesRequest, body))


def test_a_failure_midway_is_raised_by_the_client() -> None:
    with live(FakeRuntime({"midway": Script(("one", " two"), Overloaded("the queue is full"))})) as server:
        with server.client() as client, pytest.raises(openai.APIError, match="the queue is full"):
            list(client.responses.create(model="org/tiny", input="midway", stream=True))
        with (server.client() as client, pytest.raises(openai.APIError, match="the queue is full"),
              client.responses.stream(model="org/tiny", input="midway") as stream):
            stream.until_done()
