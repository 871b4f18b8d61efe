"""Which tokens may give a free key a second time: the few of those that end a key that are worth an exact test."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..binding.arena import Arrays
from ..binding.tables import DECODED, DISTINCT, KIND, LOW, NARROW, PART, RULE, TIGHT, Tables
from ..binding.trie import find_node
from ..ir import CLOSE_KEY, KEY, NEXT_KEY
from ..stepping.key_text import PENDING
from ..stepping.walk import OPEN, STATE
from ..vocabulary import Vocabulary


class Suspects:
    """For one grammar and vocabulary. A token is suspect when it goes on from the open key to one that was written,
    when it ends one key and then another, where keys are
    compared decoded, when it has an escape, and, where keys are tight (finishing.py), when it stays on the way to a key
    that was written."""

    def __init__(self, tables: Tables, vocabulary: Vocabulary) -> None:
        self._tables = tables
        self._trie = vocabulary.trie
        self._vocabulary = vocabulary
        self._ending: bytes | None = None

    @cached_property
    def _tight(self) -> bool:
        states, rules = self._tables.states, self._tables.rules
        narrow = (states[:, KIND] == DISTINCT) & (states[:, PART] == NARROW)
        return bool(rules[:, TIGHT].any() or narrow.any())

    def among(self, marked: Any, threads: Any, arena: Arrays) -> Any:
        """The marked tokens without those that certainly give no key that was written before."""
        tables, vocabulary = self._tables, self._vocabulary
        plain = (threads[:, OPEN] > 0) & (tables.states[threads[:, STATE], KIND] >= DISTINCT)
        if not plain.all():
            return marked
        nodes, tight = vocabulary.node_of[marked[:, 0]], self._tight
        decoded = bool(tables.rules[:, DECODED].any())
        if decoded and (arena.pairs[threads[:, OPEN], 1] >= PENDING).any():
            return marked
        # where it is tight, every move is a mark
        suspect = self._hold(marked[:, 0], self._ends_keys()) if tight else marked[:, 1] >= 2
        if decoded:
            suspect = suspect | vocabulary.escaping[marked[:, 0]]
        for state, register, _, open_key, _ in threads.tolist():
            low = int(tables.rules[tables.states[state, RULE], LOW])
            for rest in _rests(arena.pairs, arena.sets, register - low, open_key):
                if not rest and not tight:
                    return marked
                if not rest:
                    continue
                node = find_node(self._trie, np.frombuffer(rest, np.uint8), 0, len(rest))
                if node >= 0:
                    suspect |= (nodes > node) & (nodes < node + vocabulary.trie.size[node])
                for length in range(1, len(rest) + 1 if tight else 1):
                    suspect |= nodes == find_node(self._trie, np.frombuffer(rest, np.uint8), 0, length)
        return marked[suspect]

    def _ends_keys(self) -> bytes:
        """The bytes that end a free key."""
        if self._ending is None:
            actions = self._tables.edges[:, 2]
            ends = np.isin(actions, (CLOSE_KEY, NEXT_KEY)) | (actions >= KEY)
            ending = np.isin(self._tables.classes, self._tables.edges[ends, 3])
            self._ending = bytes(np.flatnonzero(ending).tolist())
        return self._ending

    def _hold(self, tokens: Any, some: bytes) -> Any:
        """[tokens] whether each holds one of these bytes."""
        texts = [self._vocabulary.spelled[token] for token in tokens.tolist()]
        return np.array([len(text.translate(None, some)) < len(text) for text in texts], np.bool_)


def _rests(keys: Any, sets: Any, written: int, open_key: int) -> list[bytearray]:
    """What is left to spell, behind the open key, of each key in the set `written`; numbers as in arena.py."""
    rests = []
    while written > 0:
        at, rest = int(sets[written, 1]), bytearray()
        while at > open_key:
            rest.append(keys[at, 1])
            at = int(keys[at, 0])
        if at == open_key:
            rests.append(rest[::-1])
        written = int(sets[written, 0])
    return rests
