"""The engine in a thread and in a process, behind one interface."""

from __future__ import annotations

import os
import queue
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import EngineFault, WeightsError
from espalier.runtime.link import EngineLink, ThreadLink
from espalier.runtime.messages import (
    AskStats,
    EngineStopped,
    Event,
    Finished,
    Generate,
    LoadWeights,
    OpenLease,
    OpenSession,
    Sampling,
    Stats,
    Tokens,
    WeightsLoaded,
)
from espalier.runtime.process_link import Boot, ProcessLink
from espalier.runtime.scripted_executor import scripted_engine

from .orphans import check_that_it_ends_with_its_parent, needs_pidfd

CONFIG = EngineConfig(page=4, pages=64, step_tokens=16)
PATIENCE = 30.0


class Inbox:
    """Everything a link tells, one event at a time."""

    def __init__(self, link: EngineLink) -> None:
        self._events: queue.Queue[Event] = queue.Queue()
        link.listen(self.deliver)

    def deliver(self, events: Sequence[Event]) -> None:
        for event in events:
            self._events.put(event)

    def until(self, kind: type[Event]) -> list[Event]:
        events = [self._events.get(timeout=PATIENCE)]
        while not isinstance(events[-1], kind):
            events.append(self._events.get(timeout=PATIENCE))
        return events


def thread_link() -> EngineLink:
    return ThreadLink(scripted_engine(CONFIG))


def process_link() -> EngineLink:
    return ProcessLink.start(Boot(model="", config=CONFIG, executor="scripted"))


LINKS = pytest.mark.parametrize("open_link", [thread_link, process_link])
ASK = (
    OpenSession(1), OpenLease(1, 1),
    Generate(1, 1, tuple(b"one text"), 6, Sampling(temperature=0.0, ignore_end=True)),
)


@LINKS
def test_commands_go_in_and_events_come_out(open_link: Callable[[], EngineLink]) -> None:
    link = open_link()
    inbox = Inbox(link)
    for command in ASK:
        link.send(command)
    events = inbox.until(Finished)
    assert sum(len(event.tokens) for event in events if isinstance(event, Tokens)) == 6
    link.send(AskStats(2))
    stats = inbox.until(Stats)[-1]
    assert isinstance(stats, Stats)
    assert stats.pages_held == 0
    link.close()
    stopped = inbox.until(EngineStopped)[-1]
    assert isinstance(stopped, EngineStopped)
    assert stopped.message == "the engine was closed"
    link.close()


@LINKS
def test_weights_are_read_where_the_engine_is(open_link: Callable[[], EngineLink], tmp_path: Path) -> None:
    (tmp_path / "new.gguf").write_text("new")
    link = open_link()
    inbox = Inbox(link)
    said = []
    for request in (1, 3):
        asked = replace(ASK[2], request=request, lease=request)
        for command in (OpenSession(request), OpenLease(request, request), asked):
            link.send(command)
        said.append([event.tokens for event in inbox.until(Finished) if isinstance(event, Tokens)])
        if request == 1:
            link.send(LoadWeights(2, str(tmp_path / "new.gguf")))
            assert inbox.until(WeightsLoaded)[-1] == WeightsLoaded(2, 2)
    link.close()
    assert said[0] != said[1]


def test_thread_and_process_give_the_same_tokens() -> None:
    answers = []
    for open_link in (thread_link, process_link):
        link = open_link()
        inbox = Inbox(link)
        for command in ASK:
            link.send(command)
        answers.append([event.tokens for event in inbox.until(Finished) if isinstance(event, Tokens)])
        link.close()
    assert answers[0] == answers[1]


def test_a_dead_worker_ends_everything_with_its_status() -> None:
    link = ProcessLink.start(Boot(model="", config=CONFIG, executor="scripted"))
    inbox = Inbox(link)
    for command in ASK[:2]:
        link.send(command)
    os.kill(link.pid, signal.SIGKILL)
    stopped = inbox.until(EngineStopped)[-1]
    assert isinstance(stopped, EngineStopped)
    assert stopped.message == "the engine process ended with status -9"
    link.send(AskStats(1))
    link.close()


def test_a_link_that_nobody_listened_to_can_be_closed() -> None:
    for open_link in (thread_link, process_link):
        open_link().close()


def test_a_model_that_cannot_be_loaded_is_the_callers_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing behind it")
    with pytest.raises(WeightsError):
        ProcessLink.start(Boot(model=str(broken), config=CONFIG))


def test_a_socket_that_cannot_be_made_is_an_engine_fault_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(EngineFault, match="TMPDIR"):
        ProcessLink.start(Boot(model="", config=CONFIG, executor="scripted"))
    assert not list(deep.iterdir())


@needs_pidfd
def test_the_worker_ends_when_its_parent_does() -> None:
    check_that_it_ends_with_its_parent("""
        from espalier.runtime.config import EngineConfig
        from espalier.runtime.process_link import Boot, ProcessLink
        link = ProcessLink.start(Boot(model="", config=EngineConfig(page=4, pages=64), executor="scripted"))
        pid = link.pid
    """, patience=PATIENCE)
