"""A schema that would take all the time it may have is its caller's loss; who sends another is answered meanwhile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import httpx
import psutil

from espalier.grammars.constraint import AnyObject
from espalier.grammars.limits import Limits
from espalier.runtime.compile_process import CompileProcess

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
