from __future__ import annotations

import numpy as np
import pytest
import torch

from espalier.runtime.errors import EngineFault, InvalidParameter
from espalier.runtime.executor import Executor
from espalier.runtime.plan import PageCopy, Pick, Plan, Row, Sampled
from espalier.runtime.torch_executor import TorchExecutor

from .tiny_llama import SHAPE, tiny_config, tiny_llama

PROMPT = (5, 17, 88, 3, 41, 9, 60, 2, 75, 31)


@pytest.fixture
def executor() -> TorchExecutor:
    config = tiny_config()
    return TorchExecutor(tiny_llama(config), config)


def run(executor: Executor, plan: Plan, picks: list[Pick]) -> list[Sampled]:
    ticket = executor.forward(plan)
    executor.sample(ticket, picks)
    return executor.result(ticket)


def first(tokens: tuple[int, ...] = PROMPT, **fields: object) -> Row:
    return Row(tokens, 0, (4, 2), (len(tokens) - 1,), **fields)  # type: ignore[arg-type]


def greedy_answer(executor: Executor, length: int) -> list[int]:
    """Token by token, each read before the next step."""
    tokens = [run(executor, Plan(0, (first(),)), [Pick(0, temperature=0.0)])[0].token]
    for step in range(1, length):
        row = Row((tokens[-1],), len(PROMPT) + step - 1, (4, 2, 9), (0,))
        tokens += [run(executor, Plan(step, (row,)), [Pick(0, temperature=0.0)])[0].token]
    return tokens


def test_a_token_may_be_named_before_its_result_is_read(executor: TorchExecutor) -> None:
    expected = greedy_answer(executor, 6)
    tickets = [executor.forward(Plan(0, (first(),)))]
    executor.sample(tickets[-1], [Pick(0, temperature=0.0)])
    for step in range(1, 6):
        row = Row((0,), len(PROMPT) + step - 1, (4, 2, 9), (0,), sampled_from=0)
        tickets.append(executor.forward(Plan(step, (row,))))
        executor.sample(tickets[-1], [Pick(0, temperature=0.0)])
    assert [executor.result(ticket)[0].token for ticket in tickets] == expected


def test_a_named_token_comes_from_its_pick_not_its_row(executor: TorchExecutor) -> None:
    rows = (Row((1,), 0, (0,), (0,)), Row((2,), 0, (1,), (0,)))
    ticket = executor.forward(Plan(0, rows))
    executor.sample(ticket, [Pick(1, target=70), Pick(0, target=80)])
    named = Row((0,), 1, (0,), (0,), sampled_from=1)
    plain = Row((80,), 1, (0,), (0,))
    after = executor.forward(Plan(1, (named,)))
    logits = executor._logits[after]
    assert torch.equal(logits, executor._logits[executor.forward(Plan(2, (plain,)))])


def test_forced_tokens_ride_behind_a_named_one(executor: TorchExecutor) -> None:
    token = run(executor, Plan(0, (first(),)), [Pick(0, temperature=0.0)])[0].token
    named = executor.forward(Plan(1, (Row((0, 7, 8), 10, (4, 2), (0, 2), sampled_from=0),)))
    logits = executor._logits[named]
    plain = executor.forward(Plan(2, (Row((token, 7, 8), 10, (4, 2), (0, 2)),)))
    assert torch.equal(logits, executor._logits[plain])


def test_copies_come_before_everything_else_in_the_step(executor: TorchExecutor) -> None:
    whole = executor._logits[executor.forward(Plan(0, (first(),)))]
    row = Row(PROMPT[4:], 4, (7, 8), (len(PROMPT) - 5,))
    copied = executor.forward(Plan(1, (row,), (PageCopy(4, 7, 4),)))
    assert torch.equal(executor._logits[copied], whole)


def test_a_plan_of_copies_alone_is_a_step(executor: TorchExecutor) -> None:
    executor.forward(Plan(0, (first(),)))
    assert run(executor, Plan(1, (), (PageCopy(4, 7, 8),)), []) == []


