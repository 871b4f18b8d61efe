"""An engine that starts a step before it has read the one before gives the same answers, and loses no step by it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from espalier.runtime.executor import Ticket
from espalier.runtime.messages import Abort, Choose, Prefill, Sampling
from espalier.runtime.plan import Pick, Plan, Sampled
from espalier.runtime.scripted_executor import ScriptedExecutor
from tests.runtime.driving import GREEDY, PROMPT, define, generate
from tests.runtime.harness import MODEL, VOCABULARY, Bench, expected_answer, expected_scores


class Logged(ScriptedExecutor):
    """Writes down what it was asked, in order."""

    def __init__(self) -> None:
        super().__init__(MODEL, vocabulary_size=VOCABULARY, pages=64, page=4, ahead=True)
        self.calls: list[str] = []

    def forward(self, plan: Plan) -> Ticket:
        self.calls.append("forward")
        return super().forward(plan)

    def sample(self, ticket: Ticket, picks: Sequence[Pick]) -> None:
        self.calls.append("sample")
        super().sample(ticket, picks)

    def result(self, ticket: Ticket) -> list[Sampled]:
        self.calls.append("result")
        return super().result(ticket)


def test_a_step_is_started_before_the_one_before_it_is_read() -> None:
    executor = Logged()
    bench = Bench(executor=executor)
    bench.lease(1)
    bench.send(generate(1, 1, PROMPT[:9], max_tokens=3))
    bench.run()
    assert bench.tokens(1) == expected_answer(PROMPT[:9], 3, GREEDY)[0]
    assert executor.calls == ["forward", "sample", *["forward", "result", "sample"] * 2, "result"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_answers_scores_and_forced_text_are_the_same(temperature: float) -> None:
    found = []
    for ahead in (False, True):
        bench = Bench(ahead=ahead, pages=40)
        define(bench, [[5, 1, 2, 3, 4], [6, 2], [6, 3, 3, 3]])
        for lease in range(1, 7):
            bench.lease(lease)
        sampling = Sampling(temperature=temperature, seed=3)
        bench.send(*(generate(lease, lease, PROMPT[:7 * lease], max_tokens=6, sampling=sampling,
                              constraint=1 if lease % 2 else None) for lease in range(1, 5)))
        bench.send(Choose(5, 5, PROMPT, ((1,), (2, 3), (4, 5, 6))), Prefill(6, 6, PROMPT[:11]))
        bench.run()
        found.append([*(bench.tokens(lease) for lease in range(1, 5)), bench.chosen(5).logprobs,
                      *(bench.finished(lease).reason for lease in (1, 2, 3, 4, 6))])
    assert found[0] == found[1]
    assert found[0][4] == tuple(expected_scores(PROMPT, choice) for choice in ((1,), (2, 3), (4, 5, 6)))


def test_what_is_aborted_while_its_token_is_drawn_gives_its_pages_back() -> None:
    bench = Bench(ahead=True)
    for lease in (1, 2):
        bench.lease(lease)
        bench.send(generate(lease, lease, max_tokens=20))
    for _ in range(4):
        bench.step()
    bench.send(Abort(1))
    assert bench.finished(1).reason == "aborted"
    bench.run()
    assert bench.tokens(2) == expected_answer(PROMPT, 20, GREEDY)[0]
    assert bench.engine.memory.pool.held == 0
