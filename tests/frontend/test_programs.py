"""Plain bodies, one branch: text, roles, values, arguments."""

import pytest

import espalier as esp
from espalier.frontend.backends.scripted import Asked

from .conftest import Script


@esp.function
def describe(s: esp.State, subject: str) -> str:
    s += esp.system("You describe things.")
    with s.user():
        s += "Describe " + subject
    with s.assistant():
        s += "It is " + esp.gen("what", max_tokens=8) + "."
    return s["what"]


def test_text_messages_and_result_of_a_run(script: Script) -> None:
    state = describe.run(subject="a pear", backend=script(["green"]))
    assert state.result == state["what"] == "green"
    assert state.text() == "You describe things.Describe a pearIt is green."
    assert state.messages() == [
        {"role": "system", "content": "You describe things."},
        {"role": "user", "content": "Describe a pear"},
        {"role": "assistant", "content": "It is green."},
    ]
    assert state.ok
    assert state.error is None


def test_no_text_is_sent_twice(script: Script) -> None:
    model = script(["green"])
    describe.run(subject="a pear", backend=model)
    sent = [operation.text for operation in model.operations if operation.kind == "extend"]
    assert "".join(sent) == (
        "<system>You describe things.</system><user>Describe a pear</user><assistant>It is .</assistant>"
    )


def test_literals_of_one_expression_are_sent_at_once(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += esp.system("a") + "b" + "c" + esp.gen() + "d" + esp.user("e")

    model = script(["x"])
    program.run(backend=model)
    sent = [operation.text for operation in model.operations if operation.kind == "extend"]
    assert sent == ["<system>a</system>bc", "d<user>e</user>"]


def test_call_form_and_context_form_of_roles_are_the_same_program(script: Script) -> None:
    @esp.function
    def called(s: esp.State) -> None:
        s += esp.user("Hi") + esp.assistant("Well, " + esp.gen("x"))

    @esp.function
    def entered(s: esp.State) -> None:
        with s.user():
            s += "Hi"
        with s.assistant():
            s += "Well, "
            s += esp.gen("x")

    seen: list[str] = []

    def answer(asked: Asked) -> str:
        seen.append(asked.text)
        return "ok"

    for program in (called, entered):
        state = program.run(backend=script(answer))
        assert state.messages() == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, ok"}]
    assert seen[0] == seen[1] == "<user>Hi</user><assistant>Well, "


def test_a_role_inside_a_role_is_refused_and_adds_nothing(script: Script) -> None:
    @esp.function
    def nested(s: esp.State) -> None:
        with s.user():
            s += "a"
            with pytest.raises(esp.ProgramError, match="assistant was opened inside user"):
                s += "lost" + esp.assistant("b")
            s += "c"

    assert nested.run(backend=script()).messages() == [{"role": "user", "content": "ac"}]


def test_an_exception_inside_a_role_closes_it(script: Script) -> None:
    @esp.function
    def recovering(s: esp.State) -> None:
        try:
            with s.user():
                s += "half"
                raise ValueError("inside")
        except ValueError:
            pass
        with s.assistant():
            s += "after"

    assert recovering.run(backend=script()).messages() == [
        {"role": "user", "content": "half"}, {"role": "assistant", "content": "after"},
    ]


def test_values_can_be_used_in_the_middle_of_the_program(script: Script) -> None:
    @esp.function
    def echo(s: esp.State) -> None:
        s += esp.gen("expert")
        s += " = " + s["expert"].upper()

    assert echo.run(backend=script(["nils"])).text() == "nils = NILS"


def test_the_second_value_of_a_name_replaces_the_first(script: Script) -> None:
    @esp.function
    def twice(s: esp.State) -> list[str]:
        s += esp.gen("x")
        first = s["x"]
        s += esp.gen("x")
        return [first, s["x"]]

    assert twice.run(backend=script(["one", "two"])).result == ["one", "two"]


def test_unnamed_answers_are_text_and_no_variables(script: Script) -> None:
    @esp.function
    def unnamed(s: esp.State) -> None:
        s += esp.gen() + "-" + esp.gen() + esp.select(choices=["!", "?"])

    state = unnamed.run(backend=script(["a", "b"]))
    assert state.text() == "a-b!"
    assert state.variables == ()
    assert None not in state


def test_variables_can_be_set_by_the_program(script: Script) -> None:
    @esp.function
    def setting(s: esp.State) -> None:
        s.set("mine", [1, 2])
        assert "mine" in s

    assert setting.run(backend=script())["mine"] == [1, 2]


def test_reading_an_unknown_name_says_which_are_known(script: Script) -> None:
    state = describe.run(subject="x", backend=script(["y"]))
    with pytest.raises(esp.UnknownVariable, match="Known names: 'what'"):
        state["waht"]


def test_usage_is_summed_and_the_second_run_hits_the_cache(script: Script) -> None:
    model = script(["green", "green"])
    first = describe.run(subject="a pear", backend=model).usage
    second = describe.run(subject="a pear", backend=model).usage
    assert (first.cached, second.computed) == (0, 0)
    assert first.prompt == second.prompt == second.cached > 50
    assert first.generated == len("green")


def test_a_program_runs_inside_another_on_the_same_state(script: Script) -> None:
    @esp.function
    def inner(s: esp.State, name: str) -> str:
        s += esp.gen(name)
        return s[name]

    @esp.function
    def outer(s: esp.State) -> str:
        return inner(s, "a") + inner(s, name="b")

    state = outer.run(backend=script(["1", "2"]))
    assert state.result == "12"
    assert state["b"] == "2"


def test_a_program_runs_another_on_the_surrounding_backend(script: Script) -> None:
    @esp.function
    def inner(s: esp.State) -> str:
        s += esp.gen("x")
        return s["x"]

    @esp.function
    def outer(s: esp.State) -> str:
        return inner.run().result

    model = script(["deep"])
    assert outer.run(backend=model).result == "deep"
    with pytest.raises(esp.ProgramError, match="no backend was given"):
        inner.run()


def test_parameters_may_have_any_name(script: Script) -> None:
    @esp.function
    def odd(state: esp.State, s: int, temperature: str, n: int, self: int, *, progress: int, stop: int = 4) -> object:
        return (s, temperature, n, self, progress, stop)

    assert odd.run(s=0, temperature="warm", n=2, self=3, progress=9, backend=script()).result == (0, "warm", 2, 3, 9, 4)


def test_a_parameter_called_backend_is_given_by_position_or_bind(script: Script) -> None:
    @esp.function
    def odd(s: esp.State, backend: str) -> str:
        return backend

    assert odd.run("by position", backend=script()).result == "by position"
    assert odd.bind(backend="bound").run(backend=script()).result == "bound"


def test_arguments_of_a_call_win_over_bound_ones(script: Script) -> None:
    @esp.function
    def pair(s: esp.State, x: int, y: int = 0) -> tuple[int, int]:
        return x, y

    bound = pair.bind(x=1, y=2)
    model = script()
    assert bound.run(backend=model).result == (1, 2)
    assert bound.run(x=5, backend=model).result == (5, 2)
    assert bound.run(7, backend=model).result == (7, 2)
    assert bound.bind(y=9).run(backend=model).result == (1, 9)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {"txet": "a"}, "describe has no parameter 'txet'.*describe\\(subject: str\\)"),
        ((), {}, "missing.*'subject'"),
        (("a", "b"), {}, "too many"),
        (("a",), {"subject": "b"}, "multiple values|subject"),
    ],
)
def test_wrong_arguments_are_named(script: Script, args: tuple[str, ...], kwargs: dict[str, str], words: str) -> None:
    with pytest.raises(esp.ProgramError, match=words):
        describe.run(*args, backend=script(), **kwargs)


