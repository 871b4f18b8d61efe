from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from espalier.grammars.errors import BudgetTooSmall, MissingByte, UnsupportedKeyword
from espalier.runtime.errors import EngineFault, InvalidParameter, Overloaded, TemplateError
from espalier.runtime.server.settings import Settings

from .fake_runtime import FakeRuntime, Script
from .live import LiveServer, live

SCRIPTS = {
    "json": Script(('{"name":', '"Ada"', ',"age":36}')),
    "closed": Script(('{"name":""}',), closed=True),
    "empty": Script(()),
    "endless": Script(("tick ",), endless=True, wait=0.005),
    "slow": Script(("slow",), wait=0.5),
    "queued, then refused": Script((), Overloaded("CANARY the queue is full"), wait=0.5),
    "midway": Script(("one", " two"), ValueError("CANARY internals")),
    "crash": Script((), ValueError("CANARY internals")),
    "fault": Script((), EngineFault("CANARY internals", where="step 7")),
    "full": Script((), Overloaded("the queue is full")),
    "lookbehind": Script((), UnsupportedKeyword("no look-behind", keyword="pattern", where="/properties/a b/pattern")),
    "budget": Script((), BudgetTooSmall(40, 8)),
    "byte": Script((), MissingByte("no token has the byte 0x04", where="byte 3 of the text")),
    "surrogate": Script((), InvalidParameter("no Unicode", where="messages/0/content")),
    "pages": Script((), Overloaded("90 + 10 tokens need 7 pages and the pool has 2", where="pages")),
    "root": Script((), MissingByte("every text of this constraint needs the byte 0x04", where="#")),
    "template": Script((), TemplateError("conversation roles must alternate")),
}


SETTINGS = Settings(drain_seconds=0.2, body_bytes=1 << 20)


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[FakeRuntime, LiveServer]]:
    """One server for all tests of a module."""
    runtime = FakeRuntime(SCRIPTS)
    with live(runtime, SETTINGS) as server:
        yield runtime, server


@pytest.fixture
def runtime(started: tuple[FakeRuntime, LiveServer]) -> FakeRuntime:
    """As new."""
    runtime, _ = started
    runtime.scripts, runtime.asked, runtime.notes, runtime.dead = SCRIPTS, [], (), False
    return runtime


@pytest.fixture
def server(started: tuple[FakeRuntime, LiveServer], runtime: FakeRuntime) -> LiveServer:
    return started[1]


@pytest.fixture(scope="module")
def connected(started: tuple[FakeRuntime, LiveServer]) -> Iterator[openai.OpenAI]:
    with started[1].client() as client:
        yield client


@pytest.fixture
def client(connected: openai.OpenAI, runtime: FakeRuntime) -> openai.OpenAI:
    return connected
