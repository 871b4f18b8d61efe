"""A schema that would take all the time it may have is its caller's loss; who sends another is answered meanwhile."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import httpx
import psutil
import pytest

from espalier.grammars.constraint import AnyObject, Constraint
from espalier.grammars.limits import Limits
from espalier.runtime.compile_process import MEMORY_BYTES, CompileProcess
from espalier.runtime.loading import compile_grammar

from .live import LiveServer, eventually
from .scripted import scripted_server

# The automaton has 2^20 states, and these limits would let it be built.
HOSTILE = {"type": "string", "pattern": "^.*a.{19}$"}
REFUSAL = (400, "constraint_too_large", "response_format.json_schema.schema")
PATIENT = Limits(seconds=1000.0, states=1 << 40)


@contextmanager
def server(deadline: float) -> Iterator[tuple[LiveServer, CompileProcess]]:
    with closing(CompileProcess(limits=PATIENT, deadline=deadline)) as pool:
        pool.compile(AnyObject())
        with scripted_server({"hi": "hello"}, compile=pool.compile) as (running, _):
            yield running, pool


def ask(running: LiveServer, schema: object) -> httpx.Response:
    return running.post({
        "model": "scripted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 60,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
    })


def answer(reply: httpx.Response) -> object:
    assert reply.status_code == 200, reply.text
    return json.loads(reply.json()["choices"][0]["message"]["content"])


def refusal(reply: httpx.Response) -> tuple[int, str, str]:
    error = reply.json()["error"]
    return reply.status_code, error["code"], error["param"]


def test_a_hostile_schema_among_good_ones_does_not_delay_them() -> None:
    with server(deadline=600.0) as (running, pool), ThreadPoolExecutor(1) as threads:
        (victim,) = (child.pid for child in psutil.Process().children() if "compile_worker" in "".join(child.cmdline()))
        hostile = threads.submit(ask, running, HOSTILE)
        assert eventually(lambda: len(pool._busy) == 1)
        for n in range(5):
            assert answer(ask(running, {"const": f"answer {n}"})) == f"answer {n}"
        assert not hostile.done()
        os.kill(victim, signal.SIGKILL)
        assert refusal(hostile.result()) == REFUSAL
        assert answer(ask(running, {"const": "still here"})) == "still here"


def test_a_hostile_schema_is_refused_at_the_deadline() -> None:
    with server(deadline=1.0) as (running, _):
        reply = ask(running, HOSTILE)
        assert refusal(reply) == REFUSAL
        assert "longer than 1 seconds" in reply.json()["error"]["message"]
        assert answer(ask(running, {"const": 1})) == 1


def nested(levels: int) -> object:
    """A schema of so many levels of subschema."""
    schema: object = {"type": "null"}
    for _ in range(levels):
        schema = {"type": "object", "additionalProperties": False, "properties": {"a": schema}}
    return schema


BUDGETS = [
    ("bytes", Limits(source_bytes=3_000), MEMORY_BYTES, {"enum": ["x" * 3_000]}, "longer than 3000 bytes"),
    ("depth", Limits(depth=400), MEMORY_BYTES, nested(250), "deeper than 400"),
    ("states", Limits(states=3_000), MEMORY_BYTES, HOSTILE, "more than 3000 automaton states"),
    ("seconds", Limits(states=1 << 40, seconds=0.5), MEMORY_BYTES, HOSTILE, "longer than 0.5 seconds"),
    ("memory", PATIENT, 160 << 20, HOSTILE, "160 MiB"),
]


@pytest.mark.parametrize(("limits", "memory", "schema", "words"), [row[1:] for row in BUDGETS],
                         ids=[row[0] for row in BUDGETS])
def test_a_budget_that_is_passed_is_a_refusal_that_names_it(
        limits: Limits, memory: int, schema: object, words: str) -> None:
    with closing(CompileProcess(workers=1, limits=limits, memory=memory, deadline=100.0)) as pool, \
            scripted_server({"hi": "null"}, compile=pool.compile) as (running, _):
        reply = ask(running, schema)
        status, code, place = refusal(reply)
        assert (status, code) == REFUSAL[:2]
        assert place.startswith(REFUSAL[2])
        assert words in reply.json()["error"]["message"]
        assert answer(ask(running, {"type": "null"})) is None


def test_256_levels_of_schema_are_compiled() -> None:
    with closing(CompileProcess(workers=1)) as pool, scripted_server({"hi": "{}"}, compile=pool.compile) as (it, _):
        assert answer(ask(it, nested(256))) == {}


def test_the_same_schema_from_many_at_once_is_compiled_once() -> None:
    asked: list[Constraint] = []
    release = threading.Event()

    def compiling(constraint: Constraint) -> bytes:
        asked.append(constraint)
        release.wait(30)
        return compile_grammar(constraint)

    with scripted_server({"hi": "7"}, compile=compiling) as (running, runtime), ThreadPoolExecutor(8) as threads:
        replies = [threads.submit(ask, running, {"type": "integer", "maximum": 9}) for _ in range(8)]
        assert eventually(lambda: sum(len(job._done_callbacks) for job in runtime._compiler._open.values()) == 8)
        release.set()
        assert [answer(reply.result()) for reply in replies] == [7] * 8
        assert len(asked) == 1
