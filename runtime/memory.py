"""What requests and leases hold: block tables over the pool, cursors and pins in the tree.

    tokens of a request   [0 .... cursor.depth)[cursor.depth .... computed)[computed .... known)
    their pages           the tree's, pinned    held by the request          none, or held and empty
"""

from __future__ import annotations

from collections import OrderedDict

from .lease import Lease
from .pages import PagePool
from .plan import PageCopy
from .radix import RadixTree
from .radix_node import Cursor, MatchResult
from .request import Request


class Memory:
    """The only caller of the tree's and the pool's writing methods."""

    def __init__(self, pages: int, page: int) -> None:
        self.pool = PagePool(pages, page)
        self.tree = RadixTree(self.pool)
        self.page = page
        self._sources: list[Cursor] = []  # pins on pages that the plan in the making copies from
        self._idle: OrderedDict[Lease, None] = OrderedDict()  # leases with a pin, least recently used first

    # Requests

    def match(self, request: Request) -> MatchResult:
        tokens = request.chain.slice(0, request.known)
        return self.tree.match(request.lease.namespace, tokens, request.reuse_limit)

    def enter(self, request: Request, found: MatchResult) -> None:
        """Pin the full pages of the match as the request's own prefix. Nothing is taken from the pool."""
        request.cursor = self.tree.pin(found.node, found.depth)
        request.table = list(found.pages)
        request.computed = found.depth

    def enter_whole(self, request: Request, found: MatchResult) -> None:
        """All of the request's tokens are in the tree: pin them, the part-full last page included."""
        node, depth = (found.source_node, found.depth + self.page) if found.count else (found.node, found.depth)
        request.cursor = self.tree.pin(node, min(depth, node.end))
        request.table = list(found.pages)
        request.computed = found.length

    def copy_partial(self, request: Request, found: MatchResult) -> PageCopy | None:
        """Take a page for the tokens that the match ends in; None when there is no such page, or no room.

        The source stays pinned until `end_plan`: a page that is read in this step must not be evicted in it.
        """
        if not found.count or not found.source_node.attached:
            return None
        self._sources.append(self.tree.pin(found.source_node, found.source_node.end))
        taken = self.take(1)
        if not taken:
            self.tree.unpin(self._sources.pop())
            return None
        request.table += taken
        request.computed += found.count
        return PageCopy(found.source, taken[0], found.count)

    def undo_copy(self, request: Request, copy: PageCopy) -> None:
        """Take back the latest `copy_partial`: memory is so short that its source must become evictable."""
        self.tree.unpin(self._sources.pop())
        request.table.remove(copy.target)
        self.pool.give_back((copy.target,))
        request.computed -= copy.count

    def end_plan(self) -> None:
        """The plan is written: nothing is taken any more before it runs."""
        while self._sources:
            self.tree.unpin(self._sources.pop())

    def grow(self, request: Request, end: int) -> bool:
        """Own pages for [0, end). False: there is no room, and nothing was taken."""
        need = self.pool.pages_for(end) - len(request.table)
        if need <= 0:
            return True
        taken = self.take(need)
        request.table += taken
        return bool(taken)

    def take(self, count: int) -> list[int]:
        """Pages from the pool, then from the tree, then from what only idle leases keep; [] when that is not enough."""
        return self.pool.take(count) if self.make_free(count) else []

    def make_free(self, count: int) -> bool:
        """Evict until that many pages are free. False: what is left is pinned by requests."""
        while not self.pool.can_take(count):
            if not self.tree.evict(count - self.pool.free) and not self._relax():
                return False
        return True

    def settle(self, request: Request) -> None:
        """Filled pages go to the tree, so that others reuse them at once. The table is rewritten where it had them."""
        cursor = request.cursor
        if cursor is None:
            return
        begin, whole = cursor.depth, max(0, request.computed - cursor.depth) // self.page
        tokens = request.chain.slice(begin, begin + whole * self.page)
        for index in range(whole):
            slot = begin // self.page + index
            part = tokens[index * self.page:(index + 1) * self.page]
            request.table[slot] = self.tree.insert(cursor, part, request.table[slot])

    def leave(self, request: Request) -> Cursor | None:
        """All pages of the request are the tree's or free afterwards. Returns its pin, which the caller now owns."""
        cursor = request.cursor
        if cursor is None:
            return None
        self.settle(request)
        tail = request.computed - cursor.depth
        own = request.held(self.page)
        if tail > 0:
            tokens = request.chain.slice(cursor.depth, request.computed)
            self.tree.insert_tail(cursor, tokens, own.pop(0))
        self.pool.give_back(own)
        request.cursor, request.table, request.computed = None, [], 0
        return cursor

    def drop(self, request: Request) -> None:
        """`leave`, and nobody keeps the pin."""
        pin = self.leave(request)
        if pin is not None:
            self.tree.unpin(pin)

    # Leases

    def hold(self, lease: Lease, pin: Cursor | None) -> None:
        """The lease keeps this pin from now on, instead of the one it had."""
        self.unhold(lease)
        if pin is not None:
            lease.pin = pin
            self._idle[lease] = None

    def unhold(self, lease: Lease) -> None:
        if lease.pin is not None:
            del self._idle[lease]
            pin, lease.pin = lease.pin, None
            self.tree.unpin(pin)

    def share(self, parent: Lease, child: Lease) -> None:
        """The child pins what the parent pins. O(1)."""
        if parent.pin is not None:
            self.hold(child, self.tree.pin(parent.pin.node, parent.pin.depth))

    def trim(self, lease: Lease, length: int) -> None:
        """The lease keeps its first `length` tokens, and pins no page beyond them."""
        lease.chain.trim(length)
        if lease.pin is None or lease.pin.depth <= length:
            return
        node = lease.pin.node
        while node.parent is not None and node.start >= length:
            node = node.parent
        depth = min(node.end, self.pool.pages_for(length) * self.page)
        self.hold(lease, self.tree.pin(node, depth))

    def _relax(self) -> bool:
        """Drop the pin of the least recently used idle lease. False when there is none."""
        if not self._idle:
            return False
        self.unhold(next(iter(self._idle)))
        return True

    def check(self) -> None:
        self.pool.check()

    def audit(self) -> None:
        self.pool.audit()
        self.tree.audit()
