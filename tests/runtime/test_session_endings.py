"""Errors and endings of the session layer, and the engine in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import closing

import pytest

from espalier.grammars.constraint import Choices
from espalier.grammars.errors import EspalierError, MissingByte
from espalier.runtime.branch import GenerateSpec, Opening, Text
from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import (
    EmptyPrompt,
    EngineFault,
    InvalidParameter,
    PromptTooLong,
    RequestAborted,
)
from espalier.runtime.process_link import Boot, ProcessLink
from espalier.runtime.runtime import Runtime
from tests.fakes import ByteTokenizer, PlainTemplate
from tests.runtime.sessions import GREEDY, answer, greedy, opened, read, tokenizer_of

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
    (GenerateSpec(max_tokens=1, min_tokens=1, constraint=Choices(("b",))), InvalidParameter, "min_tokens"),
    (GenerateSpec(max_tokens=3, min_tokens=4), InvalidParameter, "min_tokens"),
    (GenerateSpec(max_tokens=3, stop_ids=(5, 9999)), InvalidParameter, "stop_token_ids"),
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


def test_an_answer_may_be_the_first_thing_in_a_branch_behind_the_begin_of_sequence_token() -> None:
    async def main() -> None:
        with opened({"": "yes"}) as runtime:
            tokenizer_of(runtime).bos_id = 257
            session = runtime.session()
            first, second, refused = session.branch(), session.branch(), session.branch()
            assert (await answer(session, first, greedy(3))).text == "yes"
            session.extend(first, [Text("!")])
            assert (session.text(first), session.tokens(first)) == ("yes!", [257, *b"yes!"])
            scores = await session.choose(second, ["a", "ab", "yes"])
            assert (scores.best, scores.tokens) == (2, ((97,), (97, 98), tuple(b"yes")))
            with pytest.raises(PromptTooLong):
                session.generate(refused, greedy(1 << 20))
            session.extend(refused, [Text("a")])
            assert session.tokens(refused) == [97]

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
