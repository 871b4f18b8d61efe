"""The radix tree: every finished page of every text, keyed by (salt, adapter, token ids).

A node is a segment of tokens with the pages that hold them. Segments are cut at page boundaries only, so siblings may
agree on up to a page less one token, and only a leaf's last page may be part full. Siblings are kept sorted by their
first page of tokens: the sibling that agrees longest with a text stands beside the place where the text would go.

    root -- [0, 48) --+-- [48, 64) -- [64, 71)   a leaf, its last page holds 7 tokens
                      `-- [48, 80)               may agree with its sibling on up to 15 tokens
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from .errors import EngineFault
from .pages import PagePool
from .radix_audit import audit
from .radix_node import Cursor, MatchResult, Namespace, Node, common_prefix

# A node remembers this many of its evicted children, to tell 'evicted' from 'never seen'; past that it forgets all.
GHOSTS = 256


class RadixTree:
    """The only owner of finished pages. Recency is counted in calls, so that order never depends on a clock."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._page = pool.page
        self._roots: dict[Namespace, Node] = {}
        self._heap: list[tuple[int, int, Node]] = []
        self._ticks = 0

    # Reading

    def match(self, namespace: Namespace, tokens: Sequence[int], limit: int | None = None) -> MatchResult:
        """Longest cached prefix of tokens[:limit]. Changes nothing; the pages are only safe until the next eviction."""
        limit = len(tokens) if limit is None else min(limit, len(tokens))
        node = self._roots.get(namespace) or Node(namespace, None, 0, attached=False)
        depth, pages = 0, list[int]()
        while limit - depth >= self._page:
            child = node.children.get(tuple(tokens[depth:depth + self._page]))
            if child is None:
                break
            agreed = self._agreement(child, tokens, depth, limit)
            pages += child.pages[:agreed]
            node, depth = child, depth + agreed * self._page
            if depth < node.end:
                break
        return self._partial(node, depth, tuple(pages), tokens, limit)

    def _agreement(self, node: Node, tokens: Sequence[int], depth: int, limit: int) -> int:
        """How many full pages of the node the text agrees with; at least one, since the caller compared it."""
        page = self._page
        whole = min(len(node.tokens), limit - depth) // page
        low, high = 1, whole
        while low < high:  # the longest agreeing prefix, by slices
            middle = (low + high + 1) // 2
            if node.tokens[low * page:middle * page] == list(tokens[depth + low * page:depth + middle * page]):
                low = middle
            else:
                high = middle - 1
        return low

    def _partial(
        self, node: Node, depth: int, pages: tuple[int, ...], tokens: Sequence[int], limit: int
    ) -> MatchResult:
        want = tuple(tokens[depth:min(depth + self._page, limit)])
        count, source, source_node = 0, -1, node
        for owner, have in self._continuations(node, depth, want):
            agreed = common_prefix(have, want)
            if agreed > count:
                count, source_node = agreed, owner
                source = owner.pages[(depth - owner.start) // self._page]
        miss = "complete" if depth + count == limit else self._miss(node, depth, count, tokens)
        return MatchResult(node, depth, pages, count, source, source_node, miss)

    def _continuations(
        self, node: Node, depth: int, want: tuple[int, ...]
    ) -> Iterator[tuple[Node, Sequence[int]]]:
        """The pages after `depth` that may agree longest: the rest of this node, or the two neighbours of `want`."""
        if depth < node.end:
            inside = depth - node.start
            yield node, node.tokens[inside:inside + self._page]
            return
        at = bisect_left(node.keys, want)
        for key in node.keys[max(0, at - 1):at + 1]:
            yield node.children[key], key

    def _miss(self, node: Node, depth: int, count: int, tokens: Sequence[int]) -> str:
        if hash(tuple(tokens[depth:depth + self._page])) in node.ghosts and depth == node.end:
            return "evicted"
        if count or depth < node.end:
            return "diverged"
        return "diverged" if node.children and depth else "never seen"

    def nodes(self) -> Iterator[Node]:
        """Every node but the roots."""
        stack = list(self._roots.values())
        while stack:
            node = stack.pop()
            if node.parent is not None:
                yield node
            stack.extend(node.children.values())

    # Pins

    def pin(self, node: Node, depth: int) -> Cursor:
        """Keep the pages of [0, depth) from eviction until `unpin`. The node is split when depth lies inside it.

        depth is a page boundary, or the end of the node. A node that the tree has dropped cannot be pinned.
        """
        if node.parent is None:
            node = self._roots.setdefault(node.namespace, node)
            node.attached = True
        if not node.attached:
            raise EngineFault("a dropped node was pinned", where="RadixTree.pin")
        if depth < node.end:
            node = self._split(node, depth)
        node.pins += 1
        self._touch(node)
        return Cursor(node, depth)

    def unpin(self, cursor: Cursor) -> None:
        node = cursor.node
        if node.pins <= 0:
            raise EngineFault("a pin was given back twice", where="RadixTree.unpin")
        node.pins -= 1
        self._touch(node)
        self._enqueue(node)
        self._drop_root(node)

    # Growing

    def insert(self, cursor: Cursor, tokens: Sequence[int], page: int) -> int:
        """The next full page of the cursor's text becomes the tree's; the cursor moves behind it. O(page).

        Returns the page that now holds these tokens: `page` itself (HELD -> CACHED), or the one that the tree already
        has; `page` is then free again and the caller must forget it.
        """
        key = tuple(tokens)
        if len(key) != self._page or cursor.depth != cursor.node.end:
            raise EngineFault("only full pages at the end of a cursor can be inserted", where="RadixTree.insert")
        child = cursor.node.children.get(key)
        if child is not None:
            self._pool.give_back((page,))
            self._move(cursor, self._split(child, child.start + self._page) if len(child.pages) > 1 else child)
            return cursor.node.pages[-1]
        self._pool.cache(page)
        if self._extends_in_place(cursor.node):
            cursor.node.tokens += key
            cursor.node.pages.append(page)
            cursor.depth += self._page
            self._touch(cursor.node)
        else:
            self._move(cursor, self._add(cursor.node, key, page))
        return page

    def insert_tail(self, cursor: Cursor, tokens: Sequence[int], page: int) -> bool:
        """A part-full last page becomes a leaf below the cursor, and the cursor moves to its end.

        False when the tree already holds these tokens there: the page is freed and the cursor stays.
        """
        key = tuple(tokens)
        if not 0 < len(key) < self._page or cursor.depth != cursor.node.end:
            raise EngineFault("a tail is a part of a page at the end of a cursor", where="RadixTree.insert_tail")
        at = bisect_left(cursor.node.keys, key)
        if at < len(cursor.node.keys) and cursor.node.keys[at][:len(key)] == key:
            self._pool.give_back((page,))
            return False
        self._pool.cache(page)
        self._move(cursor, self._add(cursor.node, key, page))
        return True

    def _extends_in_place(self, node: Node) -> bool:
        return node.parent is not None and not node.children and node.pins == 1

    def _add(self, parent: Node, key: tuple[int, ...], page: int) -> Node:
        self._drop_covered(parent, key)
        child = Node(parent.namespace, parent, parent.end, list(key), [page])
        self._adopt(parent, child)
        parent.ghosts.discard(hash(key))
        self._touch(child)
        return child

    def _drop_covered(self, parent: Node, key: tuple[int, ...]) -> None:
        """A part-full leaf whose tokens the new page holds too is of no more use, unless somebody pins it."""
        at = bisect_left(parent.keys, key)
        if at and key[:len(parent.keys[at - 1])] == parent.keys[at - 1]:
            covered = parent.children[parent.keys[at - 1]]
            if not covered.pins and not covered.children:
                self._pool.uncache(covered.pages)
                self._detach(covered)

    def _adopt(self, parent: Node, child: Node) -> None:
        key = tuple(child.tokens[:self._page])
        parent.keys.insert(bisect_left(parent.keys, key), key)
        parent.children[key] = child
        child.parent = parent

    def _split(self, node: Node, depth: int) -> Node:
        """Cut at a page boundary. The upper part is new; the lower one keeps its identity, pins and children."""
        cut = depth - node.start
        parent = node.parent
        if parent is None or cut % self._page or not 0 < cut < len(node.tokens):
            if parent is not None and cut == 0:
                return parent
            raise EngineFault(f"a segment of {len(node.tokens)} tokens was cut at {cut}", where="RadixTree._split")
        upper = Node(node.namespace, parent, node.start, node.tokens[:cut], node.pages[:cut // self._page])
        upper.used = node.used
        parent.children[tuple(upper.tokens[:self._page])] = upper  # same first page: same key, same place
        node.tokens, node.pages, node.start = node.tokens[cut:], node.pages[cut // self._page:], depth
        self._adopt(upper, node)
        return upper

    def _move(self, cursor: Cursor, node: Node) -> None:
        node.pins += 1
        self._touch(node)
        left, cursor.node, cursor.depth = cursor.node, node, node.end
        left.pins -= 1
        self._enqueue(left)

    # Eviction

    def evict(self, count: int) -> int:
        """Free up to `count` pages, least recently used first, from the ends of unpinned leaves. Returns how many."""
        freed = 0
        while freed < count and self._heap:
            used, _, node = heapq.heappop(self._heap)
            node.queued = False
            if not node.evictable:
                continue
            if used != node.used:
                self._enqueue(node)
                continue
            freed += self._shorten(node, count - freed)
        return freed

    def _shorten(self, node: Node, most: int) -> int:
        cut = max(0, len(node.pages) - most)
        gone = node.pages[cut:]
        self._pool.uncache(reversed(gone))
        if cut:
            self._remember(node, tuple(node.tokens[cut * self._page:(cut + 1) * self._page]))
            del node.tokens[cut * self._page:], node.pages[cut:]
            self._enqueue(node)
            return len(gone)
        parent = self._detach(node)
        self._remember(parent, tuple(node.tokens[:self._page]))
        parent.used = max(parent.used, node.used)  # whoever used the child used the parent
        self._enqueue(parent)
        self._drop_root(parent)
        return len(gone)

    def _remember(self, node: Node, key: tuple[int, ...]) -> None:
        if len(node.ghosts) >= GHOSTS:
            node.ghosts.clear()
        node.ghosts.add(hash(key))

    def _detach(self, node: Node) -> Node:
        parent = node.parent
        if parent is None:
            raise EngineFault("a root cannot be evicted", where="RadixTree._detach")
        key = tuple(node.tokens[:self._page])
        del parent.children[key], parent.keys[bisect_left(parent.keys, key)]
        node.attached = False
        return parent

    def _enqueue(self, node: Node) -> None:
        if not node.queued and node.evictable:
            node.queued = True
            heapq.heappush(self._heap, (node.used, self._ticks, node))
            self._ticks += 1

    def _touch(self, node: Node) -> None:
        self._ticks += 1
        node.used = self._ticks

    def _drop_root(self, node: Node) -> None:
        """A namespace that holds nothing and is used by nobody is forgotten, so that salts cannot pile up."""
        if node.parent is None and not node.children and not node.pins:
            self._roots.pop(node.namespace, None)

    # The law

    def audit(self) -> None:
        """Raises EngineFault unless the tree is well formed and owns exactly the cached pages. O(pages), for tests."""
        audit(self.nodes(), self._pool)
