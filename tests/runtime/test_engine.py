"""What the engine promises, one promise a test."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from espalier.runtime.errors import EngineFault
from espalier.runtime.executor import Ticket
from espalier.runtime.messages import (
    Abort,
    AskStats,
    Choose,
    CloseSession,
    Define,
    Forget,
    Generate,
    Prefill,
    ReleaseLease,
    Sampling,
    Stats,
    Tokens,
    TrimLease,
)
from espalier.runtime.plan import Pick, Plan
from espalier.runtime.scheduler import order
from espalier.runtime.scripted_executor import ScriptedExecutor
from tests.runtime.harness import END, MODEL, VOCABULARY, Bench, expected_answer, expected_scores
from tests.runtime.set_grammar import encode_texts

GREEDY = Sampling(temperature=0.0, ignore_end=True)
PROMPT = tuple(n % 7 for n in range(30))


def generate(request: int, lease: int, tokens: Sequence[int] = PROMPT, max_tokens: int = 4,
             sampling: Sampling = GREEDY, constraint: int | None = None) -> Generate:
    return Generate(request, lease, tuple(tokens), max_tokens, sampling, constraint)


def bench_with_leases(count: int, *, page: int = 4, pages: int = 64, step_tokens: int = 16, max_waiting: int = 4096,
                      context: int = 1 << 20) -> Bench:
    bench = Bench(page=page, pages=pages, step_tokens=step_tokens, max_waiting=max_waiting, context=context)
    for lease in range(1, count + 1):
        bench.lease(lease)
    return bench


# Reuse


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


# Memory


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


# Endings


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


# Choices


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
    lease = bench.engine.reception._leases.get(1)
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


# Constraints


def define(bench: Bench, texts: list[list[int]], constraint: int = 1) -> None:
    bench.send(Define(constraint, encode_texts(texts)))


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


def test_a_budget_that_narrows_the_choice_is_reported() -> None:
    bench = bench_with_leases(1)
    define(bench, [[1, 2, 3, 4, 5, 6, 7, 8], [9, 10]])
    bench.send(generate(1, 1, max_tokens=4, constraint=1))
    bench.run()
    assert bench.tokens(1) == [9, 10]
    assert (bench.finished(1).reason, bench.finished(1).closed) == ("length", True)


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


# Refusals


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(("command", "error", "where"), [
    (generate(1, 99), "InvalidParameter", "lease"),
    (generate(1, 1, ()), "EmptyPrompt", "prompt"),
    (generate(1, 1, PROMPT, 100), "PromptTooLong", "prompt"),
    (generate(1, 1, (VOCABULARY,)), "InvalidParameter", "tokens"),
    (generate(1, 1, (-1,)), "InvalidParameter", "tokens"),
    (generate(1, 1, max_tokens=0), "InvalidParameter", "max_tokens"),
    (generate(1, 1, max_tokens=-(10 ** 18)), "InvalidParameter", "max_tokens"),
    (generate(1, 1, sampling=Sampling(temperature=-1)), "InvalidParameter", "temperature"),
    (generate(1, 1, sampling=Sampling(temperature=NAN)), "InvalidParameter", "temperature"),
    (generate(1, 1, sampling=Sampling(temperature=INFINITY)), "InvalidParameter", "temperature"),
    (generate(1, 1, sampling=Sampling(top_p=0.0)), "InvalidParameter", "top_p"),
    (generate(1, 1, sampling=Sampling(top_p=1.1)), "InvalidParameter", "top_p"),
    (generate(1, 1, sampling=Sampling(top_k=-1)), "InvalidParameter", "top_k"),
    (generate(1, 1, sampling=Sampling(min_p=2.0)), "InvalidParameter", "min_p"),
    (generate(1, 1, sampling=Sampling(logprobs=21)), "InvalidParameter", "logprobs"),
    (generate(1, 1, constraint=5), "InvalidParameter", "constraint"),
    (Choose(1, 1, (), ((1,),)), "EmptyPrompt", "prompt"),
    (Choose(1, 1, (1,), ((VOCABULARY,),)), "InvalidParameter", "choices"),
    (Prefill(1, 1, ()), "EmptyPrompt", "prompt"),
    (Prefill(1, 1, (1,) * 200), "PromptTooLong", "prompt"),
])
def test_a_bad_request_is_refused_by_name_and_the_others_go_on(
    command: Generate | Choose | Prefill, error: str, where: str
) -> None:
    bench = bench_with_leases(2, context=100)
    bench.send(generate(7, 2), command)
    assert (bench.failed(1).error, bench.failed(1).where) == (error, where)
    bench.run()
    assert bench.finished(7).reason == "length"


def test_a_lease_grows_by_one_answer_at_a_time() -> None:
    bench = bench_with_leases(1)
    bench.send(generate(1, 1), generate(2, 1))
    assert bench.failed(2).where == "lease"
    bench.run()
    assert bench.finished(1).reason == "length"


# Law 7: one fault, one victim


class FaultyExecutor(ScriptedExecutor):
    """Raises in one of its calls when a row holds the poison token."""

    poison = 10

    def __init__(self, call: str) -> None:
        super().__init__(MODEL, vocabulary_size=VOCABULARY, pages=64, page=4)
        self._call = call
        self._poisoned = False

    def forward(self, plan: Plan) -> Ticket:
        self._poisoned = any(self.poison in row.tokens for row in plan.rows)
        self._fault("forward")
        return super().forward(plan)

    def sample(self, ticket: Ticket, picks: Sequence[Pick]) -> None:
        self._fault("sample")
        super().sample(ticket, picks)

    def _fault(self, call: str) -> None:
        if self._poisoned and call == self._call:
            raise RuntimeError(f"the device dropped {call}")


@pytest.mark.parametrize("call", ["forward", "sample"])
def test_a_fault_of_the_device_fails_the_guilty_row_only(call: str) -> None:
    bench = Bench(executor=FaultyExecutor(call))
    for lease in range(1, 5):
        bench.lease(lease)
        bench.send(generate(lease, lease, (lease, 10) if lease == 3 else (lease, 1), max_tokens=6,
                            sampling=Sampling(temperature=0.0, ignore_end=True)))
    bench.run()
    assert bench.failed(3).error == "EngineFault"
    assert f"RuntimeError: the device dropped {call}" in bench.failed(3).message
    innocent = [lease for lease in (1, 2, 4) if 10 not in bench.tokens(lease)]
    assert innocent
    for lease in innocent:
        assert bench.tokens(lease) == expected_answer((lease, 1), 6, GREEDY)[0]


@pytest.mark.parametrize("method", ["row", "accept", "forced", "must_end"])
def test_an_exception_of_a_matcher_fails_its_own_request(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_with_leases(3)
    define(bench, [[1, 2, 3, 4], [2, 3, 4, 5], [2, 3]])
    bench.send(generate(1, 1, constraint=1))
    victim = bench.engine.scheduler.requests[0]

    def broken(*arguments: object) -> object:
        raise KeyError("the matcher is lost")

    monkeypatch.setattr(victim.constrained._matcher, method, broken)  # type: ignore[attr-defined]
    bench.send(generate(2, 2, constraint=1), generate(3, 3))
    bench.run()
    assert "KeyError: 'the matcher is lost'" in bench.failed(1).message
    assert bench.finished(2).reason in ("stop", "length")
    assert bench.tokens(3) == expected_answer(PROMPT, 4, GREEDY)[0]
    assert bench.engine.memory.pool.held == 0


def test_a_broken_invariant_is_reported_and_contained() -> None:
    bench = bench_with_leases(2)
    bench.send(generate(1, 1, max_tokens=20))
    bench.step()
    bench.engine.memory.pool._held += 1  # a page that nobody has
    bench.engine.step()
    bench._collect()
    assert len(bench.faults) == 1
    assert isinstance(bench.faults[0], EngineFault)
    assert "total" in bench.failed(1).message
    bench.faults.clear()
    bench.audit()
    bench.send(generate(2, 2))
    bench.run()
    assert bench.tokens(2) == expected_answer(PROMPT, 4, GREEDY)[0]
    bench.send(generate(3, 1, ()))
    bench.run()
    assert bench.finished(3).usage.prompt >= 30


def test_a_command_that_cannot_be_carried_out_is_reported_and_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_with_leases(1)
    bench.send(generate(1, 1))

    def broken(*arguments: object) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr(bench.engine.constraints, "forget", broken)
    bench.send(Forget(3))
    assert [str(fault) for fault in bench.faults] == ["lost"]
    bench.faults.clear()
    bench.run()
    assert bench.tokens(1) == expected_answer(PROMPT, 4, GREEDY)[0]


def test_matchers_are_closed_whatever_the_end() -> None:
    bench = bench_with_leases(3)
    define(bench, [[1, 2, 3, 4], [2, 3, 4, 5]])
    bench.send(*(generate(lease, lease, constraint=1) for lease in (1, 2, 3)))
    matchers = [request.constrained._matcher for request in bench.engine.scheduler.requests]  # type: ignore[attr-defined]
    bench.step()
    bench.send(Abort(2))
    bench.run()
    assert all(matcher.closed for matcher in matchers)
