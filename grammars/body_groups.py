"""The groups of a body made of what a survey found (body_rows.py): the tokens of each place, as rows and lists.

In most bodies more than half of all tokens end in one place, or their characters lead from place to place along one
line, so that how many characters a token has says where it ends. Then the rows begin with those that a vocabulary has
ready, and the few other tokens are taken out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .body_rows import choose_line, count_tokens, distribute
from .body_walk import BEGIN, BIG, FINISH
from .trie import Trie


class Listing:
    """The tokens of a vocabulary in the order of its trie: their ids, twins too, and how many characters they have.

    before: [nodes + 1] how many come before each node. every: the row of all. By a number of characters: amounts, how
    many tokens have it, and row, which of `rows` holds these; 0 and -1 where they are fewer than `dense`, the tokens
    from which on a group is kept as a row. rare: which tokens have such a number.
    """

    def __init__(self, tokens: Any, characters: Any, before: Any, words: int, dense: int) -> None:
        self.tokens, self.characters, self.before, self.dense = tokens, characters, before, dense
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


def grouped(listing: Listing, found: Any, loops: Any, states: int, width: int) -> tuple[Any, Any, Any]:
    """(groups, tokens, rows), as BodyRows has them, of what a survey found in a body of so many states. width: places
    of each."""
    places, total, longest = np.zeros((states, width), np.int32), len(listing.tokens), len(listing.amounts)
    ways, line = np.full(longest + 2, -1, np.int32), np.empty(longest, np.int32)
    flat, used = places.reshape(-1), np.empty(states * width, np.int32)
    most = int(2 * choose_line(found, loops, ways, width, line, listing.dense) > total)
    count = count_tokens(found, flat, width, listing.characters, loops, ways, line, most, listing.amounts, listing.rare,
                         used)
    often = np.flatnonzero((line >= 0) & (listing.row >= 0) & (most == 1))
    often = often[flat[line[often]] > 0]
    groups, small, big, main = _groups(places, used[:count], listing.dense, total, line[often])
    main = -1 if most else main
    tokens, rows = np.zeros(small, np.int32), np.zeros((max(big, 1), listing.rows.shape[1]), np.uint32)
    whose = np.full(longest, -1, np.int32)
    if main >= 0:
        whose[:] = groups[main, BIG]
        rows[groups[main, BIG]] = listing.every
    for characters in often.tolist():
        whose[characters] = groups[flat[line[characters]], BIG]
        rows[whose[characters]] |= listing.rows[listing.row[characters]]
    distribute(found, flat, width, listing.tokens, listing.characters, loops, ways, line, most, whose, listing.rare,
               groups, tokens, rows, main)
    return groups, tokens, rows


def _groups(places: Any, used: Any, dense: int, total: int, rows: Any) -> tuple[Any, int, int, int]:
    """(groups, tokens in lists, rows, the group of more than half of all tokens or -1) for places with so many tokens
    each, those `used`, which become the numbers of their groups. rows: places that are to have one."""
    amount = places.reshape(-1)[used]
    groups = np.zeros((len(used), 5), np.int32)
    groups[:, 0], groups[:, 1] = used // places.shape[1], used % places.shape[1]
    big = amount >= dense
    big[np.searchsorted(used, rows)] = True
    groups[:, BIG] = np.where(big, np.cumsum(big) - 1, -1)
    small = np.where(big, 0, amount)
    groups[:, BEGIN] = groups[:, FINISH] = np.cumsum(small) - small
    places.reshape(-1)[used] = np.arange(len(used))
    most = int(amount.argmax()) if len(amount) else 0
    main = most if len(amount) and 2 * amount[most] > total and big[most] else -1
    return groups, int(small.sum()), int(big.sum()), main
