"""A run as events: the text in order, the failure at the end, cancelled when left."""

import asyncio

import pytest

import espalier as esp
from espalier.frontend.backends.scripted import Gate, Reply

from .conftest import Script


@esp.function
def program(s: esp.State, text: str) -> str:
    s += text + esp.gen("x") + "." + esp.gen()
    return s["x"]


def test_events_carry_the_whole_text_with_the_names_of_variables(script: Script) -> None:
    stream = program.stream("Q: ", backend=script([Reply(("ab", "cd")), "e"]))
    events = list(stream)
    assert [(event.variable, event.generated, event.text) for event in events] == [
        (None, False, "Q: "), ("x", True, "ab"), ("x", True, "cd"), (None, False, "."), (None, True, "e"),
    ]
    assert stream.state.result == "abcd"
    assert "".join(event.text for event in events) == stream.state.text()


def test_events_of_branches_say_which(script: Script) -> None:
    @esp.function
    def forking(s: esp.State) -> None:
        with s.fork(2) as forks:
            forks += esp.gen("x")

    events = list(forking.stream(backend=script(["a", "b"])))
    assert sorted((event.branch, event.text) for event in events) == [((0,), "a"), ((1,), "b")]


def test_events_come_before_the_run_has_ended(script: Script) -> None:
    gate = Gate()
    stream = iter(program.stream("Q", backend=script(["a", Reply(("b",), gate)])))
    assert [next(stream).text for _ in range(3)] == ["Q", "a", "."]
    gate.open()
    assert [event.text for event in stream] == ["b"]


def test_async_iteration_gives_the_same_events(script: Script) -> None:
    model = script(["a", "b", "a", "b"])

    async def collected() -> list[esp.Event]:
        return [event async for event in program.astream("Q", backend=model)]

    assert asyncio.run(collected()) == list(program.stream("Q", backend=model))


@pytest.mark.parametrize("read", [True, False])
def test_a_failed_gen_ends_the_stream_with_its_cause(script: Script, read: bool) -> None:
    @esp.function
    def failing(s: esp.State) -> None:
        s += "a" + esp.gen("x")
        if read:
            s["x"]

    stream = failing.stream(backend=script([Reply(("half",), error=RuntimeError("said no"))]))
    seen = []
    with pytest.raises(RuntimeError, match="said no"):
        seen.extend(event.text for event in stream)
    assert not stream.state.ok


def test_a_body_that_raises_ends_the_stream_with_its_error(script: Script) -> None:
    @esp.function
    def raising(s: esp.State) -> None:
        s += "seen"
        s.sync()
        raise LookupError("in the body")

    stream = iter(raising.stream(backend=script()))
    assert next(stream).text == "seen"
    with pytest.raises(LookupError, match="in the body"):
        next(stream)


def test_leaving_the_loop_early_cancels_the_run(script: Script) -> None:
    never = Gate()
    model = script(["a", Reply(("b",), never)])
    stream = program.stream("Q", backend=model)
    for event in stream:
        if event.variable == "x":
            break
    with pytest.raises(esp.BranchClosed):
        _ = stream.state
    assert model.live == {}


def test_a_stream_is_iterated_once_and_says_so(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += "a" + esp.gen("x")

    stream = program.stream(backend=script(["b"]))
    assert [event.text for event in stream] == ["a", "b"]
    with pytest.raises(esp.ProgramError, match="iterated before"):
        list(stream)
