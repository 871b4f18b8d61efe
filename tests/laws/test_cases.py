"""Failures seen elsewhere, re-created small: the requests of real reports, over HTTP and below. Each number names the
case; those about text, stops, disconnects and branches stand with the server, the session and the language."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from espalier.grammars.constraint import Choices, Regex
from espalier.runtime.branch import GenerateSpec, Text
from espalier.runtime.config import EngineConfig
from espalier.runtime.runtime import Runtime
from tests.server.live import LiveServer
from tests.server.scripted import WORDS, scripted_server

from .asking import Question, ask_all, opened, read


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with scripted_server({"hi": "hello", "": "nothing"}) as (server, _):
        yield server


@pytest.fixture(scope="module")
def wild() -> Iterator[Runtime]:
    with opened(EngineConfig(page=4, pages=512, step_tokens=32, max_rows=8)) as runtime:
        yield runtime


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "temperature": 0} | fields


def form(schema: object, **fields: object) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **fields}}


REFUSED = {
    "160 what cannot be compiled": (
        chat(response_format=form({"type": "string", "pattern": "^(?<=a)b\\1(?R)$"}, strict=True)), "pattern",
    ),
    "161 a schema that is JSON text": (chat(response_format=form('{"type":"boolean"}')), "schema"),
    "164 no messages": (chat(messages=[]), "messages"),
    "169 no schema": (chat(response_format={"type": "json_schema", "json_schema": {"name": "x"}}), "json_schema"),
    "169 null": (chat(response_format={"type": "json_schema", "json_schema": None}), "json_schema"),
    "169 unknown type": (chat(response_format={"type": "json_schemas"}), "response_format"),
    "170 a constraint of another product": (chat(regex="a", response_format=form({})), "regex"),
    "170 guided_json": (chat(guided_json={"type": "boolean"}), "guided_json"),
    "170 ebnf": (chat(ebnf="root ::= 'a'", response_format={"type": "json_object"}), "ebnf"),
    "191 thinking of another product": (chat(separate_reasoning=True), "separate_reasoning"),
    "205 a result without its call": (
        chat(messages=[{"role": "tool", "content": "ok", "tool_call_id": "c1"}]), "messages",
    ),
    "208 arguments of the template": (chat(chat_template_kwargs={"enable_thinking": False}), "chat_template_kwargs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_enforced_is_refused_with_its_place(server: LiveServer, case: str) -> None:
    body, place = REFUSED[case]
    reply = server.post(body)
    assert reply.status_code == 400
    assert place in reply.json()["error"]["param"]
    assert server.post(chat()).json()["choices"][0]["message"]["content"] == "hello"


@pytest.mark.parametrize("schema", [{"type": "boolean"}, {}])
def test_161_a_schema_is_an_object(server: LiveServer, schema: object) -> None:
    reply = server.post(chat(response_format=form(schema), max_tokens=60, temperature=2)).json()
    json.loads(reply["choices"][0]["message"]["content"])


def test_164_an_empty_message_is_a_message(server: LiveServer) -> None:
    reply = server.post(chat(messages=[{"role": "user", "content": ""}]))
    assert reply.json()["choices"][0]["message"]["content"] == "nothing"


@pytest.mark.parametrize(
    "options", [{}, {"max_tokens": 3}, {"stop": ["l"]}, {"response_format": form({"const": "é漢"})}], ids=str,
)
def test_181_a_stream_counts_what_the_plain_answer_counts(server: LiveServer, options: dict[str, Any]) -> None:
    server.post(chat(**options))  # both find the prompt cached
    plain = server.post(chat(**options)).json()["usage"]
    lines = server.post(chat(stream=True, stream_options={"include_usage": True}, **options)).text.split("\n\n")
    last = json.loads([line for line in lines if line.startswith("data: {")][-1].removeprefix("data: "))
    assert (last["choices"], last["usage"]) == ([], plain)


@pytest.mark.parametrize("tokens", [40, 16, 12])
def test_185_no_bias_ends_an_answer_before_its_grammar_may(server: LiveServer, tokens: int) -> None:
    """Every special token is liked by 100: the answer is whole, and ends where it may."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
              "additionalProperties": False}
    ends = {str(id): 100 for id in range(256 + len(WORDS), 258 + len(WORDS))}
    reply = server.post(chat(response_format=form(schema), max_tokens=tokens, temperature=1, logit_bias=ends)).json()
    assert json.loads(reply["choices"][0]["message"]["content"]).keys() == {"name"}
    free = server.post(chat(max_tokens=tokens, logit_bias=ends)).json()["choices"][0]
    assert (free["message"]["content"], free["finish_reason"]) == ("", "stop")


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("logprobs", [False, True])
def test_193_a_bias_against_all_that_is_legal_changes_no_grammar(
    server: LiveServer, temperature: float, logprobs: bool
) -> None:
    hated = {str(byte): -100 for byte in b"yesno"}
    only = chat(response_format={"type": "regex", "regex": "(yes|no)"}, logit_bias=hated | {"97": 100},
                temperature=temperature, logprobs=logprobs)
    choice = server.post(only).json()["choices"][0]
    assert choice["message"]["content"] in ("yes", "no")
    assert choice["finish_reason"] == "stop"
    if logprobs:
        assert all(-1e3 < one["logprob"] <= 0 for one in choice["logprobs"]["content"])


