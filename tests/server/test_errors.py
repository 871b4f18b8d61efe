"""Failures: the right class at the client, OpenAI's shape, the place by its path, and nothing from inside."""

from __future__ import annotations

import httpx
import openai
import pytest

from espalier.runtime.server.errors import problem_of
from espalier.runtime.server.formats import schema_place
from espalier.runtime.server.settings import Settings

from .fake_runtime import CONTEXT, FakeRuntime
from .live import LiveServer, live
from .test_chat import MODEL, ask

SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}


def assert_shape(reply: httpx.Response) -> dict[str, str | None]:
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"]
    (error,) = reply.json().values()
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert "CANARY" not in error["message"]
    return error


@pytest.mark.parametrize(
    ("text", "param", "code"),
    [
        ("lookbehind", 'response_format.json_schema.schema.properties["a b"].pattern', "unsupported_keyword"),
        ("budget", "max_tokens", "budget_too_small"),
        ("byte", "messages", "missing_byte"),
        ("root", "response_format.json_schema.schema", "missing_byte"),
        ("surrogate", "messages[0].content", "invalid_value"),
        ("pages", "max_tokens", "context_length_exceeded"),
        ("template", "messages", "template_error"),
    ],
)
def test_a_refusal_of_the_runtime_is_a_bad_request(client: openai.OpenAI, text: str, param: str, code: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, text, response_format=SCHEMA)
    assert (caught.value.param, caught.value.code, caught.value.type) == (param, code, "invalid_request_error")
    assert caught.value.request_id


@pytest.mark.parametrize("text", ["crash", "fault"])
def test_an_internal_fault_says_nothing_but_its_request_id(
    server: LiveServer, client: openai.OpenAI, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client, text)
    assert "CANARY" not in str(caught.value)
    assert str(caught.value.request_id) in str(caught.value)
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert str(caught.value.request_id) in caplog.text
    assert "CANARY" in caplog.text
    assert ask(client).choices[0].finish_reason == "stop"


def test_a_full_queue_is_a_rate_limit_that_says_when(client: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        ask(client, "full")
    assert 0 < int(caught.value.response.headers["retry-after"]) <= 60


def test_more_requests_than_the_capacity_are_turned_away(runtime: FakeRuntime) -> None:
    with live(runtime, Settings(capacity=1, drain_seconds=0.2)) as server, server.client() as client:
        stream = ask(client, "endless", stream=True)
        next(stream)
        with pytest.raises(openai.RateLimitError):
            ask(client)
        stream.close()


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    for call in (lambda: client.models.retrieve("org/other"),
                 lambda: client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "x"}])):
        with pytest.raises(openai.NotFoundError) as caught:
            call()
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize(("words", "budget"), [(CONTEXT, None), (CONTEXT - 9, 64), (1, 10**9)])
def test_what_passes_the_context_is_refused(client: openai.OpenAI, words: int, budget: int | None) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, "w " * words, max_tokens=budget)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/v1/nothing", 404), ("GET", "/v1/chat/completions", 405), ("POST", "/v1/models", 405),
     ("GET", "/docs", 404), ("GET", "/openapi.json", 404), ("GET", "//v1/models", 404), ("GET", "/v1/models/", 404),
     ("DELETE", "/health", 405), ("HEAD", "/nothing", 404)],
)
def test_every_wrong_route_has_the_shape(server: LiveServer, method: str, path: str, status: int) -> None:
    reply = server.http.request(method, server.url + path)
    assert reply.status_code == status
    if method != "HEAD":
        assert_shape(reply)


def test_a_base_url_without_its_version_is_told_so(server: LiveServer) -> None:
    reply = server.http.post(server.url + "/chat/completions", json={})
    assert "/v1/chat/completions" in reply.json()["error"]["message"]


def function(name: str, parameters: object = None) -> dict[str, object]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def history(arguments: object, *, role: str = "assistant", answers: str | None = "c1",
            name: str | None = None) -> list[dict[str, object]]:
    call = {"id": "c1", "type": "function", "function": {"name": "get", "arguments": arguments}}
    return [
        {"role": "user", "content": "x"}, {"role": role, "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": answers, "content": "y", "name": name},
    ]


