"""Keys and items that a text has, by the rule and in their order (witness.py): the ones that narrowed rules write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Text = tuple[int, ...]  # what edges read of a key: bytes and characters


class Item(NamedTuple):
    """An item that is compared by value: the rule that was called for it, the action of the call, its text."""

    rule: int
    action: int
    text: bytes


Written = tuple[Text | Item, ...]
Named = Mapping[int, frozenset[Written]]


class Orders:
    """What may come behind what, along some sequences."""

    def __init__(self, sequences: frozenset[Written]) -> None:
        self._next: dict[Written, set[Text | Item]] = {}
        for sequence in sequences:
            for length, one in enumerate(sequence):
                self._next.setdefault(sequence[:length], set()).add(one)
        self.all: frozenset[Text | Item] = frozenset(one for sequence in sequences for one in sequence)

    def after(self, written: Written) -> list[Text | Item]:
        """What may come next, sorted."""
        return sorted(self._next.get(written, ()))
