"""What the engine promises when pages are short, one promise a test."""

from __future__ import annotations

from espalier.runtime.messages import (
    Prefill,
)
from espalier.runtime.scheduler import order
from tests.runtime.driving import GREEDY, PROMPT, bench_with_leases, generate
from tests.runtime.harness import expected_answer


def test_under_pressure_the_youngest_is_parked_and_goes_on_later() -> None:
    bench = bench_with_leases(3, pages=16, page=4)
    for lease in (1, 2, 3):
        bench.send(generate(lease, lease, (lease, *PROMPT[:20]), max_tokens=30))
    bench.run()
    for lease in (1, 2, 3):
        assert bench.tokens(lease) == expected_answer((lease, *PROMPT[:20]), 30, GREEDY)[0]
    firsts = [min(i for i, r in enumerate(bench.events) if r == lease) for lease in (1, 2, 3)]
    assert firsts == sorted(firsts)


def test_a_request_that_needs_every_page_gives_up_the_page_it_would_copy_from() -> None:
    bench = bench_with_leases(2, pages=8, page=4, step_tokens=64)
    bench.send(Prefill(1, 1, PROMPT[:6]))
    bench.run()
    bench.send(generate(2, 2, PROMPT[:29], max_tokens=3))
    bench.run()
    assert bench.tokens(2) == expected_answer(PROMPT[:29], 3, GREEDY)[0]
    assert bench.finished(2).usage.computed == 29 - 4 + 2


def test_order_is_arrival_and_changes_nothing() -> None:
    bench = bench_with_leases(3)
    bench.send(*(generate(lease, lease) for lease in (1, 2, 3)))
    requests = bench.engine.scheduler.requests
    assert order(reversed(requests)) == requests
    assert [request.id for request in requests] == [1, 2, 3]


def test_memory_that_is_short_does_not_make_work_twice() -> None:
    bench = bench_with_leases(16, pages=40, page=4)
    for lease in range(1, 17):
        bench.send(generate(lease, lease, (lease % 11, lease // 11, *PROMPT), max_tokens=24))
    bench.run()
    least = 16 * (32 + 23)
    assert bench.engine.counters.tokens_computed <= 1.25 * least


def test_idle_leases_do_not_block_the_memory() -> None:
    bench = bench_with_leases(6, pages=16, page=4)
    for lease in range(1, 7):
        bench.send(Prefill(lease, lease, (lease, *PROMPT)))
        bench.run()
    bench.send(generate(7, 1, (), max_tokens=20))
    bench.run()
    assert len(bench.tokens(7)) == 20


def test_what_can_never_fit_is_refused_at_once() -> None:
    bench = bench_with_leases(1, pages=8, page=4)
    bench.send(generate(1, 1, PROMPT, max_tokens=3))
    assert bench.failed(1).error == "Overloaded"
    assert "8" in bench.failed(1).message
    assert not bench.engine.busy
    bench.send(generate(2, 1, (), max_tokens=2))
    bench.run()
    assert len(bench.tokens(2)) == 2


def test_a_full_queue_is_refused() -> None:
    bench = bench_with_leases(3, max_waiting=2)
    bench.send(*(generate(lease, lease) for lease in (1, 2, 3)))
    assert bench.failed(3).error == "Overloaded"
    bench.run()
    assert bench.tokens(1) == bench.tokens(2) != []
