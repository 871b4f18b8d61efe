"""A walk over slices of the vocabulary: finished rows for what loops, steps only for the tokens that leave a loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from .masking import read_node, walk_nodes
from .stretches import BACK, DEAD, ELSEWHERE, LOOKED, NOTES, SLOTS, fan
from .vocabulary import Vocabulary
from .walk import POPPED

_LARGE = 2048  # nodes of a subtree that are worth slices of their own


class SlicedWalk:
    """Does what masking.walk does, for grammars without distinct keys. The rest of the arguments are those of walk:
    room to work in."""

    def __init__(self, tables: Any, vocabulary: Vocabulary, queue: Any, offsets: Any, crossed: Any,
                 stretches: tuple[Any, Any, Any]) -> None:
        self._tables = tables
        self._trie: Any = tuple(vocabulary.trie)
        self._slices = vocabulary.slices
        self._queue = queue
        self._room = (queue, offsets, crossed, *stretches)
        self._kinds, self._known = stretches[1:]
        self._parents, self._spread = np.zeros((SLOTS, 5), np.int32), np.zeros(256, np.int64)
        self._marked = np.zeros((1, 2), np.int32)

    def run(self, arena: Any, buffer: Any, threads: Any, limit: int, exact: int, words: Any, report: Any) -> int:
        """Sets the bits of the tokens that `threads` can read with U <= limit. Returns 0, -1 in trouble."""
        words[:], report[:] = 0, 0
        budget = (limit, exact)
        todo = [(-1, threads)]
        while todo:
            node, here = todo.pop()
            large = self._below(arena, buffer, node, here, budget, words, report)
            if large is None:
                return -1
            for child in large:
                left = int(read_node(self._tables, arena, self._trie, buffer, here, child, *budget, words, self._marked,
                                     report, self._queue))
                if left < 0:
                    return -1
                if left:
                    todo.append((child, buffer[:left].copy()))
        report[LOOKED] = report[NOTES + POPPED]
        return 0

    def _below(self, arena: Any, buffer: Any, node: int, here: Any, budget: tuple[int, int], words: Any,
               report: Any) -> list[int] | None:
        """The tokens below a node, before whose children `here` stand, but for its large subtrees that no slice covers:
        these are returned. None in trouble."""
        limit, exact = budget
        spread = self._spread
        buffer[: len(here)] = here
        lists = int(fan(self._tables, arena, buffer, len(here), limit, exact, report, self._queue, self._kinds,
                        self._known, self._parents, spread))
        if lists < 0:
            return None
        kinds, parents = self._kinds[:lists].copy(), self._parents[:lists].copy()
        parts = []
        for k in range(lists):
            piece = self._slices.get(node, spread == k, kinds[k] == BACK)
            words |= piece.words
            parts.append((parents[k: k + 1], piece.exits, kinds[k]))
        children = self._slices.children(node)
        large = self._trie[2][children] >= _LARGE
        kind: Any = np.where(spread == -1, ELSEWHERE, DEAD).astype(np.uint8)
        parts.append((here, children[~large], kind))
        for behind, nodes, kind_of in parts:
            if walk_nodes(self._tables, arena, self._trie, buffer, behind, nodes, kind_of, limit, exact, words,
                          self._marked, report, *self._room) < 0:
                return None
        found = children[large]
        return [int(child) for child in found[kind[self._trie[0][found]] == ELSEWHERE]]