def test_a_program_in_a_class_is_a_method(script: Script) -> None:
    class Guide:
        def __init__(self, manner: str) -> None:
            self.manner = manner

        @esp.function
        def answer(self, s: esp.State, question: str) -> str:
            s += f"{self.manner}: {question} "
            return str(s.gen("reply"))

    guide = Guide("Briefly")
    assert guide.answer.run("Why?", backend=script(["So."])).text() == "Briefly: Why? So."
    assert guide.answer.bind(question="How?").run(backend=script(["Thus."])).result == "Thus."
    states = guide.answer.run_batch([{"question": "Who?"}], backend=script(["You."]))
    assert [state.text() for state in states] == ["Briefly: Who? You."]


def test_wrong_uses_are_refused_with_a_way_out(script: Script) -> None:
    with pytest.raises(esp.ProgramError, match=r"describe\.run"):
        describe("a pear")
    with pytest.raises(esp.ProgramError, match="model handle"):
        describe.run("a", backend="smollm2")  # type: ignore[arg-type]
    with pytest.raises(esp.ProgramError, match="first parameter"):
        esp.function(lambda: None)
    with pytest.raises(esp.ProgramError, match="first parameter"):
        esp.function(lambda *, s: None)


def test_nothing_can_be_added_after_the_run(script: Script) -> None:
    state = describe.run(subject="a", backend=script(["b"]))
    with pytest.raises(esp.BranchClosed):
        state += "more"
    with pytest.raises(esp.BranchClosed):
        state.fork(2)
    assert state.text().endswith("It is b.")


def test_a_closed_model_says_so(script: Script) -> None:
    model = script(["b"])
    model.close()
    model.close()
    with pytest.raises(esp.BranchClosed, match="the model was closed"):
        describe.run(subject="a", backend=model)


def test_gen_and_select_of_a_state_give_their_values(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> list[str]:
        return [s.gen("x", max_tokens=3), s.gen(), s.select("c", ["a", "b"])]

    state = program.run(backend=script(["1", "2"], [[-2.0, -1.0]]))
    assert state.result == ["1", "2", "b"]
    assert state.text() == "12b"
    assert state.variables == ("x", "c")
