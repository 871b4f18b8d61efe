"""Async bodies and async callers: the same operations, on the model's loop or awaited from any other."""

import asyncio

import pytest

import espalier as esp
from espalier.frontend.backends.scripted import Asked, Gate, Reply, ScriptedModel

from .conftest import Script


@esp.function
def plain(s: esp.State, topic: str) -> str:
    s += esp.system("Be brief.")
    with s.user():
        s += topic
    with s.assistant():
        s += esp.gen("a") + "; " + esp.select("c", ["yes", "no"])
        with s.fork(2) as forks:
            forks += lambda i: f"[{i}]" + esp.gen("b")
        s += "".join(forks["b"])
    return s["a"] + s["c"] + s.text()


@esp.function
async def on_loop(s: esp.AsyncState, topic: str) -> str:
    s += esp.system("Be brief.")
    with s.user():
        s += topic
    with s.assistant():
        s += esp.gen("a") + "; " + esp.select("c", ["yes", "no"])
        async with s.fork(2) as forks:
            forks += lambda i: f"[{i}]" + esp.gen("b")
        s += "".join(await forks.get("b"))
    return await s.get("a") + s["c"] + await s.text()


def operations(model: ScriptedModel) -> list[tuple[str, int, str]]:
    """What each branch was asked, with the texts of adjacent extends as one: how far a body runs ahead is timing."""
    asked: list[tuple[str, int, str]] = []
    for operation in sorted(model.operations, key=lambda operation: operation.branch):
        kind, branch, text = operation.kind, operation.branch, operation.text
        if kind == "extend" and asked and asked[-1][:2] == (kind, branch):
            asked[-1] = (kind, branch, asked[-1][2] + text)
        else:
            asked.append((kind, branch, text))
    return asked


def test_plain_and_async_bodies_give_the_same_operations(script: Script) -> None:
    def answer(asked: Asked) -> str:
        return f"{len(asked.text)}"

    models = [script(answer), script(answer)]
    states = [plain.run("pears", backend=models[0]), on_loop.run("pears", backend=models[1])]
    assert states[0].result == states[1].result
    assert states[0].messages() == states[1].messages()
    assert operations(models[0]) == operations(models[1])


def test_gen_and_select_of_an_async_state_give_their_values(script: Script) -> None:
    @esp.function
    async def program(s: esp.AsyncState) -> list[object]:
        named = await s.gen("x", max_tokens=4)
        unnamed = await s.gen()
        chosen = await s.select("c", ["a", "b"])
        scores = await s.scores("c")
        answer = await s.answer("x")
        return [named, unnamed, chosen, dict(scores), answer.finish if answer else None, await s.raw("x")]

    state = program.run(backend=script(["1", "2"], [[-2.0, -1.0]]))
    assert state.result == ["1", "2", "b", {"a": -2.0, "b": -1.0}, "stop", "1"]
    assert state.text() == "12b"


def test_indexing_before_the_value_is_there_says_to_await_it(script: Script) -> None:
    gate = Gate()

    @esp.function
    async def program(s: esp.AsyncState) -> str:
        s += esp.gen("x")
        with pytest.raises(esp.ProgramError, match=r"await s\.get"):
            s["x"]
        gate.open()
        await s.get("x")
        return s["x"]

    assert program.run(backend=script([Reply(("v",), gate)])).result == "v"


@pytest.mark.parametrize("program", [plain, on_loop], ids=["plain", "async"])
def test_arun_works_on_any_loop(script: Script, program: esp.Function) -> None:
    async def main() -> list[esp.State]:
        model = script(lambda asked: "v")
        one = await program.arun("pears", backend=model)
        return [one, *await program.arun_batch([("a",), ("b",)], backend=model)]

    states = asyncio.run(main())
    assert [state["a"] for state in states] == ["v"] * 3


def test_run_works_where_a_loop_runs_already(script: Script) -> None:
    async def notebook() -> object:
        return plain.run("pears", backend=script(lambda asked: "v"))["a"]

    assert asyncio.run(notebook()) == "v"


