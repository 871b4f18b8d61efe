"""The one interface to an engine, wherever it runs: commands go in, events come out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from .engine import Engine
from .messages import Command, EngineStopped, Event, Stop

Sink = Callable[[Sequence[Event]], None]


class EngineLink(Protocol):
    """send never waits and keeps the order of commands. The sink is called from a thread of the link, once a step,
    with that step's events in order; the last event of all is EngineStopped. close waits until the engine ended."""

    def send(self, command: Command) -> None: ...

    def listen(self, sink: Sink) -> None: ...

    def close(self) -> None: ...


class ThreadLink:
    """The engine loop in a thread of this process. `listen` starts it; commands sent before are kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread: threading.Thread | None = None

    def send(self, command: Command) -> None:
        self._engine.send(command)

    def listen(self, sink: Sink) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(sink,), name="espalier-engine", daemon=True)
            self._thread.start()

    def _run(self, sink: Sink) -> None:
        message = "the engine was closed"
        try:
            self._engine.run(sink)
        except BaseException as error:  # the last words of the thread: every open request must hear the cause
            message = f"the engine loop ended: {type(error).__name__}: {error}"
        sink((EngineStopped(message),))

    def close(self) -> None:
        self._engine.send(Stop())
        if self._thread is not None:
            self._thread.join()
