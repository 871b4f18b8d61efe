"""Choices, constraints and forced text in the engine, one promise a test."""

from __future__ import annotations

import pytest

from espalier.runtime.messages import (
    Choose,
    Define,
    Forget,
    Sampling,
)
from tests.runtime.driving import GREEDY, PROMPT, bench_with_leases, define, generate
from tests.runtime.harness import END, expected_answer, expected_scores


def test_choices_are_scored_by_their_own_tokens_and_leave_the_lease_as_it_was() -> None:
    bench = bench_with_leases(1)
    choices = ((1,), (2, 3), (4, 5, 6, 7, 8), ())
    bench.send(Choose(1, 1, PROMPT, choices))
    bench.run()
    assert bench.chosen(1).logprobs == tuple(expected_scores(PROMPT, choice) for choice in choices)
    usage = bench.chosen(1).usage
    assert (usage.prompt, usage.cached) == (30, 0)
    assert usage.computed == 30 + 1 + 4
    bench.send(generate(2, 1, ()))
    bench.run()
    assert bench.finished(2).usage.prompt == 30
    assert bench.tokens(2) == expected_answer(PROMPT, 4, GREEDY)[0]


def test_choices_leave_no_pin_behind() -> None:
    bench = bench_with_leases(1)
    bench.send(Choose(1, 1, PROMPT, ((2, 3, 4, 5, 6), (5, 6, 7))))
    bench.run()
    lease = bench.engine.requests.leases.get(1)
    assert lease is not None
    assert lease.pin is not None
    assert lease.pin.depth == len(PROMPT)
    bench.engine.memory.tree.evict(64)
    assert bench.engine.memory.pool.cached == 8


def test_the_chosen_text_is_cached() -> None:
    bench = bench_with_leases(1)
    bench.send(Choose(1, 1, PROMPT, ((2, 3, 4), (5, 6, 7))))
    bench.run()
    bench.send(generate(2, 1, (5, 6, 7)))
    bench.run()
    assert bench.finished(2).usage.cached == 32


def test_forced_tokens_ride_along_and_are_never_drawn() -> None:
    bench = bench_with_leases(1)
    define(bench, [[5, 6, 7, 8, 1, 2, 3], [5, 6, 7, 8, 4, 2, 3]])
    bench.send(generate(1, 1, max_tokens=9, constraint=1))
    bench.run()
    assert bench.engine.counters.steps == 3  # 34 tokens of prompt and forced start, 16 a step; the rest is free
    assert len(bench.tokens(1)) == 7
    done = bench.finished(1)
    assert (done.reason, done.usage.forced, done.usage.generated, done.closed) == ("stop", 6, 7, False)


def test_a_text_that_is_forced_whole_computes_nothing() -> None:
    bench = bench_with_leases(1)
    define(bench, [[5, 6, 7]])
    bench.send(generate(1, 1, max_tokens=3, constraint=1))
    assert bench.tokens(1) == [5, 6, 7]
    assert (bench.finished(1).reason, bench.finished(1).usage.computed) == ("stop", 0)
    assert not bench.engine.busy


def test_with_logprobs_the_mask_forces_and_the_answer_is_the_same() -> None:
    bench = bench_with_leases(2)
    define(bench, [[5, 6, 7, 1], [5, 6, 7, 2]])
    bench.send(generate(1, 1, constraint=1))
    bench.send(generate(2, 2, constraint=1, sampling=Sampling(temperature=0.0, logprobs=0)))
    bench.run()
    assert bench.tokens(1) == bench.tokens(2)
    assert bench.finished(2).usage.forced == 0


@pytest.mark.parametrize("logprobs", [None, 0])
def test_a_budget_that_changed_what_was_drawn_is_reported_and_one_that_only_narrowed_the_choice_is_not(
    logprobs: int | None
) -> None:
    """The model likes 9 more than 1 after this prompt."""
    bench = bench_with_leases(2)
    greedy = Sampling(temperature=0.0, ignore_end=True, logprobs=logprobs)
    define(bench, [[1, 2, 3, 4, 5, 6, 7, 8], [9, 10]], constraint=1)
    define(bench, [[9, 2, 3, 4, 5, 6, 7, 8], [1, 10]], constraint=2)
    bench.send(generate(1, 1, max_tokens=4, constraint=1, sampling=greedy))
    bench.send(generate(2, 2, max_tokens=4, constraint=2, sampling=greedy))
    bench.run()
    assert (bench.tokens(1), bench.finished(1).reason, bench.finished(1).closed) == ([9, 10], "stop", False)
    assert (bench.tokens(2), bench.finished(2).reason, bench.finished(2).closed) == ([1, 10], "length", True)


def test_a_stop_id_ends_a_constrained_answer_drawn_or_forced() -> None:
    """As a stop string does: what stands before it is told, and is no answer that the budget ended."""
    bench = bench_with_leases(2)
    define(bench, [[5, 6, 7, 8, 1, 2, 3], [5, 6, 7, 8, 4, 2, 3]])
    for request, stop in ((1, 7), (2, 2)):
        asked = Sampling(temperature=0.0, stop_ids=(stop,))
        bench.send(generate(request, request, max_tokens=9, constraint=1, sampling=asked))
    bench.run()
    assert bench.tokens(1) == [5, 6]
    assert bench.tokens(2)[:4] == [5, 6, 7, 8]
    assert len(bench.tokens(2)) == 5
    for request, stop in ((1, 7), (2, 2)):
        done = bench.finished(request)
        assert (done.reason, done.stop_id, done.closed) == ("stop", stop, False)


def test_nothing_ends_an_answer_before_its_least_number_of_tokens() -> None:
    """A model that wants to end, or a stop id, at each token; other penalties go on as they are."""
    for least in range(1, 6):
        for stop_ids in ((), (1, 2, 3)):
            bench = bench_with_leases(1)
            asked = Sampling(temperature=0.0, min_tokens=least, stop_ids=stop_ids, logit_bias=((END, 100.0), (2, 90.0)))
            bench.send(generate(1, 1, max_tokens=9, sampling=asked))
            bench.run()
            assert bench.tokens(1)[:least] == ([2] * least if not stop_ids else bench.tokens(1)[:least])
            assert len(bench.tokens(1)) == least
            assert not set(bench.tokens(1)) & set(stop_ids)
            assert bench.finished(1).reason == "stop"


def test_a_budget_below_the_shortest_answer_is_refused_with_both_numbers() -> None:
    bench = bench_with_leases(1)
    define(bench, [[1, 2, 3], [4, 5, 6, 7]])
    bench.send(generate(1, 1, max_tokens=2, constraint=1))
    assert (bench.failed(1).error, bench.failed(1).details) == ("BudgetTooSmall", (3, 2))


def test_a_grammar_that_cannot_be_bound_fails_its_own_request_with_the_true_cause() -> None:
    bench = bench_with_leases(2)
    bench.send(Define(1, b"\xc1"), generate(1, 1, constraint=1), generate(2, 2))
    assert bench.failed(1).error == "EngineFault"
    assert "MessagePack" in bench.failed(1).message
    bench.run()
    assert bench.finished(2).reason == "length"


def test_a_forgotten_constraint_is_refused_by_name_and_running_ones_go_on() -> None:
    bench = bench_with_leases(2)
    define(bench, [[1, 2, 3, 4], [2, 3, 4, 5]])
    bench.send(generate(1, 1, constraint=1), Forget(1), generate(2, 2, constraint=1))
    assert bench.failed(2).where == "constraint"
    bench.run()
    assert bench.finished(1).reason == "stop"
