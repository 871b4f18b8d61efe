"""What ends an answer beside its constraint and its budget: stop strings, stop ids, and the least number of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from ..fakes import ByteTokenizer
from .scripted import WORDS, scripted_server
from .test_tools import ANSWERS, TIME, calls_of

SAYS = {
    "compass": "north east south west", "think": "a<thin> b<think", "wait": "wait...stop!",
    "json": '{"name":"Ada END","age":36}', "over": '{"name":"Ada","age":36} and more', **ANSWERS,
}
END = ByteTokenizer(WORDS).end
PERSON = {
    "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"], "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with scripted_server(SAYS) as (server, _), server.client() as client:
        yield client


def both(client: openai.OpenAI, text: str, **options: Any) -> Any:
    """The choice of a plain answer, which the joined stream must be equal to."""
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "temperature": 0, **options}
    choice = client.chat.completions.create(**body).choices[0]
    parts = [chunk.choices[0] for chunk in client.chat.completions.create(**body, stream=True)]
    said = "".join(part.delta.content or "" for part in parts)
    assert (said, parts[-1].finish_reason) == (choice.message.content or "", choice.finish_reason)
    return choice


def regex(pattern: str) -> dict[str, str]:
    return {"type": "regex", "regex": pattern}


@pytest.mark.parametrize(("text", "form", "stop", "said"), [
    ("compass", regex("north east south west"), ["ast so"], "north e"),
    ("compass", regex("[a-z ]+"), ["ast so"], "north e"),
    ("think", regex("a<thin> b<think"), ["<think>"], "a<thin> b<think"),
    ("wait", regex("wait\\.\\.\\.stop!"), ["stop", "..", "!"], "wait"),
    ("wait", regex("wait\\.\\.\\.stop!"), ["absent"], "wait...stop!"),
    ("json", SCHEMA, "END", '{"name":"Ada '),
    ("json", SCHEMA, ["36}", "}"], '{"name":"Ada END","age":'),
    ("json", SCHEMA, ["{"], ""),
    ("json", {"type": "json_object"}, ["\n", "END"], '{"name":"Ada '),
    ("compass", {"type": "choices", "choices": ["north east", "south"]}, " e", "north"),
    ("compass", {"type": "lark", "lark": 'start: "north " ("east " | "south ")+'}, ["south"], "north east "),
], ids=str)
def test_a_stop_string_cuts_an_answer_under_a_constraint_as_any_other(
    client: openai.OpenAI, text: str, form: dict[str, Any], stop: str | list[str], said: str
) -> None:
    choice = both(client, text, response_format=form, stop=stop, max_tokens=60)
    assert (choice.message.content, choice.finish_reason) == (said, "stop")


def test_an_answer_that_the_budget_would_have_closed_says_stop_where_a_stop_string_came_first(
    client: openai.OpenAI
) -> None:
    form = regex("(north|east)( east| south| west){1,9}")
    closed = both(client, "compass", response_format=form, max_tokens=3)
    assert (closed.message.content, closed.finish_reason) == ("north east south", "length")
    cut = both(client, "compass", response_format=form, max_tokens=3, stop="sou")
    assert (cut.message.content, cut.finish_reason) == ("north east ", "stop")


@pytest.mark.parametrize(("form", "budgets"), [(SCHEMA, range(20, 32)), (regex("[a-c]{3,40}!"), range(4, 14))],
                         ids=["schema", "regex"])
def test_length_says_that_a_larger_budget_would_have_given_another_answer(
    client: openai.OpenAI, form: dict[str, Any], budgets: range
) -> None:
    """And stop that it would have given this one."""
    seen = set()
    for budget in budgets:
        asked = {"response_format": form, "temperature": 2, "seed": budget}
        choice, larger = (both(client, "json", max_tokens=most, **asked) for most in (budget, budget + 400))
        assert (choice.finish_reason == "stop") == (choice.message.content == larger.message.content)
        seen.add(choice.finish_reason)
    assert seen == {"stop", "length"}


@pytest.mark.parametrize(("text", "options", "content", "made", "reason"), [
    ("rome", {"stop": ["Rome", "{", "<tool_call>", "tool"]}, "One moment.", [("get_time", {"zone": "Rome"})],
     "tool_calls"),
    ("rome", {"stop": "moment"}, "One ", [], "stop"),
    ("rome", {"stop": ".\n<tool_call>"}, "One moment.", [("get_time", {"zone": "Rome"})], "tool_calls"),
    ("rome and oslo", {"stop": "\n", "tool_choice": "required"}, None,
     [("get_time", {"zone": "Rome"}), ("get_time", {"zone": "Oslo"})], "tool_calls"),
    ("hi", {"stop": "th"}, "hello ", [], "stop"),
    ("hi", {"stop": "th", "tool_choice": "none"}, "hello ", [], "stop"),
])
def test_beside_tools_stop_strings_cut_the_content_and_never_a_call(
    client: openai.OpenAI, text: str, options: dict[str, Any], content: str | None, made: list[Any], reason: str
) -> None:
    choice = both(client, text, tools=[TIME], max_tokens=400, **options)
    reply = openai.types.chat.ChatCompletion.model_construct(choices=[choice])
    assert (choice.message.content, calls_of(reply), choice.finish_reason) == (content, made, reason)


def test_a_stop_id_ends_the_answer_and_is_no_part_of_it(client: openai.OpenAI) -> None:
    """Ids of the fake are bytes."""
    for form in ({"type": "text"}, regex("a<thin> b<thinks?")):
        said = both(client, "wait", response_format=form, extra_body={"stop_token_ids": [ord(">"), ord("s")]})
        assert said.finish_reason == "stop"
        assert said.message.content == ("wait..." if form["type"] == "text" else "a<thin")
    body = {"model": "scripted", "prompt": "ab", "temperature": 0, "logit_bias": {"115": 30}, "max_tokens": 5}
    assert client.completions.create(**body).choices[0].text == "sssss"
    text = client.completions.create(**body, extra_body={"stop_token_ids": [115]}).choices[0]
    assert (text.text, text.finish_reason) == ("", "stop")


@pytest.mark.parametrize("least", [0, 1, 4, 9])
def test_an_answer_has_its_least_number_of_tokens(client: openai.OpenAI, least: int) -> None:
    """The model ends at once; stop strings are looked for in what follows those tokens."""
    body = {"model": "scripted", "prompt": "ab", "temperature": 0, "extra_body": {"min_tokens": least}}
    assert client.completions.create(**body).usage.completion_tokens == least
    text = client.completions.create(**body, logit_bias={"97": 19, "98": 18}, stop="a").choices[0]
    assert (text.text, text.finish_reason) == ("a" * least, "stop")


REFUSED = [
    ({"min_tokens": 1, "response_format": SCHEMA}, "min_tokens"),
    ({"min_tokens": 1, "tools": [TIME]}, "min_tokens"),
    ({"min_tokens": 6, "max_tokens": 5}, "min_tokens"),
    ({"min_tokens": 6, "max_completion_tokens": 5}, "min_tokens"),
    ({"min_tokens": -1}, "min_tokens"),
    ({"min_tokens": "3"}, "min_tokens"),
    ({"stop_token_ids": [10**6]}, "stop_token_ids"),
    ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
    ({"stop_token_ids": 5}, "stop_token_ids"),
    ({"stop_token_ids": list(range(17))}, "stop_token_ids"),
    ({"stop_token_ids": [97], "tools": [TIME]}, "stop_token_ids"),
]


@pytest.mark.parametrize(("options", "where"), REFUSED, ids=str)
def test_what_contradicts_itself_is_refused_by_name(
    client: openai.OpenAI, options: dict[str, Any], where: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": "hi"}], extra_body=options
        )
    assert (caught.value.param, caught.value.code) == (where, "invalid_value")


def test_an_end_token_may_be_a_stop_id_beside_tools(client: openai.OpenAI) -> None:
    choice = both(client, "hi", tools=[TIME], extra_body={"stop_token_ids": [END]})
    assert (choice.message.content, choice.finish_reason) == ("hello there", "stop")
