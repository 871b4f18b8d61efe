"""Hostile bodies: each gets a typed answer, and the next request works."""

from __future__ import annotations

import socket
from contextlib import suppress

import httpx
import pytest

from espalier.runtime.server.settings import Settings

from .fake_runtime import FakeRuntime, Script
from .live import LiveServer, live
from .test_chat import MODEL
from .test_errors import assert_shape

GOOD = b'{"model":"org/tiny","messages":[{"role":"user","content":"x"}]}'

TOOL = '"tools":[{"type":"function","function":{"name":"f","parameters":%s}}]'
CALLED = (
    '{"model":"org/tiny","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":'
    '{"name":"f","arguments":"%s"}}]}]}'
)
SCHEMA_FORMAT = '"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":%s}}'


def chat(extra: str) -> bytes:
    return f'{{"model":"org/tiny","messages":[{{"role":"user","content":"x"}}],{extra}}}'.encode()


BODIES = [
    (b"", 400), (b"null", 400), (b"[]", 400), (b"3", 400), (b'"x"', 400), (b"{", 400), (b"{}", 400), (b"{'a':1}", 400),
    (GOOD + b"x", 400),
    (b"\xef\xbb\xbf" + GOOD, 400),
    (GOOD.decode().encode("utf-16"), 400),
    (b'{"model":"\xff\xfe"}', 400),
    (GOOD.replace(b'"x"', b'"\\ud800"'), 400),
    (GOOD.replace(b'"x"', b'"\\udc00\\ud800"'), 400),
    (chat('"temperature":NaN'), 400), (chat('"temperature":Infinity'), 400), (chat('"temperature":-Infinity'), 400),
    (chat('"temperature":1e400'), 400), (chat('"temperature":-1e400'), 400),
    (chat('"temperature":1e99999999999999999999'), 400),
    (chat('"max_tokens":' + "9" * 5000), 400), (chat('"max_tokens":-1'), 400),
    (chat('"seed":9223372036854775808'), 400),
    (chat('"max_tokens":1,"max_tokens":2'), 400),
    (chat('"temperature":0.5,"temperature":0.5'), 400),
    (chat('"user":' + "[" * 100_000 + "]" * 100_000), 400),
    (chat('"user":' + '{"a":' * 100_000 + "1" + "}" * 100_000), 400),
    (chat('"user":' + "[" * 620 + "]" * 620), 400),
    (chat('"user":' + "[" * 100_000), 400),
    (chat('"' + "k" * 500_000 + '":1'), 400),
    (chat(SCHEMA_FORMAT % '{"a":1,"a":2}'), 400),
    (chat('"stop":' + str(["x" * 257]).replace("'", '"')), 400),
    (GOOD.replace(b"x", b"\\u0000"), 200),
    (GOOD.replace(b"x", "\U0001f469\u200d\u00e9".encode()), 200),
    (GOOD.replace(b"x", b"\\ud83d\\ude00"), 200),
    (b" \r\n\t" + GOOD + b"\n", 200),
    (chat('"temperature":1e-400,"top_p":1E0'), 200),
    (chat(TOOL % ('{"not":' * 550 + "{}" + "}" * 550)), 200),
    (chat(TOOL % '{"a":1,"a":2}'), 400),
    ((CALLED % ('{\\"a\\":' * 550 + "1" + "}" * 550)).encode(), 200),
    ((CALLED % ('{\\"a\\":' * 100_000)).encode(), 400),
    ((CALLED % '{\\"a\\":\\"\\\\ud800\\"}').encode(), 400),
    ((CALLED % "NaN").encode(), 400),
    (chat(SCHEMA_FORMAT % ('{"not":' * 550 + "{}" + "}" * 550)), 200),
]


@pytest.mark.parametrize(("body", "status"), BODIES, ids=range(len(BODIES)))
def test_every_body_gets_a_typed_answer(server: LiveServer, body: bytes, status: int) -> None:
    reply = server.post(body)
    assert reply.status_code == status
    if status != 200:
        assert len(assert_shape(reply)["message"]) < 1000
    assert server.post(GOOD).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonx",
             "application/json; charset=utf-16"],
)
def test_only_json_is_read(server: LiveServer, kind: str) -> None:
    reply = server.post(GOOD, headers={"content-type": kind})
    assert reply.status_code == 415
    assert assert_shape(reply)["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    "kind", ["application/json; charset=UTF-8", "Application/JSON", 'application/json;charset="utf-8"']
)
def test_json_may_name_its_charset(server: LiveServer, kind: str) -> None:
    assert server.post(GOOD, headers={"content-type": kind}).status_code == 200