GET = function("get")
FIELDS = [
    ({"tools": [{"type": "function"}]}, "tools[0].function", "missing_required_parameter"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type", "invalid_value"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name", "invalid_value"),
    ({"tools": [{"type": "function", "function": {"name": "a", "params": {}}}]}, "tools[0].function.params",
     "unknown_parameter"),
    ({"tools": [GET, GET]}, "tools[1].function.name", "invalid_value"),
    ({"tools": [function("a", {"type": "dict"})]}, "tools[0].function.parameters.type", "invalid_value"),
    ({"tools": [GET], "response_format": {"type": "regex", "regex": "a+"}}, "response_format", "invalid_value"),
    ({"tools": [GET], "tool_choice": "always"}, "tool_choice", "invalid_value"),
    ({"tools": [GET], "tool_choice": {"type": "function"}}, "tool_choice.function", "missing_required_parameter"),
    ({"tools": [GET], "tool_choice": {"type": "function", "function": {"name": "put"}}}, "tool_choice.function.name",
     "invalid_value"),
    ({"tools": [GET], "tool_choice": {"type": "none", "function": {"name": "get"}}}, "tool_choice.function",
     "invalid_value"),
    ({"tools": [GET], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
        {"type": "function", "function": {"name": "put"}}]}}}, "tool_choice.allowed_tools.tools[0].function.name",
     "invalid_value"),
    ({"tools": [GET] * 129}, "tools", "invalid_value"),
    ({"messages": history("{")}, "messages[1].tool_calls[0].function.arguments", "invalid_value"),
    ({"messages": history("[1]")}, "messages[1].tool_calls[0].function.arguments", "invalid_value"),
    ({"messages": history('{"a":1,"a":2}')}, "messages[1].tool_calls[0].function.arguments", "invalid_value"),
    ({"messages": history({"a": 1})}, "messages[1].tool_calls[0].function.arguments", "invalid_value"),
    ({"messages": history("{}", answers="c2")}, "messages[2].tool_call_id", "invalid_value"),
    ({"messages": history("{}", answers=None)}, "messages[2].tool_call_id", "missing_required_parameter"),
    ({"messages": history("{}", role="user")}, "messages[1].tool_calls", "invalid_value"),
    ({"messages": history("{}", name="put")}, "messages[2].name", "invalid_value"),
    ({"messages": [{"role": "user", "content": "x", "name": "a b"}]}, "messages[0].name", "invalid_value"),
    ({"messages": [{"role": "user", "content": "x", "tool_call_id": "c"}]}, "messages[0].tool_call_id",
     "invalid_value"),
    ({"reasoning_effort": "low"}, "reasoning_effort", "invalid_value"),
    ({"store": True}, "store", "invalid_value"),
    ({"service_tier": "priority"}, "service_tier", "invalid_value"),
    ({"modalities": ["text", "audio"]}, "modalities", "invalid_value"),
    ({"modalities": ["audio"]}, "modalities[0]", "invalid_value"),
    ({"metadata": {"k": 1}}, "metadata.k", "invalid_value"),
    ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "invalid_value"),
    ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
    ({"logprobs": 2}, "logprobs", "invalid_value"),
    ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
    ({"frequency_penalty": 2.1}, "frequency_penalty", "invalid_value"),
    ({"presence_penalty": -2.1}, "presence_penalty", "invalid_value"),
    ({"presence_penalty": "1"}, "presence_penalty", "invalid_value"),
    ({"repetition_penalty": 0}, "repetition_penalty", "invalid_value"),
    ({"repetition_penalty": 100.5}, "repetition_penalty", "invalid_value"),
    ({"logit_bias": {"5": 100.5}}, "logit_bias[5]", "invalid_value"),
    ({"logit_bias": {"5": None}}, "logit_bias[5]", "invalid_value"),
    ({"logit_bias": {"five": 1}}, "logit_bias.five", "invalid_value"),
    ({"logit_bias": {"-5": 1}}, 'logit_bias["-5"]', "invalid_value"),
    ({"logit_bias": {"05": 1}}, "logit_bias[05]", "invalid_value"),
    ({"logit_bias": {str(id): 0 for id in range(1025)}}, "logit_bias", "invalid_value"),
    ({"logit_bias": [5]}, "logit_bias", "invalid_value"),
    ({"top_k": -1}, "top_k", "invalid_value"),
    ({"min_p": 1.5}, "min_p", "invalid_value"),
    ({"guided_json": {}}, "guided_json", "unknown_parameter"),
    ({"temprature": 0}, "temprature", "unknown_parameter"),
    ({"n": 33}, "n", "invalid_value"),
    ({"n": 0}, "n", "invalid_value"),
    ({"n": True}, "n", "invalid_value"),
    ({"temperature": 2.1}, "temperature", "invalid_value"),
    ({"temperature": True}, "temperature", "invalid_value"),
    ({"temperature": "1"}, "temperature", "invalid_value"),
    ({"top_p": -0.1}, "top_p", "invalid_value"),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"max_tokens": 1.5}, "max_tokens", "invalid_value"),
    ({"max_tokens": 10**400}, "max_tokens", "invalid_value"),
    ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens", "invalid_value"),
    ({"seed": 2**63}, "seed", "invalid_value"),
    ({"stop": ["x"] * 17}, "stop", "invalid_value"),
    ({"stop": ["a", ""]}, "stop[1]", "invalid_value"),
    ({"stop": ""}, "stop", "invalid_value"),
    ({"stop": 3}, "stop", "invalid_value"),
    ({"stream": "yes"}, "stream", "invalid_value"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
    ({"stream": True, "stream_options": {"usage": True}}, "stream_options.usage", "unknown_parameter"),
    ({"messages": []}, "messages", "invalid_value"),
    ({"messages": None}, "messages", "invalid_value"),
    ({"messages": "hi"}, "messages", "invalid_value"),
    ({"messages": [None]}, "messages[0]", "invalid_value"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content", "invalid_value"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "invalid_value"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages[0].tool_call_id",
     "invalid_value"),
    ({"messages": [{"role": "user", "content": "x", "mood": 1}]}, "messages[0].mood", "unknown_parameter"),
    ({"messages": [{"role": "assistant", "content": "x", "tool_calls": []}]}, "messages[0].tool_calls",
     "invalid_value"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "file", "file": {}}]}]},
     "messages[0].content[1].type", "invalid_value"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text",
     "missing_required_parameter"),
    ({"response_format": {"type": "json_schemas"}}, "response_format.type", "invalid_value"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing_required_parameter"),
    ({"response_format": {"type": "json_schema", "json_schema": None}}, "response_format.json_schema",
     "missing_required_parameter"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}, "response_format.json_schema.name",
     "missing_required_parameter"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format.json_schema.schema",
     "missing_required_parameter"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x y", "schema": {}}}},
     "response_format.json_schema.name", "invalid_value"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": '{"type":"boolean"}'}}},
     "response_format.json_schema.schema", "invalid_value"),
    ({"response_format": {"type": "json_schema", "schema": {}}}, "response_format.schema", "unknown_parameter"),
    ({"response_format": {"type": "json_object", "json_schema": {"name": "x", "schema": {}}}},
     "response_format.json_schema", "invalid_value"),
    ({"response_format": {"type": "regex"}}, "response_format.regex", "missing_required_parameter"),
    ({"response_format": {"type": "regex", "regex": "a", "gbnf": "b"}}, "response_format.gbnf", "invalid_value"),
    ({"response_format": {"type": "choices", "choices": []}}, "response_format.choices", "invalid_value"),
    ({"response_format": {"type": "choices", "choices": ["a", 1]}}, "response_format.choices[1]", "invalid_value"),
    ({"response_format": "json"}, "response_format", "invalid_value"),
    ({"model": None}, "model", "invalid_value"),
]


