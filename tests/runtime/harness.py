"""An engine that tests drive step by step, and what its answers must be: the model's function, computed directly."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.runtime.config import EngineConfig
from espalier.runtime.engine import Engine
from espalier.runtime.executor import Executor
from espalier.runtime.messages import (
    Chosen,
    Command,
    Event,
    Failed,
    Finished,
    OpenLease,
    OpenSession,
    Sampling,
    Stats,
    Tokens,
    WeightsLoaded,
)
from espalier.runtime.pages import PageState
from espalier.runtime.plan import Pick
from espalier.runtime.scripted_executor import Model, ScriptedExecutor, counting_model, draw, log_softmax
from tests.fakes import ManualClock
from tests.runtime.edited import edited
from tests.runtime.set_grammar import SetMatcher, set_constraints

VOCABULARY = 12
END = VOCABULARY - 1
MODEL = counting_model(VOCABULARY)


class Bench:
    """An engine without a thread. Every step is followed by an audit of every page."""

    def __init__(self, *, model: Model = MODEL, vocabulary_size: int = VOCABULARY, executor: Executor | None = None,
                 context: int = 1 << 20, page: int = 4, pages: int = 64, step_tokens: int = 16, max_rows: int = 8,
                 max_waiting: int = 4096, ahead: bool = False) -> None:
        config = EngineConfig(
            page=page, pages=pages, step_tokens=step_tokens, max_rows=max_rows, max_waiting=max_waiting,
        )
        self.executor = executor or ScriptedExecutor(
            model, vocabulary_size=vocabulary_size, pages=pages, page=page, context=context, ahead=ahead,
        )
        self.faults: list[Exception] = []
        self.clock = ManualClock()
        self.engine = Engine(
            self.executor, config, end_ids=(END,), constraints=set_constraints(vocabulary_size, END),
            clock=self.clock, report=self.faults.append,
        )
        self.events: dict[int, list[Event]] = {}

    def send(self, *commands: Command) -> None:
        for command in commands:
            self.engine.send(command)
        self.engine.receive()
        self._collect()

    def lease(self, lease: int, *, session: int = 1, salt: str = "", parent: int | None = None) -> None:
        if parent is None:
            self.send(OpenSession(session, salt))
        self.send(OpenLease(lease, session, parent))

    def step(self) -> None:
        if self.engine.busy:
            self.engine.step()
        self._collect()
        self.audit()

    def run(self, most: int = 5000) -> None:
        """Until nothing is left to do."""
        for _ in range(most):
            if not self.engine.busy:
                return
            self.step()
        raise AssertionError(f"{self.engine.scheduler.requests} did not end in {most} steps")

    def _collect(self) -> None:
        for event in self.engine.take_events():
            assert isinstance(event, Tokens | Finished | Chosen | Failed | WeightsLoaded | Stats)
            self.events.setdefault(event.request, []).append(event)

    def audit(self) -> None:
        """Laws 1 and 8: every page is owned once, and a request reads only pages of its own namespace and its own."""
        memory = self.engine.memory
        memory.audit()
        owner = {page: node.namespace for node in memory.tree.nodes() for page in node.pages}
        held: list[int] = []
        for request in self.engine.scheduler.requests:
            own = request.held(memory.page)
            held += own
            shared = request.table[:len(request.table) - len(own)]
            assert all(owner.get(page) == request.lease.namespace for page in shared)
        assert len(held) == len(set(held)) == memory.pool.held
        assert all(memory.pool.state(page) is PageState.HELD for page in held)
        assert not self.faults

    # What came back

    def tokens(self, request: int) -> list[int]:
        return [token for event in self.events.get(request, []) if isinstance(event, Tokens) for token in event.tokens]

    def last(self, request: int) -> Event | None:
        events = self.events.get(request)
        return events[-1] if events else None

    def finished(self, request: int) -> Finished:
        event = self.last(request)
        assert isinstance(event, Finished), event
        return event

    def failed(self, request: int) -> Failed:
        event = self.last(request)
        assert isinstance(event, Failed), event
        return event

    def chosen(self, request: int) -> Chosen:
        event = self.last(request)
        assert isinstance(event, Chosen), event
        return event


def expected_answer(prompt: Sequence[int], max_tokens: int, sampling: Sampling, *, model: Model = MODEL,
                    matcher: SetMatcher | None = None) -> tuple[list[int], str]:
    """One token at a time, without batch, cache, or shortcut for forced text."""
    said: list[int] = []
    while True:
        if matcher is not None and matcher.must_end():
            return said, "stop"
        if len(said) == max_tokens:
            return said, "length"
        pick = Pick(
            logits=0, temperature=sampling.temperature, seed=sampling.seed, position=len(prompt) + len(said) - 1,
            mask=matcher.row(max_tokens - len(said)) if matcher else 0,
        )
        rows = matcher._grammar.rows.array if matcher else None
        token = draw(edited(model((*prompt, *said)), sampling, prompt, said), pick, rows).token
        if token == END and (matcher is not None or not sampling.ignore_end):
            return said, "stop"
        said.append(token)
        if matcher is not None:
            matcher.accept(token)


def expected_scores(prompt: Sequence[int], choice: Sequence[int], model: Model = MODEL) -> tuple[float, ...]:
    return tuple(
        log_softmax(model((*prompt, *choice[:index])))[token] for index, token in enumerate(choice)
    )
