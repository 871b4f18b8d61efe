"""The engine in a process of its own, over a unix socket that only this user can reach.

The worker speaks first: a `Hello` with the version of the protocol; then comes `Boot`, and `Ready` or `Refused`. After
that, commands go in and events come out.
"""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Literal

import msgspec

from .channel import Channel
from .config import EngineConfig
from .errors import EngineFault, InvalidParameter
from .faults import unpack
from .link import Sink
from .messages import PROTOCOL_VERSION, Command, EngineStopped, Event, Failed, Stop

# A child that dies while it starts says so at once; this bounds one that hangs before its first word.
HELLO_SECONDS = 60.0
# An engine that is asked to end finishes its step first; then it is killed.
CLOSE_SECONDS = 30.0


class Hello(msgspec.Struct, frozen=True, tag=True):
    version: int = PROTOCOL_VERSION


class Boot(msgspec.Struct, frozen=True, tag=True):
    """model: path of the weights. executor 'scripted': no model, for tests of the link."""

    model: str
    config: EngineConfig
    executor: Literal["torch", "scripted"] = "torch"
    version: int = PROTOCOL_VERSION


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The engine is loaded."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The engine could not be built; the worker ends."""

    cause: Failed


Greeting = Hello | Ready | Refused


class ProcessLink:
    """A running worker. A worker that dies ends every open request with EngineStopped and its exit status."""

    def __init__(self, process: subprocess.Popen[bytes], channel: Channel) -> None:
        self._process = process
        self._channel = channel
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closing = False

    @classmethod
    def start(cls, boot: Boot) -> ProcessLink:
        """Returns when the engine is loaded. Raises what loading raised, or EngineFault when the worker died."""
        # The folder is made with mode 0700: nobody else can reach the socket.
        with tempfile.TemporaryDirectory(prefix="espalier-") as folder, socket.socket(socket.AF_UNIX) as listener:
            process = _spawn(listener, str(Path(folder) / "engine.sock"))
            try:
                channel = _greeted(Channel(_accept(listener, process)), boot, process)
            except BaseException:
                _end(process)
                raise
        return cls(process, channel)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, command: Command) -> None:
        """Raises InvalidParameter for a command that no frame can hold."""
        try:
            self._outgoing.put(msgspec.msgpack.encode(command))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidParameter(f"a command cannot be sent: {error}", where=type(command).__name__) from error

    def listen(self, sink: Sink) -> None:
        if self._threads:
            return
        self._threads = [
            threading.Thread(target=self._read, args=(sink,), name="espalier-events", daemon=True),
            threading.Thread(target=self._write, name="espalier-commands", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        while (body := self._outgoing.get()) is not None:
            try:
                self._channel.send_body(body)
            except OSError:  # the worker is gone: the reading thread tells why
                return

    def _read(self, sink: Sink) -> None:
        decoder = msgspec.msgpack.Decoder(list[Event])
        message = ""
        try:
            while (events := self._channel.receive(decoder)) is not None:
                sink(events)
        except Exception as error:
            message = str(error)
        self._outgoing.put(None)
        sink((EngineStopped(message or self._last_words()),))

    def _last_words(self) -> str:
        if self._closing:
            return "the engine was closed"
        try:
            status = self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            return "the engine process closed its connection"
        return f"the engine process ended with status {status}"

    def close(self) -> None:
        self._closing = True
        self.send(Stop())
        if not self._threads:
            self._outgoing.put(None)
            self._write()
        _end(self._process, CLOSE_SECONDS)
        self._channel.close()
        self._outgoing.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()


def _spawn(listener: socket.socket, path: str) -> subprocess.Popen[bytes]:
    """A worker that will connect to `path`, where the listener then listens."""
    try:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(1)
        return subprocess.Popen(
            # -P: the folder that we happen to run in must not be able to stand in for a module.
            [sys.executable, "-P", "-m", f"{__package__}.worker", path], stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise EngineFault(
            f"the engine process cannot be started: {error}", where="start",
            fix="Set TMPDIR to a short path of a folder that can be written.",
        ) from error


def _accept(listener: socket.socket, process: subprocess.Popen[bytes]) -> socket.socket:
    """The worker's connection; a worker that died before it connected is noticed at once."""
    listener.settimeout(0.1)
    for _ in range(int(HELLO_SECONDS * 10)):
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            if process.poll() is not None:
                raise EngineFault(f"the engine process ended with status {process.returncode}", where="start") from None
            continue
        connection.settimeout(None)
        return connection
    raise EngineFault(f"the engine process did not connect in {HELLO_SECONDS:.0f} seconds", where="start")


def _greeted(channel: Channel, boot: Boot, process: subprocess.Popen[bytes]) -> Channel:
    try:
        _greet(channel, boot, process)
    except BaseException:
        channel.close()
        raise
    return channel


def _greet(channel: Channel, boot: Boot, process: subprocess.Popen[bytes]) -> None:
    decoder = msgspec.msgpack.Decoder(Greeting)
    hello = channel.receive(decoder)
    if not isinstance(hello, Hello) or hello.version != PROTOCOL_VERSION:
        raise EngineFault(f"the engine process speaks another protocol: {hello}", where="start")
    channel.send(boot)
    answer = channel.receive(decoder)
    if isinstance(answer, Refused):
        raise unpack(answer.cause)
    if not isinstance(answer, Ready):
        raise EngineFault(f"the engine process ended with status {process.wait(CLOSE_SECONDS)}", where="start")


def _end(process: subprocess.Popen[bytes], patience: float = 0.0) -> None:
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
