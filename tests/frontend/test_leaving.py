"""Runs that fail, are left, released and cancelled at random points give everything back, and nobody else notices."""

import asyncio
import contextlib
import random

import pytest

import espalier as esp
from espalier.frontend.backends.local import LocalModel
from espalier.runtime.config import EngineConfig
from tests.fakes import ByteTokenizer, scripted_runtime


@esp.function
def restless(s: esp.State, seed: int) -> str:
    chance = random.Random(seed)
    s += f"prefix of all {seed % 5}"
    forks = s.fork(chance.randint(1, 3))
    forks += esp.gen("x", max_tokens=chance.randint(1, 40))
    match chance.choice(["raise", "release", "join", "go on"]):
        case "raise":
            raise ValueError("restless")
        case "release":
            forks.release()
        case "join":
            forks.join()
    s += esp.gen("y", max_tokens=chance.randint(1, 40)) + esp.select("c", ["a", "ab", "b"])
    return s["y"]


async def leave_somewhere(seed: int, model: LocalModel) -> None:
    stay = random.Random(-seed).randint(1, 60)
    with contextlib.suppress(ValueError):
        async for _ in restless.astream(seed, backend=model):
            stay -= 1
            if not stay:
                return


async def crowd(first: int, model: LocalModel) -> None:
    tasks = [asyncio.create_task(leave_somewhere(seed, model)) for seed in range(first, first + 24)]
    for task in tasks[::6]:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("first", [0, 24, 48])
def test_everything_is_given_back(first: int, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = ByteTokenizer()
    logits = [0.0] * tokenizer.vocab_size
    logits[ord("a")], logits[tokenizer.end] = 3.0, 1.0
    config = EngineConfig(page=4, pages=300, step_tokens=32, max_rows=8)
    with LocalModel(scripted_runtime(lambda prefix: logits, tokenizer, config)) as model:
        asyncio.run(crowd(first, model))
        (quiet,) = restless.run_batch([(3,)], backend=model)
        after = model.stats()
    assert (after.pages_held, after.running, after.waiting) == (0, 0, 0)
    assert after.pages_free + after.pages_cached == after.pages_total
    assert quiet.ok or isinstance(quiet.error, ValueError)
    assert not caplog.records
