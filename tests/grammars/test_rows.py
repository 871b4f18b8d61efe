"""The mask table: rows interned, pinned rows never given away, growth within the budget."""

from __future__ import annotations

import numpy as np
import pytest

from espalier.grammars.errors import ConstraintTooLarge
from espalier.grammars.matcher import rows_of
from espalier.grammars.rows import MaskTable
from espalier.grammars.vocabulary import Vocabulary

from .drawn import json_grammar
from .engine import allowed, bind


def _words(table, *bits):
    words = np.zeros(table.words, np.uint32)
    for bit in bits:
        words[bit >> 5] |= np.uint32(1 << (bit & 31))
    return words


def test_row_0_allows_every_id_and_no_padding_bit():
    table = MaskTable(70)
    assert table.array.dtype == np.int32
    assert table.array.shape[1] == 3
    assert [int(w) & 0xFFFFFFFF for w in table.array[0]] == [0xFFFFFFFF, 0xFFFFFFFF, 0x3F]


def test_equal_masks_are_one_row():
    table = MaskTable(70)
    assert table.add(_words(table, 1, 65)).index == table.add(_words(table, 1, 65)).index
    assert table.add(_words(table, 2)).index != table.add(_words(table, 1, 65)).index


def test_rows_stay_where_they_are_while_the_table_fills():
    table = MaskTable(64, byte_budget=1 << 16)
    array = table.array
    rows = [table.add(_words(table, k % 64, k // 64)) for k in range(200)]
    assert table.array is array
    for k, row in enumerate(rows):
        assert (array[row.index].view(np.uint32) == _words(table, k % 64, k // 64)).all()
        assert table.views[row.index] == array[row.index].data


def test_memory_taken_ahead_holds_what_rows_hold():
    table = MaskTable(1 << 16, byte_budget=1 << 24)
    rows = [table.add(_words(table, k)) for k in range(1500)]
    table.reach_ahead()
    rows += [table.add(_words(table, k)) for k in range(1500, 2000)]
    table.reach_ahead()
    for k, row in enumerate(rows):
        assert (table.array[row.index].view(np.uint32) == _words(table, k)).all()


def test_only_unpinned_rows_are_evicted_least_recently_used_first():
    table = MaskTable(32, byte_budget=4 * 8)
    pinned = table.add(_words(table, 0))
    idle = [table.add(_words(table, k)) for k in range(1, 7)]
    for row in idle:
        table.unpin(row)
    table.pin(idle[0])
    table.unpin(idle[0])
    fresh = table.add(_words(table, 20))
    newer = table.add(_words(table, 21))
    assert pinned.index > 0
    assert idle[1].index == -1
    assert idle[0].index > 0
    assert fresh.index != newer.index
    assert table.array[pinned.index, 0] == 1


def test_a_table_full_of_pinned_rows_refuses_by_name():
    table = MaskTable(32, byte_budget=4 * 4)
    for k in range(3):
        table.add(_words(table, k))
    with pytest.raises(ConstraintTooLarge, match="mask table"):
        table.add(_words(table, 9))


def test_masks_are_right_while_a_tiny_table_evicts_all_the_time():
    vocabulary = Vocabulary.bytes_only()
    table, roomy = MaskTable(vocabulary.size, byte_budget=4 * 9 * 6), MaskTable(vocabulary.size)
    tight, wide = bind(json_grammar(), vocabulary, table), bind(json_grammar(), vocabulary, roomy)
    for _ in range(3):
        left, right = tight.matcher(), wide.matcher()
        for byte in b'{"a":[1,"xy",-2],"ab":{"a":{"b":[]}},"c":""}':
            assert allowed(tight, left) == allowed(wide, right)
            left.accept(byte)
            right.accept(byte)
        assert left.must_end()
        left.close()
        right.close()
    assert len(table.array) == 6
    assert table.pinned == 0


def test_a_matcher_pins_the_row_that_it_gave_last():
    vocabulary = Vocabulary.bytes_only()
    compiled = bind(json_grammar(), vocabulary)
    matcher = compiled.matcher()
    matcher.row(None)
    matcher.row(None)
    assert compiled.table.pinned == 1
    twin = matcher.copy()
    twin.row(None)
    matcher.accept(ord("["))
    matcher.row(None)
    assert compiled.table.pinned == 2
    twin.close()
    assert compiled.table.pinned == 1
    matcher.rollback(1)
    assert compiled.table.pinned == 0


def test_a_batch_is_gathered_row_by_row():
    table = MaskTable(70)
    rows = [table.add(_words(table, k)).index for k in (3, 69, 3)]
    out = np.zeros((3, table.words), np.int32)
    table.gather(rows, out)
    assert (out.view(np.uint32) == [_words(table, k) for k in (3, 69, 3)]).all()


def test_the_rows_of_a_batch_are_those_that_each_matcher_gives():
    vocabulary = Vocabulary.bytes_only()
    compiled = bind(json_grammar(), vocabulary)
    matchers = [compiled.matcher(forcing=forcing) for forcing in (True, False)]
    for byte in b'{"a":[1,"xy"],"ab":{"a":{"b":[]}}}':
        for _ in range(2):
            assert rows_of(matchers) == [matcher.copy().row(None) for matcher in matchers]
        for matcher in matchers:
            matcher.forced(1, budget=0)  # a plan that the budget drops changes the row of the place
        assert rows_of(matchers) == [matcher.copy().row(None) for matcher in matchers]
        for matcher in matchers:
            matcher.accept(byte)
    matchers[0].close()
    assert rows_of(matchers) == [matcher.copy().row(None) for matcher in matchers]


@pytest.mark.parametrize("size", [31, 32, 33, 96, 97])
def test_names_of_rows_differ_by_any_bit(size):
    table = MaskTable(size)
    rows = {table.add(_words(table, *bits)).index for bits in [(), *((k,) for k in range(size))]}
    assert len(rows) == size + 1
