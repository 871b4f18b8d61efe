"""The session layer over a scripted model: texts, branches, stops, errors."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import pytest

from espalier.grammars.constraint import Choices, Constraint, Regex
from espalier.grammars.errors import BudgetTooSmall, EspalierError, InvalidConstraint, MissingByte
from espalier.runtime.branch import Answer, Chunk, Closing, GenerateSpec, Opening, Text, TokenIds
from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import (
    EmptyPrompt,
    EngineFault,
    InvalidParameter,
    PromptTooLong,
    RequestAborted,
    TemplateError,
)
from espalier.runtime.generation import Generation
from espalier.runtime.process_link import Boot, ProcessLink
from espalier.runtime.runtime import Runtime
from espalier.runtime.session import Session
from tests.fakes import ByteTokenizer, PlainTemplate, ScriptedModel, scripted_runtime
from tests.runtime.set_grammar import encode_texts, set_constraints

GREEDY = GenerateSpec(max_tokens=60, temperature=0.0)


def greedy(max_tokens: int = 60, *, stop: tuple[str, ...] = (), constraint: Constraint | None = None,
           logprobs: int | None = None) -> GenerateSpec:
    return GenerateSpec(max_tokens=max_tokens, temperature=0.0, stop=stop, constraint=constraint, logprobs=logprobs)


@contextmanager
def opened(scripts: Mapping[str, str | Sequence[int]], words: Sequence[str] = (), *, context: int = 1 << 20,
           config: EngineConfig | None = None, missing: Sequence[int] = ()) -> Iterator[Runtime]:
    tokenizer = ByteTokenizer(words, missing=missing)

    def compile(constraint: Constraint) -> bytes:
        if not isinstance(constraint, Choices):
            raise InvalidConstraint("only choices here", where="/")
        return encode_texts(tokenizer.encode(option) for option in constraint.options)

    runtime = scripted_runtime(
        ScriptedModel(tokenizer, scripts), tokenizer, config, context=context, compile=compile,
        constraints=set_constraints(tokenizer.vocab_size, tokenizer.end),
    )
    try:
        yield runtime
    finally:
        runtime.close()


async def read(generation: Generation) -> tuple[list[Chunk], Answer]:
    chunks = [chunk async for chunk in generation]
    return chunks, generation.answer


def tokenizer_of(runtime: Runtime) -> ByteTokenizer:
    assert isinstance(runtime.tokenizer, ByteTokenizer)
    return runtime.tokenizer


async def answer(session: Session, branch: int, spec: GenerateSpec = GREEDY) -> Answer:
    return (await read(session.generate(branch, spec)))[1]


# Text and tokens


async def one_answer(
    runtime: Runtime, prompt: str, spec: GenerateSpec
) -> tuple[list[Chunk], Answer, str, Session, int]:
    session = runtime.session()
    branch = session.branch()
    session.extend(branch, [Text(prompt)])
    chunks, done = await read(session.generate(branch, spec))
    return chunks, done, session.text(branch), session, branch


def test_the_text_is_what_was_appended_and_generated() -> None:
    async def main() -> None:
        with opened({"Q:": " yes"}) as runtime:
            chunks, done, text, session, branch = await one_answer(runtime, "Q:", GREEDY)
            assert "".join(chunk.text for chunk in chunks) == done.text == " yes"
            assert [token for chunk in chunks for token in chunk.tokens] == list(done.tokens)
            assert text == "Q: yes"
            assert done.finish == "stop"
            session.extend(branch, [Text(" A"), Text("B")])
            assert session.text(branch) == "Q: yes AB"
            assert session.tokens(branch) == list(b"Q: yes AB")

    asyncio.run(main())


def test_adjacent_literals_are_one_text_tokenized_once() -> None:
    async def main() -> None:
        with opened({"hello": "!"}, ["hello", "lo wor"]) as runtime:
            session = runtime.session()
            branch = session.branch()
            for part in ("he", "llo"):
                session.extend(branch, [Text(part)])
            spoken = tokenizer_of(runtime).encoded
            before = len(spoken)
            await answer(session, branch)
            assert spoken[before:] == ["hello"]
            session.extend(branch, [Text("lo wor")])
            await answer(session, branch)
            assert spoken[before:] == ["hello", "lo wor"]
            assert session.tokens(branch) == [256, ord("!"), 257]

    asyncio.run(main())


def test_a_generated_token_is_never_joined_with_the_literal_after_it() -> None:
    async def main() -> None:
        with opened({"Q": "he"}, ["hello"]) as runtime:
            _, _, _, session, branch = await one_answer(runtime, "Q", GREEDY)
            session.extend(branch, [Text("llo")])
            assert session.tokens(branch) == list(b"Qhello")

    asyncio.run(main())


def test_forks_share_the_prefix_and_go_their_own_ways() -> None:
    async def main() -> None:
        with opened({"A": " one", "B": " two"}) as runtime:
            session = runtime.session()
            parent = session.branch()
            session.extend(parent, [Text("a long prefix that all of them share: ")])
            children = session.fork(parent, 4)
            for index, child in enumerate(children):
                session.extend(child, [Text("AB"[index % 2])])
            answers = await asyncio.gather(*(answer(session, child) for child in children))
            assert [done.text for done in answers] == [" one", " two", " one", " two"]
            assert session.text(parent) == "a long prefix that all of them share: "
            stats = await runtime.stats()
            assert stats.tokens_computed <= 38 + 4 * (1 + 4) + 4
            spoken = tokenizer_of(runtime).encoded
            assert spoken.count("a long prefix that all of them share: ") == 1

    asyncio.run(main())


def test_roles_are_appended_through_the_template() -> None:
    async def main() -> None:
        with opened({"assistant: ": "fine"}) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Opening("user"), Text("how <end> is it?"), Closing("user"), Opening("assistant")])
            done = await answer(session, branch)
            assert done.text == "fine"
            assert session.text(branch) == "user: how <end> is it?<turn>assistant: fine"
            tokens = session.tokens(branch)
            assert tokens.count(tokenizer_of(runtime).specials["<turn>"]) == 1
            assert tokenizer_of(runtime).end not in tokens  # text that spells it stays text
            chat = session.branch()
            session.extend_chat(chat, [{"role": "user", "content": "how <end> is it?"}])
            assert session.tokens(chat) == tokens[:-4]
            session.extend_chat(chat, [{"role": "user", "content": "x"}], generation_prompt=False)
            assert session.text(chat).endswith("assistant: user: x<turn>")
            with pytest.raises(TemplateError, match="role"):
                session.extend(branch, [Opening("pirate")])

    asyncio.run(main())


def test_token_ids_are_appended_as_they_are() -> None:
    async def main() -> None:
        with opened({"hello": "!"}, ["hello"]) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("say "), TokenIds(tuple(b"hel")), Text("lo")])
            assert session.text(branch) == "say hello"
            assert session.tokens(branch) == list(b"say hello")
            with pytest.raises(InvalidParameter, match="tokens"):
                session.extend(branch, [TokenIds((10 ** 6,))])

    asyncio.run(main())


def test_the_answer_of_one_generation_is_the_prompt_of_the_next() -> None:
    async def main() -> None:
        with opened({"Q:": " yes", "yes so": " then"}) as runtime:
            _, _, _, session, branch = await one_answer(runtime, "Q:", GREEDY)
            session.extend(branch, [Text(" so")])
            done = await answer(session, branch)
            assert done.text == " then"
            assert done.usage.prompt == len("Q: yes so")
            assert done.usage.cached == len("Q: yes")  # the end token was drawn after the last of them

    asyncio.run(main())


# Stop strings


@pytest.mark.parametrize(("script", "words", "stop", "text", "met", "kept"), [
    ("north east south west", [], ("ast so",), "north e", "ast so", 7),
    ("north east south west", ["east", " south"], ("ast so",), "north e", "ast so", 6),
    ("a<thin> b<think", [], ("<think>",), "a<thin> b<think", None, 15),
    ("wait...stop!", ["..."], ("stop", "..", "!"), "wait", "..", 4),
    (' "END', [' "'], ('"',), " ", '"', 0),
    ('"END', [], ('"',), "", '"', 0),
    ("é漢字👩‍👩‍👧 done", [], ("do",), "é漢字👩‍👩‍👧 ", "do", 27),
])
def test_the_answer_is_cut_before_the_earliest_stop(
    script: str, words: list[str], stop: tuple[str, ...], text: str, met: str | None, kept: int
) -> None:
    async def main() -> None:
        with opened({"Q:": script}, words) as runtime:
            chunks, done, whole, session, branch = await one_answer(runtime, "Q:", greedy(stop=stop))
            assert "".join(chunk.text for chunk in chunks) == done.text == text
            assert (done.stop, done.finish) == (met, "stop")
            assert len(done.tokens) == kept
            assert whole == "Q:" + text
            session.extend(branch, [Text("END")])
            assert session.text(branch) == f"Q:{text}END"
            assert tokenizer_of(runtime).decode(session.tokens(branch)) == f"Q:{text}END"
            follow_up = await answer(session, branch, greedy(3))
            assert follow_up.usage.prompt == len(session.tokens(branch))
            assert (await runtime.stats()).pages_held == 0

    asyncio.run(main())


def test_a_literal_after_a_stop_is_there_once() -> None:
    async def main() -> None:
        with opened({"=": "42", "Pros: ": "good, cheap  Best=9"}, ["  Best", "Bes"]) as runtime:
            _, done, _, session, branch = await one_answer(runtime, "Pros: ", greedy(stop=("Best=",)))
            assert done.text == "good, cheap  "
            session.extend(branch, [Text("Best=")])
            assert (await answer(session, branch)).text == "42"
            assert session.text(branch) == "Pros: good, cheap  Best=42"

    asyncio.run(main())


# Characters


def test_no_chunk_holds_a_part_of_a_character() -> None:
    async def main() -> None:
        with opened({"Q:": "é漢字👩‍👩‍👧 done"}) as runtime:
            chunks, done, _, _, _ = await one_answer(runtime, "Q:", GREEDY)
            assert "".join(chunk.text for chunk in chunks) == done.text == "é漢字👩‍👩‍👧 done"
            assert not any("\ufffd" in chunk.text for chunk in chunks)

    asyncio.run(main())


@pytest.mark.parametrize("stop", [(), ("zzz",)])
def test_a_budget_that_ends_inside_a_character_gives_one_replacement(stop: tuple[str, ...]) -> None:
    async def main() -> None:
        with opened({"Q:": "😀😀"}) as runtime:
            chunks, done, text, _, _ = await one_answer(runtime, "Q:", greedy(6, stop=stop))
            assert "".join(chunk.text for chunk in chunks) == done.text == "😀\ufffd"
            assert (done.finish, len(done.tokens)) == ("length", 6)
            assert text == "Q:😀\ufffd"

    asyncio.run(main())


def test_logprobs_come_one_a_token() -> None:
    async def main() -> None:
        with opened({"Q:": "abcSTOP"}) as runtime:
            chunks, done, _, _, _ = await one_answer(runtime, "Q:", greedy(stop=("STOP",), logprobs=2))
            assert len(done.logprobs) == len(done.tokens) == 3
            assert all(len(chunk.tokens) == len(chunk.logprobs) for chunk in chunks)

    asyncio.run(main())


# Choices and constraints


def test_a_choice_is_scored_and_the_first_of_equals_wins() -> None:
    async def main() -> None:
        with opened({"Q: ": "blue"}) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("Q: ")])
            scores = await session.choose(branch, ["red", "blue", "blue"])
            assert scores.best == 1
            assert scores.totals[1] == scores.totals[2] > scores.totals[0]
            assert scores.tokens[0] == tuple(b"red")
            assert scores.totals[0] == pytest.approx(sum(scores.logprobs[0]))
            assert session.text(branch) == "Q: "
            for wrong in ([], ["a", ""]):
                with pytest.raises(InvalidParameter, match="choice"):
                    await session.choose(branch, wrong)

    asyncio.run(main())


def test_a_constraint_is_compiled_once_and_obeyed() -> None:
    async def main() -> None:
        with opened({"Q: ": "I do not know"}) as runtime:
            session = runtime.session()
            wanted = Choices(("yes, surely", "no"))
            for _ in range(2):
                branch = session.branch()
                session.extend(branch, [Text("Q: ")])
                done = await answer(session, branch, greedy(constraint=wanted))
                assert done.text in wanted.options
            spoken = tokenizer_of(runtime).encoded
            assert spoken.count("no") == 1

    asyncio.run(main())


def test_a_refused_constraint_raises_and_leaves_the_branch_as_it_was() -> None:
    async def main() -> None:
        with opened({"Q: ": "yes"}) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("Q: ")])
            with pytest.raises(InvalidConstraint, match="only choices"):
                await answer(session, branch, greedy(constraint=Regex("a")))
            with pytest.raises(BudgetTooSmall) as caught:
                await answer(session, branch, greedy(2, constraint=Choices(("long", "longer"))))
            assert (caught.value.needed, caught.value.given) == (4, 2)
            assert session.text(branch) == "Q: "
            assert (await answer(session, branch)).text == "yes"

    asyncio.run(main())


# Errors and endings


@pytest.mark.parametrize(("spec", "error", "where"), [
    (GenerateSpec(max_tokens=0), InvalidParameter, "max_tokens"),
    (GenerateSpec(max_tokens=-5), InvalidParameter, "max_tokens"),
    (GenerateSpec(max_tokens=99), PromptTooLong, "prompt"),
    (GenerateSpec(max_tokens=1, temperature=float("nan")), InvalidParameter, "temperature"),
    (GenerateSpec(max_tokens=1, temperature=-0.1), InvalidParameter, "temperature"),
    (GenerateSpec(max_tokens=1, top_p=0.0), InvalidParameter, "top_p"),
    (GenerateSpec(max_tokens=1, top_p=float("inf")), InvalidParameter, "top_p"),
    (GenerateSpec(max_tokens=1, stop=("",)), InvalidParameter, "stop"),
    (GenerateSpec(max_tokens=1, stop=("a",), constraint=Choices(("b",))), InvalidParameter, "stop"),
])
def test_a_bad_request_is_refused_before_anything_runs(
    spec: GenerateSpec, error: type[EspalierError], where: str
) -> None:
    async def main() -> None:
        with opened({"Q: ": "yes"}, context=100) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("Q: ")])
            with pytest.raises(error) as caught:
                session.generate(branch, spec)
            assert caught.value.where == where
            assert (await runtime.stats()).steps == 0
            assert (await answer(session, branch)).text == "yes"

    asyncio.run(main())


def test_empty_prompts_and_missing_bytes_are_named() -> None:
    async def main() -> None:
        with opened({"Q": "yes"}, missing=[0xF1]) as runtime:
            session = runtime.session()
            branch = session.branch()
            with pytest.raises(EmptyPrompt):
                session.generate(branch, GREEDY)
            with pytest.raises(EmptyPrompt):
                await session.prefill(branch)
            session.extend(branch, [Text("\U00040000")])
            with pytest.raises(MissingByte, match="0xf1"):
                session.generate(branch, GREEDY)
            with pytest.raises(InvalidParameter, match="not open"):
                session.extend(10 ** 6, [Text("x")])

    asyncio.run(main())


def test_a_branch_that_generates_is_busy_until_its_answer_is_read() -> None:
    async def main() -> None:
        with opened({"Q:": " a long answer"}) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("Q:")])
            generation = session.generate(branch, GREEDY)
            await anext(generation)
            with pytest.raises(InvalidParameter, match="generating"):
                session.extend(branch, [Text("x")])
            with pytest.raises(RequestAborted):
                _ = generation.answer
            await read(generation)
            session.extend(branch, [Text("x")])
            assert session.text(branch) == "Q: a long answerx"

    asyncio.run(main())


def test_an_answer_that_is_given_up_leaves_the_branch_as_it_was_and_no_page_held() -> None:
    async def main() -> None:
        with opened({"Q:": "x" * 500}) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("Q:")])
            generation = session.generate(branch, greedy(500))
            await anext(generation)
            await generation.aclose()
            stats = await runtime.stats()
            assert (stats.running, stats.waiting, stats.pages_held) == (0, 0, 0)
            assert session.text(branch) == "Q:"
            assert (await answer(session, branch, greedy(5))).text == "xxxxx"
            with pytest.raises(StopAsyncIteration):
                await anext(generation)

    asyncio.run(main())


def test_a_generation_that_is_dropped_is_aborted() -> None:
    async def main() -> None:
        with opened({"Q:": "x" * 500}) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("Q:")])
            await anext(session.generate(branch, greedy(500)))
            assert (await runtime.stats()).running == 0
            assert session.text(branch) == "Q:"

    asyncio.run(main())


def test_a_plain_prompt_begins_as_the_tokenizer_says_and_a_conversation_as_the_template_does() -> None:
    async def main() -> None:
        with opened({}) as runtime:
            tokenizer_of(runtime).prefix = (257,)
            session = runtime.session()
            plain, chat = session.branch(), session.branch()
            session.extend(plain, [Text(""), Text("a"), Text("b")])
            session.extend(chat, [Opening("user"), Text("a")])
            assert session.tokens(plain) == [257, *b"ab"]
            assert session.text(plain) == "ab"
            assert session.tokens(chat) == list(b"user: a")

    asyncio.run(main())


def test_closing_a_session_ends_its_answers_and_frees_its_memory() -> None:
    async def main() -> None:
        with opened({"Q:": "x" * 500}) as runtime:
            session, other = runtime.session(), runtime.session()
            branch, safe = session.branch(), other.branch()
            session.extend(branch, [Text("Q:")])
            other.extend(safe, [Text("Q:")])
            generation = session.generate(branch, greedy(500))
            await anext(generation)
            session.close()
            session.close()
            with pytest.raises(RequestAborted):
                await read(generation)
            with pytest.raises(InvalidParameter, match="closed"):
                session.branch()
            assert (await answer(other, safe, greedy(3))).text == "xxx"
            assert (await runtime.stats()).pages_held == 0

    asyncio.run(main())


def test_a_waiter_that_is_cancelled_aborts_its_work() -> None:
    async def main() -> None:
        config = EngineConfig(page=4, pages=64, step_tokens=1)
        with opened({}, config=config) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("y" * 200)])
            task = asyncio.create_task(session.prefill(branch))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await runtime.stats()).running == 0

    asyncio.run(main())


def test_a_closed_runtime_fails_what_is_open_and_what_comes_later() -> None:
    async def main() -> None:
        with opened({"Q:": "x" * 30_000}, config=EngineConfig(pages=2048)) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("Q:")])
            generation = session.generate(branch, greedy(30_000))  # far more than is made while the runtime closes
            await anext(generation)
            await asyncio.to_thread(runtime.close)
            with pytest.raises(EngineFault, match="closed"):
                await read(generation)
            with pytest.raises(EngineFault, match="closed"):
                await runtime.stats()

    asyncio.run(main())


def test_salts_do_not_share() -> None:
    async def main() -> None:
        with opened({"Q:": "yes"}) as runtime:
            cached = []
            for salt in ("one", "two", "one"):
                session = runtime.session(salt=salt)
                branch = session.branch()
                session.extend(branch, [Text("some shared text Q:")])
                cached.append((await answer(session, branch)).usage.cached)
                session.close()
            assert cached == [0, 0, 18]

    asyncio.run(main())


# The engine in a process of its own


def test_a_runtime_over_a_worker_works_and_hears_of_its_death() -> None:
    async def main() -> None:
        config = EngineConfig(page=4, pages=64)
        link = ProcessLink.start(Boot(model="", config=config, executor="scripted"))
        tokenizer = ByteTokenizer(specials=("<turn>",))
        with closing(Runtime(
            link=link, tokenizer=tokenizer, template=PlainTemplate(tokenizer), model_name="scripted", context=200,
        )) as runtime:
            session = runtime.session()
            branch = session.branch()
            session.extend(branch, [Text("some text")])
            spec = GenerateSpec(max_tokens=8, temperature=0.0, ignore_end=True)
            assert len((await answer(session, branch, spec)).tokens) == 8
            endless = session.generate(branch, GenerateSpec(max_tokens=150, temperature=0.0, ignore_end=True))
            await anext(endless)
            os.kill(link.pid, signal.SIGKILL)
            with pytest.raises(EngineFault, match="status -9"):
                await read(endless)
            with pytest.raises(EngineFault, match="status -9"):
                await answer(session, branch, spec)

    asyncio.run(main())
