"""Programs on a whole runtime: sessions, engine and tree are real, the model follows a script."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import espalier as esp
from espalier.frontend.backends.local import LocalModel, teller
from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import EmptyPrompt, InvalidParameter, PromptTooLong, UnknownModel
from tests.fakes import ByteTokenizer, ScriptedModel, scripted_runtime

SCRIPTS = {"assistant: ": "green", "green!": " no", "[0]": "zero", "[1]": "one", "go:": "a stop b"}


@pytest.fixture
def tokenizer() -> ByteTokenizer:
    return ByteTokenizer(["pears", " no"])


@pytest.fixture
def model(tokenizer: ByteTokenizer) -> Iterator[LocalModel]:
    scripted = ScriptedModel(tokenizer, SCRIPTS)
    tokenizer.encoded.clear()
    with LocalModel(scripted_runtime(scripted, tokenizer, context=400)) as opened:
        yield opened
        assert opened.stats().pages_held == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_loading_is_told_on_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    tell = teller()
    assert tell is not None
    tell("starting the engine")
    assert terminal.getvalue() == "starting the engine\n"
    for stream in (io.StringIO(), None):
        monkeypatch.setattr("sys.stderr", stream)
        assert teller() is None


def test_a_prompt_beyond_the_context_is_not_told_to_ask_for_no_tokens(model: LocalModel) -> None:
    @esp.function
    def program(s: esp.State, size: int, more: int) -> None:
        s += "x" * size + esp.gen("a", max_tokens=more)
        s.sync()

    with pytest.raises(PromptTooLong, match=r"Shorten the prompt\.$"):
        program.run(400, 3, backend=model)
    with pytest.raises(PromptTooLong, match="at most 10 tokens"):
        program.run(390, 30, backend=model)


@esp.function
def describe(s: esp.State, topic: str) -> list[object]:
    s += esp.user(topic)
    with s.assistant():
        s += esp.gen("what", max_tokens=8, temperature=0) + "!"
        s += esp.select("c", [" yes", " no"])
        with s.fork(2) as forks:
            forks += lambda i: f"[{i}]" + esp.gen("x", max_tokens=8, temperature=0)
    return [s["what"], s["c"], *forks["x"]]


def test_a_program_runs_on_the_engine(model: LocalModel) -> None:
    state = describe.run("pears", backend=model)
    assert state.result == ["green", " no", "zero", "one"]
    assert state.text() == "pearsgreen! no"
    assert state.scores("c")[" no"] > state.scores("c")[" yes"]


def test_no_text_is_tokenized_twice(model: LocalModel, tokenizer: ByteTokenizer) -> None:
    describe.run("pears", backend=model)
    assert sorted(tokenizer.encoded) == sorted(["user: pears", "assistant: ", "!", " yes", " no", "[0]", "[1]"])


def test_the_second_run_computes_almost_nothing(model: LocalModel) -> None:
    first, second = (describe.run("pears", backend=model) for _ in range(2))
    assert first.result == second.result
    assert second.usage.computed < first.usage.computed / 2
    assert second.usage.cached > first.usage.cached


def test_salts_share_nothing(tokenizer: ByteTokenizer) -> None:
    with LocalModel(scripted_runtime(ScriptedModel(tokenizer, SCRIPTS), tokenizer), salt="one") as one:
        describe.run("pears", backend=one)
        with LocalModel(one.runtime, salt="two") as two:  # closes the runtime of both
            usages = [describe.run("pears", backend=backend).usage for backend in (two, one)]
    assert usages[0].cached < usages[1].cached


def test_a_stop_string_is_cut_and_the_text_goes_on(model: LocalModel) -> None:
    @esp.function
    def program(s: esp.State) -> str:
        s += "go:" + esp.gen("v", stop="stop", temperature=0) + "stop!"
        return s["v"]

    state = program.run(backend=model)
    assert state.result == "a "
    assert state.text() == "go:a stop!"
    answer = state.answer("v")
    assert answer is not None
    assert (answer.stop, answer.finish) == ("stop", "stop")


def test_errors_of_the_runtime_are_raised_as_they_are(model: LocalModel) -> None:
    @esp.function
    def program(s: esp.State, text: str) -> str:
        s += text + esp.gen("x", max_tokens=8)
        return s["x"]

    with pytest.raises(EmptyPrompt):
        program.run("", backend=model)
    with pytest.raises(PromptTooLong):
        program.run("long" * 200, backend=model)
    states = program.run_batch([("",), ("go:",)], backend=model)
    assert [type(state.error) for state in states] == [EmptyPrompt, type(None)]


def test_a_batch_of_forks_keeps_values_apart(model: LocalModel) -> None:
    states = describe.run_batch([("pears",)] * 12, backend=model, concurrency=4)
    assert [state.result for state in states] == [["green", " no", "zero", "one"]] * 12


def test_streamed_text_is_the_text(model: LocalModel) -> None:
    stream = describe.stream("pears", backend=model)
    assert "".join(event.text for event in stream if event.branch == ()) == stream.state.text()


@pytest.mark.parametrize("fork", [False, True])
def test_cancelling_frees_what_was_held(fork: bool) -> None:
    tokenizer = ByteTokenizer()
    logits = [5.0] + [0.0] * (tokenizer.vocab_size - 1)
    config = EngineConfig(page=16, pages=4096, max_rows=16)
    endless = LocalModel(scripted_runtime(lambda prefix: logits, tokenizer, config))

    @esp.function
    async def program(s: esp.AsyncState) -> None:
        s += "go"
        if fork:
            forks = s.fork(3)
            forks += esp.gen("x", max_tokens=20_000, temperature=0)
            await forks.join()
        await s.gen("x", max_tokens=20_000, temperature=0)

    async def main() -> None:
        async for event in program.astream(backend=endless):
            if event.generated:
                return

    with endless:
        asyncio.run(main())
        after = endless.stats()
        assert (after.pages_held, after.running, after.waiting) == (0, 0, 0)


def test_a_model_that_does_not_exist_is_a_typed_error() -> None:
    with pytest.raises(UnknownModel):
        esp.local("no-such-model")


def test_an_adapter_is_refused_with_a_way_out() -> None:
    with pytest.raises(esp.ProgramError, match="Merge the adapter"):
        esp.local("smollm2-135m", adapter="v1")


def test_222_programs_go_on_with_the_weights_that_were_loaded(tokenizer: ByteTokenizer, tmp_path: Path) -> None:
    @esp.function
    def ask(s: esp.State) -> None:
        s += "who is it? " + esp.gen("x", max_tokens=8, temperature=0)

    def model(answer: str) -> ScriptedModel:
        return ScriptedModel(tokenizer, {"who is it? ": answer})

    (tmp_path / "new.gguf").write_text("new")
    runtime = scripted_runtime(model("old"), tokenizer, weights=lambda path: model(path.read_text()))
    with LocalModel(runtime) as local:
        assert ask.run(backend=local)["x"] == "old"
        assert local.load_weights(tmp_path / "new.gguf") == 2
        state = ask.run(backend=local)
        assert (state["x"], state.usage.cached) == ("new", 0)
        with pytest.raises(esp.EspalierError):
            local.load_weights(tmp_path / "none.gguf")
        assert ask.run(backend=local)["x"] == "new"


def test_penalties_and_biases_reach_the_sampler(model: LocalModel) -> None:
    """The model says green, each letter 20 above all else; x is 120."""

    @esp.function
    def program(s: esp.State, **options: object) -> None:
        s += "assistant: " + esp.gen("a", max_tokens=3, temperature=0, **options)  # type: ignore[arg-type]

    assert program.run(backend=model)["a"] == "gre"
    assert program.run(logit_bias={120: 20.5}, presence_penalty=1, backend=model)["a"] == "x"
    assert program.run(logit_bias={120: 21.5}, frequency_penalty=1, backend=model)["a"] == "xx"
    with pytest.raises(InvalidParameter, match="9999"):
        program.run(logit_bias={9999: 1}, backend=model)["a"]


def test_tokens_that_end_an_answer_and_the_least_it_has(model: LocalModel) -> None:
    """The model says green and ends; 101 is the letter e."""

    @esp.function
    def program(s: esp.State, **options: object) -> None:
        s += "assistant: " + esp.gen("a", max_tokens=8, temperature=0, **options)  # type: ignore[arg-type]

    assert program.run(stop_token_ids=[101, 7], backend=model)["a"] == "gr"
    assert program.run(backend=model)["a"] == "green"
    longer = program.run(min_tokens=7, backend=model)
    assert longer["a"].startswith("green")
    assert longer.usage.generated >= 7
    assert program.run(stop_token_ids=[101], min_tokens=3, backend=model)["a"][:2] == "gr"
    with pytest.raises(InvalidParameter, match="9999"):
        program.run(stop_token_ids=[9999], backend=model)["a"]
    with pytest.raises(esp.ProgramError, match="min_tokens"):
        program.run(min_tokens=9, backend=model)


def test_a_config_of_another_kind_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(esp.ProgramError, match="must be an EngineConfig, not dict"):
        esp.local("no-such-model", config={"threads": 1})  # type: ignore[arg-type]
