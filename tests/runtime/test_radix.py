"""The tree against a naive list of everything that was inserted and not evicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from espalier.runtime.errors import EngineFault
from espalier.runtime.pages import PagePool, PageState
from espalier.runtime.radix import RadixTree
from espalier.runtime.radix_node import Cursor, Namespace, common_prefix

PAGE = 4
TOTAL = 24
SALTS = (Namespace("a"), Namespace("b"), Namespace("a", "adapter"))

# Beginnings of the same few texts, with something of their own behind: what a tree is for.
TOKENS = st.builds(
    lambda base, length, own: [base, *range(3, 2 + length)][:length] + own,
    st.integers(0, 1), st.integers(0, 4 * PAGE), st.lists(st.integers(0, 2), max_size=PAGE + 1),
)


@dataclass(slots=True)
class Writer:
    """A request: its text and its cursor."""

    namespace: Namespace
    tokens: list[int]
    cursor: Cursor
    pages: list[int] = field(default_factory=list)


class TreeAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(TOTAL, PAGE)
        self.tree = RadixTree(self.pool)
        self.writers: list[Writer] = []
        self.stored: dict[int, tuple[Namespace, tuple[int, ...]]] = {}  # page -> the text up to its end

    def begin(self, namespace: Namespace, tokens: list[int]) -> Writer:
        found = self.tree.match(namespace, tokens)
        writer = Writer(namespace, tokens, self.tree.pin(found.node, found.depth), list(found.pages))
        self.writers.append(writer)
        return writer

    def forget_evicted(self) -> None:
        self.stored = {
            page: text for page, text in self.stored.items() if self.pool.state(page) is PageState.CACHED
        }

    def page(self) -> int | None:
        if not self.pool.can_take(1):
            self.tree.evict(1)
            self.forget_evicted()
        return self.pool.take(1)[0] if self.pool.can_take(1) else None

    @rule(namespace=st.sampled_from(SALTS), tokens=TOKENS)
    def write(self, namespace: Namespace, tokens: list[int]) -> None:
        """Insert a whole text, page by page, then its tail."""
        writer = self.begin(namespace, tokens)
        while writer.cursor.depth + PAGE <= len(tokens):
            if not self.insert_one(writer):
                return
        rest = tokens[writer.cursor.depth:]
        page = self.page() if rest else None
        if page is not None:
            depth = writer.cursor.depth
            if self.tree.insert_tail(writer.cursor, rest, page):
                self.stored[page] = (namespace, tuple(tokens))
                assert writer.cursor.depth == len(tokens)
            else:
                assert writer.cursor.depth == depth
            self.forget_evicted()

    def insert_one(self, writer: Writer) -> bool:
        page = self.page()
        if page is None:
            return False
        depth = writer.cursor.depth
        kept = self.tree.insert(writer.cursor, writer.tokens[depth:depth + PAGE], page)
        if kept == page:
            self.stored[page] = (writer.namespace, tuple(writer.tokens[:depth + PAGE]))
        else:
            assert self.pool.state(page) is PageState.FREE
        assert self.stored[kept] == (writer.namespace, tuple(writer.tokens[:depth + PAGE]))
        writer.pages.append(kept)
        self.forget_evicted()
        return True

    @rule(namespace=st.sampled_from(SALTS), tokens=TOKENS)
    def start(self, namespace: Namespace, tokens: list[int]) -> None:
        self.begin(namespace, tokens)

    @precondition(lambda self: self.writers)
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """Two writers of the same text end at the same pages, whoever was first."""
        writer = data.draw(st.sampled_from(self.writers))
        if writer.cursor.depth % PAGE == 0 and writer.cursor.depth + PAGE <= len(writer.tokens):
            self.insert_one(writer)

    @precondition(lambda self: self.writers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.writers) - 1))
        self.tree.unpin(self.writers.pop(index).cursor)

    @rule(count=st.integers(1, TOTAL))
    def evict(self, count: int) -> None:
        before = self.pool.free
        freed = self.tree.evict(count)
        assert freed <= count
        assert self.pool.free == before + freed
        self.forget_evicted()

    @rule(namespace=st.sampled_from(SALTS), tokens=TOKENS, limit=st.integers(0, 5 * PAGE))
    def match_is_the_longest_common_prefix(self, namespace: Namespace, tokens: list[int], limit: int) -> None:
        found = self.tree.match(namespace, tokens, limit)
        asked = tokens[:limit]
        texts = [text for owner, text in self.stored.values() if owner == namespace]
        assert found.length == max((common_prefix(text, asked) for text in texts), default=0)
        assert found.depth == len(found.pages) * PAGE
        assert found.count < PAGE
        for index, page in enumerate(found.pages):
            assert self.stored[page] == (namespace, tuple(tokens[:(index + 1) * PAGE]))
        if found.count:
            owner, text = self.stored[found.source]
            assert owner == namespace
            assert text[:found.length] == tuple(tokens[:found.length])
        assert (found.miss == "complete") == (found.length == len(asked))

    @invariant()
    def the_laws_hold(self) -> None:
        self.pool.audit()
        self.tree.audit()
        assert set(self.stored) == {page for node in self.tree.nodes() for page in node.pages}

    @invariant()
    def pinned_pages_stay(self) -> None:
        for writer in self.writers:
            owned = [page for node in writer.cursor.node.path() for page in node.pages]
            assert owned[:len(writer.pages)] == writer.pages
            assert writer.cursor.node.end == writer.cursor.depth

    def teardown(self) -> None:
        """With nobody left, everything can be evicted, and no namespace is remembered."""
        for writer in self.writers:
            self.tree.unpin(writer.cursor)
        self.tree.evict(TOTAL)
        assert self.pool.free == TOTAL
        assert not self.tree._roots


TestTreeAgainstList = TreeAgainstList.TestCase
TestTreeAgainstList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def write(tree: RadixTree, pool: PagePool, tokens: list[int], namespace: Namespace = SALTS[0]) -> Cursor:
    found = tree.match(namespace, tokens)
    cursor = tree.pin(found.node, found.depth)
    while cursor.depth + PAGE <= len(tokens):
        tree.insert(cursor, tokens[cursor.depth:cursor.depth + PAGE], pool.take(1)[0])
    if cursor.depth < len(tokens):
        tree.insert_tail(cursor, tokens[cursor.depth:], pool.take(1)[0])
    return cursor


def test_two_salts_never_share_a_page() -> None:
    pool = PagePool(TOTAL, PAGE)
    tree = RadixTree(pool)
    text = [1] * 8
    for namespace in SALTS:
        write(tree, pool, text, namespace)
    owners = [tree.match(namespace, text).pages for namespace in SALTS]
    assert pool.cached == 2 * len(SALTS)
    assert len({page for pages in owners for page in pages}) == 2 * len(SALTS)
    assert tree.match(Namespace("c"), text).length == 0


def test_extending_one_text_stays_one_node() -> None:
    pool = PagePool(TOTAL, PAGE)
    tree = RadixTree(pool)
    cursor = write(tree, pool, [1] * 8)
    for _ in range(5):
        tree.insert(cursor, [1] * PAGE, pool.take(1)[0])
    assert len(list(tree.nodes())) == 1
    assert cursor.depth == 28


def test_a_lease_pins_no_page_beyond_its_own_text() -> None:
    pool = PagePool(TOTAL, PAGE)
    tree = RadixTree(pool)
    first = write(tree, pool, [1] * 8)
    found = tree.match(SALTS[0], [1] * 4)
    short = tree.pin(found.node, found.depth)
    tree.unpin(first)
    assert tree.evict(TOTAL) == 1
    assert tree.match(SALTS[0], [1] * 8).length == 4
    tree.unpin(short)
    assert tree.evict(TOTAL) == 1


def test_the_least_recently_used_leaf_goes_first_and_from_its_end() -> None:
    pool = PagePool(TOTAL, PAGE)
    tree = RadixTree(pool)
    old, new = [1] * 8, [2] * 8
    cursors = [write(tree, pool, old), write(tree, pool, new)]
    for cursor in cursors:
        tree.unpin(cursor)
    tree.evict(1)
    assert tree.match(SALTS[0], old).length == 4
    assert tree.match(SALTS[0], old).miss == "evicted"
    assert tree.match(SALTS[0], new).length == 8


@pytest.mark.parametrize(("query", "miss"), [
    ([1] * 8, "complete"), ([1, 1, 1, 1, 2, 2, 2, 2], "diverged"), ([1] * 12, "never seen"), ([2] * 4, "never seen"),
])
def test_a_match_says_why_it_ended(query: list[int], miss: str) -> None:
    pool = PagePool(TOTAL, PAGE)
    tree = RadixTree(pool)
    write(tree, pool, [1] * 8)
    assert tree.match(SALTS[0], query).miss == miss


def test_a_part_full_page_that_a_full_one_covers_is_freed_at_once() -> None:
    pool = PagePool(TOTAL, PAGE)
    tree = RadixTree(pool)
    tree.unpin(write(tree, pool, [1, 2]))
    write(tree, pool, [1, 2, 3, 4])
    assert pool.cached == 1


MISUSES: dict[str, Callable[[RadixTree, Cursor, int], object]] = {
    "short page": lambda tree, cursor, page: tree.insert(cursor, [1], page),
    "empty tail": lambda tree, cursor, page: tree.insert_tail(cursor, [], page),
    "full tail": lambda tree, cursor, page: tree.insert_tail(cursor, [1] * PAGE, page),
    "off the end": lambda tree, cursor, page: tree.insert(Cursor(cursor.node, 0), [1] * PAGE, page),
    "inside a page": lambda tree, cursor, page: tree.pin(cursor.node, 2),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_is_an_engine_fault_and_changes_nothing(misuse: str) -> None:
    pool = PagePool(TOTAL, PAGE)
    tree = RadixTree(pool)
    cursor = write(tree, pool, [1] * PAGE)
    page = pool.take(1)[0]
    with pytest.raises(EngineFault):
        MISUSES[misuse](tree, cursor, page)
    assert (pool.held, pool.cached) == (1, 1)
    tree.audit()


def test_a_pin_is_given_back_once() -> None:
    pool = PagePool(TOTAL, PAGE)
    tree = RadixTree(pool)
    cursor = write(tree, pool, [1] * PAGE)
    tree.unpin(cursor)
    with pytest.raises(EngineFault, match="twice"):
        tree.unpin(cursor)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 1), max_size=12), st.lists(st.integers(0, 1), max_size=12))
def test_common_prefix_is_what_it_says(left: list[int], right: list[int]) -> None:
    count = common_prefix(left, right)
    assert left[:count] == right[:count]
    assert count in (len(left), len(right)) or left[count] != right[count]