# Below HTTP


def answers(runtime: Runtime, spec: GenerateSpec, count: int = 1, prompt: str = "the name, ") -> list[str]:
    asked = ask_all(runtime, [Question((prompt,), spec)] * count, at_once=True, forks=False)
    return [said[0].text for said in asked]


@pytest.mark.parametrize("constraint", [Regex("ab"), Choices(("ab",))])
@pytest.mark.parametrize("logprobs", [None, 0])
def test_187_a_finished_grammar_ends_at_once(wild: Runtime, constraint: Any, logprobs: int | None) -> None:
    spec = GenerateSpec(max_tokens=100, constraint=constraint, ignore_end=True, logprobs=logprobs)
    assert answers(wild, spec) == ["ab"]


def test_190_a_seed_fixes_a_request_and_without_one_they_vary(wild: Runtime) -> None:
    spec = GenerateSpec(max_tokens=12, seed=7, ignore_end=True)
    assert len(set(answers(wild, spec, 3))) == 1
    assert answers(wild, spec) != answers(wild, replace(spec, seed=8))
    assert len(set(answers(wild, replace(spec, seed=None), 10))) > 5


def test_212_tokens_that_are_parts_of_characters_are_used(wild: Runtime) -> None:
    """Whole characters of this vocabulary are one word or single bytes; both spell the answer."""
    spec = GenerateSpec(max_tokens=30, temperature=9.0, constraint=Regex("[à-ü]{3}"))
    for text in answers(wild, spec, 8):
        assert len(text) == 3
        assert all("à" <= character <= "ü" for character in text)


def test_219_scores_of_a_cached_prompt_are_those_of_a_new_one(wild: Runtime) -> None:
    async def scores(salt: str) -> tuple[tuple[float, ...], ...]:
        session = wild.session(salt)
        branch = session.branch()
        session.extend(branch, [Text("the name of abc ")])
        found = await session.choose(branch, ["x-x-x- and so on", "abcabc"])
        session.close()
        return found.logprobs

    first = asyncio.run(scores("219"))
    assert asyncio.run(scores("219")) == asyncio.run(scores("219 again")) == first


@pytest.mark.parametrize("pages", [120, 400])
def test_221_equal_prompts_at_once_give_equal_answers(pages: int) -> None:
    """With other load, also when their pages must be given up for it."""
    prompt = "the name of abc, x-x-x- " * 12
    same = Question((prompt,), GenerateSpec(max_tokens=60, temperature=0.0, ignore_end=True))
    load = [Question((f"{n} another one, " * 6,), GenerateSpec(max_tokens=40, seed=n)) for n in range(6)]
    with opened(EngineConfig(page=4, pages=pages, step_tokens=64, max_rows=16)) as runtime:
        said = ask_all(runtime, [same, *load, *[same] * 7], at_once=True, forks=False)
    with opened(EngineConfig(page=4, pages=400)) as runtime:
        assert [said[0], *said[7:]] == ask_all(runtime, [same], at_once=True, forks=False) * 8


def test_224_branches_of_a_prefix_obey_their_own_constraints(wild: Runtime) -> None:
    async def fork() -> list[tuple[str, int]]:
        session = wild.session("224")
        branch = session.branch()
        session.extend(branch, [Text("x-" * 100)])
        specs = [
            GenerateSpec(max_tokens=20, temperature=9.0, constraint=Regex("[0-9]{3}")),
            GenerateSpec(max_tokens=20, temperature=9.0, constraint=Choices(("abc", "é"))),
            GenerateSpec(max_tokens=5),
        ]
        found = await asyncio.gather(*(read(session, one, spec)
                                       for one, spec in zip(session.fork(branch, 3), specs, strict=True)))
        session.close()
        return [(answer.text, answer.usage.cached) for _, answer in found]

    (digits, first), (choice, second), (_, third) = asyncio.run(fork())
    assert len(digits) == 3
    assert digits.isdigit()
    assert choice in ("abc", "é")
    assert min(first, second, third) >= 90
