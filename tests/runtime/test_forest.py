"""The forest of a step against the block tables that it was read from."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from espalier.runtime.block_tables import BlockTables
from espalier.runtime.forest import Forest, Worth, apart, forest, grown
from espalier.runtime.plan import Row

PAGE, TILE, FEW = 4, 8, 2


def worth(least: int, wide: int = 0) -> Worth:
    return Worth(TILE, FEW, least, wide)


def rows_of(seed: int, count: int) -> list[Row]:
    """Rows on the pages of a random tree, each with pages of its own behind, in any order."""
    draw, tree, used = random.Random(seed), [()], 0
    for _ in range(count):
        tree.append((*draw.choice(tree), *range(used, used + draw.randrange(4))))
        used += 4
    rows = []
    for _ in range(count):
        pages = draw.choice(tree)
        own = tuple(range(used, used + draw.randint(1, 3)))
        used += 4
        start = len(pages) * PAGE + draw.randrange(PAGE * len(own))
        tokens = draw.randint(1, (len(pages) + len(own)) * PAGE - start)
        rows.append(Row((0,) * tokens, start, (*pages, *own), (), owner=len(rows)))
    return rows


def check(found: Forest, rows: Sequence[Row], least: int) -> None:
    """Every row is read once, from its own pages; the tokens follow each other; a shared segment is worth it."""
    at = 0
    assert sorted(found.order) == list(range(len(rows)))
    for place, (index, row) in enumerate(zip(found.order, found.rows, strict=True)):
        source = rows[index]
        assert (row.slot, row.q_begin, row.q_len) == (100 + index, at, len(source.tokens))
        assert row.kv_len == source.start + len(source.tokens)
        at += row.q_len
        end, number = row.kv_len, row.segment
        while number >= 0:
            segment = found.segments[number]
            reader = rows[found.order[segment.row_begin]].pages
            assert segment.row_begin <= place < segment.row_end
            assert (segment.slot_end, segment.representative) == (end, 100 + found.order[segment.row_begin])
            assert segment.slot_begin % PAGE == 0
            first, last = segment.slot_begin // PAGE, -(-segment.slot_end // PAGE)
            assert reader[first:last] == source.pages[first:last]
            assert segment.parent < number
            end, number = segment.slot_begin, segment.parent
        assert end == 0
    for segment in found.segments:
        lengths = [row.q_len for row in found.rows[segment.row_begin:segment.row_end]]
        if len(lengths) > 1:
            saved = sum(-(-length // TILE) for length in lengths) - -(-sum(lengths) // TILE)
            assert (segment.slot_end - segment.slot_begin) * saved >= least
            assert all(segment.slot_end <= rows[index].start
                       for index in found.order[segment.row_begin:segment.row_end])


@given(st.integers(0, 1 << 30), st.integers(1, 12), st.sampled_from((1, 9, 1 << 30)))
def test_every_row_reads_its_own_pages_once(seed: int, count: int, least: int) -> None:
    rows, slots = rows_of(seed, count), range(100, 100 + count)
    check(forest(rows, slots, PAGE, worth(least)), rows, least)
    check(apart(rows, slots), rows, least)


@given(st.integers(0, 1 << 30), st.integers(1, 12))
def test_rows_that_only_got_longer_keep_their_forest(seed: int, count: int) -> None:
    rows, slots = rows_of(seed, count), range(100, 100 + count)
    before = forest(rows, slots, PAGE, worth(1))
    longer = [Row((0,), row.start + len(row.tokens), (*row.pages, 9000 + i), ()) for i, row in enumerate(rows)]
    check(grown(before, longer, slots), longer, 0)


def test_all_that_rows_share_is_one_segment() -> None:
    rows = [Row((0,), 12, (7, 8, 9, page), ()) for page in (20, 21, 22)]
    segments = forest(rows, (0, 1, 2), PAGE, worth(24)).segments
    assert [(segment.slot_begin, segment.slot_end, segment.row_end - segment.row_begin) for segment in segments] == [
        (0, 12, 3), (12, 13, 1), (12, 13, 1), (12, 13, 1)]
    assert len(forest(rows, (0, 1, 2), PAGE, worth(25)).segments) == 3


def test_wide_segments_are_worth_it_together_or_not_at_all() -> None:
    """Two prompts of three rows each, and one of two rows, whose segment is not wide."""
    rows = [Row((0,), 12, (prompt, prompt + 1, prompt + 2, 90 + own), ())
            for own, prompt in enumerate((10, 10, 10, 20, 20, 20, 30, 30))]

    def shared(wide: int, first: int = 1) -> list[int]:
        some = [Row((0,) * first, 12, rows[0].pages, ()), *rows[1:]]
        counts = [s.row_end - s.row_begin for s in forest(some, range(8), PAGE, worth(1, wide)).segments]
        return [count for count in counts if count > 1]

    assert shared(48) == [3, 3, 2]
    assert shared(49) == [2]
    assert shared(49, first=3) == [3, 3, 2]  # there is wide work anyway


def test_rows_that_fill_their_tiles_share_nothing() -> None:
    rows = [Row((0,) * 16, 12, (7, 8, 9, *own), ()) for own in (range(20, 24), range(30, 34))]
    assert len(forest(rows, (0, 1), PAGE, worth(1)).segments) == 2


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 3), min_size=1, max_size=4)),
                         min_size=1, max_size=4, unique_by=lambda row: row[0]), max_size=12), st.booleans())
def test_what_stands_in_the_tables_is_what_the_rows_have(steps: list[list[tuple[int, list[int]]]], lose: bool) -> None:
    tables, there = BlockTables(4), dict[tuple[int, int], int]()
    for number, step in enumerate(steps):
        if lose and number % 3 == 2:
            tables.forget()
            there.clear()
        rows = [Row((0,), 0, tuple(pages), (), owner=owner) for owner, pages in step]
        slots, changes, _ = tables.place(rows)
        there |= {(slot, index): page for slot, index, page in changes}
        assert len(set(slots)) == len(rows)
        assert all(there[slot, index] == page
                   for slot, row in zip(slots, rows, strict=True) for index, page in enumerate(row.pages))


def test_tables_tell_when_rows_only_grew() -> None:
    tables = BlockTables(4)

    def grew(pages: tuple[int, ...], owner: int = 1) -> bool:
        return tables.place([Row((0,), 0, pages, (), owner=owner)])[2]

    assert [grew((1, 2)), grew((1, 2)), grew((1, 2, 3)), grew((1, 4, 3)), grew((1, 4)), grew((1, 4), -1)] == [
        False, True, True, False, False, False]
