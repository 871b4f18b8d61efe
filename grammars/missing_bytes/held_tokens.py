"""Tokens that hold bytes which are no tokens of their own, as an automaton: how a text is cut into tokens.

Node 0 lies between two tokens. Every other node lies inside one, and stands for all the ways on from there, so that
tokens with equal ends share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_LONGEST = 256  # bytes of a token; longer ones are not looked at
_Children = tuple[tuple[int, int, bool], ...]  # by byte: (byte, node or 0 for a leaf, whether a token ends)


class HeldTokens:
    """single: uint8 [256], bytes that are tokens. wide: tokens that hold others."""

    def __init__(self, single: Any, wide: Sequence[bytes]) -> None:
        self._single: list[int] = [byte for byte in range(256) if single[byte]]
        self._nodes: list[_Children] = [()]
        self._nodes[0] = self._grow([text for text in wide if len(text) <= _LONGEST], {(): 0})
        self._steps: dict[tuple[int, int, int], tuple[tuple[int, int], ...]] = {}

    def _grow(self, texts: Sequence[bytes], known: dict[_Children, int]) -> _Children:
        """What may follow where these texts go on. known: nodes, as in `self._nodes`; a leaf is 0."""
        found = []
        for byte, ends in sorted(_by_first(texts).items()):
            children = self._grow(ends, known)
            node = known.setdefault(children, len(self._nodes))
            if node == len(self._nodes):
                self._nodes.append(children)
            found.append((byte, node, b"" in ends))
        return tuple(found)

    def steps(self, node: int, low: int, high: int) -> tuple[tuple[int, int], ...]:
        """(node, tokens that begin) after a byte of low..high; each once."""
        asked = node, low, high
        if asked not in self._steps:
            found: set[tuple[int, int]] = set()
            begun = int(node == 0)
            if node == 0 and any(low <= byte <= high for byte in self._single):
                found.add((0, 1))
            for byte, child, ends in self._nodes[node]:
                if low <= byte <= high:
                    found |= {(0, begun)} if ends else set()
                    found |= {(child, begun)} if child else set()
            self._steps[asked] = tuple(sorted(found))
        return self._steps[asked]


def _by_first(texts: Sequence[bytes]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for text in texts:
        if text:
            found.setdefault(text[0], []).append(text[1:])
    return found
