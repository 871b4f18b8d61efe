"""What the engine promises of reuse and order, one promise a test."""

from __future__ import annotations

import pytest

from espalier.runtime.messages import (
    Abort,
    Prefill,
    ReleaseLease,
    Sampling,
)
from espalier.runtime.scripted_executor import ScriptedExecutor
from tests.runtime.driving import GREEDY, PROMPT, bench_with_leases, generate
from tests.runtime.harness import Bench, expected_answer


def test_a_second_request_computes_only_its_last_token() -> None:
    bench = bench_with_leases(2)
    for lease in (1, 2):
        bench.send(generate(lease, lease))
        bench.run()
    usage = bench.finished(2).usage
    assert (usage.prompt, usage.cached, usage.computed) == (30, 29, 1 + 3)
    assert usage.miss == "complete"
    assert bench.tokens(1) == bench.tokens(2)


@pytest.mark.parametrize("shared", range(1, 30, 3))
def test_reuse_is_exact_to_the_token(shared: int) -> None:
    bench = bench_with_leases(2)
    other = (*PROMPT[:shared], *[8] * (30 - shared))
    bench.send(generate(1, 1))
    bench.run()
    bench.send(generate(2, 2, other))
    bench.run()
    assert bench.finished(2).usage.cached == shared
    assert bench.tokens(2) == expected_answer(other, 4, GREEDY)[0]


def test_requests_that_share_an_uncached_prefix_compute_it_once() -> None:
    bench = bench_with_leases(8, step_tokens=8)
    for lease in range(1, 9):
        bench.send(generate(lease, lease, (*PROMPT, lease)))
    bench.run()
    assert isinstance(bench.executor, ScriptedExecutor)
    own = 8 * (1 + 3)  # the last token of each prompt, and all but the last of what was drawn
    assert bench.executor.computed <= 30 + own + 8 * (30 % 4)
    for lease in range(1, 9):
        assert bench.tokens(lease) == expected_answer((*PROMPT, lease), 4, GREEDY)[0]


def test_whoever_waits_for_a_prefix_goes_on_when_its_maker_leaves() -> None:
    bench = bench_with_leases(3, step_tokens=8)
    for lease in (1, 2, 3):
        bench.send(generate(lease, lease, (*PROMPT, lease)))
    bench.step()
    assert bench.engine.scheduler.running == 1
    bench.send(Abort(1))
    bench.run()
    for lease in (2, 3):
        assert bench.tokens(lease) == expected_answer((*PROMPT, lease), 4, GREEDY)[0]
    assert bench.finished(2).usage.cached == 8
    assert bench.finished(3).usage.cached >= 28


def test_a_fork_needs_its_parent_no_more() -> None:
    bench = bench_with_leases(1, step_tokens=8)
    bench.send(Prefill(1, 1, PROMPT))
    bench.lease(2, parent=1)
    bench.send(ReleaseLease(1), generate(3, 2, (8,)))
    bench.run()
    assert bench.failed(1).error == "RequestAborted"
    assert bench.tokens(3) == expected_answer((*PROMPT, 8), 4, GREEDY)[0]


def test_a_miss_after_an_eviction_says_so() -> None:
    bench = bench_with_leases(2)
    bench.send(Prefill(1, 1, PROMPT))
    bench.run()
    bench.send(ReleaseLease(1))
    bench.engine.memory.tree.evict(3)
    bench.send(generate(2, 2))
    bench.run()
    assert (bench.finished(2).usage.miss, bench.finished(2).usage.cached) == ("evicted", 20)


def test_a_lease_goes_on_from_what_it_computed() -> None:
    bench = bench_with_leases(1)
    bench.send(generate(1, 1))
    bench.run()
    bench.send(generate(2, 1, (8, 8)))
    bench.run()
    usage = bench.finished(2).usage
    assert usage.cached == 30 + 3
    assert usage.computed == 3 + 3  # the token drawn last, the two new ones, and what follows but the last
    assert bench.tokens(2) == expected_answer((*PROMPT, *bench.tokens(1), 8, 8), 4, GREEDY)[0]


def test_a_long_prompt_is_computed_in_chunks_beside_running_answers() -> None:
    bench = bench_with_leases(2, step_tokens=8)
    bench.send(generate(1, 1, (1,), max_tokens=12))
    bench.step()
    bench.send(generate(2, 2))
    for _ in range(4):
        bench.step()
    assert len(bench.tokens(1)) == 5
    assert not bench.tokens(2)
    bench.run()
    assert bench.tokens(2) == expected_answer(PROMPT, 4, GREEDY)[0]


def test_two_salts_compute_everything_themselves() -> None:
    bench = Bench()
    bench.lease(1, session=1, salt="one")
    bench.lease(2, session=2, salt="two")
    for lease in (1, 2):
        bench.send(generate(lease, lease))
        bench.run()
    assert bench.finished(2).usage.cached == 0
    assert bench.tokens(1) == bench.tokens(2)


def test_a_seed_gives_the_same_draw_in_any_company() -> None:
    sampling = Sampling(temperature=1.0, seed=7, ignore_end=True)
    alone = bench_with_leases(1)
    alone.send(generate(1, 1, sampling=sampling, max_tokens=8))
    alone.run()
    crowd = bench_with_leases(6, step_tokens=5)
    for lease in range(1, 7):
        crowd.send(generate(lease, lease, PROMPT[:30 if lease == 4 else lease], sampling=sampling, max_tokens=8))
    crowd.run()
    assert crowd.tokens(4) == alone.tokens(1)
