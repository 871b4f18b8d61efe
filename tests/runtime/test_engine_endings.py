"""How requests end and what is left behind, one promise a test."""

from __future__ import annotations

import pytest

from espalier.runtime.messages import (
    Abort,
    AskStats,
    CloseSession,
    ReleaseLease,
    Sampling,
    Stats,
    Tokens,
    TrimLease,
)
from tests.runtime.driving import GREEDY, PROMPT, bench_with_leases, generate
from tests.runtime.harness import END, VOCABULARY, Bench, expected_answer, expected_scores


@pytest.mark.parametrize("command", [Abort(1), ReleaseLease(1), CloseSession(1)])
def test_whoever_leaves_gives_its_pages_back_before_the_next_step(command: Abort | ReleaseLease | CloseSession) -> None:
    bench = bench_with_leases(1)
    bench.lease(2, session=2)
    bench.send(generate(1, 1, max_tokens=20), generate(2, 2, (1, 2)))
    bench.step()
    bench.send(command)
    assert not [r for r in bench.engine.scheduler.requests if r.id == 1]
    bench.audit()
    bench.run()
    assert bench.engine.memory.pool.held == 0
    assert bench.tokens(2) == expected_answer((1, 2), 4, GREEDY)[0]


def test_an_abort_names_its_end_and_usage() -> None:
    bench = bench_with_leases(1)
    bench.send(generate(1, 1, max_tokens=20))
    bench.step()
    bench.step()
    bench.send(Abort(1))
    assert bench.finished(1).reason == "aborted"
    assert bench.finished(1).usage.computed > 0


def test_request_1_and_request_10_are_not_the_same() -> None:
    bench = bench_with_leases(2)
    bench.send(generate(1, 1), generate(10, 2), Abort(1))
    bench.run()
    assert bench.finished(10).reason == "length"


def test_a_trimmed_lease_goes_on_from_there() -> None:
    bench = bench_with_leases(1)
    bench.send(generate(1, 1))
    bench.run()
    bench.send(TrimLease(1, 10), generate(2, 1, (8,)))
    bench.run()
    assert bench.tokens(2) == expected_answer((*PROMPT[:10], 8), 4, GREEDY)[0]
    assert bench.finished(2).usage.cached == 10


def test_the_end_token_ends_and_is_not_kept() -> None:
    def model(prefix: tuple[int, ...]) -> list[float]:
        return [9.0 if id == (END if len(prefix) == 5 else 3) else 0.0 for id in range(VOCABULARY)]

    bench = Bench(model=model)
    bench.lease(1)
    bench.send(generate(1, 1, (1, 2, 3), sampling=Sampling(temperature=0.0), max_tokens=9))
    bench.run()
    assert bench.tokens(1) == [3, 3]
    assert (bench.finished(1).reason, bench.finished(1).stop_id) == ("stop", END)
    bench.send(generate(2, 1, (4,), sampling=Sampling(temperature=0.0, stop_ids=(3,)), max_tokens=9))
    bench.run()
    assert bench.finished(2).usage.prompt == 6
    assert bench.finished(2).stop_id == 3


def test_logprobs_are_of_the_raw_logits_and_come_with_their_tokens() -> None:
    bench = bench_with_leases(1)
    bench.send(generate(1, 1, sampling=Sampling(temperature=0.0, ignore_end=True, logprobs=2)))
    bench.run()
    told = [one for event in bench.events[1] if isinstance(event, Tokens) for one in event.logprobs]
    answer = bench.tokens(1)
    assert [one.logprob for one in told] == list(expected_scores(PROMPT, answer))
    assert all(len(one.top) == 2 for one in told)


def test_stats_add_up() -> None:
    bench = bench_with_leases(2)
    for lease in (1, 2):
        bench.send(generate(lease, lease))
        bench.run()
    bench.send(AskStats(9))
    stats = bench.last(9)
    assert isinstance(stats, Stats)
    assert (stats.tokens_in, stats.tokens_cached, stats.tokens_out) == (60, 29, 8)
    assert stats.tokens_computed == 30 + 3 + 1 + 3
    assert stats.pages_free + stats.pages_cached + stats.pages_held == stats.pages_total
