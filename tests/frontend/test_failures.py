"""What fails raises its true cause where it is read, and never hangs."""

import pytest

import espalier as esp
from espalier.frontend.backends.scripted import Gate, Reply, ScriptedSession

from .conftest import Script

BOOM = RuntimeError("the engine said no")


def test_a_failed_gen_raises_its_cause_at_every_read(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += esp.gen("a")
        for read in (lambda: s["a"], s.text, s.messages, s.sync, lambda: s["a"]):
            with pytest.raises(RuntimeError, match="said no"):
                read()

    state = program.run(backend=script([BOOM]))
    assert state.error is BOOM
    assert not state.ok
    with pytest.raises(RuntimeError, match="said no"):
        state["a"]


def test_operations_after_a_failure_do_not_run_and_raise_the_same_cause(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += esp.gen("a") + "then" + esp.gen("b")
        s += esp.select("c", ["x", "y"])
        forks = s.fork(2)
        forks += esp.gen("d")
        for read in (s.text, lambda: s["b"], lambda: s["c"], lambda: forks["d"], lambda: forks[1]["d"], forks.join):
            with pytest.raises(RuntimeError, match="said no"):
                read()

    model = script([BOOM])
    assert program.run(backend=model).error is BOOM
    assert [operation.kind for operation in model.operations].count("generate") == 1
    assert "choose" not in {operation.kind for operation in model.operations}


def test_a_failure_that_nobody_read_is_in_the_final_state(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> str:
        s += esp.gen("a")
        s += esp.gen("b")
        return "done"

    state = program.run(backend=script(["fine", BOOM]))
    assert state.result == "done"
    assert state.error is BOOM
    assert state["a"] == "fine"
    with pytest.raises(RuntimeError):
        state["b"]


def test_what_the_body_raises_run_raises(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += esp.gen("a")
        raise LookupError("in the body")

    with pytest.raises(LookupError, match="in the body"):
        program.run(backend=script(["a"]))


@pytest.mark.parametrize("leave", [SystemExit, KeyboardInterrupt, StopIteration])
def test_a_body_that_tries_to_leave_the_process_ends_only_its_run(script: Script, leave: type[BaseException]) -> None:
    @esp.function
    def plain(s: esp.State) -> None:
        raise leave

    @esp.function
    async def on_loop(s: esp.AsyncState) -> None:
        raise leave

    model = script()
    with pytest.raises(esp.ProgramError if leave is not StopIteration else Exception, match=leave.__name__):
        plain.run(backend=model)
    with pytest.raises(Exception, match=leave.__name__):
        on_loop.run(backend=model)
    assert describe_after(model) == "alive"


def describe_after(model: esp.Model) -> object:
    @esp.function
    def program(s: esp.State) -> str:
        return "alive"

    return program.run(backend=model).result


def test_an_answer_that_breaks_off_is_a_failure_and_not_a_value(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += esp.gen("a")

    state = program.run(backend=script([Reply(("half ",), error=BOOM)]))
    assert state.error is BOOM


def test_a_script_that_ran_out_is_a_typed_error(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> str:
        s += esp.gen("a")
        return s["a"]

    with pytest.raises(esp.ProgramError, match="no answer left"):
        program.run(backend=script())


def test_scores_of_a_gen_are_refused(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += esp.gen("a")
        with pytest.raises(esp.ProgramError, match="no scores"):
            s.scores("a")

    program.run(backend=script(["x"]))


def test_a_session_that_cannot_open_is_the_error_of_its_run(script: Script) -> None:
    model = script()

    class Broken(type(model)):  # type: ignore[misc]
        def session(self) -> object:
            raise BOOM

    broken = Broken()
    with broken, pytest.raises(RuntimeError, match="said no"):
        describe_after(broken)


@pytest.mark.parametrize(("body_fails", "seen"), [(True, LookupError), (False, RuntimeError)])
def test_a_session_that_cannot_close_does_not_hide_what_went_wrong_first(
    script: Script, monkeypatch: pytest.MonkeyPatch, body_fails: bool, seen: type[Exception]
) -> None:
    async def close(session: ScriptedSession) -> None:
        raise BOOM

    @esp.function
    def program(s: esp.State) -> None:
        if body_fails:
            raise LookupError("in the body")

    model = esp.scripted()
    monkeypatch.setattr(ScriptedSession, "close", close)
    with model, pytest.raises(seen):
        program.run(backend=model)


@pytest.mark.parametrize("forks", [False, True])
def test_what_was_not_written_when_the_body_raised_says_so(script: Script, forks: bool) -> None:
    cause = ValueError("row 7 has no price")
    states: list[esp.State] = []

    @esp.function
    def program(s: esp.State) -> None:
        s += "prompt"
        s.sync()
        states.append(s.fork(2)[1] if forks else s)
        states[0].add(esp.gen("b"))
        raise cause

    (state,) = program.run_batch([()], backend=script([Reply(gate=Gate())] * 2))
    assert state.error is cause
    assert state.text() == "prompt"
    with pytest.raises(esp.BranchClosed, match=r"the program raised ValueError: row 7 has no price") as caught:
        states[0]["b"]
    assert caught.value.__cause__ is cause


def test_a_wrong_call_names_what_is_wrong_with_it(script: Script) -> None:
    @esp.function
    def program(s: esp.State, x: int) -> None:
        s += str(x)

    with pytest.raises(esp.ProgramError, match=r"no parameter 'model'.*program\(s?"):
        program.run(1, model=script())
    for call in (lambda: program(), lambda: program("x"), lambda: program(backend=script())):
        with pytest.raises(esp.ProgramError, match="without a state"):
            call()
