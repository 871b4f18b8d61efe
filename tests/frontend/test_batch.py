"""Many runs: order, isolation, the in-flight limit, progress."""

import threading

import pytest

import espalier as esp
from espalier.frontend.backends.scripted import Asked, Gate, Reply

from .conftest import Script


@esp.function
def tell(s: esp.State, text: str) -> str:
    s += text + esp.gen("x")
    return s["x"]


@esp.function
def forking(s: esp.State, text: str) -> str:
    s += text
    forks = s.fork(3)
    forks += lambda i: f"/{i}" + esp.gen("x")
    forks.join()
    return ",".join(forks["x"])


@esp.function
async def forking_on_loop(s: esp.AsyncState, text: str) -> str:
    s += text
    forks = s.fork(3)
    forks += lambda i: f"/{i}" + esp.gen("x")
    await forks.join()
    return ",".join(await forks.get("x"))


@pytest.mark.parametrize("program", [forking, forking_on_loop], ids=["plain", "async"])
def test_64_items_that_fork_3_each_with_8_in_flight(script: Script, program: esp.Function) -> None:
    model = script(lambda asked: f"<{asked.text}>")
    states = program.run_batch([{"text": f"t{k}"} for k in range(64)], backend=model, concurrency=8)
    assert [state.result for state in states] == [f"<t{k}/0>,<t{k}/1>,<t{k}/2>" for k in range(64)]


@pytest.mark.parametrize("items", [None, "rows", b"rows", {"text": "a"}, 3])
def test_what_is_no_list_of_items_is_refused_by_type(script: Script, items: object) -> None:
    with pytest.raises(esp.ProgramError, match=f"not {type(items).__name__}") as caught:
        tell.run_batch(items, backend=script([]))  # type: ignore[arg-type]
    assert caught.value.where == "items"


def test_a_failing_item_is_its_own_result(script: Script) -> None:
    broken = RuntimeError("no two")

    @esp.function
    def program(s: esp.State, text: str) -> str:
        if text == "1":
            raise LookupError("in the body")
        s += text + esp.gen("x")
        return s["x"]

    def answer(asked: Asked) -> Reply | str:
        return Reply(error=broken) if asked.text == "2" else asked.text

    states = program.run_batch([{"text": str(k)} for k in range(4)], backend=script(answer))
    assert [state.ok for state in states] == [True, False, False, True]
    assert isinstance(states[1].error, LookupError)
    with pytest.raises(LookupError, match="in the body"):
        _ = states[1].result
    assert "LookupError" in repr(states[1])
    assert states[2].error is broken
    assert states[3]["x"] == "3"


def test_no_more_than_the_limit_is_in_flight(script: Script) -> None:
    gate, lock = Gate(), threading.Lock()
    running: list[int] = [0, 0]

    @esp.function
    def program(s: esp.State, k: int) -> None:
        with lock:
            running[0] += 1
            running[1] = max(running)
        s += esp.gen("x")
        if k == 0:
            gate.wait_reached()
            gate.open()
        s.sync()
        with lock:
            running[0] -= 1

    states = program.run_batch([(k,) for k in range(20)], backend=script(lambda _: Reply(("x",), gate)), concurrency=4)
    assert all(state.ok for state in states)
    assert running == [0, 4]


def test_items_may_be_tuples_and_keyword_only_parameters_work(script: Script) -> None:
    @esp.function
    def program(s: esp.State, a: int, *, b: int = 5) -> int:
        return a * 10 + b

    model = script()
    assert [state.result for state in program.run_batch([(1,), [2], {"a": 3, "b": 4}], backend=model)] == [15, 25, 34]
    assert program.run_batch([], backend=model) == []


@pytest.mark.parametrize(
    ("items", "place"),
    [([{"text": "a"}, {"txet": "b"}], r"items\[1\]"), ([("a", "b")], r"items\[0\]"), (["a"], "dict")],
)
def test_wrong_items_are_refused_before_anything_runs(script: Script, items: list[object], place: str) -> None:
    model = script()
    with pytest.raises(esp.ProgramError, match=place):
        tell.run_batch(items, backend=model)
    assert model.operations == []


@pytest.mark.parametrize("concurrency", [0, -1, "8", True])
def test_a_wrong_limit_is_refused(script: Script, concurrency: object) -> None:
    with pytest.raises(esp.ProgramError, match="concurrency"):
        tell.run_batch([], backend=script(), concurrency=concurrency)  # type: ignore[arg-type]


def test_progress_counts_to_the_end(script: Script) -> None:
    seen: list[tuple[int, int]] = []
    tell.run_batch(
        [("a",)] * 5, backend=script(lambda _: "x"), progress=lambda finished, total: seen.append((finished, total))
    )
    assert seen == [(k, 5) for k in range(1, 6)]


def test_the_bar_names_the_program(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    tell.run_batch([("a",)] * 3, backend=script(lambda _: "x"), progress=True)
    assert "tell: 100%" in capsys.readouterr().err


def test_a_progress_function_that_raises_ends_the_batch_with_its_error(script: Script) -> None:
    def broken(finished: int, total: int) -> None:
        raise ValueError("bar")

    with pytest.raises(ValueError, match="bar"):
        tell.run_batch([("a",)] * 3, backend=script(lambda _: "x"), progress=broken)


def test_two_batches_share_one_model(script: Script) -> None:
    model = script(lambda asked: asked.text)
    results: dict[str, list[object]] = {}

    def work(name: str) -> None:
        states = tell.run_batch([(f"{name}{k}",) for k in range(10)], backend=model, concurrency=3)
        results[name] = [state.result for state in states]

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {name: [f"{name}{k}" for k in range(10)] for name in "ab"}
