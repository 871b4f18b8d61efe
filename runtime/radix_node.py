"""The parts of the radix tree: its key, its nodes, places in it, and what a match finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Namespace:
    """The part of the key before the tokens: two namespaces never share a node, and so never a page (law 8)."""

    salt: str = ""
    adapter: str = ""


@dataclass(slots=True, eq=False)
class Node:
    """tokens[0] stands at absolute position `start`. pins: cursors and leases that end exactly here."""

    namespace: Namespace
    parent: Node | None
    start: int
    tokens: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    keys: list[tuple[int, ...]] = field(default_factory=list)  # of the children, sorted
    children: dict[tuple[int, ...], Node] = field(default_factory=dict)
    pins: int = 0
    used: int = 0
    queued: bool = False
    attached: bool = True
    ghosts: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)

    @property
    def evictable(self) -> bool:
        return self.attached and self.parent is not None and not self.children and not self.pins

    def path(self) -> list[Node]:
        """From the root's child down to this node."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The longest prefix of a text that the tree holds.

    pages: the full pages of [0, depth). node: where depth lies (depth may be inside it). source, count: a page that
    holds the next `count` (< page) tokens too, to be copied, and the node that owns it; count 0: none.
    miss: why the match ended there: 'complete', 'diverged', 'evicted' or 'never seen'.
    """

    node: Node
    depth: int
    pages: tuple[int, ...]
    count: int
    source: int
    source_node: Node
    miss: str

    @property
    def length(self) -> int:
        return self.depth + self.count


@dataclass(slots=True)
class Cursor:
    """A request's place in the tree: its tokens [0, depth) are the path to `node`, which ends there and is pinned."""

    node: Node
    depth: int


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading tokens agree."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