def test_programs_run_programs_from_async_bodies(script: Script) -> None:
    @esp.function
    async def inner(s: esp.AsyncState, name: str) -> object:
        return await s.gen(name)

    @esp.function
    def inner_plain(s: esp.State) -> str:
        s += esp.gen("p")
        return s["p"]

    @esp.function
    async def outer(s: esp.AsyncState) -> list[object]:
        with pytest.raises(esp.ProgramError, match="await"):
            inner.run("x")
        mine = await inner(s, "mine")
        return [mine, (await inner.arun("x")).result, (await inner_plain.arun()).result]

    assert outer.run(backend=script(["1", "2", "3"])).result == ["1", "2", "3"]


def test_failures_in_async_bodies_raise_their_cause(script: Script) -> None:
    boom = RuntimeError("said no")

    @esp.function
    async def program(s: esp.AsyncState) -> None:
        forks = s.fork(2)
        forks[0] += esp.gen("x")
        forks[1] += esp.gen("x")
        with pytest.raises(RuntimeError, match="said no"):
            await forks.get("x")
        with pytest.raises(RuntimeError, match="said no"):
            await s.join(forks)
        with pytest.raises(esp.UnknownVariable):
            await s.get("y")
        await s.gen("z")

    model = script(["fine", boom, boom])
    with pytest.raises(RuntimeError, match="said no"):
        program.run(backend=model)


def test_a_with_block_of_an_async_state_left_by_an_exception_releases(script: Script) -> None:
    never = Gate()
    model = script([Reply(("x",), never)])

    @esp.function
    async def program(s: esp.AsyncState) -> int:
        try:
            async with s.fork(2) as forks:
                forks[0] += esp.gen("x")
                raise ValueError("out")
        except ValueError:
            pass
        return len(model.live)

    assert program.run(backend=model).result == 1


def test_an_async_program_is_not_called_on_a_plain_state(script: Script) -> None:
    @esp.function
    async def inner(s: esp.AsyncState) -> None:
        s += "never"

    @esp.function
    def outer(s: esp.State) -> None:
        inner(s)

    with pytest.raises(esp.ProgramError, match=r"inner\.run"):
        outer.run(backend=script())


def test_programs_nested_through_plain_and_async_bodies_never_wait_for_each_others_threads(script: Script) -> None:
    @esp.function
    def innermost(s: esp.State, k: int) -> str:
        s += f"{k}" + esp.gen("x")
        return s["x"]

    @esp.function
    async def middle(s: esp.AsyncState, k: int) -> list[str]:
        states = await innermost.arun_batch([(k,), (k + 1,)], concurrency=1)
        return [state.result for state in states]

    @esp.function
    def outer(s: esp.State, k: int) -> list[str]:
        return middle.run(k).result

    states = outer.run_batch([(k,) for k in range(6)], backend=script(lambda asked: asked.text), concurrency=1)
    assert [state.result for state in states] == [[f"{k}", f"{k + 1}"] for k in range(6)]


def test_branches_are_awaited_together_with_the_tools_of_asyncio(script: Script) -> None:
    gates = [Gate() for _ in range(3)]

    async def open_backwards() -> None:
        for gate in gates:
            await gate.reached()
        for gate in reversed(gates):
            gate.open()

    @esp.function
    async def program(s: esp.AsyncState) -> list[object]:
        forks = s.fork(3)
        forks += str
        *values, _ = await asyncio.gather(*(branch.gen("x") for branch in forks), open_backwards())
        return values

    model = script(lambda asked: Reply((f"v{asked.text}",), gates[int(asked.text)]))
    assert program.run(backend=model).result == ["v0", "v1", "v2"]


def test_a_reader_that_gives_up_does_not_stop_the_operation(script: Script) -> None:
    gate = Gate()

    @esp.function
    async def program(s: esp.AsyncState) -> object:
        s += esp.gen("x")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(s.get("x"), 0)
        gate.open()
        return await s.get("x")

    assert program.run(backend=script([Reply(("v",), gate)])).result == "v"
