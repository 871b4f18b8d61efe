"""A walk over slices of the vocabulary: finished rows for what loops, steps only for the tokens that leave a loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..binding.context import Context
from ..stepping.stretches import BACK, DEAD, ELSEWHERE, SLOTS, fan
from ..vocabulary import Vocabulary
from .masking import read_node, walk_nodes
from .room import Room

_LARGE = 2048  # nodes of a subtree that are worth slices of their own


class SlicedWalk:
    """Does what masking.walk does, for grammars without distinct keys, in the room of a context."""

    def __init__(self, context: Context, vocabulary: Vocabulary) -> None:
        self._context = context
        self._trie = vocabulary.trie
        self._slices = vocabulary.slices
        self._parents, self._spread = np.zeros((SLOTS, 5), np.int32), np.zeros(256, np.int64)

    def run(self, room: Room, threads: Any, limit: int, exact: int) -> int:
        """Sets the bits of the tokens that `threads` can read with U <= limit. Returns 0, -1 in trouble."""
        room.words[:], room.report[:] = 0, 0
        budget = (limit, exact)
        todo = [(-1, threads)]
        while todo:
            node, here = todo.pop()
            large = self._below(room, node, here, budget)
            if large is None:
                return -1
            for child in large:
                left = int(read_node(self._context.address, here, child, *budget))
                if left < 0:
                    return -1
                if left:
                    todo.append((child, room.threads[:left].copy()))
        return 0

    def _below(self, room: Room, node: int, here: Any, budget: tuple[int, int]) -> list[int] | None:
        """The tokens below a node, before whose children `here` stand, but for its large subtrees that no slice covers:
        these are returned. None in trouble."""
        address, spread = self._context.address, self._spread
        room.threads[: len(here)] = here
        lists = int(fan(address, len(here), *budget, self._parents, spread))
        if lists < 0:
            return None
        kinds, parents = room.kinds[:lists].copy(), self._parents[:lists].copy()
        parts = []
        for k in range(lists):
            piece = self._slices.get(node, spread == k, kinds[k] == BACK)
            np.bitwise_or(room.words, piece.words, out=room.words)
            parts.append((parents[k: k + 1], piece.exits, kinds[k]))
        children = self._slices.children(node)
        large = self._trie.size[children] >= _LARGE
        kind: Any = np.where(spread == -1, ELSEWHERE, DEAD).astype(np.uint8)
        parts.append((here, children[~large], kind))
        for behind, nodes, kind_of in parts:
            if walk_nodes(address, behind, nodes, kind_of, *budget) < 0:
                return None
        found = children[large]
        return [int(child) for child in found[kind[self._trie.byte[found]] == ELSEWHERE]]
