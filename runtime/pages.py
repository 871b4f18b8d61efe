"""The page pool: who owns each page of KV memory, and the law of conservation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from .errors import EngineFault


class PageState(IntEnum):
    """FREE: nobody's. HELD: one request's, not yet in the tree. CACHED: the tree's, leased or not."""

    FREE = 0
    HELD = 1
    CACHED = 2


class PagePool:
    """Pages 0 .. total - 1 of `page` tokens each.

    Law 1: free + cached + held == total, after every call. A page goes FREE -> HELD in `take`, HELD -> CACHED in
    `cache` (called by the tree's insert alone), HELD -> FREE in `give_back`, CACHED -> FREE in `uncache` (called by
    the tree's evict alone). Any other move is an EngineFault, raised before anything is changed.
    """

    def __init__(self, total: int, page: int) -> None:
        self.total = total
        self.page = page
        self._states = bytearray(total)
        self._free = list(range(total - 1, -1, -1))
        self._held = 0
        self._cached = 0

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def held(self) -> int:
        return self._held

    @property
    def cached(self) -> int:
        return self._cached

    def state(self, page: int) -> PageState:
        return PageState(self._states[page])

    def pages_for(self, tokens: int) -> int:
        """How many pages hold that many tokens."""
        return -(-tokens // self.page)

    def can_take(self, count: int) -> bool:
        return count <= len(self._free)

    def take(self, count: int) -> list[int]:
        """FREE -> HELD, the most recently freed first."""
        if not self.can_take(count):
            raise EngineFault(f"{count} pages were asked for and {self.free} are free", where="PagePool.take")
        taken = [self._free.pop() for _ in range(count)]
        for page in taken:
            self._states[page] = PageState.HELD
        self._held += count
        return taken

    def give_back(self, pages: Iterable[int]) -> None:
        """HELD -> FREE."""
        pages = self._expect(pages, PageState.HELD, "PagePool.give_back")
        self._move(pages, PageState.FREE)
        self._held -= len(pages)
        self._free.extend(pages)

    def cache(self, page: int) -> None:
        """HELD -> CACHED."""
        self._move(self._expect((page,), PageState.HELD, "PagePool.cache"), PageState.CACHED)
        self._held -= 1
        self._cached += 1

    def uncache(self, pages: Iterable[int]) -> None:
        """CACHED -> FREE."""
        pages = self._expect(pages, PageState.CACHED, "PagePool.uncache")
        self._move(pages, PageState.FREE)
        self._cached -= len(pages)
        self._free.extend(pages)

    def check(self) -> None:
        """Raises EngineFault when the law is broken. O(1), for every step."""
        if self.free + self._cached + self._held != self.total or min(self._cached, self._held) < 0:
            raise EngineFault(
                f"free {self.free} + cached {self._cached} + held {self._held} != total {self.total}",
                where="PagePool.check",
            )

    def audit(self) -> None:
        """`check`, page by page. O(total), for tests."""
        self.check()
        counts = [self._states.count(state) for state in PageState]
        if counts != [self.free, self._held, self._cached] or len(set(self._free)) != len(self._free):
            raise EngineFault(f"the states of the pages count {counts}", where="PagePool.audit")

    def _expect(self, pages: Iterable[int], state: PageState, where: str) -> Sequence[int]:
        pages = tuple(pages)
        for page in pages:
            if self._states[page] != state:
                raise EngineFault(f"page {page} is {self.state(page).name}, not {state.name}", where=where)
        if len(set(pages)) != len(pages):
            raise EngineFault("a page is named twice", where=where)
        return pages

    def _move(self, pages: Sequence[int], state: PageState) -> None:
        for page in pages:
            self._states[page] = state