def padded(size: int) -> bytes:
    return GOOD + b" " * (size - len(GOOD))


def test_the_limit_of_a_body_is_exact(server: LiveServer) -> None:
    assert server.post(padded(1 << 20)).status_code == 200
    assert server.post(padded((1 << 20) + 1)).status_code == 413


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_ten_megabytes_is_too_large(server: LiveServer, chunked: bool) -> None:
    body = padded(10 << 20)
    content = iter([body[at : at + 65536] for at in range(0, len(body), 65536)]) if chunked else body
    reply = httpx.post(
        f"{server.url}/v1/chat/completions", content=content, headers={"content-type": "application/json"}, timeout=30
    )
    assert reply.status_code == 413
    assert assert_shape(reply)["code"] == "body_too_large"


def test_a_body_that_does_not_come_is_given_up(runtime: FakeRuntime) -> None:
    with live(runtime, Settings(body_seconds=0.2, drain_seconds=0.2)) as server:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=10) as raw:
            raw.sendall(head + b"content-length: 9\r\n\r\n{")
            assert raw.recv(4096).startswith(b"HTTP/1.1 408")


def test_bodies_that_are_being_read_hold_so_much_together(runtime: FakeRuntime) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with live(runtime, Settings(bodies_bytes=1000, drain_seconds=0.2)) as server:
        assert server.post(padded(5000)).status_code == 200  # one alone may be of any size
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=10) as raw:
            raw.sendall(head + b"content-length: 9000\r\n\r\n" + padded(990))
            while (refused := server.post(padded(500))).status_code == 200:
                pass  # until the part has come
            assert refused.status_code == 429
            assert assert_shape(refused)["code"] == "overloaded"
            raw.sendall(b" " * 8010)
            assert raw.recv(4096).startswith(b"HTTP/1.1 200")
        assert server.post(padded(500)).status_code == 200


@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat", b"GET /health HTTP/1.1\r\nhost: x\r\n\r\nGET /hea"],
                         ids=["nothing", "half", "second"])
def test_a_head_that_does_not_come_is_given_up_and_whole_ones_are_answered(runtime: FakeRuntime, sent: bytes) -> None:
    with live(runtime, Settings(head_seconds=0.3, drain_seconds=0.2)) as server:
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=10) as raw:
            raw.sendall(sent)
            told = b""
            with suppress(ConnectionResetError):
                while part := raw.recv(4096):
                    told += part
            assert told.count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n")
        assert server.post(GOOD).status_code == 200


def test_an_answer_may_take_longer_than_a_head(runtime: FakeRuntime) -> None:
    runtime.scripts = {"slow": Script(("a", "b"), wait=0.3)}
    with live(runtime, Settings(head_seconds=0.2, drain_seconds=0.2)) as server:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "slow"}]}
        assert [server.post(body).status_code for _ in range(2)] == [200, 200]


@pytest.mark.parametrize(
    "raw", [b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/x\r\n\r\n", b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 200_000 + b"\r\n\r\n"],
    ids=["bytes", "version", "path", "header"],
)
def test_what_is_not_http_closes_only_its_connection(server: LiveServer, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=10) as connection:
        connection.sendall(raw)
        connection.settimeout(10)
        assert b" 400 " in connection.recv(4096)
    assert server.post(GOOD).status_code == 200


def test_null_in_any_place_is_answered(server: LiveServer) -> None:
    whole: dict[str, object] = {
        "model": MODEL, "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "stream_options": {"include_usage": True}, "stream": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}, "strict": True}},
    }
    assert {server.post(body).status_code for body in nulled(whole)} == {200, 400}


def nulled(value: object) -> list[object]:
    """Every copy of the value in which one place is null."""
    if isinstance(value, dict):
        return [{**value, key: new} for key, item in value.items() for new in [None, *nulled(item)]]
    if isinstance(value, list):
        return [[*value[:at], new, *value[at + 1 :]] for at, item in enumerate(value) for new in [None, *nulled(item)]]
    return []
