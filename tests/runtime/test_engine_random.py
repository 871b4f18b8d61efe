"""Law 2, for every order of events: whatever was cached, chunked, batched, parked or aborted, answers are the model's.

A state machine sends commands at random to an engine with little memory; the scripted executor raises when a page does
not hold what it should, and every step is audited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from espalier.runtime.messages import (
    Abort,
    Choose,
    CloseSession,
    Define,
    Failed,
    Finished,
    Generate,
    OpenLease,
    OpenSession,
    Prefill,
    ReleaseLease,
    Sampling,
    TrimLease,
)
from tests.runtime.harness import Bench, expected_answer, expected_scores
from tests.runtime.set_grammar import MaskRows, SetGrammar, encode_texts

TEXTS = st.builds(
    lambda base, length, own: [base, *(n % 7 for n in range(length))][:length] + own,
    st.integers(0, 1), st.integers(0, 18), st.lists(st.integers(0, 3), max_size=5),
)
GRAMMARS = [
    [[1, 2, 3, 4, 5, 6], [1, 2, 3, 7]],
    [[5], [5, 5], [5, 5, 5, 5, 5, 5, 5, 5, 5, 5]],
    [[8, 8, 8, 8, 8, 8, 8]],
    [[1, 2], [3, 4, 5, 6, 7, 8, 9], [3, 4, 5, 9]],
]
EDITS: list[dict[str, Any]] = [
    {}, {"frequency_penalty": 1.0}, {"presence_penalty": -0.8, "logit_bias": ((5, 3.0),)},
    {"repetition_penalty": 1.5, "presence_penalty": 0.3},
]


@dataclass(slots=True)
class Lease:
    id: int
    session: int
    tokens: list[int] = field(default_factory=list)
    request: int | None = None  # a generation that grows it
    open: bool = True


@dataclass(slots=True)
class Asked:
    prompt: list[int]
    command: Generate | Choose | Prefill
    lease: Lease


class EngineMachine(RuleBasedStateMachine):
    leases = Bundle("leases")

    @initialize(pages=st.integers(14, 40), step_tokens=st.integers(1, 64), max_rows=st.integers(1, 8),
                ahead=st.booleans())
    def start(self, pages: int, step_tokens: int, max_rows: int, ahead: bool) -> None:
        self.bench = Bench(pages=pages, step_tokens=step_tokens, max_rows=max_rows, ahead=ahead)
        self.ids = 0
        self.asked: dict[int, Asked] = {}
        self.all: list[Lease] = []
        for session, salt in ((1, ""), (2, "tenant")):
            self.bench.send(OpenSession(session, salt))
        for index, grammar in enumerate(GRAMMARS):
            self.bench.send(Define(index, encode_texts(grammar)))

    def fresh(self) -> int:
        self.ids += 1
        return self.ids

    def sync(self, lease: Lease) -> bool:
        """Take over what has been generated. False while an answer is on its way."""
        if lease.request is None:
            return True
        last = self.bench.last(lease.request)
        if not isinstance(last, Finished | Failed):
            return False
        lease.tokens = self.asked[lease.request].prompt + self.bench.tokens(lease.request)
        lease.request = None
        return True

    @rule(target=leases, session=st.integers(1, 2))
    def open_lease(self, session: int) -> Lease:
        lease = Lease(self.fresh(), session)
        self.bench.send(OpenLease(lease.id, session))
        self.all.append(lease)
        return lease

    @rule(target=leases, parent=leases)
    def fork(self, parent: Lease) -> Lease:
        lease = Lease(self.fresh(), parent.session, open=parent.open)
        grown = [] if self.sync(parent) else self.bench.tokens(parent.request or 0)
        lease.tokens = parent.tokens + grown
        self.bench.send(OpenLease(lease.id, parent.session, parent.id))
        self.all.append(lease)
        return lease

    def ask(self, lease: Lease, command: Generate | Choose | Prefill) -> None:
        lease.tokens = lease.tokens + list(command.tokens)
        self.asked[command.request] = Asked(list(lease.tokens), command, lease)
        self.bench.send(command)

    @rule(lease=leases, text=TEXTS, max_tokens=st.integers(1, 12), seed=st.integers(0, 3), greedy=st.booleans(),
          ignore_end=st.booleans(), grammar=st.none() | st.integers(0, len(GRAMMARS) - 1),
          edits=st.sampled_from(EDITS))
    def generate(self, lease: Lease, text: list[int], max_tokens: int, seed: int, greedy: bool, ignore_end: bool,
                 grammar: int | None, edits: dict[str, Any]) -> None:
        if lease.open and self.sync(lease):
            sampling = Sampling(temperature=0.0 if greedy else 1.0, seed=seed, ignore_end=ignore_end, **edits)
            request = self.fresh()
            self.ask(lease, Generate(request, lease.id, tuple(text), max_tokens, sampling, grammar))
            lease.request = request

    @rule(lease=leases, text=TEXTS)
    def prefill(self, lease: Lease, text: list[int]) -> None:
        if lease.open and self.sync(lease):
            self.ask(lease, Prefill(self.fresh(), lease.id, tuple(text)))

    @rule(lease=leases, text=TEXTS, choices=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=7), min_size=1,
                                                     max_size=4))
    def choose(self, lease: Lease, text: list[int], choices: list[list[int]]) -> None:
        if lease.open and self.sync(lease):
            self.ask(lease, Choose(self.fresh(), lease.id, tuple(text), tuple(map(tuple, choices))))

    @rule(lease=leases, length=st.integers(0, 30))
    def trim(self, lease: Lease, length: int) -> None:
        if lease.open and self.sync(lease):
            lease.tokens = lease.tokens[:length]
            self.bench.send(TrimLease(lease.id, length))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.asked)))
        self.bench.send(Abort(request))
        assert not any(other.id == request for other in self.bench.engine.scheduler.requests)

    @rule(lease=consumes(leases))
    def release(self, lease: Lease) -> None:
        lease.open = False
        self.bench.send(ReleaseLease(lease.id))

    @rule(session=st.integers(1, 2))
    def close_session(self, session: int) -> None:
        """Everything of the session is free or the tree's before the next step."""
        self.bench.send(CloseSession(session))
        assert not [r for r in self.bench.engine.scheduler.requests if r.lease.session == session]
        for lease in self.all:
            lease.open = lease.open and lease.session != session
        self.bench.send(OpenSession(session, "" if session == 1 else "tenant"))

    @rule(count=st.integers(1, 12))
    def run_steps(self, count: int) -> None:
        for _ in range(count):
            self.bench.step()

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        self.bench.run()
        pool = self.bench.engine.memory.pool
        assert pool.held == 0
        assert pool.free + pool.cached == pool.total
        for request, asked in self.asked.items():
            self.check(request, asked)
        for session in (1, 2):
            self.bench.send(CloseSession(session))
        self.bench.engine.memory.tree.evict(pool.total)
        assert pool.free == pool.total

    def check(self, request: int, asked: Asked) -> None:
        last, command = self.bench.last(request), asked.command
        assert last is not None, f"{command} was never answered"
        if isinstance(last, Failed):
            assert last.error in ("EmptyPrompt", "Overloaded", "RequestAborted", "BudgetTooSmall"), last
            return
        if isinstance(command, Choose):
            if not isinstance(last, Finished):
                scores = self.bench.chosen(request).logprobs
                assert scores == tuple(expected_scores(asked.prompt, choice) for choice in command.choices)
            return
        assert isinstance(last, Finished)
        if isinstance(command, Generate):
            self.check_answer(last, asked.prompt, command)

    def check_answer(self, last: Finished, prompt: list[int], command: Generate) -> None:
        matcher = None
        if command.constraint is not None:
            matcher = SetGrammar([tuple(t) for t in GRAMMARS[command.constraint]], 11, MaskRows(12)).matcher()
        said, reason = expected_answer(prompt, command.max_tokens, command.sampling, matcher=matcher)
        tokens = self.bench.tokens(command.request)
        if last.reason == "aborted":
            assert tokens == said[:len(tokens)]
            return
        assert tokens == said
        assert last.reason == reason or last.closed
        assert last.usage.generated == len(said)
        assert last.usage.prompt == len(prompt)


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.slow
def test_soak() -> None:
    """The same, for minutes."""
    run_state_machine_as_test(
        EngineMachine, settings=settings(max_examples=2000, stateful_step_count=70, deadline=None),
    )
