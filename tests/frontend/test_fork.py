"""Branches: copies that go on alone, are read together, and end together when one fails."""

import contextlib

import pytest

import espalier as esp
from espalier.frontend.backends.scripted import Asked, Gate, Reply

from .conftest import Script

BOOM = RuntimeError("branch one broke")


def by_text(asked: Asked) -> str:
    return f"<{asked.text}>"


def test_fork_before_any_text(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        f = s.fork(2)
        for i in range(2):
            f[i] += "Q" + esp.gen("a", max_tokens=4)
        s += f[0]["a"] + f[1]["a"]

    assert program.run(backend=script(by_text)).text() == "<Q><Q>"


def test_branches_copy_text_and_variables_and_go_on_alone(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> list[str]:
        s += "root " + esp.gen("before")
        forks = s.fork(2)
        forks += lambda i: f" branch {i}"
        s += " trunk"
        assert forks["before"] == ["v", "v"]
        assert s.text() == "root v trunk"
        return [branch.text() for branch in forks.join()]

    state = program.run(backend=script(["v"]))
    assert state.result == ["root v branch 0", "root v branch 1"]


def test_sugar_takes_one_expression_a_list_or_a_function(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> list[str]:
        forks = s.fork(3)
        forks += "a"
        forks += ["x", esp.gen("g"), "z"]
        forks += str
        with pytest.raises(esp.ProgramError, match="2 additions were given to 3"):
            forks += ["x", "y"]
        with pytest.raises(esp.ProgramError, match="not int"):
            forks += 3
        with pytest.raises(esp.UnknownVariable):
            forks["g"]
        return [branch.text() for branch in s.join(forks)]

    assert program.run(backend=script(["G"])).result == ["ax0", "aG1", "az2"]


def test_fork_and_join_twice_with_the_same_name_keeps_both_rounds(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> list[list[str]]:
        rounds = []
        for k in range(2):
            with s.fork(2) as forks:
                forks += f"{k}" + esp.gen("x")
            rounds.append(forks["x"])
        return rounds

    assert program.run(backend=script(by_text)).result == [["<0>", "<0>"], ["<1>", "<1>"]]


def test_forks_of_forks(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> list[list[str]]:
        with s.fork(2) as outer:
            outer += str
            inner = [branch.fork(2) for branch in outer]
            for branches in inner:
                branches += lambda i: str(i) + esp.gen("x")
        return [branches["x"] for branches in inner]

    assert program.run(backend=script(by_text)).result == [["<00>", "<01>"], ["<10>", "<11>"]]


def test_a_branch_inherits_an_open_role(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> list[object]:
        with s.assistant():
            s += "I "
            forks = s.fork(2)
            forks += ["may", "must"]
        with pytest.raises(esp.ProgramError, match="inside assistant"):
            forks += esp.user("no")
        return [branch.messages() for branch in forks.join()]

    assert program.run(backend=script()).result == [
        [{"role": "assistant", "content": "I may"}], [{"role": "assistant", "content": "I must"}],
    ]


def test_joined_branches_are_released_and_stay_readable(script: Script) -> None:
    model = script(["a", "b"])

    @esp.function
    def program(s: esp.State) -> None:
        forks = s.fork(2)
        forks += esp.gen("x")
        left, right = forks.join()
        assert len(model.live) == 1
        assert (left["x"], right["x"], left.text()) == ("a", "b", "a")
        assert forks["x"] == ["a", "b"]
        assert len(forks.join()) == 2
        with pytest.raises(esp.BranchClosed):
            left += "more"

    program.run(backend=model)


def test_leaving_the_scope_by_an_exception_cancels_and_releases(script: Script) -> None:
    gate = Gate()
    model = script([Reply(("x",), gate), "root"])

    @esp.function
    def program(s: esp.State) -> None:
        try:
            with s.fork(2) as forks:
                forks[0] += esp.gen("x")
                gate.wait_reached()
                raise ValueError("out")
        except ValueError:
            pass
        assert len(model.live) == 1
        with pytest.raises(esp.BranchClosed):
            forks[0]["x"]
        s += esp.gen("after")

    assert program.run(backend=model)["after"] == "root"


def test_a_failing_branch_cancels_its_siblings_and_keeps_what_is_finished(script: Script) -> None:
    gate, never = Gate(), Gate()

    def answer(asked: Asked) -> Reply | str:
        return {
            "0": "early", "0early": Reply(("x",), never), "1": Reply(error=BOOM, gate=gate), "2": Reply(("y",), never),
        }[asked.text]

    model = script(answer)

    @esp.function
    def program(s: esp.State) -> str:
        forks = s.fork(3)
        forks += lambda i: str(i) + esp.gen("first")
        forks[0] += esp.gen("second")
        never.wait_reached()
        gate.open()
        with pytest.raises(RuntimeError, match="branch one broke") as caught:
            forks.join()
        assert caught.value is BOOM
        with pytest.raises(RuntimeError, match="branch one broke"):
            forks["first"]
        assert forks[0]["first"] == "early"
        for branch, name in ((forks[0], "second"), (forks[2], "first")):
            with pytest.raises(esp.BranchFailed) as failed:
                branch[name]
            assert failed.value.__cause__ is BOOM
        assert len(model.live) == 1
        s += "trunk goes on"
        return s.text()

    state = program.run(backend=model)
    assert state.result == "trunk goes on"
    assert state.ok


def test_a_failing_branch_that_nobody_joined_is_the_error_of_the_run(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        forks = s.fork(2)
        forks[1] += esp.gen("x")

    assert program.run(backend=script([BOOM])).error is BOOM


def test_branches_run_at_the_same_time(script: Script) -> None:
    gates = [Gate() for _ in range(3)]

    @esp.function
    def program(s: esp.State) -> list[str]:
        forks = s.fork(3)
        forks += lambda i: str(i) + esp.gen("x")
        for gate in gates:
            gate.wait_reached()
        for gate in reversed(gates):
            gate.open()
        return forks["x"]

    model = script(lambda asked: Reply((f"v{asked.text}",), gates[int(asked.text)]))
    assert program.run(backend=model).result == ["v0", "v1", "v2"]


def test_reading_one_value_waits_for_nothing_else(script: Script) -> None:
    gate = Gate()

    @esp.function
    def program(s: esp.State) -> str:
        s += esp.gen("quick") + esp.gen("slow")
        quick = s["quick"]
        gate.open()
        return quick + s["slow"]

    assert program.run(backend=script(["a", Reply(("b",), gate)])).result == "ab"


def test_fifty_branches_need_no_thread_each(script: Script) -> None:
    import threading

    @esp.function
    def program(s: esp.State) -> int:
        with s.fork(50) as forks:
            forks += esp.gen("x")
        return threading.active_count()

    before = threading.active_count()
    assert program.run(backend=script(by_text)).result <= before + 2


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "2"])
def test_a_wrong_count_is_refused(script: Script, count: object) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s.fork(count)  # type: ignore[arg-type]

    with pytest.raises(esp.ProgramError, match="count"):
        program.run(backend=script())


def test_a_branch_is_not_replaced_by_another(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        forks = s.fork(2)
        with pytest.raises(esp.ProgramError, match="replaced"):
            forks[0] = forks[1]

    program.run(backend=script())


def test_a_failure_that_the_body_was_told_of_is_not_the_error_of_the_run(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> list[str]:
        forks = s.fork(3)
        forks += lambda i: str(i) + esp.gen("x")
        kept = []
        for branch in forks:
            with contextlib.suppress(RuntimeError, esp.BranchFailed):
                kept.append(branch["x"])
        return kept

    state = program.run(backend=script(lambda asked: BOOM if asked.text == "2" else "v"))
    assert state.ok
    assert set(state.result) <= {"v"}


def test_released_branches_end_at_once_and_keep_what_is_finished(script: Script) -> None:
    never = Gate()
    model = script(lambda asked: "fast" if asked.text == "0" else Reply(("slow",), never))

    @esp.function
    def program(s: esp.State) -> str:
        forks = s.fork(2)
        forks += lambda i: str(i) + esp.gen("x")
        first = forks[0]["x"]
        forks.release()
        assert len(model.live) == 1
        with pytest.raises(esp.BranchClosed):
            forks[1]["x"]
        return first + forks[0]["x"]

    state = program.run(backend=model)
    assert state.result == "fastfast"
    assert state.ok
