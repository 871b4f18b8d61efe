"""Constraints are compiled in processes that can be killed: the same grammars; a hostile one is its caller's loss."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from espalier.grammars.constraint import AnyObject, Choices, Constraint, Gbnf, JsonSchema, Lark, Regex
from espalier.grammars.errors import (
    BudgetTooSmall,
    ConstraintError,
    ConstraintTooLarge,
    InvalidConstraint,
    MissingByte,
    Unsatisfiable,
    UnsupportedKeyword,
)
from espalier.grammars.limits import Limits
from espalier.runtime import compile_process
from espalier.runtime.compile_process import CompileProcess
from espalier.runtime.errors import EngineFault
from espalier.runtime.faults import pack, unpack
from espalier.runtime.link import Sink
from espalier.runtime.loading import compile_grammar
from espalier.runtime.messages import Command
from espalier.runtime.runtime import Runtime

from ..fakes import ByteTokenizer, PlainTemplate
from .orphans import check_that_it_ends_with_its_parent, needs_pidfd

PERSON = JsonSchema('{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0}}}')
TREE = JsonSchema('{"$ref":"#/$defs/n","$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"},"maxItems":3}}}')
GOOD: list[Constraint] = [
    PERSON,
    TREE,
    JsonSchema('{"type":"string","format":"date","not":{"const":"2000-01-01"}}', spacing="indented"),
    JsonSchema('{"x-note":1,"enum":["é","😀",1.5,null]}'),
    AnyObject(),
    AnyObject(spacing="spaced"),
    Regex("[a-z]{3,9}@(x|y)\\.org"),
    Choices(("north", "south", "漢字")),
    Lark('start: "a" start "b" | "c"'),
    Gbnf('root ::= "x" [0-9]+ | "y" root'),
]
REFUSED: list[tuple[Constraint, type[ConstraintError]]] = [
    (JsonSchema("{"), InvalidConstraint),
    (JsonSchema('{"properties":{"a":{"type":"sting"}}}'), InvalidConstraint),
    (JsonSchema('{"allOf":[{"type":"string"},{"type":"integer"}]}'), Unsatisfiable),
    (JsonSchema('{"nonsense":1}', strict_keywords=True), UnsupportedKeyword),
    (JsonSchema("[" * 5000), ConstraintTooLarge),
    (Regex("a("), InvalidConstraint),
    (Regex("(?<=a)b(?=c)d"), ConstraintError),
    (Choices(()), ConstraintError),
    (Lark("start: missing"), ConstraintError),
    (Gbnf("root ::= other"), ConstraintError),
]
# Its automaton has 2^20 states: the compiler's own limits end it after seconds.
HOSTILE = Regex("(.*a.{19})")
PATIENCE = 60.0


def children() -> set[int]:
    """Zombies too."""
    return {child.pid for child in psutil.Process().children()}


@pytest.fixture(scope="module")
def shared() -> Iterator[CompileProcess]:
    with closing(CompileProcess()) as pool:
        yield pool


@pytest.fixture
def new_children() -> Iterator[Callable[[], set[int]]]:
    """Those of this test, of which none may be left."""
    before = children()
    yield lambda: children() - before
    assert children() <= before


@pytest.mark.parametrize("constraint", GOOD, ids=range(len(GOOD)))
def test_the_grammar_is_the_one_that_a_thread_compiles(shared: CompileProcess, constraint: Constraint) -> None:
    assert shared.compile(constraint) == compile_grammar(constraint)


@pytest.mark.parametrize(("constraint", "kind"), REFUSED, ids=range(len(REFUSED)))
def test_a_refusal_is_the_one_that_a_thread_raises(
    shared: CompileProcess, constraint: Constraint, kind: type[ConstraintError]
) -> None:
    with pytest.raises(kind) as here:
        compile_grammar(constraint)
    with pytest.raises(kind) as there:
        shared.compile(constraint)
    assert details(there.value) == details(here.value)
    assert there.value.keyword or there.value.where


def details(error: ConstraintError) -> tuple[object, ...]:
    return type(error), error.message, error.keyword, error.where, error.fix


@pytest.mark.parametrize(
    "error",
    [UnsupportedKeyword("m", keyword="k", where="#/w", fix="f"), MissingByte("m", where="#"), BudgetTooSmall(9, 3),
     ConstraintTooLarge("m", keyword="states")],
)
def test_an_error_crosses_the_border_whole(error: ConstraintError) -> None:
    there = unpack(pack(0, error))
    assert isinstance(there, ConstraintError)
    assert details(there) == details(error)


def test_the_worker_loads_only_what_compiling_needs() -> None:
    code = (
        "import sys\n"
        "from espalier.runtime import compile_worker\n"
        "from espalier.grammars.constraint import AnyObject\n"
        "from espalier.grammars.limits import Limits\n"
        "compile_worker.answer(compile_worker.Task(AnyObject(), Limits()))\n"
        "heavy = {'torch', 'triton', 'numba', 'numpy', 'tokenizers', 'fastapi', 'jinja2', 'lark', 'pydantic'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_hostile_constraint_is_ended_at_the_deadline_while_another_is_answered(
    new_children: Callable[[], set[int]]
) -> None:
    with closing(CompileProcess(limits=Limits(seconds=1000.0, states=1 << 40), deadline=4.0)) as pool:
        pool.compile(AnyObject())
        with ThreadPoolExecutor(1) as threads:
            hostile = threads.submit(pool.compile, HOSTILE)
            until(lambda: busy(pool) == 1)
            answered = 0
            while not hostile.done():
                assert pool.compile(PERSON)
                answered += 1
            assert answered > 1
            expect_too_large(lambda: hostile.result(PATIENCE), "seconds", "longer than 4 seconds")
        assert pool.compile(HOSTILE_BUT_SMALL) == compile_grammar(HOSTILE_BUT_SMALL)
        assert len(new_children()) <= 2


HOSTILE_BUT_SMALL = Regex("(.*a.{3})")


def test_a_constraint_that_takes_more_processor_time_than_it_may_is_ended_by_the_kernel() -> None:
    limits = Limits(seconds=0.0, states=1 << 40)
    with closing(CompileProcess(limits=limits, deadline=PATIENCE, command=speaker(DEAF))) as pool:
        expect_too_large(lambda: pool.compile(HOSTILE), "seconds", "processor seconds")


def test_a_constraint_that_takes_more_memory_than_it_may_is_refused_and_the_next_is_compiled() -> None:
    limits = Limits(seconds=1000.0, states=1 << 40)
    with closing(CompileProcess(limits=limits, deadline=PATIENCE, memory=200 << 20)) as pool:
        expect_too_large(lambda: pool.compile(HOSTILE), "memory", "200 MiB")
        assert pool.compile(PERSON) == compile_grammar(PERSON)


def test_a_worker_killed_while_it_compiles_costs_one_request(new_children: Callable[[], set[int]]) -> None:
    with closing(CompileProcess()) as pool, ThreadPoolExecutor(2) as threads:
        pool.compile(AnyObject())
        hostile = threads.submit(pool.compile, HOSTILE)
        until(lambda: busy(pool) == 1)
        (victim,) = new_children()
        good = threads.submit(pool.compile, PERSON)
        os.kill(victim, signal.SIGKILL)
        expect_too_large(lambda: hostile.result(PATIENCE), "process", "status -9")
        assert good.result(PATIENCE) == compile_grammar(PERSON)


def test_a_worker_killed_while_it_waits_costs_nobody_anything(new_children: Callable[[], set[int]]) -> None:
    with closing(CompileProcess()) as pool:
        for _ in range(2):
            assert pool.compile(PERSON)
            (pid,) = new_children()
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_a_worker_that_stands_still_is_replaced(new_children: Callable[[], set[int]]) -> None:
    with closing(CompileProcess(deadline=0.3, limits=Limits(seconds=0.2))) as pool:
        pool.compile(AnyObject())
        (pid,) = new_children()
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(ConstraintTooLarge) as caught:
            pool.compile(Lark("start: " + " | ".join(f'"{n}"' for n in range(100_000))))  # more than a socket holds
        assert (caught.value.keyword, caught.value.where) == ("seconds", "line 1, column 1")
        assert pid not in new_children()


def test_as_many_workers_as_agreed_whatever_is_asked(new_children: Callable[[], set[int]]) -> None:
    with closing(CompileProcess(workers=2)) as pool, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(pool.compile, GOOD * 3))
        assert found == [compile_grammar(constraint) for constraint in GOOD] * 3
        assert 1 <= len(new_children()) <= 2


def test_close_ends_what_runs_and_what_waits(new_children: Callable[[], set[int]]) -> None:
    pool = CompileProcess(workers=1)
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(pool.compile, HOSTILE) for _ in range(3)]
        until(lambda: busy(pool) == 1)
        pool.close()
        assert not new_children()
        for future in asked:
            with pytest.raises(EngineFault, match="closed"):
                future.result(PATIENCE)
    with pytest.raises(EngineFault, match="closed"):
        pool.compile(PERSON)
    pool.close()


def test_a_pool_that_is_dropped_leaves_no_process(new_children: Callable[[], set[int]]) -> None:
    pool = CompileProcess()
    assert pool.compile(AnyObject())
    assert new_children()
    del pool
    gc.collect()
    assert not new_children()


class NoEngine:
    """A link to nothing."""

    def send(self, command: Command) -> None: ...

    def listen(self, sink: Sink) -> None: ...

    def close(self) -> None: ...


def test_a_runtime_compiles_in_its_processes_and_ends_them(new_children: Callable[[], set[int]]) -> None:
    async def compile_all() -> None:
        first, second, same = await asyncio.gather(*map(runtime.compile, (PERSON, TREE, PERSON)))
        assert first == same != second
        with pytest.raises(InvalidConstraint) as caught:
            await runtime.compile(Regex("a("))
        assert caught.value.where

    words, pool = ByteTokenizer(), CompileProcess()
    runtime = Runtime(link=NoEngine(), tokenizer=words, template=PlainTemplate(words), model_name="none", context=9,
                      compile=pool.compile, end_compile=pool.close)
    asyncio.run(compile_all())
    assert new_children()
    runtime.close()
    assert not new_children()


# What a worker may be and say; each is the program of one.
SPEAKS = """
import socket, struct, sys, msgspec
s = socket.socket(fileno=0)
hear = lambda: s.recv(1 << 16)
frame = lambda body: s.sendall(struct.pack(">I", len(body)) + body)
say = lambda kind, **fields: frame(msgspec.msgpack.encode({"type": kind, **fields}))
"""
READY = SPEAKS + "say('Ready')\nhear()\n"
GARBAGE = {
    "nothing, at the start": "",
    "noise, at the start": SPEAKS + "s.sendall(b'\\xff' * 100)\nhear()",
    "no message, at the start": SPEAKS + "frame(b'\\x80')\nhear()",
    "an answer before it is asked": SPEAKS + "say('Done', grammar=b'')\nhear()",
    "noise": READY + "s.sendall(b'\\xff' * 100)\nhear()",
    "no message": READY + "frame(b'\\xc1')\nhear()",
    "a message of another kind": READY + "say('Ready')\nhear()",
    "an unknown error": READY + "while True:\n    say('Failed', request=0, error='Exit', message='')\n    hear()",
}
DIES = {
    "half an answer": READY + "s.sendall(b'\\0\\0\\1\\0abc')\nsys.exit(3)",
    "no answer": READY + "sys.exit(3)",
    "not even reading": SPEAKS + "say('Ready')\nsys.exit(3)",
}
DEAF = """
import sys
from espalier.grammars.limits import Meter
from espalier.runtime import compile_worker
Meter.time = lambda self, where="": None
sys.exit(compile_worker.main(1 << 30))
"""


def speaker(program: str) -> tuple[str, ...]:
    return sys.executable, "-c", program


@pytest.mark.parametrize("name", GARBAGE)
def test_a_worker_that_talks_nonsense_is_a_fault_and_is_ended(
    name: str, new_children: Callable[[], set[int]]
) -> None:
    with closing(CompileProcess(command=speaker(GARBAGE[name]))) as pool:
        for _ in range(2):
            with pytest.raises(EngineFault):
                pool.compile(PERSON)


@pytest.mark.parametrize("name", DIES)
def test_a_worker_that_dies_of_a_constraint_refuses_it(name: str, new_children: Callable[[], set[int]]) -> None:
    with closing(CompileProcess(command=speaker(DIES[name]))) as pool:
        for _ in range(2):
            with pytest.raises(ConstraintTooLarge, match="status 3") as caught:
                pool.compile(PERSON)
            assert (caught.value.keyword, caught.value.where) == ("process", "#")


def test_a_worker_that_cannot_be_started_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(EngineFault, match="cannot start"):
        CompileProcess(command=[str(tmp_path / "nothing")])


def test_a_worker_that_never_gets_ready_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_process, "_START_SECONDS", 0.1)
    mute = speaker(SPEAKS + "hear()")
    with closing(CompileProcess(command=mute)) as pool, pytest.raises(EngineFault, match="did not start"):
        pool.compile(PERSON)


@needs_pidfd
@pytest.mark.parametrize("constraint", ["AnyObject()", 'Regex("(.*a.{19})")'], ids=["idle", "compiling"])
def test_a_worker_ends_when_its_parent_does(constraint: str) -> None:
    check_that_it_ends_with_its_parent(f"""
        import threading, psutil
        from espalier.grammars.constraint import AnyObject, Regex
        from espalier.grammars.limits import Limits
        from espalier.runtime.compile_process import CompileProcess
        pool = CompileProcess(limits=Limits(seconds=1000.0, states=1 << 40))
        pool.compile(AnyObject())
        threading.Thread(target=pool.compile, args=({constraint},), daemon=True).start()
        pid = psutil.Process().children()[0].pid
    """, idle=0.3, patience=PATIENCE)


def busy(pool: CompileProcess) -> int:
    return len(pool._busy)


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come to pass")


def expect_too_large(attempt: Callable[[], bytes], keyword: str, words: str) -> None:
    with pytest.raises(ConstraintTooLarge, match=words) as caught:
        attempt()
    assert (caught.value.keyword, caught.value.where) == (keyword, "column 1")
    assert caught.value.fix