def test_masks_are_read_when_sampling(executor: TorchExecutor) -> None:
    masks = np.zeros((3, 4), np.int32)
    executor.bind_masks(masks)
    ticket = executor.forward(Plan(0, (first(),)))
    masks[2, 64 // 32] = 1 << (70 - 64)
    executor.sample(ticket, [Pick(0, mask=2), Pick(0, mask=2, temperature=0.0)])
    assert [sampled.token for sampled in executor.result(ticket)] == [70, 70]


def test_scores_and_alternatives_are_of_the_raw_logits(executor: TorchExecutor) -> None:
    ticket = executor.forward(Plan(0, (first(),)))
    expected = executor._logits[ticket][0].log_softmax(-1)
    executor.sample(ticket, [Pick(0, target=33, temperature=0.1), Pick(0, temperature=0.0, top_logprobs=5)])
    scored, drawn = executor.result(ticket)
    assert scored.token == 33
    assert scored.logprob == pytest.approx(float(expected[33]), abs=1e-5)
    assert [token for token, _ in drawn.top] == expected.topk(5).indices.tolist()
    assert drawn.top[0] == (drawn.token, drawn.logprob)


def test_a_draw_depends_on_its_seed_and_position_alone(executor: TorchExecutor) -> None:
    picks = [Pick(0, seed=s, position=p) for s in (1, -1, 2**70) for p in range(8)]
    together = run(executor, Plan(0, (first(),)), picks)
    alone = [run(executor, Plan(0, (first(),)), [pick])[0] for pick in picks]
    assert together == alone
    assert len({sampled.token for sampled in together}) > 3


BAD_PLANS = {
    "a page outside the pool": Plan(3, (Row((1,), 0, (96,), (0,)),)),
    "too few pages": Plan(3, (Row((1,), 8, (0,), (0,)),)),
    "a token outside the vocabulary": Plan(3, (Row((SHAPE.vocab,), 0, (0,), (0,)),)),
    "a negative token": Plan(3, (Row((-1,), 0, (0,), (0,)),)),
    "past the context": Plan(3, (Row((1,), 512, tuple(range(65)), (0,)),)),
    "no such pick": Plan(3, (Row((0,), 0, (0,), (0,), sampled_from=1),)),
    "logits past the tokens": Plan(3, (Row((1,), 0, (0,), (1,)),)),
    "a copy outside the pool": Plan(3, (Row((1,), 0, (0,), (0,)),), (PageCopy(0, 96, 1),)),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_bad_plan_fails_alone_and_names_its_step(executor: TorchExecutor, name: str) -> None:
    before = run(executor, Plan(0, (first(),)), [Pick(0, temperature=0.0)])
    with pytest.raises(EngineFault) as fault:
        executor.forward(BAD_PLANS[name])
    assert "step 3" in str(fault.value)
    assert run(executor, Plan(4, (first(),)), [Pick(0, temperature=0.0)]) == before


@pytest.mark.parametrize("pick", [Pick(1), Pick(0, mask=1), Pick(0, target=SHAPE.vocab)])
def test_a_bad_pick_fails_its_ticket_and_the_next_works(executor: TorchExecutor, pick: Pick) -> None:
    with pytest.raises(EngineFault):
        run(executor, Plan(0, (first(),)), [pick])
    assert len(run(executor, Plan(1, (first(),)), [Pick(0)])) == 1


def test_a_mask_that_leaves_no_token_is_a_fault(executor: TorchExecutor) -> None:
    executor.bind_masks(np.array([[-1, -1, -1, 31], [0, 0, 0, 0]], np.int32))
    with pytest.raises(EngineFault, match="no token"):
        run(executor, Plan(0, (first(),)), [Pick(0, mask=1)])


def test_a_ticket_is_sampled_once_and_read_once(executor: TorchExecutor) -> None:
    ticket = executor.forward(Plan(0, (first(),)))
    with pytest.raises(EngineFault):
        executor.result(ticket)
    executor.sample(ticket, [Pick(0)])
    with pytest.raises(EngineFault):
        executor.sample(ticket, [Pick(0)])
    executor.result(ticket)
    with pytest.raises(EngineFault):
        executor.result(ticket)


def test_masks_of_another_vocabulary_are_refused(executor: TorchExecutor) -> None:
    with pytest.raises(EngineFault):
        executor.bind_masks(np.zeros((1, 5), np.int32))


def test_a_model_of_another_dtype_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        TorchExecutor(tiny_llama(tiny_config()), tiny_config(dtype="bfloat16", exact=False))


def test_the_context_is_the_smaller_of_config_and_model() -> None:
    model = tiny_llama(tiny_config())
    assert TorchExecutor(model, tiny_config()).context == 512
    assert TorchExecutor(model, tiny_config(context=100)).context == 100
    assert TorchExecutor(model, tiny_config(context=9999)).context == 512
