"""Callers who do everything at the edge: storms, depth, tiny pools, exact limits, closing under load. Nothing hangs,
nothing leaks, and who did nothing wrong is served."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from contextlib import suppress

import pytest

import espalier as esp
from espalier.frontend.backends.local import LocalModel
from espalier.grammars.constraint import Choices, Constraint, JsonSchema, Regex
from espalier.grammars.errors import EspalierError
from espalier.runtime.branch import Answer, GenerateSpec, Text
from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import EngineFault, InvalidParameter, Overloaded, PromptTooLong, RequestAborted
from espalier.runtime.messages import Generate, Sampling
from espalier.runtime.models.llama import Llama
from espalier.runtime.runtime import Runtime
from espalier.runtime.session import Session
from espalier.runtime.torch_executor import TorchExecutor
from tests.runtime.harness import Bench
from tests.runtime.tiny_llama import SHAPE, tiny_config, tiny_llama

from .asking import Alone, Question, ask_all, opened, read

SMALL = EngineConfig(page=4, pages=256, step_tokens=32, max_rows=8)


async def said(session: Session, text: str, spec: GenerateSpec) -> Answer:
    branch = session.branch()
    session.extend(branch, [Text(text)])
    return (await read(session, branch, spec))[1]


async def quiet(runtime: Runtime) -> None:
    stats = await runtime.stats()
    assert (stats.running, stats.waiting, stats.pages_held) == (0, 0, 0)
    assert stats.pages_free + stats.pages_cached == stats.pages_total


# Storms


def test_a_storm_of_cancellations_leaves_nothing_behind() -> None:
    """Tasks end while they compile, wait, run, or just as they finish."""

    async def one(runtime: Runtime, seed: int) -> None:
        chance = random.Random(seed)
        constraint: Constraint | None = chance.choice([None, Regex(f"(ab){{2,{3 + seed % 7}}}"), Choices(("ab", "é"))])
        session = runtime.session(chance.choice(["", "a"]))
        spec = GenerateSpec(max_tokens=chance.randint(20, 60), seed=seed, constraint=constraint)
        task = asyncio.ensure_future(said(session, "the name " * chance.randint(1, 9), spec))
        for _ in range(chance.randint(0, 6)):
            await asyncio.sleep(chance.choice([0, 0, 0.001]))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        session.close()

    async def storm(runtime: Runtime) -> str:
        await asyncio.gather(*(one(runtime, seed) for seed in range(150)))
        session = runtime.session()
        answer = await said(session, "the name ", GenerateSpec(max_tokens=20, temperature=0.0))
        session.close()
        await quiet(runtime)
        return answer.text

    question = Question(("the name ",), GenerateSpec(max_tokens=20, temperature=0.0))
    with opened(SMALL) as runtime:
        assert asyncio.run(storm(runtime)) == Alone().answer(question)[0].text


def test_a_runtime_that_closes_under_load_ends_every_answer_on_every_loop() -> None:
    with opened(SMALL) as runtime:
        ends: list[str] = []
        started = threading.Barrier(5)

        async def many() -> None:
            session = runtime.session()
            spec = GenerateSpec(max_tokens=900, ignore_end=True)
            tasks = [asyncio.ensure_future(said(session, f"the name {n} ", spec)) for n in range(10)]
            await asyncio.sleep(0.02)
            await asyncio.to_thread(started.wait)
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                ends.append(type(result).__name__)

        threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        started.wait()
        runtime.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert len(ends) == 40
    assert set(ends) <= {"EngineFault", "Answer"}


@pytest.mark.parametrize("leave", ["release", "close", "cancel"])
def test_leaving_while_the_constraint_compiles_leaves_nothing_behind(leave: str) -> None:
    async def go(runtime: Runtime) -> None:
        session = runtime.session()
        branch = session.branch()
        session.extend(branch, [Text("x")])
        pattern = "(a|b){3}" if leave == "release" else "(c|b){4}" if leave == "close" else "(a|x){5}"
        spec = GenerateSpec(max_tokens=30, constraint=Regex(pattern))
        task = asyncio.ensure_future(read(session, branch, spec))
        await asyncio.sleep(0)
        if leave == "release":
            session.release(branch)
        elif leave == "close":
            session.close()
        else:
            task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(result, asyncio.CancelledError | InvalidParameter | RequestAborted), result
        session.close()
        await quiet(runtime)

    with opened(SMALL) as runtime:
        asyncio.run(go(runtime))


def test_a_large_batch_keeps_order_and_gives_everything_back() -> None:
    @esp.function
    def program(s: esp.State, n: int) -> str:
        s += f"the name of {n} is "
        s += esp.gen("x", choices=[f"a{n}", f"b{n}"], max_tokens=30)
        return s["x"]

    with opened(EngineConfig(page=4, pages=512, step_tokens=256, max_rows=64)) as runtime, LocalModel(runtime) as model:
        states = program.run_batch([(n,) for n in range(400)], backend=model, concurrency=100)
        assert all(state.result[1:] == str(n) for n, state in enumerate(states))
        stats = model.stats()
    assert (stats.running, stats.waiting, stats.pages_held) == (0, 0, 0)


# Depth and size


def test_forks_of_forks_two_hundred_deep() -> None:
    async def go(runtime: Runtime) -> None:
        session = runtime.session()
        branch = session.branch()
        session.extend(branch, [Text("root ")])
        text = "root "
        for level in range(200):
            branch, other = session.fork(branch, 2)
            session.release(other)
            session.extend(branch, [Text(f"{level} ")])
            text += f"{level} "
            if level % 50 == 49:
                answer = (await read(session, branch, GenerateSpec(max_tokens=4, temperature=0.0, ignore_end=True)))[1]
                text += answer.text
        assert session.text(branch) == text
        scores = await session.choose(branch, ["a", "ab"])
        assert scores.usage.cached > 500
        session.close()
        await quiet(runtime)

    with opened(EngineConfig(page=4, pages=1024, step_tokens=64, max_rows=4)) as runtime:
        asyncio.run(go(runtime))


def test_a_thousand_forks_of_one_branch_compute_it_once() -> None:
    async def go(runtime: Runtime) -> None:
        session = runtime.session()
        branch = session.branch()
        session.extend(branch, [Text("the name of abc " * 20)])
        spec = GenerateSpec(max_tokens=1, temperature=0.0, ignore_end=True)
        answers = await asyncio.gather(*(read(session, one, spec) for one in session.fork(branch, 1000)))
        assert len({answer.text for _, answer in answers}) == 1
        stats = await runtime.stats()
        assert stats.tokens_computed < session.length(branch) + 2 * 1000
        session.close()
        await quiet(runtime)

    with opened(EngineConfig(page=16, pages=128, step_tokens=512, max_rows=64)) as runtime:
        asyncio.run(go(runtime))


def test_ten_thousand_literals_are_one_text() -> None:
    with opened(SMALL) as runtime:
        session = runtime.session()
        branch = session.branch()
        for n in range(10_000):
            session.extend(branch, [Text("é" if n % 2 else "ab")])
        assert session.text(branch) == "abé" * 5000
        assert session.length(branch) == len(runtime.tokenizer.encode("abé" * 5000))
        session.close()


TEXTS = (
    "", "\x00", "\x7f\x80", "\u202e\u200b\ufeff", "e\u0301" * 9, "\U0010ffff", "👩‍👩‍👧" * 3, "\ufffd\ufffd",
    "\r\n\t\v", "a" * 3000,
)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_any_unicode_text_comes_back_whole(text: str) -> None:
    async def go(runtime: Runtime) -> None:
        session = runtime.session()
        branch = session.branch()
        session.extend(branch, [Text("x"), Text(text)])
        answer = (await read(session, branch, GenerateSpec(max_tokens=3, temperature=0.0)))[1]
        session.extend(branch, [Text(text)])
        assert session.text(branch) == "x" + text + answer.text + text
        if text:
            spec = GenerateSpec(max_tokens=len(text.encode()), constraint=Choices((text,)))
            assert (await said(session, "x", spec)).text == text
        session.close()

    with opened(EngineConfig(page=16, pages=1024, step_tokens=512, max_rows=4)) as runtime:
        asyncio.run(go(runtime))


# Limits met exactly


LARGEST = (1 << 63) - 1
EXTREME = (
    {"temperature": 5e-324}, {"temperature": 1e-40}, {"temperature": 1e38}, {"temperature": 1.7e308}, {"top_p": 5e-324},
    {"min_p": 1.0}, {"min_p": 5e-324}, {"top_k": 1}, {"top_k": LARGEST}, {"seed": LARGEST}, {"seed": -LARGEST - 1},
    {"temperature": 1e-40, "top_k": 2, "top_p": 5e-324, "min_p": 1.0}, {"repetition_penalty": 5e-324},
    {"repetition_penalty": 100.0}, {"frequency_penalty": 2.0, "presence_penalty": -2.0},
)


@pytest.fixture(scope="module")
def llama() -> Llama:
    return tiny_llama(tiny_config())


@pytest.mark.parametrize("extreme", EXTREME, ids=str)
def test_numbers_at_the_ends_of_their_ranges_draw_what_they_should(llama: Llama, extreme: dict[str, float]) -> None:
    """On the real sampler: next to no temperature, or a cut that leaves one token, is greedy; the rest is a draw."""

    def tokens(**sampling: float) -> list[int]:
        config = tiny_config()
        bench = Bench(executor=TorchExecutor(llama, config), vocabulary_size=SHAPE.vocab, page=config.page, pages=96)
        bench.lease(1)
        bench.send(Generate(1, 1, (1, 2, 3), 8, Sampling(ignore_end=True, **sampling)))  # type: ignore[arg-type]
        bench.run()
        assert bench.finished(1).reason == "length"
        return bench.tokens(1)

    cold = extreme.get("temperature", 1) < 1e-30 or extreme in ({"top_p": 5e-324}, {"min_p": 1.0}, {"top_k": 1})
    assert (tokens(**extreme) == tokens(temperature=0.0)) == cold


@pytest.mark.parametrize("page", [1, 3, 16])
def test_the_context_is_filled_to_the_last_token(page: int) -> None:
    async def go(runtime: Runtime) -> None:
        session = runtime.session()
        for prompt, budget in ((1, 63), (40, 24), (63, 1)):
            spec = GenerateSpec(max_tokens=budget, ignore_end=True, seed=1)
            assert len((await said(session, "z" * prompt, spec)).tokens) == budget
            with pytest.raises(PromptTooLong):
                await said(session, "z" * (prompt + 1), spec)
        with pytest.raises(PromptTooLong):
            await said(session, "z" * 64, GenerateSpec(max_tokens=1))
        branch = session.branch()
        session.extend(branch, [Text("z" * 60)])
        assert len((await session.choose(branch, ["abcz", "y" * 4])).totals) == 2
        with pytest.raises(PromptTooLong):
            await session.choose(branch, ["y" * 5])
        session.extend(branch, [Text("zzzz")])
        assert (await session.prefill(branch)).prompt == 64
        session.close()
        await quiet(runtime)

    config = EngineConfig(page=page, pages=2 + 64 // page, step_tokens=16, max_rows=4)
    with opened(config, context=64) as runtime:
        asyncio.run(go(runtime))


@pytest.mark.parametrize(("page", "pages"), [(1, 2), (1, 7), (3, 2), (4, 2), (16, 2), (512, 2)])
@pytest.mark.parametrize("step_tokens", [1, 512])
def test_a_pool_of_a_few_pages_serves_what_fits_and_refuses_the_rest(page: int, pages: int, step_tokens: int) -> None:
    room = min(page * pages, 40)
    asked = [
        Question(("z" * prompt,), GenerateSpec(max_tokens=room - prompt, seed=n, ignore_end=True))
        for n, prompt in enumerate(sorted({1, max(1, room // 2), max(1, room - 1)}) * 3)
    ]
    config = EngineConfig(page=page, pages=pages, step_tokens=step_tokens, max_rows=4)
    with opened(config) as runtime:
        assert [[one.tokens for one in said] for said in ask_all(runtime, asked, at_once=True, forks=False)] == [
            [one.tokens for one in alone] for alone in map(EndlessAlone().answer, asked)
        ]

        async def too_much() -> None:
            session = runtime.session()
            with pytest.raises(Overloaded):
                await said(session, "z" * page * pages, GenerateSpec(max_tokens=1))
            session.close()
            await quiet(runtime)

        asyncio.run(too_much())


class EndlessAlone(Alone):
    """Goes on past the end token, as `ignore_end` does."""

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer.end = -1


HUGE: dict[str, str] = {
    "twenty thousand properties": json.dumps({"properties": {f"p{n}": {"type": "integer"} for n in range(20_000)}}),
    "fifty thousand values": json.dumps({"enum": [f"value {n}" for n in range(50_000)]}),
    "five hundred levels": '{"items":' * 500 + "true" + "}" * 500,
    "nested repetition": json.dumps({"pattern": "^((((a{1,99}){1,99}){1,99}){1,99})$"}),
    "a long chain": json.dumps({"$ref": "#/$defs/0", "$defs": {
        **{n: {"$ref": f"#/$defs/{n + 1}"} for n in range(3000)}, 3000: {"type": "null"},
    }}),
    "choices that multiply": json.dumps({"allOf": [{"anyOf": [{"minimum": n}, {"maximum": -n}]} for n in range(40)]}),
    "unions of unions": json.dumps({"anyOf": [{"anyOf": [{"const": m * n} for m in range(60)]} for n in range(60)]}),
}


@pytest.mark.parametrize("kind", HUGE)
def test_a_huge_schema_is_served_or_refused_while_others_are_served(kind: str) -> None:
    async def go(runtime: Runtime) -> None:
        session = runtime.session()
        spec = GenerateSpec(max_tokens=200, temperature=0.0, constraint=JsonSchema(HUGE[kind]))
        large = asyncio.ensure_future(said(session, "x", spec))
        for n in range(3):
            await said(session, f"the name {n}", GenerateSpec(max_tokens=10))
        (result,) = await asyncio.gather(large, return_exceptions=True)
        assert isinstance(result, Answer | EspalierError), result
        assert not isinstance(result, EngineFault), result
        session.close()
        await quiet(runtime)

    with opened(SMALL) as runtime:
        asyncio.run(go(runtime))