@pytest.mark.parametrize(("change", "param", "code"), FIELDS)
def test_a_wrong_field_is_named_by_its_path(
    server: LiveServer, change: dict[str, object], param: str, code: str
) -> None:
    reply = server.post({"model": MODEL, "messages": [{"role": "user", "content": "x"}], **change})
    assert reply.status_code == 400
    error = assert_shape(reply)
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.parametrize(
    ("field", "near"),
    [("temprature", "temperature"), ("max_token", "max_tokens"), ("guided_json", "response_format"),
     ("regex", "response_format"), ("top_n", "top_p")],
)
def test_an_unknown_field_is_answered_with_the_nearest(server: LiveServer, field: str, near: str) -> None:
    error = server.post({"model": MODEL, "messages": [{"role": "user", "content": "x"}], field: 1}).json()["error"]
    assert field in error["message"]
    assert f"Did you mean {near!r}?" in error["message"]


def test_a_field_that_is_like_no_other_gets_the_list_and_no_guess(server: LiveServer) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "zebra": True}
    error = server.post(body).json()["error"]
    assert "Did you mean" not in error["message"]
    assert "Known fields are cache_salt, chat_template_kwargs, frequency_penalty" in error["message"]


@pytest.mark.parametrize(
    ("messages", "said"),
    [([], "messages is empty (at messages)."),
     ([{"role": "user", "content": None}], "messages[0].content: should be a text or a list of text parts, not null"),
     ([{"role": "user", "content": []}], "messages[0].content is empty (at messages[0].content).")],
)
def test_empty_messages_are_told_in_plain_words(server: LiveServer, messages: list[object], said: str) -> None:
    assert said in server.post({"model": MODEL, "messages": messages}).json()["error"]["message"]


