"""Which block table on the device is whose, and what of it must change. Plain ints; the tables are the executor's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from .plan import Row
from .radix_node import common_prefix

Change = tuple[int, int, int]  # table, index in it, page


class BlockTables:
    """The pages that stand in each of `count` tables, by the owner of the rows that read them.

    The owner used longest ago gives its table up. `count` is at least the number of rows in a step.
    """

    def __init__(self, count: int) -> None:
        self._free = list(range(count - 1, -1, -1))
        self._tables: OrderedDict[int, tuple[int, tuple[int, ...]]] = OrderedDict()  # by owner
        self._strangers = 0

    def place(self, rows: Sequence[Row]) -> tuple[list[int], list[Change], bool]:
        """(the table of each row, what must be written there first, whether every row had its table before, and only
        got pages behind those it had). A row without an owner gets a table for this step."""
        slots, changes, grown = [], list[Change](), True
        for row in rows:
            owner = row.owner
            if owner < 0:
                self._strangers -= 1
                owner = self._strangers
            slot, had = self._tables.get(owner) or (self._take(), ())
            if had != row.pages:
                kept = len(had) if had == row.pages[:len(had)] else common_prefix(had, row.pages)
                grown = grown and 0 < len(had) == kept
                changes += [(slot, index, page) for index, page in enumerate(row.pages[kept:], kept)]
            self._tables[owner] = slot, row.pages
            self._tables.move_to_end(owner)
            slots.append(slot)
        return slots, changes, grown

    def forget(self) -> None:
        """What stands on the device is not known any more."""
        self._free += [slot for slot, _ in self._tables.values()]
        self._tables.clear()

    def _take(self) -> int:
        if not self._free:
            _, (slot, _) = self._tables.popitem(last=False)
            return slot
        return self._free.pop()
