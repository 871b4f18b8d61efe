"""Law 9 and the border of the engine's process: who can reach it, and what a wrong frame does."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from espalier.runtime import process_link
from espalier.runtime.branch import Answer, GenerateSpec, Text, TokenIds
from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import EngineFault, InvalidParameter
from espalier.runtime.messages import (
    Abort,
    AskStats,
    Choose,
    CloseSession,
    EngineStopped,
    Event,
    Forget,
    Generate,
    OpenLease,
    OpenSession,
    Prefill,
    ReleaseLease,
    Sampling,
    Stats,
    Stop,
    TrimLease,
)
from espalier.runtime.process_link import Boot, Channel, Greeting, Hello, ProcessLink, Ready
from espalier.runtime.runtime import Runtime
from tests.fakes import ByteTokenizer, PlainTemplate

from .asking import read

CONFIG = EngineConfig(page=4, pages=64, step_tokens=16)
BOOT = Boot(model="", config=CONFIG, executor="scripted")


# Who can reach the engine


def test_the_socket_is_its_users_alone_and_gone_once_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    accept = process_link._accept

    def watch(listener: socket.socket, process: subprocess.Popen[bytes]) -> socket.socket:
        path = Path(listener.getsockname())
        seen.append(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.stat().st_uid == os.getuid()
        return accept(listener, process)

    monkeypatch.setattr(process_link, "_accept", watch)
    with closing(ProcessLink.start(BOOT)):
        assert not seen[0].parent.exists()


def test_the_engines_process_listens_nowhere() -> None:
    with closing(ProcessLink.start(BOOT)) as link:
        inodes = {path.readlink().name for path in Path(f"/proc/{link.pid}/fd").iterdir() if path.is_symlink()}
        for table in ("tcp", "tcp6", "udp", "udp6"):
            for line in Path(f"/proc/{link.pid}/net/{table}").read_text().splitlines()[1:]:
                assert f"socket:[{line.split()[9]}]" not in inodes


# Wrong frames


@contextmanager
def worker(tmp_path: Path) -> Iterator[tuple[socket.socket, Channel, subprocess.Popen[bytes]]]:
    """A booted worker, and the other end of its socket."""
    path = str(tmp_path / "engine.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "espalier.runtime.worker", path], cwd=tmp_path, stderr=subprocess.PIPE,
        )
        with process:
            listener.settimeout(60)
            connection, _ = listener.accept()
            channel = Channel(connection)
            try:
                greeting = msgspec.msgpack.Decoder(Greeting)
                assert channel.receive(greeting) == Hello()
                channel.send(BOOT)
                assert channel.receive(greeting) == Ready()
                yield connection, channel, process
            finally:
                channel.close()
                process.kill()


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


PICKLE = b"cos\nsystem\n(S'touch pwned'\ntR."
WRONG = {
    "a pickle": framed(PICKLE),
    "no msgpack": framed(b"\xc1" * 40),
    "an unknown command": framed(msgspec.msgpack.encode({"type": "Execute", "code": "print(1)"})),
    "a wrong type": framed(msgspec.msgpack.encode({"type": "OpenSession", "session": "one"})),
    "an event": framed(msgspec.msgpack.encode(EngineStopped("no"))),
    "nested deep": framed(b"\x91" * 100_000 + b"\xc0"),
    "larger than agreed": struct.pack(">I", 0xFFFFFFFF),
    "cut short": struct.pack(">I", 1 << 20) + b"abc",
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_frame_executes_nothing_and_ends_the_worker_in_order(kind: str, tmp_path: Path) -> None:
    """Only the process that started it can speak to a worker: one that breaks the protocol is not served on."""
    with worker(tmp_path) as (connection, channel, process):
        channel.send(AskStats(7))
        (stats,) = channel.receive(msgspec.msgpack.Decoder(list[Event])) or ()
        assert isinstance(stats, Stats)
        connection.sendall(WRONG[kind])
        connection.shutdown(socket.SHUT_WR)
        assert process.wait(30) == 0
        assert [path.name for path in tmp_path.iterdir()] == ["engine.sock"]


ORPHANS = (
    OpenLease(1, 99), ReleaseLease(98), TrimLease(97, 5), CloseSession(96), Abort(95), Forget(94), OpenSession(93),
    OpenLease(92, 93, 91), Generate(1, 92, (1,), 4, Sampling()), Choose(2, 1, (1,), ((1,),)), Prefill(3, 99, (1,)),
)


def test_commands_of_unknown_sessions_and_leases_are_answered_not_obeyed(tmp_path: Path) -> None:
    with worker(tmp_path) as (_, channel, process):
        for command in ORPHANS:
            channel.send(command)
        decoder = msgspec.msgpack.Decoder(list[Event])
        told: list[Any] = []
        while len(told) < 3:
            told += channel.receive(decoder) or ()
        assert {event.error for event in told} == {"InvalidParameter"}
        channel.send(Stop())
        assert process.wait(30) == 0


@pytest.mark.parametrize("frame", [b"\xc1", PICKLE, msgspec.msgpack.encode([{"type": "Finished"}])])
def test_a_worker_that_breaks_the_protocol_ends_every_request_with_the_cause(frame: bytes) -> None:
    ours, theirs = socket.socketpair()
    told: list[Event] = []
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with process, closing(theirs):
        link = ProcessLink(process, Channel(ours))
        link.listen(told.extend)
        theirs.sendall(framed(frame))
        link._threads[0].join(30)
        assert process.stdin is not None
        process.stdin.close()
        link.close()
    (stopped,) = told
    assert isinstance(stopped, EngineStopped)
    assert "a frame cannot be read" in stopped.message


# Values that no message can hold


@pytest.fixture(scope="module")
def remote() -> Iterator[Runtime]:
    tokenizer = ByteTokenizer(specials=("<end>", "<turn>"))
    runtime = Runtime(
        link=ProcessLink.start(BOOT), tokenizer=tokenizer, template=PlainTemplate(tokenizer), model_name="scripted",
        context=1 << 20,
    )
    with closing(runtime):
        yield runtime


HUGE = 10**5000
WRONG_FIELDS: list[tuple[str, Any]] = [
    (field, value) for field in ("max_tokens", "top_k", "seed", "logprobs")
    for value in (HUGE, -HUGE, 1 << 64, 1.5, True, "4", float("nan"))
] + [
    (field, value) for field in ("temperature", "top_p", "min_p")
    for value in (HUGE, -1, float("nan"), float("inf"), "1", True, 1j)
]


@pytest.mark.parametrize(("field", "value"), WRONG_FIELDS, ids=range(len(WRONG_FIELDS)))
def test_a_value_that_no_message_can_hold_is_its_callers_error(remote: Runtime, field: str, value: Any) -> None:
    async def ask(**fields: Any) -> Answer:
        session = remote.session()
        branch = session.branch()
        session.extend(branch, [Text("ab")])
        try:
            return (await read(session, branch, GenerateSpec(**{"max_tokens": 3, "ignore_end": True} | fields)))[1]
        finally:
            session.close()

    with pytest.raises(InvalidParameter) as caught:
        asyncio.run(ask(**{field: value}))
    assert caught.value.where == field
    assert len(asyncio.run(ask()).tokens) == 3


WRONG_CALLS: list[Callable[[Runtime], object]] = [
    lambda runtime: runtime.session(salt="\ud800"),
    lambda runtime: runtime.session(adapter="\udfff"),
    lambda runtime: runtime.session(salt=5),  # type: ignore[arg-type]
    lambda runtime: fresh(runtime, lambda session, branch: session.fork(branch, HUGE)),
    lambda runtime: fresh(runtime, lambda session, branch: session.fork(branch, 2.0)),  # type: ignore[arg-type]
    lambda runtime: fresh(runtime, lambda session, branch: session.extend(branch, [TokenIds((1.5,))])),  # type: ignore[arg-type]
    lambda runtime: fresh(runtime, lambda session, branch: session.extend(branch, [TokenIds((True,))])),
    lambda runtime: fresh(runtime, lambda session, branch: session.extend(branch, [TokenIds((HUGE,))])),
    lambda runtime: runtime.link.send(OpenSession(1 << 70)),
]


def fresh(runtime: Runtime, call: Callable[[Any, int], object]) -> None:
    session = runtime.session()
    try:
        call(session, session.branch())
    finally:
        session.close()


@pytest.mark.parametrize("call", WRONG_CALLS, ids=range(len(WRONG_CALLS)))
def test_a_wrong_call_is_refused_and_the_engine_goes_on(remote: Runtime, call: Callable[[Runtime], object]) -> None:
    with pytest.raises(InvalidParameter):
        call(remote)
    assert asyncio.run(remote.stats()).pages_held == 0


def test_a_worker_that_never_speaks_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_link, "HELLO_SECONDS", 0.3)
    monkeypatch.setattr(process_link, "_spawn", lambda listener, path: _mute(listener, path))
    with pytest.raises(EngineFault, match="did not connect"):
        ProcessLink.start(BOOT)


def _mute(listener: socket.socket, path: str) -> subprocess.Popen[bytes]:
    listener.bind(path)
    listener.listen(1)
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
