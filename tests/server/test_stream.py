"""Streams: the rules that the real client holds a server to."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from espalier.runtime.server.settings import Settings

from .conftest import SCRIPTS
from .fake_runtime import FakeRuntime, Script
from .live import LiveServer, eventually, live
from .test_chat import MODEL, Person


def body(text: str, **options: object) -> dict[str, object]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": True, **options}


def data_lines(reply: httpx.Response) -> list[str]:
    return [line.removeprefix("data: ") for line in reply.text.splitlines() if line.startswith("data: ")]


def test_a_stream_is_role_then_text_then_end(server: LiveServer) -> None:
    reply = server.post(body("hi"))
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "content-encoding" not in reply.headers
    *chunks, done = data_lines(reply)
    assert done == "[DONE]"
    parsed = [json.loads(chunk) for chunk in chunks]
    deltas = [(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in parsed]
    assert deltas == [
        ({"role": "assistant", "content": ""}, None), ({"content": "Hello"}, None), ({"content": " there"}, None),
        ({"content": "!"}, None), ({}, "stop"),
    ]
    assert {chunk["object"] for chunk in parsed} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in parsed}) == 1
    assert all("usage" not in chunk for chunk in parsed)


def test_usage_comes_last_and_is_null_before(server: LiveServer) -> None:
    *chunks, _ = data_lines(server.post(body("hi", stream_options={"include_usage": True})))
    parsed = [json.loads(chunk) for chunk in chunks]
    assert [chunk["usage"] for chunk in parsed[:-1]] == [None] * 5
    assert parsed[-1]["choices"] == []
    plain = server.post(body("hi", stream=False)).json()
    assert parsed[-1]["usage"] == plain["usage"]


def test_an_empty_answer_still_has_a_role_and_an_end(server: LiveServer) -> None:
    *chunks, _ = data_lines(server.post(body("empty")))
    assert [json.loads(chunk)["choices"][0]["finish_reason"] for chunk in chunks] == [None, "stop"]


def test_the_client_joins_a_stream_to_the_plain_text(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(**body("hi"))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Hello there!"


def test_the_stream_helper_parses(client: openai.OpenAI) -> None:
    messages = [{"role": "user", "content": "json"}]
    with client.chat.completions.stream(model=MODEL, messages=messages, response_format=Person) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == Person(name="Ada", age=36)
    assert final.choices[0].message.role == "assistant"


@pytest.mark.parametrize(("text", "status"), [("lookbehind", 400), ("full", 429), ("crash", 500)])
def test_what_fails_before_the_first_event_has_its_own_status(server: LiveServer, text: str, status: int) -> None:
    reply = server.post(body(text))
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/json")


def test_what_fails_midway_is_an_error_event_and_no_done(server: LiveServer, client: openai.OpenAI) -> None:
    lines = data_lines(server.post(body("midway")))
    assert "[DONE]" not in lines
    error = json.loads(lines[-1])["error"]
    assert error["type"] == "server_error"
    assert "CANARY" not in error["message"]
    with pytest.raises(openai.APIError, match="internal error"):
        list(client.chat.completions.create(**body("midway")))


@pytest.fixture(scope="module")
def impatient() -> Iterator[LiveServer]:
    with live(FakeRuntime(SCRIPTS), Settings(heartbeat_seconds=0.1, drain_seconds=0.2)) as server:
        yield server


def test_silence_is_filled_with_comments(impatient: LiveServer) -> None:
    reply = impatient.post(body("slow"))
    assert reply.text.startswith(": ")
    assert "slow" in reply.text


def test_a_refusal_after_the_stream_opened_is_an_error_event(impatient: LiveServer) -> None:
    reply = impatient.post(body("queued, then refused"))
    assert reply.status_code == 200
    assert json.loads(data_lines(reply)[-1])["error"]["code"] == "overloaded"


def test_twenty_streams_at_once_do_not_mix(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    runtime.scripts = {f"s{k}": Script((f"<{k}>",), endless=True) for k in range(20)}

    def read(k: int) -> str:
        stream = client.chat.completions.create(**body(f"s{k}", max_tokens=50))
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(read, range(20))) == [f"<{k}>" * 50 for k in range(20)]


def test_closing_a_stream_frees_its_work(client: openai.OpenAI, runtime: FakeRuntime) -> None:
    streams = [client.chat.completions.create(**body("endless")) for _ in range(5)]
    for stream in streams:
        next(stream)
    assert runtime.running == 5
    for stream in streams:
        stream.close()
    assert eventually(lambda: (runtime.running, runtime.open_sessions) == (0, 0))


def test_a_client_that_does_not_read_counts_as_gone() -> None:
    runtime = FakeRuntime({"flood": Script(("x" * 200_000,), endless=True)}, context=1 << 20)
    with live(runtime, Settings(stall_seconds=0.3, drain_seconds=0.2)) as server:
        whole = json.dumps(body("flood", max_tokens=100_000)).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=10) as raw:
            raw.sendall(head + f"content-length: {len(whole)}\r\n\r\n".encode() + whole)
            assert eventually(lambda: bool(runtime.asked))
            assert eventually(lambda: (runtime.running, runtime.open_sessions) == (0, 0))


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_that_gives_up_waiting_frees_its_work(
    server: LiveServer, runtime: FakeRuntime, streamed: bool
) -> None:
    runtime.scripts = {"hang": Script(("x",), wait=60)}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/chat/completions", json=body("hang", stream=streamed), timeout=0.15)
    assert eventually(lambda: (runtime.running, runtime.open_sessions) == (0, 0))
    assert eventually(lambda: 'outcome="aborted"} 0.0' not in server.get("/metrics").text)