def test_a_message_part_that_is_not_text_is_named(server: LiveServer) -> None:
    part = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}
    reply = server.post({"model": MODEL, "messages": [{"role": "user", "content": [part]}]})
    assert "image_url" in reply.json()["error"]["message"]


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_a_missing_field_is_named(server: LiveServer, missing: str) -> None:
    whole = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
    del whole[missing]
    error = assert_shape(server.post(whole))
    assert (error["param"], error["code"]) == (missing, "missing_required_parameter")


def test_a_bad_schema_disturbs_nobody(client: openai.OpenAI, server: LiveServer) -> None:
    stream = ask(client, "endless", stream=True, max_tokens=40)
    next(stream)
    for _ in range(3):
        with pytest.raises(openai.BadRequestError):
            ask(client, "lookbehind", response_format=SCHEMA)
    assert ask(client).choices[0].finish_reason == "stop"
    assert list(stream)[-1].choices[0].finish_reason == "length"
    assert server.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("given", "echoed"), [("abc-1.2:x_Y", True), ("a" * 128, True), ("a" * 129, False), ("a b", False), ("<x>", False)]
)
def test_a_plain_request_id_is_echoed_and_any_other_replaced(server: LiveServer, given: str, echoed: bool) -> None:
    reply = server.get("/v1/models", headers={"x-request-id": given})
    assert (reply.headers["x-request-id"] == given) is echoed
    assert reply.headers["x-request-id"]


@pytest.mark.parametrize(
    ("pointer", "param"),
    [("", ""), ("#", ""), ("#/properties/a", ".properties.a"), ("/anyOf/0/type", ".anyOf[0].type"),
     ("/$defs/A~1B/x~0y", '.$defs["A/B"]["x~y"]'), ("#/items/pattern column 7", ".items.pattern"),
     ("/properties/é", '.properties["é"]'), ("line 3", "")],
)
def test_a_pointer_becomes_a_path_of_the_request(pointer: str, param: str) -> None:
    assert schema_place("schema", pointer) == "schema" + param


def test_an_unknown_cause_never_shows_its_text() -> None:
    problem = problem_of(RuntimeError("CANARY at 0x7f00"), "req_1")
    assert problem.status == 500
    assert b"CANARY" not in problem.encode()
    assert b"req_1" in problem.encode()
