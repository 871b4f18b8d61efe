"""Start and end of a server: the address, the door, the signals."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from espalier.runtime.errors import InvalidParameter
from espalier.runtime.server.serve import bind, hosts_of, serve, url_of
from espalier.runtime.server.settings import Settings

from .fake_runtime import FakeRuntime, Script
from .live import eventually, live
from .test_chat import MODEL, ask
from .test_stream import body, data_lines

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from tests.server.conftest import SCRIPTS
from tests.server.fake_runtime import FakeRuntime
from espalier.runtime.server.serve import bind, run
from espalier.runtime.server.settings import Settings
run(FakeRuntime(SCRIPTS), bind("127.0.0.1", 0), Settings(drain_seconds=0.3), lambda url: print(url, flush=True))
print("closed", flush=True)
"""


@contextmanager
def process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_with_status_zero(number: signal.Signals) -> None:
    with process() as (child, url):
        assert httpx.get(f"{url}/health").status_code == 200
        child.send_signal(number)
        assert child.wait(20) == 0
        assert child.stdout is not None
        assert child.stdout.read() == "closed\n"


def test_a_stream_that_outlasts_the_drain_ends_with_an_error_event() -> None:
    with process() as (child, url):
        lines = []
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body("endless"), timeout=20) as reply:
            for line in reply.iter_lines():
                lines.append(line)
                if len(lines) == 3:
                    child.send_signal(signal.SIGTERM)
        last = [line for line in lines if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "shutting_down"
        assert child.wait(20) == 0


def test_while_the_door_closes_answers_end_and_new_requests_are_turned_away() -> None:
    runtime = FakeRuntime({"long": Script(("tick ",) * 100, wait=0.02)})
    with live(runtime, Settings(drain_seconds=20)) as server, server.client() as client:
        stream = ask(client, "long", stream=True)
        next(stream)
        server.server.should_exit = True
        assert eventually(lambda: server.get("/health").status_code == 503)
        reply = server.post({"model": MODEL, "messages": [{"role": "user", "content": "x"}]})
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "shutting_down")
        assert 0 < int(reply.headers["retry-after"]) <= 60
        assert list(stream)[-1].choices[0].finish_reason == "stop"


def test_a_plain_request_that_outlasts_the_drain_is_told_so() -> None:
    runtime = FakeRuntime({"hang": Script(("x",), wait=60)})
    with live(runtime, Settings(drain_seconds=0.1)) as server, ThreadPoolExecutor(1) as pool:
        reply = pool.submit(server.post, body("hang", stream=False))
        assert eventually(lambda: runtime.running == 1)
        server.server.should_exit = True
        assert (reply.result().status_code, reply.result().json()["error"]["code"]) == (503, "shutting_down")


def test_port_zero_takes_a_free_port() -> None:
    with closing(bind("127.0.0.1", 0)) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")
        assert not url_of(listener).endswith(":0")


def test_a_bound_port_answers_nobody_before_the_server_is_ready() -> None:
    with closing(bind("127.0.0.1", 0)) as listener, pytest.raises(ConnectionRefusedError):
        socket.create_connection(listener.getsockname(), timeout=5)


def test_only_the_chosen_port_is_opened() -> None:
    with process() as (child, url):
        ports = {int(line.split()[1].rpartition(":")[2], 16) for line in _listening(child.pid)}
        assert ports == {int(url.rpartition(":")[2])}


def _listening(pid: int) -> list[str]:
    """The lines of /proc/net/tcp (and tcp6) for listening sockets of a process."""
    inodes = {target.readlink().name for target in Path(f"/proc/{pid}/fd").iterdir() if target.is_symlink()}
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]]
    return [line for line in lines if line.split()[3] == "0A" and f"socket:[{line.split()[9]}]" in inodes]


@pytest.mark.parametrize(
    ("host", "port", "where"),
    [("127.0.0.1", -1, "port"), ("127.0.0.1", 65536, "port"), ("no.such.host.invalid", 80, "host"),
     ("", 99999, "port"), ("x" * 300, 80, "host"), ("203.0.113.1", 0, "port")],
)
def test_an_address_that_cannot_be_bound_is_named(host: str, port: int, where: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        bind(host, port)
    assert caught.value.where == where


def test_a_busy_port_is_named_before_any_model_is_loaded() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other, pytest.raises(InvalidParameter, match="in use"):
        serve("no-such-model", port=other.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "key", "names"),
    [("127.0.0.1", None, {"localhost", "127.0.0.1"}), ("LocalHost", None, {"localhost"}),
     ("::1", None, {"localhost", "::1"}),
     ("127.0.0.1", "key", None), ("0.0.0.0", "key", None), ("0.0.0.0", None, None), ("some.name", None, None)],
)
def test_an_open_server_knows_its_names_and_one_that_all_can_reach_warns(
    host: str, key: str | None, names: set[str] | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert hosts_of(host, key) == names
    assert ("no API key" in caplog.text) is (names is None and key is None)


@pytest.mark.parametrize("key", ["", "  "])
def test_an_empty_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidParameter):
        serve("no-such-model", port=0, api_key=key)


def test_nothing_of_a_message_or_key_is_logged(runtime: FakeRuntime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with live(runtime, Settings(api_key="K3YCANARY", drain_seconds=0.2)) as server:
        for text in ("hi TEXTCANARY", "crash", "lookbehind"):
            server.post(body(text, stream=False, user="USERCANARY"), headers={"authorization": "Bearer K3YCANARY"})
        server.post(b'{"model":"TEXTCANARY', headers={"authorization": "Bearer K3YCANARY"})
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpcore"))
    assert not any(canary in ours for canary in ("TEXTCANARY", "USERCANARY", "K3YCANARY"))


def test_data_lines_are_whole(runtime: FakeRuntime) -> None:
    with live(runtime) as server:
        assert data_lines(server.post(body("hi")))[-1] == "[DONE]"
