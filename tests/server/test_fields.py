"""Fields beside the messages: what changes nothing is accepted, what is ours arrives, what an answer must be holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

import openai
import pytest
from pydantic import ValidationError

from espalier.runtime.server.forms import Form

from .fake_runtime import FakeRuntime
from .live import LiveServer
from .scripted import scripted_server
from .test_chat import ask

WITHOUT_EFFECT = {
    "n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "repetition_penalty": 1, "logit_bias": {},
    "logprobs": False, "top_logprobs": 0,
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


def forms(root: type[Form] = Form) -> list[type[Form]]:
    return [form for kind in root.__subclasses__() for form in (kind, *forms(kind))]


def takes(form: type[Form], name: str, value: object) -> bool:
    try:
        form.model_validate({name: value})
    except ValidationError as cause:
        return not any(error["loc"][0] == name for error in cause.errors())
    return True


@pytest.mark.parametrize("form", forms(), ids=lambda form: form.__name__)
def test_a_number_is_no_truth_value_and_a_truth_value_no_number(form: type[Form]) -> None:
    """To Python 0 is False and 1 is True, and literals compare by value; a prompt is looked at elsewhere."""
    for name, field in form.model_fields.items():
        if field.annotation is not object:
            assert not (takes(form, name, False) and takes(form, name, 0)), name
            assert not (takes(form, name, True) and takes(form, name, 1)), name


def test_a_literal_of_another_type_is_refused_by_its_field(server: LiveServer) -> None:
    chat = {"model": "org/tiny", "messages": [{"role": "user", "content": "x"}]}
    text = {"model": "org/tiny", "prompt": "x"}
    replies = {"store": server.post(chat | {"store": 0}), "best_of": server.complete(text | {"best_of": True})}
    for name, reply in replies.items():
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, name)
    assert server.complete(text | {"best_of": 1}).status_code == server.post(chat | {"store": False}).status_code == 200


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("modalities", ["text", "audio"], "should have at most 1 item, not a list"),
        ("response_format", [], "should be an object, not a list"),
        ("messages", "hi", "should be a list, not 'hi'"),
        ("messages", ["hi"], "should be an object, not 'hi'"),
        ("stop", "", "should have at least 1 character, not ''"),
        ("cache_salt", "x" * 513, "should have at most 512 characters"),
        ("store", True, "should be false, not true"),
    ],
)
def test_a_wrong_value_is_told_in_the_words_of_json(server: LiveServer, field: str, value: object, words: str) -> None:
    chat = {"model": "org/tiny", "messages": [{"role": "user", "content": "x"}]}
    assert words in server.post(chat | {field: value}).json()["error"]["message"]


def test_our_own_fields_arrive_at_the_session(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    ask(client, extra_body={"top_k": 5, "min_p": 0.25, "ignore_eos": True})
    spec = runtime.asked[0].spec
    assert (spec.top_k, spec.min_p, spec.ignore_end) == (5, 0.25, True)


def test_penalties_and_biases_arrive_at_the_session(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    ask(client, frequency_penalty=-2, presence_penalty=1.5, logit_bias={"7": -100, "9": 0.5},
        extra_body={"repetition_penalty": 1.25})
    spec = runtime.asked[0].spec
    assert (spec.frequency_penalty, spec.presence_penalty, spec.repetition_penalty) == (-2, 1.5, 1.25)
    assert spec.logit_bias == ((7, -100), (9, 0.5))


def test_edits_change_the_answer_of_a_chat_and_not_its_log_probabilities(enforcing: openai.OpenAI) -> None:
    """The model says h e l l o, each 20 above all else; ids of letters are their bytes; of equals the lower wins."""

    def said(**options: object) -> openai.types.chat.chat_completion.Choice:
        reply = enforcing.chat.completions.create(  # type: ignore[call-overload]
            model="scripted", messages=[{"role": "user", "content": "hi"}], temperature=0, max_tokens=5, **options)
        return reply.choices[0]

    plain = said(logprobs=True)
    assert plain.message.content == "hello"
    assert said(logit_bias={"120": 20}, presence_penalty=0.5).message.content == "helxo"
    biased = said(logit_bias={"120": 30}, logprobs=True)
    assert (biased.message.content, biased.finish_reason) == ("xxxxx", "length")
    assert biased.logprobs is not None
    assert plain.logprobs is not None
    first = plain.logprobs.content[0].logprob  # type: ignore[index]
    assert biased.logprobs.content[0].logprob == pytest.approx(first - 20, abs=1e-6)  # type: ignore[index]
    assert said(logit_bias={"120": 21.1}, frequency_penalty=1).message.content == "xxlxo"


def test_edits_change_a_text_completion_and_each_choice_counts_its_own(enforcing: openai.OpenAI) -> None:
    """The model ends at once, its end 20 above all else: x is above that three times, less 1 a time."""
    asked = {"model": "scripted", "prompt": ["ab", "cd"], "temperature": 0, "max_tokens": 8}
    reply = enforcing.completions.create(**asked, n=2, logit_bias={"120": 22.5}, frequency_penalty=1)  # type: ignore
    assert [choice.text for choice in reply.choices] == ["xxx"] * 4
    again = enforcing.completions.create(
        **asked, logit_bias={"120": 20.5, "98": 20.4}, extra_body={"repetition_penalty": 1.5})  # type: ignore
    assert [choice.text for choice in again.choices] == ["x", "xb"]


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


@pytest.mark.parametrize("field", ["audio", "functions", "function_call", "prediction", "web_search_options",
                                   "moderation"])
def test_a_field_of_openai_that_is_not_served_is_named_and_never_ignored(server: LiveServer, field: str) -> None:
    body = {"model": "org/tiny", "messages": [{"role": "user", "content": "x"}], field: {}}
    error = server.post(body).json()["error"]
    assert (error["param"], error["code"]) == (field, "invalid_value")
    assert "is not supported here" in error["message"]
