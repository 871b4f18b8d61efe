"""Bad requests and faults: one victim, the others go on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from espalier.runtime.errors import EngineFault
from espalier.runtime.executor import Ticket
from espalier.runtime.messages import (
    Abort,
    Choose,
    Forget,
    Generate,
    Prefill,
    Sampling,
)
from espalier.runtime.plan import Pick, Plan, Sampled
from espalier.runtime.scripted_executor import ScriptedExecutor
from tests.runtime.driving import GREEDY, PROMPT, bench_with_leases, define, generate
from tests.runtime.harness import MODEL, VOCABULARY, Bench, expected_answer

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


class FaultyExecutor(ScriptedExecutor):
    """Raises in one of its calls when a row holds the poison token."""

    poison = 10

    def __init__(self, call: str, ahead: bool) -> None:
        super().__init__(MODEL, vocabulary_size=VOCABULARY, pages=64, page=4, ahead=ahead)
        self._call = call
        self._poisoned: dict[Ticket, bool] = {}

    def forward(self, plan: Plan) -> Ticket:
        poisoned = any(self.poison in row.tokens for row in plan.rows)
        self._fault("forward", poisoned)
        ticket = super().forward(plan)
        self._poisoned[ticket] = poisoned
        return ticket

    def sample(self, ticket: Ticket, picks: Sequence[Pick]) -> None:
        self._fault("sample", self._poisoned[ticket])
        super().sample(ticket, picks)

    def result(self, ticket: Ticket) -> list[Sampled]:
        self._fault("result", self._poisoned[ticket])
        return super().result(ticket)

    def _fault(self, call: str, poisoned: bool) -> None:
        if poisoned and call == self._call:
            raise RuntimeError(f"the device dropped {call}")


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("call", ["forward", "sample", "result"])
def test_a_fault_of_the_device_fails_the_guilty_row_only(call: str, ahead: bool) -> None:
    bench = Bench(executor=FaultyExecutor(call, ahead))
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
