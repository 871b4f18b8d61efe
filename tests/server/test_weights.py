"""Weights loaded over HTTP: by the operator only, from his folder only, and nothing of the old ones is used again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from espalier.runtime.errors import InvalidParameter
from espalier.runtime.server.serve import serve
from espalier.runtime.server.settings import Settings

from .live import LiveServer, eventually
from .scripted import scripted_server

KEY = {"x-espalier-admin-key": "root"}
Folder = tuple[LiveServer, Path]


@contextmanager
def served(place: Path, slow: Callable[[], None] | None = None) -> Iterator[LiveServer]:
    place.mkdir()
    settings = Settings(weights=place, admin_key="root", api_key="user", drain_seconds=0.2)
    with scripted_server({"hi there, you": "one"}, settings=settings, slow=slow) as (server, _):
        server.http.headers["authorization"] = "Bearer user"
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with served(tmp_path / "weights") as server:
        yield server, tmp_path / "weights"


def load(server: LiveServer, body: dict[str, Any], headers: dict[str, str] = KEY) -> httpx.Response:
    return server.http.post("/admin/weights", json=body, headers=headers)


def said(server: LiveServer, text: str = "hi there, you") -> tuple[str, int]:
    reply = server.post({"model": "scripted", "messages": [{"role": "user", "content": text}], "temperature": 0}).json()
    return reply["choices"][0]["message"]["content"], reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_218_weights_replaced_under_the_same_name_are_other_weights(folder: Folder) -> None:
    server, place = folder
    file = place / "n.gguf"
    for version, load_number in (("v1", 2), ("v2", 3)):
        file.write_text(json.dumps({"hi there, you": version}))
        reply = load(server, {"file": "n.gguf"})
        assert reply.json() == {"file": "n.gguf", "load": load_number, "object": "weights"}
        first, second = said(server), said(server)
        assert first == (version, 0)
        assert second[0] == version
        assert second[1] > 0
    assert "espalier_weights_loads_total 3.0" in server.get("/metrics").text


@pytest.mark.parametrize("name", [
    "../n.gguf", "/etc/passwd", "none.gguf", "link.gguf", "folder.gguf", "n.txt", "", ".n.gguf", "n.gguf\n",
])
def test_a_request_names_a_file_in_the_folder_and_nothing_else(folder: Folder, name: str) -> None:
    server, place = folder
    (place.parent / "n.gguf").write_text("{}")
    (place / "link.gguf").symlink_to(place.parent / "n.gguf")
    (place / "folder.gguf").mkdir()
    reply = load(server, {"file": name})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "file")
    assert said(server)[0] == "one"


@pytest.mark.parametrize("headers", [{}, {"x-espalier-admin-key": "user"}, {"authorization": "Bearer root", **KEY}])
def test_both_keys_are_asked_for(folder: Folder, headers: dict[str, str]) -> None:
    server, place = folder
    (place / "n.gguf").write_text("{}")
    assert load(server, {"file": "n.gguf"}, headers).status_code == 401


def test_there_is_no_such_route_unless_the_operator_asks_for_it() -> None:
    with scripted_server({}) as (server, _):
        assert load(server, {"file": "n.gguf"}).status_code == 404


def test_what_runs_ends_with_an_error_that_asks_to_come_again(tmp_path: Path) -> None:
    """The answer would take twenty seconds, so it still runs when the weights are there."""
    place, told = tmp_path / "weights", list[str]()
    body = {"model": "scripted", "messages": [{"role": "user", "content": "over and over"}], "stream": True,
            "max_tokens": 2000}

    def listen() -> None:
        with server.http.stream("POST", "/v1/chat/completions", json=body) as reply:
            told.extend(reply.iter_lines())

    with served(place, slow=lambda: time.sleep(0.01)) as server:
        (place / "n.gguf").write_text(json.dumps({"hi there, you": "two"}))
        (place / "long.gguf").write_text(json.dumps({"over and over": "tick "}))
        load(server, {"file": "long.gguf"})
        listener = threading.Thread(target=listen)
        listener.start()
        assert eventually(lambda: "tick" in "".join(told))
        assert load(server, {"file": "n.gguf", "running": "end"}).status_code == 200
        listener.join(20)
        last = [line for line in told if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "weights_replaced"
        assert said(server) == ("two", 0)


@pytest.mark.parametrize("options", [
    {"weights": Path(".")}, {"admin_key": "x"}, {"weights": Path("."), "admin_key": " "},
    {"weights": Path("no such folder"), "admin_key": "x"},
])
def test_a_server_starts_with_a_folder_and_a_key_or_with_neither(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        serve("smollm2-135m", port=0, **options)
