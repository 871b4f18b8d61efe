"""Several choices: the prompt computed once, the answers of their own, their chunks told apart by index."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator

import httpx
import openai
import pytest

from espalier.runtime.config import EngineConfig
from espalier.runtime.messages import Stats
from espalier.runtime.runtime import Runtime
from espalier.runtime.server.asking import seed_of
from espalier.runtime.server.settings import Settings

from .fake_runtime import FakeRuntime, Script
from .live import LiveServer, eventually, live
from .scripted import CONFIG, scripted_server
from .test_chat import ask
from .test_stream import body, data_lines

DICE = {"type": "regex", "regex": "[a-z]{12}"}


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[LiveServer, Runtime]]:
    with scripted_server({"hi": "hello", "x" * 300: "yes", "tick, over and over": "tick "}) as running:
        yield running


def request(text: str = "hi", **options: object) -> dict[str, object]:
    return {"model": "scripted", "messages": [{"role": "user", "content": text}], **options}


def stats(runtime: Runtime) -> Stats:
    return asyncio.run(runtime.stats())


def test_choices_are_complete_and_in_order(client: openai.OpenAI) -> None:
    reply = ask(client, n=3)
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert {(choice.message.content, choice.finish_reason) for choice in reply.choices} == {("Hello there!", "stop")}
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens) == (2, 9, 11)


def test_180_chunks_of_a_stream_are_told_apart_by_index(server: LiveServer) -> None:
    *chunks, done = data_lines(server.post(body("hi", n=3, stream_options={"include_usage": True})))
    assert done == "[DONE]"
    *parts, last = map(json.loads, chunks)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 9
    choices = [part["choices"][0] for part in parts]
    assert [choice["index"] for choice in choices[:3]] == [0, 1, 2]
    assert all(choice["delta"] == {"role": "assistant", "content": ""} for choice in choices[:3])
    assert Counter(choice["index"] for choice in choices if "role" in choice["delta"]) == {0: 1, 1: 1, 2: 1}
    assert Counter(choice["index"] for choice in choices if choice["finish_reason"]) == {0: 1, 1: 1, 2: 1}
    for index in range(3):
        own = [choice for choice in choices if choice["index"] == index]
        assert own[-1]["finish_reason"] == "stop"
        assert "".join(choice["delta"].get("content", "") for choice in own) == "Hello there!"


def test_the_helper_of_the_client_joins_them(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="org/tiny", messages=[{"role": "user", "content": "hi"}], n=3
    ) as stream:
        final = stream.get_final_completion()
    assert [choice.message.content for choice in final.choices] == ["Hello there!"] * 3


def test_a_choice_that_fails_ends_the_request(server: LiveServer, runtime: FakeRuntime) -> None:
    runtime.scripts = {"bad": Script(("one",), ValueError("CANARY"))}
    assert server.post(body("bad", n=4, stream=False)).status_code == 500
    lines = data_lines(server.post(body("bad", n=4)))
    assert "error" in json.loads(lines[-1])
    assert eventually(lambda: (runtime.running, runtime.open_sessions) == (0, 0))


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_that_leaves_frees_all_choices(server: LiveServer, runtime: FakeRuntime, streamed: bool) -> None:
    runtime.scripts = {"hang": Script(("x",), wait=60)}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/chat/completions", json=body("hang", n=5, stream=streamed), timeout=0.15)
    assert eventually(lambda: (runtime.running, runtime.open_sessions) == (0, 0))


def test_choices_count_as_so_many_answers_of_the_capacity(runtime: FakeRuntime) -> None:
    with live(runtime, Settings(capacity=4, drain_seconds=0.2)) as server, server.client() as client:
        stream = ask(client, "endless", stream=True, n=3)
        next(stream)
        assert ask(client).choices
        with pytest.raises(openai.RateLimitError):
            ask(client, n=2)
        stream.close()
        assert eventually(lambda: runtime.running == 0)
        assert len(ask(client, n=2).choices) == 2


def test_190_choices_differ_and_a_seed_fixes_them_all(scripted: tuple[LiveServer, Runtime]) -> None:
    def texts(**options: object) -> list[str]:
        reply = scripted[0].post(request(response_format=DICE, temperature=2, max_tokens=20, **options)).json()
        return [choice["message"]["content"] for choice in reply["choices"]]

    four = texts(n=4, seed=7)
    assert len(set(four)) == 4
    assert texts(n=4, seed=7) == four
    assert texts(seed=7) == four[:1]
    assert texts(n=4, seed=8) != four
    assert len(set(texts(n=8))) == 8


def test_seeds_of_choices_are_distinct_and_of_64_bits() -> None:
    seeds = [seed_of(seed, choice) for seed in (0, 1, -1, 2**63 - 1, -(2**63)) for choice in range(32)]
    assert len(set(seeds)) == len(seeds)
    assert all(-(2**63) <= seed < 2**63 for seed in seeds)
    assert [seed_of(seed, 0) for seed in (5, -5)] == [5, -5]


def test_the_prompt_is_computed_once(scripted: tuple[LiveServer, Runtime]) -> None:
    server, runtime = scripted
    before = stats(runtime).tokens_computed
    usage = server.post(request("x" * 300, n=8)).json()["usage"]
    spent = stats(runtime).tokens_computed - before
    assert usage["prompt_tokens_details"]["cached_tokens"] < 20
    assert usage["completion_tokens"] >= 8 * len("yes")
    assert spent < usage["prompt_tokens"] + usage["completion_tokens"] + 8 * 4  # a page each to write in
    again = server.post(request("x" * 300, n=2)).json()["usage"]
    assert again["prompt_tokens_details"]["cached_tokens"] >= usage["prompt_tokens"] - 1


def test_closing_a_stream_of_choices_frees_the_engine(scripted: tuple[LiveServer, Runtime]) -> None:
    server, runtime = scripted
    with server.client() as client:
        stream = client.chat.completions.create(
            **request("tick, over and over", n=6, stream=True, max_tokens=900)  # type: ignore[call-overload]
        )
        next(stream)
        stream.close()
    assert eventually(lambda: (stats(runtime).running, stats(runtime).pages_held) == (0, 0))


def test_choices_that_do_not_fit_together_still_come() -> None:
    config = EngineConfig(page=4, pages=40, step_tokens=CONFIG.step_tokens, max_rows=8)
    with scripted_server({"tick, over and over": "tick "}, config=config) as (server, _):
        reply = server.post(request("tick, over and over", n=6, max_tokens=60, temperature=0)).json()
        assert {choice["message"]["content"] for choice in reply["choices"]} == {"tick " * 60}
