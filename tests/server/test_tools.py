"""Calls of functions, as the real client sees them, over the whole runtime with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import openai
import pytest
from pydantic import BaseModel

from espalier.runtime.runtime import Runtime

from .fake_runtime import FakeRuntime
from .live import LiveServer
from .scripted import scripted_server
from .test_chat import MODEL


def tool(name: str, properties: dict[str, object] | None = None, **more: object) -> dict[str, Any]:
    parameters = {
        "type": "object", "properties": properties or {}, "required": sorted(properties or {}),
        "additionalProperties": False, **more,
    }
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": parameters}}


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


TIME = tool("get_time", {"zone": {"type": "string", "maxLength": 12}})
GETS = [tool("get", {"a": {"type": "integer"}}), tool("get_prompt", {"b": {"type": "boolean"}}),
        tool("get_prompt_list", {"c": {"const": "x"}})]
DECISION = tool("note", {"type": {"anyOf": [{"const": "decision"}, {"const": "note"}]}})
ANSWERS = {
    "rome": "One moment.\n" + call("get_time", '{"zone": "Rome"}'),
    "rome and oslo": call("get_time", '{"zone": "Rome"}') + "\n" + call("get_time", '{"zone": "Oslo"}'),
    "hi": "hello there", "get": call("get", '{"a": 7}'), "get_prompt": call("get_prompt", '{"b": true}'),
    "get_prompt_list": call("get_prompt_list", '{"c": "x"}'), "wrong": call("get_time", '{"zone": 5}'),
    "unknown": call("rm", "{}"), "nothing": call("now", "{}"), "decide": call("note", '{"type": "note"}'),
    "place": '{"city":"Rome"}', "place of a call": json.dumps({"city": call("get", "{}")}, separators=(",", ":")),
    "<tool_response>\nok\n</tool_response>": "It is ten.",
}


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[LiveServer, Runtime]]:
    with scripted_server(ANSWERS) as running:
        yield running


@pytest.fixture(scope="module")
def caller(scripted: tuple[LiveServer, Runtime]) -> Iterator[openai.OpenAI]:
    with scripted[0].client() as client:
        yield client


def ask(client: openai.OpenAI, text: str, tools: list[Any], **options: object) -> Any:
    options = {"temperature": 0, "max_tokens": 400, **options}
    return client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": text}], tools=tools, **options
    )


def calls_of(reply: Any) -> list[tuple[str, Any]]:
    found = reply.choices[0].message.tool_calls or []
    return [(one.function.name, json.loads(one.function.arguments)) for one in found]


CALLED = [
    ("rome", [TIME], {}, "One moment.", [("get_time", {"zone": "Rome"})], "tool_calls"),
    ("rome and oslo", [TIME], {}, None, [("get_time", {"zone": "Rome"}), ("get_time", {"zone": "Oslo"})], "tool_calls"),
    ("rome and oslo", [TIME], {"parallel_tool_calls": False}, None, [("get_time", {"zone": "Rome"})], "tool_calls"),
    ("hi", [TIME], {}, "hello there", [], "stop"),
    ("hi", [TIME], {"tool_choice": "none"}, "hello there", [], "stop"),
    ("nothing", [tool("now"), TIME], {}, None, [("now", {})], "tool_calls"),
    ("nothing", [{"type": "function", "function": {"name": "now"}}], {}, None, [("now", {})], "tool_calls"),
    *((name, GETS, {"tool_choice": "required"}, None, [(name, arguments)], "tool_calls") for name, arguments in (
        ("get", {"a": 7}), ("get_prompt", {"b": True}), ("get_prompt_list", {"c": "x"}))),
    ("decide", [DECISION], {"tool_choice": "required"}, None, [("note", {"type": "note"})], "tool_calls"),
    ("get", [TIME, *GETS], {"tool_choice": {"type": "function", "function": {"name": "get"}}}, None,
     [("get", {"a": 7})], "stop"),
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("text", "tools", "options", "content", "made", "reason"), CALLED)
def test_an_answer_has_its_content_its_calls_and_its_reason(
    caller: openai.OpenAI, text: str, tools: list[Any], options: dict[str, Any], content: str | None,
    made: list[tuple[str, Any]], reason: str, streamed: bool,
) -> None:
    if streamed:
        with caller.chat.completions.stream(
            model="scripted", messages=[{"role": "user", "content": text}], tools=tools, temperature=0, max_tokens=400,
            **options,
        ) as stream:
            reply: Any = stream.get_final_completion()
    else:
        reply = ask(caller, text, tools, **options)
    choice = reply.choices[0]
    assert (choice.message.content or None, calls_of(reply), choice.finish_reason) == (content, made, reason)
    ids = [one.id for one in choice.message.tool_calls or []]
    assert len(set(ids)) == len(ids)
    assert all(one.type == "function" for one in choice.message.tool_calls or [])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "get_prompt"}}])
@pytest.mark.parametrize("text", ["hi", "wrong", "unknown", "rome and oslo"])
def test_194_whatever_the_model_says_calls_fit_their_functions(
    caller: openai.OpenAI, text: str, choice: Any, seed: int
) -> None:
    reply = ask(caller, text, [TIME, *GETS], tool_choice=choice, temperature=2, seed=seed)
    parameters = {one["function"]["name"]: one["function"]["parameters"] for one in (TIME, *GETS)}
    made = calls_of(reply)
    for name, arguments in made:
        jsonschema.validate(arguments, parameters[name])
    if choice != "auto":
        assert made
        assert reply.choices[0].message.content is None
    if isinstance(choice, dict):
        assert [name for name, _ in made] == ["get_prompt"]
    if reply.choices[0].finish_reason == "tool_calls":
        assert made


PLACE = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 80}}, "required": ["city"],
         "additionalProperties": False}
AS_PLACE = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("text", "options", "content", "made"),
    [
        ("place", {}, {"city": "Rome"}, []),
        ("place of a call", {}, {"city": call("get", "{}")}, []),
        ("rome and oslo", {}, None, [("get_time", {"zone": "Rome"}), ("get_time", {"zone": "Oslo"})]),
        ("rome and oslo", {"parallel_tool_calls": False}, None, [("get_time", {"zone": "Rome"})]),
        ("rome and oslo", {"tool_choice": "required"}, None, [("get_time", {"zone": "Rome"}),
                                                             ("get_time", {"zone": "Oslo"})]),
        ("place", {"tool_choice": "none"}, {"city": "Rome"}, []),
        ("place", {"response_format": {"type": "json_object"}}, {"city": "Rome"}, []),
    ],
)
def test_an_answer_beside_tools_is_what_its_format_says_or_calls_alone(
    caller: openai.OpenAI, text: str, options: dict[str, Any], content: Any, made: list[Any], streamed: bool
) -> None:
    asked: dict[str, Any] = {"response_format": AS_PLACE, "temperature": 0, "max_tokens": 400, **options}
    if streamed:
        with caller.chat.completions.stream(
            model="scripted", messages=[{"role": "user", "content": text}], tools=[TIME], **asked
        ) as stream:
            reply: Any = stream.get_final_completion()
    else:
        reply = ask(caller, text, [TIME], **asked)
    said = reply.choices[0].message.content
    assert (json.loads(said) if said else None, calls_of(reply)) == (content, made)
    assert reply.choices[0].finish_reason == ("tool_calls" if made else "stop")


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_model_says_beside_tools_is_a_value_or_calls(caller: openai.OpenAI, seed: int) -> None:
    text = ["hi", "wrong", "rome"][seed % 3]
    reply = ask(caller, text, [TIME, *GETS], temperature=2, seed=seed, response_format=AS_PLACE, max_tokens=90)
    if reply.choices[0].message.content is not None:
        jsonschema.validate(json.loads(reply.choices[0].message.content), PLACE)
    assert (reply.choices[0].message.content is None) == bool(calls_of(reply))


@pytest.mark.parametrize(
    ("wanted", "param", "code"),
    [
        ({"type": "regex", "regex": "a+"}, "response_format", "invalid_value"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {"properties": {"a": {"type": "text"}}}}},
         "response_format.json_schema.schema.properties.a.type", "invalid_constraint"),
    ],
)
def test_a_format_that_cannot_stand_beside_tools_is_refused_with_its_place(
    caller: openai.OpenAI, wanted: dict[str, Any], param: str, code: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(caller, "hi", [TIME], response_format=wanted)
    assert (caught.value.param, caught.value.code) == (param, code)


@pytest.mark.parametrize("budget", [70, 75, 90])
def test_a_call_that_the_budget_closes_is_valid_and_says_length(caller: openai.OpenAI, budget: int) -> None:
    wordy = tool("say", {"text": {"type": "string"}})
    reply = ask(caller, "tick", [wordy], tool_choice="required", temperature=2, max_tokens=budget, seed=3)
    ((name, arguments),) = calls_of(reply)[:1]
    jsonschema.validate(arguments, wordy["function"]["parameters"])
    assert name == "say"
    assert reply.choices[0].finish_reason in ("length", "tool_calls")


def test_197_chunks_of_calls_are_those_that_clients_join(scripted: tuple[LiveServer, Runtime]) -> None:
    body = {"model": "scripted", "messages": [{"role": "user", "content": "rome and oslo"}], "tools": [TIME],
            "stream": True, "temperature": 0, "tool_choice": "required"}
    lines = scripted[0].post(body).text.split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    deltas = [one for chunk in chunks for one in chunk["choices"][0]["delta"].get("tool_calls", ())]
    for index, zone in ((0, "Rome"), (1, "Oslo")):
        first, *rest = [delta for delta in deltas if delta["index"] == index]
        assert (first["type"], first["function"]) == ("function", {"name": "get_time", "arguments": ""})
        assert first["id"].startswith("call_")
        assert all(set(delta) == {"index", "function"} and set(delta["function"]) == {"arguments"} for delta in rest)
        assert len(rest) > 1
        assert json.loads("".join(delta["function"]["arguments"] for delta in rest)) == {"zone": zone}
    assert [delta["index"] for delta in deltas] == sorted(delta["index"] for delta in deltas)
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert "tool_calls" not in chunks[-1]["choices"][0]["delta"]


def test_calls_of_several_choices_are_told_apart(caller: openai.OpenAI) -> None:
    reply = ask(caller, "rome", [TIME], n=3)
    ids = [choice.message.tool_calls[0].id for choice in reply.choices]
    assert len(set(ids)) == 3
    with caller.chat.completions.stream(
        model="scripted", messages=[{"role": "user", "content": "rome"}], tools=[TIME], temperature=0, n=3,
    ) as stream:
        final = stream.get_final_completion()
    assert [json.loads(choice.message.tool_calls[0].function.arguments) for choice in final.choices] == [
        {"zone": "Rome"}] * 3


class GetTime(BaseModel):
    zone: str


def test_the_parsing_helper_gives_arguments_as_objects(caller: openai.OpenAI) -> None:
    reply = caller.chat.completions.parse(
        model="scripted", messages=[{"role": "user", "content": "rome"}], temperature=0, max_tokens=400,
        tools=[openai.pydantic_function_tool(GetTime, name="get_time")],
    )
    (made,) = reply.choices[0].message.tool_calls or []
    assert made.function.parsed_arguments == GetTime(zone="Rome")


def test_allowed_tools_narrow_what_may_be_called_and_not_the_prompt(caller: openai.OpenAI) -> None:
    allowed = {"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "function", "function": {"name": "get"}}]}}
    free = ask(caller, "get_prompt", GETS, tool_choice="required")
    narrow = ask(caller, "get_prompt", GETS, tool_choice=allowed)
    assert {name for name, _ in calls_of(narrow)} == {"get"}
    assert narrow.usage.prompt_tokens == free.usage.prompt_tokens


BAD = {"type": "string", "pattern": "(a)\\1"}
LOCATED = [
    ([tool(f"t{k}") for k in range(35)] + [tool("bad", {"x": BAD})],
     "tools[35].function.parameters.properties.x.pattern", "unsupported_keyword"),
    ([TIME, tool("f", {"eps": {"type": "float"}})], "tools[1].function.parameters.properties.eps.type",
     "invalid_constraint"),
    ([tool("f", {"x": {"type": "string", "minLength": 3, "maxLength": 2}})], "tools[0].function.parameters",
     "unsatisfiable_constraint"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("tools", "param", "code"), LOCATED)
def test_202_a_parameter_that_is_not_enforced_is_refused_with_its_tool_and_place(
    caller: openai.OpenAI, tools: list[Any], param: str, code: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(caller, "hi", tools, stream=stream)
    assert str(caught.value.param).startswith(param)
    assert caught.value.code == code


def test_200_names_keep_their_dots_and_foreign_types_are_refused(caller: openai.OpenAI) -> None:
    dotted = tool("math.factorial", {"number": {"type": "integer"}})
    assert calls_of(ask(caller, "x", [dotted], tool_choice="required"))[0][0] == "math.factorial"
    dialect = {"type": "function", "function": {"name": "f", "parameters": {"type": "dict", "properties": {}}}}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(caller, "x", [dialect])
    assert caught.value.param == "tools[0].function.parameters.type"


def test_a_budget_below_the_shortest_call_is_refused(caller: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(caller, "x", [TIME], tool_choice="required", max_tokens=9)
    assert (caught.value.param, caught.value.code) == ("max_tokens", "budget_too_small")


# The conversation


def test_205_a_conversation_goes_on_after_the_result_of_a_call(caller: openai.OpenAI) -> None:
    first = ask(caller, "rome", [TIME]).choices[0].message
    messages = [{"role": "user", "content": "rome"}, first,
                {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "ok"}]
    reply = caller.chat.completions.create(model="scripted", messages=messages, tools=[TIME], temperature=0)
    assert reply.choices[0].message.content == "It is ten."


def test_a_template_without_tools_is_told_them_in_the_system_part(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    asked = {"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": '{"zone":"Oslo"}'}}
    other = {**asked, "id": "c2"}
    client.chat.completions.create(model=MODEL, tools=[TIME], messages=[
        {"role": "system", "content": "Be brief.", "name": "rules"}, {"role": "user", "content": "hi", "name": "ann"},
        {"role": "assistant", "content": None, "tool_calls": [asked, other]},
        {"role": "tool", "tool_call_id": "c1", "content": "10", "name": "get_time"},
        {"role": "tool", "tool_call_id": "c2", "content": "11"},
        {"role": "assistant", "content": "Ten.", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "12"}]},
    ])
    written = call("get_time", '{"zone":"Oslo"}')
    (system, told), *rest = runtime.asked[0].messages
    assert system == "system"
    assert told.startswith("Be brief.\n\n")
    assert '{"name": "get_time", "description": "Does get_time.", "parameters": {"type":"object","properties"' in told
    assert rest == [
        ("user", "hi"), ("assistant", f"{written}\n{written}"),
        ("user", "<tool_response>\n10\n</tool_response>\n<tool_response>\n11\n</tool_response>"),
        ("assistant", f"Ten.\n{written}"), ("user", "<tool_response>\n12\n</tool_response>"),
    ]


def test_tools_that_may_not_be_called_are_not_told(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    client.chat.completions.create(
        model=MODEL, tools=[TIME], tool_choice="none", messages=[{"role": "user", "content": "hi"}]
    )
    assert runtime.asked[0].messages == [("user", "hi")]
    assert runtime.asked[0].spec.constraint is None
