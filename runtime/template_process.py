"""The near side of the template worker: one child process per template, ended and replaced when it passes a limit."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping

import msgspec

from .errors import TemplateError, TemplateLimit

MAX_SOURCE = 1 << 20  # characters
_SLACK = 1 << 16  # characters that a template may add to four times what it was given
_WALL_SECONDS = 10.0  # a backstop: the worker's own limit is processor time, which a busy machine does not eat
_START_SECONDS = 60.0  # with imports, for the first rendering
_PLACE = "tokenizer.chat_template"


class TemplateProcess:
    """Renders `source`. Thread-safe: one rendering at a time. The child starts with the first one and lives as long as
    this object; a rendering that passes a limit ends it, and the next one starts another."""

    def __init__(self, source: str) -> None:
        if len(source) > MAX_SOURCE:
            raise TemplateError(f"the chat template has {len(source)} characters (at most {MAX_SOURCE})", where=_PLACE)
        self._source = source
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def render(self, context: Mapping[str, object]) -> str:
        """context: the template's variables, plain JSON. Blocks, for a millisecond or so when all is well.
        Raises TemplateError with the template's own complaint, or TemplateLimit."""
        task = json.dumps(context)
        limit = 4 * len(task) + _SLACK
        with self._lock:
            if self._child is None or not self._child.alive():
                self._child = _Child(self._source)
            reply = self._child.ask(f'{{"context": {task}, "limit": {limit}}}\n', 12 * limit + 1024)
        if reply.text is None:
            kind = TemplateLimit if reply.limit else TemplateError
            raise kind(f"the chat template failed: {reply.error}", where=_PLACE)
        return reply.text

    def close(self) -> None:
        """Ends the child; a later rendering starts another."""
        with self._lock:
            if self._child is not None:
                self._child.end()
            self._child = None


class _Reply(msgspec.Struct, frozen=True):
    """limit: the error is a limit that the worker itself kept."""

    text: str | None = None
    error: str = ""
    limit: bool = False


class _Child:
    """end() kills it and gives its pipes back; so does losing the last reference."""

    def __init__(self, source: str) -> None:
        try:
            self._process = subprocess.Popen(
                # -P: the folder that we happen to run in must not be able to stand in for a module.
                [sys.executable, "-P", "-m", f"{__package__}.template_worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            )
        except OSError as error:
            raise TemplateLimit(f"the template process cannot start: {error.strerror}", where=_PLACE) from error
        self._greeting = json.dumps({"source": source}) + "\n"
        self._seconds = _START_SECONDS
        self.end = weakref.finalize(self, _end, self._process)

    def alive(self) -> bool:
        return self.end.alive and self._process.poll() is None

    def ask(self, line: str, most: int) -> _Reply:
        """most: bytes of the reply. When no whole reply comes the child is ended."""
        try:
            self._send((self._greeting + line).encode())
            reply = self._receive(most)
        except BaseException:
            self.end()
            raise
        self._greeting, self._seconds = "", _WALL_SECONDS
        return reply

    def _send(self, data: bytes) -> None:
        pipe = self._process.stdin
        rest = memoryview(data)
        try:
            while pipe is not None and rest:
                rest = rest[os.write(pipe.fileno(), rest) :]
        except BrokenPipeError as error:
            raise self._death() from error

    def _receive(self, most: int) -> _Reply:
        deadline = time.monotonic() + self._seconds
        received = bytearray()
        while not received.endswith(b"\n"):
            received += self._read(deadline)
            if len(received) > most:
                raise TemplateLimit("the chat template's text is too long", where=_PLACE)
        try:
            return msgspec.json.decode(received, type=_Reply)
        except msgspec.DecodeError as error:
            raise TemplateError("the chat template gave no Unicode text", where=_PLACE) from error

    def _read(self, deadline: float) -> bytes:
        pipe = self._process.stdout
        if pipe is None:
            raise self._death()
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TemplateLimit("the chat template took too long", where=_PLACE)
        piece = os.read(pipe.fileno(), 1 << 16)
        if not piece:
            raise self._death()
        return piece

    def _death(self) -> TemplateError:
        status = self._process.wait(_WALL_SECONDS)
        if status == -signal.SIGXCPU:
            return TemplateLimit("the chat template took too much processor time", where=_PLACE)
        return TemplateLimit(f"the chat template ended its process (status {status})", where=_PLACE)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
