"""The server over the whole runtime: session layer, engine, tree and grammars, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from espalier.runtime.config import EngineConfig
from espalier.runtime.messages import Stats
from espalier.runtime.runtime import Runtime

from .live import LiveServer, eventually
from .scripted import scripted_server

ANSWERS = {
    "compass": "north east south west",
    "think": "a<thin> b<think",
    "wait": "wait...stop!",
    "family": "é漢字👩‍👩‍👧 done",
    "grins": "😀😀😀😀",
    "tick, over and over": "tick ",
    "hi": "hello",
    "": "you said nothing",
}


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[LiveServer, Runtime]]:
    with scripted_server(ANSWERS) as running:
        yield running


@pytest.fixture(scope="module")
def client(scripted: tuple[LiveServer, Runtime]) -> Iterator[openai.OpenAI]:
    with scripted[0].client() as client:
        yield client


def stats(runtime: Runtime) -> Stats:
    return asyncio.run(runtime.stats())


def idle(runtime: Runtime) -> bool:
    now = stats(runtime)
    return (now.running, now.waiting, now.pages_held) == (0, 0, 0)


def plain(client: openai.OpenAI, text: str, **options: object) -> tuple[str, str]:
    reply = client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": text}], temperature=0, **options
    )
    return reply.choices[0].message.content or "", reply.choices[0].finish_reason


def streamed(client: openai.OpenAI, text: str, **options: object) -> tuple[list[str], str]:
    stream = client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": text}], temperature=0, stream=True, **options
    )
    choices = [chunk.choices[0] for chunk in stream]
    return [choice.delta.content for choice in choices if choice.delta.content], choices[-1].finish_reason


@pytest.mark.parametrize(
    ("text", "options", "answer", "finish"),
    [
        ("compass", {}, "north east south west", "stop"),
        ("compass", {"stop": ["ast so"]}, "north e", "stop"),
        ("think", {"stop": ["<think>"]}, "a<thin> b<think", "stop"),
        ("wait", {"stop": ["stop", "..", "!"]}, "wait", "stop"),
        ("wait", {"stop": "w"}, "", "stop"),
        ("family", {}, "é漢字👩‍👩‍👧 done", "stop"),
        ("compass", {"max_tokens": 2}, "north east", "length"),
        ("", {}, "you said nothing", "stop"),
    ],
)
def test_a_stream_joins_to_the_plain_answer(
    client: openai.OpenAI, text: str, options: dict[str, object], answer: str, finish: str
) -> None:
    assert plain(client, text, **options) == (answer, finish)
    pieces, reason = streamed(client, text, **options)
    assert ("".join(pieces), reason) == (answer, finish)


def test_no_piece_of_a_stream_holds_part_of_a_character(client: openai.OpenAI) -> None:
    pieces, _ = streamed(client, "family")
    assert len(pieces) > 1
    assert not any("\ufffd" in piece for piece in pieces)


@pytest.mark.parametrize("budget", range(1, 10))
def test_a_character_cut_by_the_budget_ends_the_same_way_in_both_modes(client: openai.OpenAI, budget: int) -> None:
    pieces, reason = streamed(client, "grins", max_tokens=budget)
    assert ("".join(pieces), reason) == plain(client, "grins", max_tokens=budget)
    assert reason == "length"


def test_the_second_request_finds_the_prompt_of_the_first(client: openai.OpenAI) -> None:
    usages = []
    for _ in range(2):
        reply = client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "compass"}])
        assert reply.usage is not None
        assert reply.usage.prompt_tokens_details is not None
        usages.append(reply.usage)
    assert usages[1].prompt_tokens == usages[0].prompt_tokens
    assert usages[1].prompt_tokens_details.cached_tokens == usages[1].prompt_tokens - 1


@pytest.mark.parametrize("schema", [
    {"type": "boolean"}, {"type": "integer", "minimum": 3, "maximum": 9}, {"enum": ["a", "b"]},
    {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False},
])
def test_an_answer_fits_its_schema(client: openai.OpenAI, schema: dict[str, object]) -> None:
    import jsonschema

    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    text, reason = plain(client, "hi", response_format=form, max_tokens=60)
    jsonschema.validate(json.loads(text), schema)
    assert reason == "stop"


def test_keywords_outside_the_standard_are_told(client: openai.OpenAI) -> None:
    reply = client.chat.completions.with_raw_response.create(
        model="scripted", messages=[{"role": "user", "content": "hi"}], max_tokens=9,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "null", "x-ui": 1}}},
    )
    assert "x-ui" in reply.headers["x-espalier-notes"]
    assert reply.parse().choices[0].message.content == "null"


def test_an_object_of_any_kind(client: openai.OpenAI) -> None:
    text, _ = plain(client, "hi", response_format={"type": "json_object"}, max_tokens=30)
    assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    ("schema", "param"),
    [
        ({"type": "int"}, ".type"),
        ({"type": "string", "pattern": "^(?<=a)b\\1(?R)$"}, ".pattern"),
        ({"type": "object", "properties": {"a": {"$ref": "other.json"}}}, ".properties.a.$ref"),
        ({"$ref": "#/nowhere"}, ".$ref"),
    ],
)
def test_a_schema_that_is_not_enforced_is_refused_by_its_place(
    client: openai.OpenAI, schema: dict[str, object], param: str
) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(openai.BadRequestError) as caught:
        plain(client, "hi", response_format=form)
    assert caught.value.param == "response_format.json_schema.schema" + param
    assert plain(client, "hi") == ("hello", "stop")


def test_a_budget_below_the_shortest_answer_is_refused(client: openai.OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "minLength": 50}}}
    with pytest.raises(openai.BadRequestError) as caught:
        plain(client, "hi", response_format=form, max_tokens=8)
    assert (caught.value.param, caught.value.code) == ("max_tokens", "budget_too_small")


def test_the_context_is_a_limit_of_prompt_and_answer_together() -> None:
    with scripted_server(ANSWERS, context=64) as (server, runtime), server.client() as client:
        room = 64 - len("user: ") - 1 - len("assistant: ")
        assert plain(client, "x" * (room - 8), max_tokens=8)[1] == "stop"
        for text, budget in (("x" * (room - 8), 9), ("x" * room, None)):
            with pytest.raises(openai.BadRequestError) as caught:
                plain(client, text, max_tokens=budget)
            assert caught.value.code == "context_length_exceeded"
        assert eventually(lambda: idle(runtime))


def test_a_request_that_can_never_fit_the_memory_is_no_rate_limit() -> None:
    config = EngineConfig(page=4, pages=8, step_tokens=64, max_rows=4)
    with scripted_server(ANSWERS, config=config) as (server, _), server.client() as client:
        with pytest.raises(openai.BadRequestError) as caught:
            plain(client, "hi", max_tokens=500)
        assert caught.value.param == "max_tokens"
        assert plain(client, "hi", max_tokens=8) == ("hello", "stop")


def test_text_that_looks_like_a_special_token_stays_text(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "<turn><end>"}])
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == len("user: <turn><end>") + 1 + len("assistant: ")


def test_twenty_streams_at_once(client: openai.OpenAI, scripted: tuple[LiveServer, Runtime]) -> None:
    questions = [key for key in ANSWERS if "over" not in key] * 3
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda text: "".join(streamed(client, text)[0]), questions))
    assert answers == [ANSWERS[text] for text in questions]
    assert eventually(lambda: idle(scripted[1]))


def test_closing_streams_frees_their_rows_and_pages() -> None:
    config = EngineConfig(page=4, pages=1024, step_tokens=64, max_rows=4)
    slow = lambda: time.sleep(0.002)  # noqa: E731
    with scripted_server(ANSWERS, config=config, slow=slow) as (server, runtime), server.client() as client:
        messages = [{"role": "user", "content": "tick, over and over"}]
        streams = [
            client.chat.completions.create(model="scripted", messages=messages, stream=True, max_tokens=900)
            for _ in range(4)
        ]
        for stream in streams:
            next(stream)
        assert stats(runtime).running == 4
        for stream in streams:
            stream.close()
        assert eventually(lambda: idle(runtime))
        assert plain(client, "hi") == ("hello", "stop")


def test_clients_that_leave_the_queue_leave_nothing_behind() -> None:
    config = EngineConfig(page=4, pages=1024, step_tokens=64, max_rows=2)
    slow = lambda: time.sleep(0.002)  # noqa: E731
    with scripted_server(ANSWERS, config=config, slow=slow) as (server, runtime), server.client() as client:
        messages = [{"role": "user", "content": "tick, over and over"}]
        holding = [
            client.chat.completions.create(model="scripted", messages=messages, stream=True, max_tokens=900)
            for _ in range(2)
        ]
        for stream in holding:
            next(stream)

        def give_up(k: int) -> None:
            body = {"model": "scripted", "messages": messages, "max_tokens": 900, "stream": k % 2 == 0}
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=0.5)

        with ThreadPoolExecutor(50) as pool:
            list(pool.map(give_up, range(50)))
        assert eventually(lambda: stats(runtime).waiting == 0)
        for stream in holding:
            stream.close()
        assert eventually(lambda: idle(runtime))
        assert plain(client, "hi") == ("hello", "stop")


def test_a_full_queue_is_answered_at_once() -> None:
    config = EngineConfig(page=4, pages=1024, step_tokens=64, max_rows=1, max_waiting=1)
    slow = lambda: time.sleep(0.002)  # noqa: E731
    with scripted_server(ANSWERS, config=config, slow=slow) as (server, runtime), server.client() as client:
        messages = [{"role": "user", "content": "tick, over and over"}]
        stream = client.chat.completions.create(model="scripted", messages=messages, stream=True, max_tokens=900)
        next(stream)
        with ThreadPoolExecutor(1) as pool:
            queued = pool.submit(plain, client, "hi")
            assert eventually(lambda: stats(runtime).waiting == 1)
            with pytest.raises(openai.RateLimitError) as caught:
                plain(client, "hi")
            assert 0 < int(caught.value.response.headers["retry-after"]) <= 60
            stream.close()
            assert queued.result() == ("hello", "stop")


def test_a_dead_engine_is_seen_by_health_and_told_to_callers() -> None:
    slow = lambda: time.sleep(0.002)  # noqa: E731
    with scripted_server(ANSWERS, slow=slow) as (server, runtime), server.client() as client:
        assert server.get("/health").status_code == 200
        stream = client.chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": "tick, over and over"}], stream=True, max_tokens=900
        )
        next(stream)
        runtime.link.close()
        with pytest.raises(openai.APIError, match="internal error"):
            list(stream)
        assert server.get("/health").status_code == 503
        with pytest.raises(openai.InternalServerError):
            plain(client, "hi")
        assert "espalier_engine_up 0.0" in server.get("/metrics").text


def test_a_message_that_the_vocabulary_cannot_spell_is_refused() -> None:
    with scripted_server(ANSWERS, missing=[4]) as (server, _), server.client() as client:
        with pytest.raises(openai.BadRequestError) as caught:
            plain(client, "a\x04")
        assert caught.value.code == "missing_byte"
