"""Leaving a run frees everything it held."""

import asyncio
import signal
import threading
from collections.abc import Iterator

import pytest

import espalier as esp
from espalier.frontend.backends.scripted import Gate, Reply
from espalier.frontend.loop import Job, LoopThread

from .conftest import Script


@esp.function
def plain(s: esp.State) -> object:
    forks = s.fork(2)
    forks += esp.gen("x")
    return forks["x"]


@esp.function
async def on_loop(s: esp.AsyncState) -> object:
    forks = s.fork(2)
    forks += esp.gen("x")
    return await forks.get("x")


@pytest.mark.parametrize("program", [plain, on_loop], ids=["plain", "async"])
def test_cancelling_arun_releases_all_branches_before_it_returns(script: Script, program: esp.Function) -> None:
    never = Gate()
    model = script(lambda _: Reply(("x",), never))

    async def main() -> None:
        task = asyncio.create_task(program.arun(backend=model))
        await asyncio.to_thread(never.wait_reached)
        assert len(model.live) == 3
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.live == {}

    asyncio.run(main())


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process that a shell started in the background ignores SIGINT; here it does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("program", [plain, on_loop], ids=["plain", "async"])
def test_an_interrupt_of_a_batch_releases_all_branches(script: Script, program: esp.Function) -> None:
    never = Gate()
    model = script(lambda _: Reply(("x",), never))

    def interrupt() -> None:
        never.wait_reached()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        program.run_batch([{}] * 8, backend=model, concurrency=4)
    thread.join()
    assert model.live == {}


def test_closing_the_model_ends_its_runs(script: Script) -> None:
    never = Gate()
    model = script(lambda _: Reply(("x",), never))
    raised: list[BaseException] = []

    def work() -> None:
        try:
            plain.run(backend=model)
        except esp.ProgramError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    never.wait_reached()
    model.close()
    thread.join(30)
    assert [type(error) for error in raised] == [esp.BranchClosed]
    assert model.live == {}


def test_a_body_of_a_cancelled_run_is_told_at_its_next_read(script: Script) -> None:
    never, told = Gate(), threading.Event()
    model = script(lambda _: Reply(("x",), never))

    @esp.function
    def program(s: esp.State) -> None:
        s += esp.gen("x")
        try:
            s["x"]
        except esp.BranchClosed:
            told.set()
            raise

    stream = program.stream(backend=model)
    never.wait_reached()
    stream.close()
    assert told.wait(30)


def test_a_model_is_not_closed_by_its_own_program(script: Script) -> None:
    model = script()

    @esp.function
    async def program(s: esp.AsyncState) -> None:
        model.close()

    with pytest.raises(esp.ProgramError, match="cannot be closed"):
        program.run(backend=model)


def test_an_async_scope_closes_the_model() -> None:
    async def main() -> esp.Model:
        async with esp.scripted(["a", "b"]) as model:
            assert (await on_loop.arun(backend=model)).result == ["a", "b"]
        return model

    with pytest.raises(esp.BranchClosed):
        on_loop.run(backend=asyncio.run(main()))


@pytest.mark.parametrize("launched", [False, True])
def test_an_interrupt_while_work_is_handed_over_ends_the_work(launched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    left, begun = [], threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.append("work")

    async def last() -> None:
        left.append("loop")

    launch = Job.launch

    def interrupted(job: Job[None]) -> None:
        if launched:
            launch(job)
            begun.wait(10)
        raise KeyboardInterrupt

    thread = LoopThread()
    monkeypatch.setattr(Job, "launch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.call(work)
    monkeypatch.undo()
    thread.close(last)
    assert left == [*(["work"] if launched else []), "loop"]
