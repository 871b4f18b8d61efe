"""The fake device must notice what a real one would silently get wrong."""

from __future__ import annotations

import pytest

from espalier.runtime.errors import EngineFault
from espalier.runtime.plan import PageCopy, Pick, Plan, Row
from espalier.runtime.scripted_executor import ScriptedExecutor, counting_model, draw

MODEL = counting_model(8)


def executor() -> ScriptedExecutor:
    """Page 0 holds tokens 1, 2, 3, 4 at positions 0..3, page 1 token 5 at position 4."""
    device = ScriptedExecutor(MODEL, vocabulary_size=8, pages=4, page=4)
    ticket = device.forward(Plan(0, (Row((1, 2, 3, 4, 5), 0, (0, 1), (4,)),)))
    device.sample(ticket, [Pick(0, temperature=0.0)])
    assert device.result(ticket)[0].token == draw(MODEL((1, 2, 3, 4, 5)), Pick(0, temperature=0.0)).token
    return device


@pytest.mark.parametrize(("pages", "start"), [
    ((0, 2), 5),  # a page that was never written
    ((1, 0), 5),  # pages in the wrong order
    ((0,), 4),    # no page for the new token
    ((0, 1), 6),  # a hole
])
def test_a_wrong_page_is_noticed(pages: tuple[int, ...], start: int) -> None:
    with pytest.raises(EngineFault):
        executor().forward(Plan(1, (Row((6,), start, pages, (0,)),)))


def test_a_stale_page_gives_other_logits() -> None:
    device = executor()
    device.forward(Plan(1, (Row((7, 7, 7, 7), 0, (0,), ()),)))
    ticket = device.forward(Plan(2, (Row((6,), 5, (0, 1), (0,)),)))
    device.sample(ticket, [Pick(0, target=3)])
    assert device.result(ticket)[0].logprob != draw(MODEL((1, 2, 3, 4, 5, 6)), Pick(0, target=3)).logprob


def test_copies_come_before_the_rows_and_copy_no_more_than_asked() -> None:
    device = executor()
    device.forward(Plan(1, (Row((6,), 2, (2,), (0,)),), (PageCopy(0, 2, 2),)))
    with pytest.raises(EngineFault):
        device.forward(Plan(2, (Row((6,), 4, (2, 3), (0,)),)))


def test_a_row_can_begin_with_the_token_that_the_step_before_drew() -> None:
    device = executor()
    first = device.forward(Plan(1, (Row((6,), 5, (0, 1), (0,)),)))
    device.sample(first, [Pick(0, temperature=0.0)])
    second = device.forward(Plan(2, (Row((0,), 6, (0, 1), (0,), sampled_from=0),)))
    device.sample(second, [Pick(0, temperature=0.0)])
    drawn = device.result(first)[0].token
    assert device.result(second)[0].token == draw(MODEL((1, 2, 3, 4, 5, 6, drawn)), Pick(0, temperature=0.0)).token


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    logits = MODEL((1,))
    assert draw(logits, Pick(0, seed=1, position=5)) == draw(logits, Pick(3, seed=1, position=5))
    drawn = {draw(logits, Pick(0, seed=seed, position=5)).token for seed in range(50)}
    assert len(drawn) > 1
