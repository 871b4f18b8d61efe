"""The weights of an engine are exchanged while it works: no answer mixes two loads, no page is read with another."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from espalier.runtime.errors import WeightsError
from espalier.runtime.messages import AskStats, Choose, Failed, LoadWeights, Stats, WeightsLoaded
from espalier.runtime.scripted_executor import Model, ScriptedExecutor, counting_model
from tests.runtime.driving import GREEDY, PROMPT, generate
from tests.runtime.harness import MODEL, VOCABULARY, Bench, expected_answer, expected_scores

NEW = counting_model(VOCABULARY, "new")
AHEAD = pytest.mark.parametrize("ahead", [False, True])


def read(path: Path) -> Model:
    if path.name == "broken":
        raise WeightsError("it is broken", where=str(path))
    return NEW


def opened(leases: int, *, ahead: bool = False, pages: int = 64, rows: int = 8) -> Bench:
    executor = ScriptedExecutor(MODEL, vocabulary_size=VOCABULARY, pages=pages, page=4, ahead=ahead, weights=read)
    bench = Bench(executor=executor, pages=pages, max_rows=rows)
    for lease in range(1, leases + 1):
        bench.lease(lease)
    return bench


def load(bench: Bench, request: int = 90, path: str = "new", *, end: bool = False) -> None:
    """Until the weights are read; they are used when nobody needs the old ones."""
    bench.send(LoadWeights(request, path, end))
    while bench.engine.weights.reading:
        bench.engine.receive(wait=True)
    bench.send()


def answer(model: Model, prompt: tuple[int, ...] = PROMPT, tokens: int = 4) -> list[int]:
    return expected_answer(prompt, tokens, GREEDY, model=model)[0]


@AHEAD
def test_222_the_same_prompt_is_computed_anew_with_the_new_weights(ahead: bool) -> None:
    bench = opened(3, ahead=ahead)
    bench.send(generate(1, 1))
    bench.run()
    bench.send(generate(2, 2))
    bench.run()
    assert bench.finished(2).usage.cached == len(PROMPT) - 1
    load(bench)
    bench.run()
    assert bench.last(90) == WeightsLoaded(90, 2)
    assert bench.engine.memory.pool.free == bench.engine.memory.pool.total
    bench.send(generate(3, 3))
    bench.run()
    assert (bench.finished(3).usage.cached, bench.tokens(3)) == (0, answer(NEW))
    assert answer(NEW) != answer(MODEL)
    bench.send(AskStats(4))
    stats = bench.last(4)
    assert isinstance(stats, Stats)
    assert stats.load == 2


@AHEAD
def test_222_who_has_begun_ends_with_the_old_weights_and_who_waits_begins_with_the_new(ahead: bool) -> None:
    bench = opened(4, ahead=ahead, rows=2)
    bench.send(generate(1, 1, max_tokens=9), generate(2, 2, (1, 2, 3), 9), generate(3, 3), generate(4, 4, (1, 2, 3)))
    for _ in range(4):
        bench.step()
    load(bench)
    bench.run()
    assert bench.tokens(1) == answer(MODEL, tokens=9)
    assert bench.tokens(2) == answer(MODEL, (1, 2, 3), 9)
    assert (bench.tokens(3), bench.tokens(4)) == (answer(NEW), answer(NEW, (1, 2, 3)))
    assert (bench.finished(3).usage.cached, bench.finished(4).usage.cached) == (0, 0)


@AHEAD
def test_222_who_has_begun_can_be_ended_with_a_typed_error(ahead: bool) -> None:
    bench = opened(2, ahead=ahead)
    bench.send(generate(1, 1, max_tokens=20))
    for _ in range(4):
        bench.step()
    load(bench, end=True)
    bench.send(generate(2, 2))
    assert bench.failed(1).error == "WeightsReplaced"
    bench.run()
    assert bench.last(90) == WeightsLoaded(90, 2)
    assert (bench.finished(2).usage.cached, bench.tokens(2)) == (0, answer(NEW))


def test_a_branch_goes_on_with_its_tokens_and_nothing_that_was_cached() -> None:
    bench = opened(1)
    bench.send(generate(1, 1))
    bench.run()
    bench.lease(2, parent=1)
    load(bench)
    bench.run()
    whole = (*PROMPT, *answer(MODEL), 5)
    for request, lease in ((2, 1), (3, 2)):
        bench.send(generate(request, lease, (5,)))
        bench.run()
        assert bench.tokens(request) == answer(NEW, whole)
    assert (bench.finished(2).usage.cached, bench.finished(3).usage.cached) == (0, len(whole) - 1)


def test_the_parts_of_a_choice_are_scored_with_the_weights_of_its_head() -> None:
    bench = opened(2, rows=1)
    choices = ((1, 2, 3), (4, 5, 6, 7))
    bench.send(Choose(1, 1, PROMPT, choices))
    while not any(request.is_part for request in bench.engine.scheduler.requests):
        bench.step()
    load(bench)
    bench.run()
    assert bench.chosen(1).logprobs == tuple(expected_scores(PROMPT, choice) for choice in choices)
    bench.send(Choose(2, 2, PROMPT, choices))
    bench.run()
    assert bench.chosen(2).logprobs == tuple(expected_scores(PROMPT, choice, NEW) for choice in choices)


def test_what_cannot_be_read_changes_nothing() -> None:
    bench = opened(2)
    bench.send(generate(1, 1))
    bench.run()
    load(bench, path="broken")
    assert (bench.failed(90).error, bench.failed(90).where) == ("WeightsError", "broken")
    bench.send(generate(2, 2))
    bench.run()
    assert (bench.finished(2).usage.cached, bench.tokens(2)) == (len(PROMPT) - 1, answer(MODEL))


def test_one_exchange_at_a_time() -> None:
    bench = opened(1)
    bench.send(generate(1, 1, max_tokens=20))
    bench.step()
    load(bench)
    bench.send(LoadWeights(91, "new"))
    assert bench.failed(91).error == "Overloaded"
    bench.run()
    assert bench.last(90) == WeightsLoaded(90, 2)
    load(bench, 92)
    bench.run()
    assert bench.last(92) == WeightsLoaded(92, 3)


@AHEAD
@pytest.mark.parametrize("seed", range(12))
def test_no_answer_mixes_two_loads(seed: int, ahead: bool) -> None:
    """Also where memory is short and work is parked; the executor raises on a page that another load wrote."""
    chance = random.Random(seed)
    bench = opened(24, ahead=ahead, pages=24, rows=4)
    prompts = [tuple(chance.randrange(3) for _ in range(chance.randrange(1, 30))) for _ in range(6)]
    asked, when = {}, chance.randrange(2, 24)
    for request in range(1, 25):
        asked[request] = chance.choice(prompts), chance.randrange(1, 12)
        bench.send(generate(request, request, *asked[request]))
        for _ in range(chance.randrange(3)):
            bench.step()
        if request == when:
            load(bench, end=chance.random() < 0.3)
    bench.run()
    assert bench.last(90) == WeightsLoaded(90, 2)
    for request, (prompt, tokens) in asked.items():
        told = bench.last(request)
        if not isinstance(told, Failed) or told.error != "WeightsReplaced":
            bench.finished(request)
            new = answer(NEW, prompt, tokens)
            old = new if request > when else answer(MODEL, prompt, tokens)
            assert bench.tokens(request) in (old, new)
