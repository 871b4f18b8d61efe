"""Who may ask, what is open, and what the counters say."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from contextlib import closing

import openai
import pytest
from starlette.routing import Route

from espalier.runtime.server.app import create_app
from espalier.runtime.server.settings import Settings

from .conftest import SCRIPTS
from .fake_runtime import FakeRuntime
from .live import LiveServer, live
from .test_chat import ask
from .test_hostile import GOOD


def routes() -> list[tuple[str, str]]:
    """Every method of every route; a route of another kind fails here."""
    found = []
    for route in create_app(FakeRuntime()).routes:
        assert isinstance(route, Route)
        found += [(method, route.path) for method in sorted(route.methods or ())]
    return found


def test_the_routes_are_these() -> None:
    assert sorted(routes()) == [
        ("GET", "/health"), ("GET", "/metrics"), ("GET", "/v1/models"), ("GET", "/v1/models/{model:path}"),
        ("HEAD", "/health"), ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"),
        ("POST", "/v1/responses"),
    ]


@pytest.fixture(scope="module")
def locked() -> Iterator[LiveServer]:
    with live(FakeRuntime(SCRIPTS), Settings(api_key="s3cret-ключ", drain_seconds=0.2)) as server:
        yield server


@pytest.fixture(scope="module")
def loopback() -> Iterator[LiveServer]:
    with live(FakeRuntime(), Settings(hosts=frozenset({"localhost"}), drain_seconds=0.2)) as server:
        yield server


@pytest.mark.parametrize(("method", "path"), routes())
@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer wrong", "Basic s3cret", "s3cret"])
def test_every_route_but_health_needs_the_key(locked: LiveServer, method: str, path: str, header: str | None) -> None:
    headers = {} if header is None else {"authorization": header}
    reply = locked.http.request(method, locked.url + path, content=GOOD, headers=headers)
    assert reply.status_code == (200 if path == "/health" else 401)
    if path != "/health":
        assert reply.json()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize("path", ["//v1/models", "/v1//models", "/%2e/v1/models", "/health/../v1/models",
                                  "/health%2f..%2fv1/models", "/V1/models", "/v1/models;x", "/v1/models%00"])
def test_no_spelling_of_a_path_goes_around_the_key(locked: LiveServer, path: str) -> None:
    address = locked.url.removeprefix("http://")
    with closing(http.client.HTTPConnection(address, timeout=10)) as raw:  # which sends a path as it is
        raw.request("GET", path)
        assert raw.getresponse().status in (401, 404)


def test_the_key_opens(locked: LiveServer) -> None:
    headers = {"authorization": b"Bearer " + "s3cret-ключ".encode()}
    assert locked.get("/v1/models", headers=headers).status_code == 200


def test_the_client_sees_a_wrong_key_as_such(locked: LiveServer) -> None:
    with locked.client("wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1", 200), ("localhost", 200), ("LOCALHOST:80", 200), ("[::1]:9", 200), ("evil.example", 403),
     ("evil.example:8000", 403), ("127.0.0.1.evil.example", 403), ("", 403)],
)
def test_an_open_server_does_not_answer_to_foreign_names(loopback: LiveServer, host: str, status: int) -> None:
    assert loopback.get("/v1/models", headers={"host": host}).status_code == status


def test_metrics_tell_outcomes_and_the_engine() -> None:
    with live(FakeRuntime(SCRIPTS)) as server, server.client() as client:
        ask(client)
        ask(client, "endless", max_tokens=2)
        for text in ("full", "crash", "lookbehind"):
            with pytest.raises(openai.APIStatusError):
                ask(client, text)
        reply = server.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    values = dict(re.findall(r"^(espalier_\S+) (\S+)$", reply.text, re.MULTILINE))
    for outcome in ("stop", "length", "refused", "overloaded", "failed"):
        assert values[f'espalier_requests_total{{outcome="{outcome}"}}'] == "1.0"
    assert values['espalier_kv_pages{state="cached"}'] == "2.0"
    assert values["espalier_tokens_in_total"] == "10.0"
    assert values["espalier_tokens_out_total"] == "7.0"
    assert values["espalier_tokens_cached_total"] == "4.0"
    assert values["espalier_tokens_forced_total"] == "2.0"
    assert values["espalier_requests_running"] == "0.0"
    assert values["espalier_requests_waiting"] == "0.0"
    assert values["espalier_time_to_first_token_seconds_count"] == "2.0"
    assert values["espalier_request_seconds_count"] == "2.0"


def test_two_servers_of_a_process_count_apart(client: openai.OpenAI, server: LiveServer) -> None:
    ask(client)
    with live(FakeRuntime()) as other:
        assert 'outcome="stop"} 0.0' in other.get("/metrics").text


def test_health_follows_the_engine(server: LiveServer, runtime: FakeRuntime) -> None:
    assert server.get("/health").json() == {"status": "ok"}
    runtime.dead = True
    reply = server.get("/health")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "not_ready")
    assert "CANARY" not in reply.text
    assert "espalier_engine_up 0.0" in server.get("/metrics").text
