"""The groups of a body made of what a survey found (body_rows.py): the tokens of each place, as rows and lists.

In most bodies more than half of all tokens end in one place, or their characters lead from place to place along one
line, so that how many characters a token has says where it ends. Then the rows begin with those that a vocabulary has
ready, and the few other tokens are taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..binding.trie import Trie
from .body_places import arrange, begin_rows, choose_line, count_tokens, distribute, mark_crossing


class Listing:
    """The tokens of a vocabulary in the order of its trie: their ids, twins too, how many characters they have, and
    letters, the groups of those in ASCII. text, starts: of all, one behind the other.

    before: [nodes + 1] how many come before each node. every: the row of all. By a number of characters: amounts, how
    many tokens have it, and row, which of `rows` holds these; 0 and -1 where they are fewer than `dense`, the tokens
    from which on a group is kept as a row. rare: which tokens have such a number.
    """

    def __init__(self, tokens: Any, characters: Any, letters: Any, before: Any, words: int, dense: int,
                 texts: Sequence[bytes]) -> None:
        self.tokens, self.characters, self.letters, self.before, self.dense = tokens, characters, letters, before, dense
        ordered = [texts[token] for token in tokens.tolist()]
        self.text = np.frombuffer(b"".join(ordered), np.uint8).copy()
        self.starts = np.cumsum([0, *map(len, ordered)], dtype=np.int64)
        amounts = np.bincount(characters, minlength=1)
        often = amounts >= dense
        self.amounts = np.where(often, amounts, 0).astype(np.int32)
        self.row = np.where(often, np.cumsum(often) - 1, -1).astype(np.int32)
        self.rows = np.zeros((int(often.sum()), words), np.uint32)
        held = np.flatnonzero(often[characters])
        ids, rows = tokens[held], self.row[characters[held]]
        np.bitwise_or.at(self.rows, (rows, ids >> 5), np.uint32(1) << (ids & 31).astype(np.uint32))
        self.rare = np.flatnonzero(~often[characters]).astype(np.int32)
        self.every = np.zeros(words, np.uint32)
        np.bitwise_or.at(self.every, tokens >> 5, np.uint32(1) << (tokens & 31).astype(np.uint32))

    def holding(self, group: int, size: int) -> Any:
        """[size] by id, whether the token holds a character of this group of those in ASCII."""
        found = np.zeros(size, np.bool_)
        found[self.tokens] = self.letters >> group & 1 == 1
        return found


def in_order(trie: Trie) -> tuple[Any, Any, Any]:
    """(all tokens in the order of the trie, the nodes where they end, [nodes + 1] how many come before each node)."""
    ends = np.flatnonzero(trie.token >= 0)
    tokens, found = trie.token[ends], []
    while len(tokens):
        found.append((ends, tokens))
        tokens = trie.twin[tokens]
        ends, tokens = ends[tokens >= 0], tokens[tokens >= 0]
    nodes, listed = (np.concatenate([pair[k] for pair in found] or [ends]) for k in range(2))
    order = np.argsort(nodes, kind="stable")
    before = np.zeros(len(trie.byte) + 1, np.int32)
    np.cumsum(np.bincount(nodes, minlength=len(trie.byte)), out=before[1:])
    return listed[order].astype(np.int32), nodes[order], before


class Scratch:
    """Room to make groups in: new memory costs more than the work, a microsecond for each 4 kB. places: zeros between
    two uses."""

    def __init__(self, states: int, width: int, listing: Listing) -> None:
        """For bodies of so many states, with so many places each, at most."""
        places, tokens, longest = states * width, len(listing.tokens), len(listing.amounts)
        self.places, self.used = touched(places), touched(min(places, tokens) + longest)
        self.line, self.whose = touched(longest), touched(longest)
        self.lines, self.ways = touched(2, longest), touched(states, longest)
        self.sizes = np.zeros(3, np.int64)
        self.crosses, self.others = touched(tokens).astype(np.uint8), touched(tokens + 1)


def touched(*shape: int) -> Any:
    """Zeros, int32, in memory that is there: unlike that of np.zeros, which a first use would wait for."""
    return np.full(shape, 0, np.int32)


def grouped(listing: Listing, scratch: Scratch, found: Any, loops: Any, width: int, groups_of: Any,
            crossing: tuple[int, int]) -> tuple[Any, Any, Any]:
    """(groups, tokens, rows), as BodyRows has them, of what a survey found in a body. width: places of each state.
    groups_of: of bytes. crossing: the groups of characters that cross, among so many first ones."""
    places, line, ways, total = scratch.places, scratch.line, scratch.ways, len(listing.tokens)
    crossed = mark_crossing(found, listing.characters, listing.letters, listing.text, listing.starts,
                            groups_of, *crossing, scratch.lines, scratch.crosses, scratch.others)
    most = int(2 * choose_line(found, loops, ways, width, line, listing.dense, scratch.lines, crossed, total) > total)
    crosses = (scratch.lines, scratch.crosses, scratch.others, 2 * crossed > total)
    used = scratch.used[: count_tokens(found, places, width, listing.characters, loops, ways, line, most,
                                       listing.amounts, listing.rare, scratch.used, *crosses)]
    groups = np.empty((len(used), 5), np.int32)
    count = arrange(places, used, width, listing.dense, total, line, listing.row, most, groups, scratch.sizes)
    small, big, main = scratch.sizes.tolist()
    main = -1 if most else main
    groups, tokens = groups[:count], np.zeros(small, np.int32)
    rows = np.zeros((max(big, 1), listing.rows.shape[1]), np.uint32)
    begin_rows(places, line, most, groups, main, listing.every, listing.rows, listing.row, scratch.whose, rows)
    distribute(found, places, used, width, listing.tokens, listing.characters, loops, ways, line, most, scratch.whose,
               listing.rare, groups, tokens, rows, main, *crosses)
    return groups, tokens, rows
