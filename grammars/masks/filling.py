"""How full an arena is with what texts interned, and how much of it the one at hand will need to its end."""

from __future__ import annotations

from typing import Any

from ..binding.arena import DEPTH, PARENT, RETURN, Arena
from ..binding.tables import ALIKE, KIND, UNLIKE, Tables
from ..stepping.walk import NODE
from ..vocabulary import Vocabulary

_LENGTH = 2  # column of a key: its bytes


class Filling:
    """most: nodes, keys or sets of the arena. share: those that texts may fill, so that there is room for a walk over
    the vocabulary, which interns no more than its trie, and for a search."""

    def __init__(self, tables: Tables, vocabulary: Vocabulary, arena: Arena, most: int) -> None:
        self._arena = arena
        self._kinds = tables.states[:, KIND]
        self._copies = 1 + int(tables.rules[:, ALIKE].any())  # of each value: its text is kept too
        self.share = max(most // 4, most - most // 8 - len(vocabulary.trie.nodes))

    @property
    def half(self) -> bool:
        """Whether texts fill half of their share, so that new ones should begin elsewhere."""
        return max(self._arena.mark()) > self.share // 2

    def lacks(self, threads: Any, answer: int, distance: int) -> bool:
        """Whether the values of items may find no room that are open here, in lists that compare them: each is kept
        when it ends, with all that is in it. answer: what arena.TEXT is here; distance: U."""
        arrays, left = self._arena.arrays, self.share - max(self._arena.mark())
        nodes = threads[:, NODE]
        each = self._copies * (int(arrays.pairs[answer, _LENGTH]) + distance)
        most = 1 + int(arrays.nodes[nodes, DEPTH].max())
        return each * most > left and each * (1 + max(map(self._lists, nodes.tolist()))) > left

    def _lists(self, node: int) -> int:
        """How many lists that compare their items go on below a frame."""
        nodes, kinds, found = self._arena.arrays.nodes, self._kinds, 0
        while node > 0:
            found += int(kinds[nodes[node, RETURN]] == UNLIKE)
            node = int(nodes[node, PARENT])
        return found
