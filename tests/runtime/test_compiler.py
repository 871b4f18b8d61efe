"""Constraints are compiled once, off the loop, kept within a budget; a failure is its caller's alone."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

from espalier.grammars.constraint import Constraint, Regex
from espalier.grammars.errors import InvalidConstraint
from espalier.runtime.compiler import Compiler
from espalier.runtime.messages import Command, Define, Forget


class Bench:
    def __init__(self, budget: int = 1 << 20, most: int = 100) -> None:
        self.sent: list[Command] = []
        self.compiled: list[str] = []
        self.threads: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self._ids = 0
        self.compiler = Compiler(
            self._compile, send=self.sent.append, next_id=self._next_id, budget=budget, most=most,
        )

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids

    def _compile(self, constraint: Constraint) -> bytes:
        assert isinstance(constraint, Regex)
        self.gate.wait(10)
        self.threads.add(threading.get_ident())
        self.compiled.append(constraint.pattern)
        if constraint.pattern == "(":
            raise InvalidConstraint("a bracket is open", where="column 1")
        return msgspec.msgpack.encode({"notes": [constraint.pattern], "body": "x" * 100})


def test_many_that_wait_for_one_constraint_compile_it_once_and_off_the_loop() -> None:
    async def main() -> None:
        bench = Bench()
        bench.gate.clear()
        waiting = [asyncio.create_task(bench.compiler.compiled(Regex("a"))) for _ in range(5)]
        await asyncio.sleep(0)
        waiting.pop().cancel()
        bench.gate.set()
        answers = await asyncio.gather(*waiting)
        assert len(set(answers)) == 1
        assert answers[0].notes == ("a",)
        assert await bench.compiler.compiled(Regex("a")) == answers[0]
        assert bench.compiled == ["a"]
        assert threading.get_ident() not in bench.threads
        assert [type(command) for command in bench.sent] == [Define]
        bench.compiler.close()

    asyncio.run(main())


def test_a_failure_is_raised_to_its_caller_and_not_kept() -> None:
    async def main() -> None:
        bench = Bench()
        for _ in range(2):
            with pytest.raises(InvalidConstraint, match="column 1"):
                await bench.compiler.compiled(Regex("("))
        assert bench.compiled == ["(", "("]
        assert not bench.sent
        await bench.compiler.compiled(Regex("b"))
        bench.compiler.close()

    asyncio.run(main())


def test_the_least_recently_used_is_forgotten_when_the_budget_is_passed() -> None:
    async def main() -> None:
        bench = Bench(budget=400)
        first = await bench.compiler.compiled(Regex("a"))
        second = await bench.compiler.compiled(Regex("b"))
        assert await bench.compiler.compiled(Regex("a")) == first
        await bench.compiler.compiled(Regex("c"))
        assert [command for command in bench.sent if isinstance(command, Forget)] == [Forget(second.id)]
        assert await bench.compiler.compiled(Regex("a")) == first
        bench.compiler.close()

    asyncio.run(main())


def test_one_that_is_larger_than_the_budget_is_kept_while_it_is_the_newest() -> None:
    async def main() -> None:
        bench = Bench(budget=1)
        only = await bench.compiler.compiled(Regex("a"))
        assert await bench.compiler.compiled(Regex("a")) == only
        await bench.compiler.compiled(Regex("b"))
        assert Forget(only.id) in bench.sent
        bench.compiler.close()

    asyncio.run(main())


def test_no_more_are_kept_than_the_engine_has_memory_for() -> None:
    async def main() -> None:
        bench = Bench(most=3)
        for pattern in "abcde":
            await bench.compiler.compiled(Regex(pattern))
        assert [command.constraint for command in bench.sent if isinstance(command, Forget)] == [1, 2]
        bench.compiler.close()

    asyncio.run(main())


def test_what_many_at_once_push_out_is_compiled_again_and_defined_when_it_is_given() -> None:
    async def main() -> None:
        bench = Bench(budget=1)

        async def use(pattern: str) -> None:
            for _ in range(5):
                compiled = await bench.compiler.compiled(Regex(pattern))
                told = [type(command) for command in bench.sent if getattr(command, "constraint", 0) == compiled.id]
                assert told == [Define]
                await asyncio.sleep(0)

        await asyncio.gather(*(use(pattern) for pattern in "abcdefgh"))
        bench.compiler.close()

    asyncio.run(main())
