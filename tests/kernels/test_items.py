from __future__ import annotations

import random
from collections import Counter

import pytest

from espalier.kernels.base import KernelError
from espalier.kernels.cut import CHUNK, LONGEST, Cut, chunk_start
from espalier.kernels.items import DIRECT, FIRST, Item, Plan, Row, Segment
from espalier.kernels.planner import plan

from .forests import Forest, Node


def random_tree(draw: random.Random, depth: int) -> Node:
    if depth and draw.random() < 0.6:
        below = tuple(random_tree(draw, depth - 1) for _ in range(draw.randint(2, 4)))
        return Node(16 * draw.choice((0, 1, 4, 20, 70)), below)
    slots = draw.choice((0, 1, 17, 65, 700, 1300))
    tokens = min(slots, draw.choice((1, 1, 5, 40))) or 1
    return Node(slots, tokens=tokens)


def random_forest(seed: int) -> Forest:
    draw = random.Random(seed)
    return Forest.of([random_tree(draw, 3) for _ in range(draw.randint(1, 3))], page=16, seed=seed)


def random_cut(seed: int, exact: bool) -> Cut:
    draw = random.Random(seed)
    return Cut(groups=draw.choice((1, 3, 4, 8)), kv_heads=draw.choice((1, 2, 8)), exact=exact, wide=64,
               least=draw.choice((1, 60, 400)), most=draw.choice((1, 60, 400)), window=draw.choice((0, 0, 64, 600)))


def token_slot(row: Row, token: int) -> int:
    return row.kv_len - row.q_end + token


def covered(forest: Forest, made: Plan) -> Counter[tuple[int, int]]:
    seen: Counter[tuple[int, int]] = Counter()
    for item in (*made.narrow, *made.wide):
        seen.update((token, slot) for token in range(item.q_begin, item.q_end)
                    for slot in range(item.slot_begin, item.slot_end))
    return seen


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_every_token_meets_every_visible_slot_once(seed: int, exact: bool) -> None:
    forest, cut = random_forest(seed), random_cut(seed, exact)
    seen = covered(forest, plan(forest.rows, forest.segments, cut))
    assert not seen or max(seen.values()) == 1
    for row in forest.rows:
        for token in range(row.q_begin, row.q_end):
            last = token_slot(row, token)
            low = max(0, last + 1 - cut.window) if cut.window else 0
            if row.kv_len:
                assert all(seen[token, slot] for slot in range(low, last + 1)), (row, token)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_the_parts_of_a_token_are_numbered_in_the_order_of_their_slots(seed: int, exact: bool) -> None:
    forest, cut = random_forest(seed), random_cut(seed, exact)
    made = plan(forest.rows, forest.segments, cut)
    of: dict[int, list[Item]] = {}
    for item in (*made.narrow, *made.wide):
        for token in range(item.q_begin, item.q_end):
            of.setdefault(token, []).append(item)
    for token in range(forest.tokens):
        items = sorted(of[token], key=lambda item: item.part_ord)
        room = made.part_begin[token + 1] - made.part_begin[token]
        assert [item.part_ord for item in items] == list(range(len(items)))
        assert [item.slot_begin for item in items] == sorted(item.slot_begin for item in items)
        assert room == (len(items) if len(items) > 1 else 0)
        assert all(bool(item.flags & DIRECT) == (len(items) == 1) for item in items)
        assert [bool(item.flags & FIRST) for item in items] == [True] + [False] * (len(items) - 1)


@pytest.mark.parametrize("seed", range(25))
def test_exact_parts_are_a_fold_from_the_first_slot_or_one_chunk(seed: int) -> None:
    forest, cut = random_forest(seed), random_cut(seed, True)
    for item in (made := plan(forest.rows, forest.segments, cut)).narrow + made.wide:
        assert item.slot_begin == chunk_start(item.slot_begin)
        if not item.flags & FIRST:
            assert item.slot_end <= item.slot_begin + CHUNK


def test_work_is_cut_no_finer_than_the_device_needs() -> None:
    forest = Forest.of([Node(4096)] * 8, page=16)
    whole = plan(forest.rows, forest.segments, Cut(groups=4, kv_heads=8, least=64))
    assert len(whole.narrow) == 8 * 4096 / LONGEST
    assert max(item.slot_end - item.slot_begin for item in whole.narrow) == LONGEST
    cut = plan(forest.rows, forest.segments, Cut(groups=4, kv_heads=8, least=200))
    assert 200 / 8 <= len(cut.narrow) < 300 / 8


def test_a_shared_segment_of_many_rows_is_wide_and_read_in_tiles() -> None:
    forest = Forest.of([Node(1024, tuple(Node(17) for _ in range(33)))], page=16)
    made = plan(forest.rows, forest.segments, Cut(groups=4, kv_heads=8, most=1))
    assert [(item.q_begin, item.q_end) for item in made.wide] == [(32, 33), (0, 32)]
    assert len(made.narrow) == 33


def test_a_wide_segment_is_cut_to_fill_the_device_once() -> None:
    forest = Forest.of([Node(8192, (Node(17),) * 64)], page=16)
    made = plan(forest.rows, forest.segments, Cut(groups=4, kv_heads=8, most=264, wide=64))
    assert 264 * 0.75 < len(made.wide) * 8 <= 264
    whole = plan(forest.rows, forest.segments, Cut(groups=4, kv_heads=8, most=20, wide=64))
    assert len(whole.wide) == 4


def test_parts_stay_within_their_room() -> None:
    forest = Forest.of([Node(4096)] * 8, page=16)
    made = plan(forest.rows, forest.segments, Cut(groups=4, kv_heads=8, least=2000, parts=20))
    assert made.part_begin[-1] <= 20
    shared = Forest.of([Node(64, (Node(16), Node(16)))], page=16)
    with pytest.raises(KernelError, match=r"4 parts and .* are needed, there is room for 3"):
        plan(shared.rows, shared.segments, Cut(groups=1, kv_heads=1, least=1, parts=3))


@pytest.mark.parametrize(("rows", "segments", "message"), [
    ([Row(0, 0, 1, 16, 0, 0, 0)], [Segment(0, 32, 0, 1, -1, 0)], "segment of its own"),
    ([Row(0, 0, 1, 16, 0, 0, 0), Row(1, 2, 1, 16, 0, 0, 1)],
     [Segment(0, 16, 0, 1, -1, 0), Segment(0, 16, 1, 2, -1, 1)], "do not follow"),
    ([Row(0, 0, 1, 100, 0, 65, 0)], [Segment(0, 100, 0, 1, -1, 0)], "at most 64"),
    ([Row(0, 0, 1, 20, 0, 0, 1)], [Segment(0, 9, 0, 1, -1, 0), Segment(9, 20, 0, 1, 0, 0)],
     "segment 1 starts at slot 9, inside a page of 16"),
])
def test_what_breaks_the_contract_is_refused(rows: list[Row], segments: list[Segment], message: str) -> None:
    with pytest.raises(KernelError, match=message):
        plan(rows, segments, Cut(groups=1, kv_heads=1, least=1, page=16))
