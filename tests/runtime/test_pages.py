"""Law 1: free + cached + held == total, and no page moves in any other way than the law names."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from espalier.runtime.errors import EngineFault
from espalier.runtime.pages import PagePool, PageState

TOTAL = 12


class PoolAgainstSets(RuleBasedStateMachine):
    """The pool beside two plain sets."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(TOTAL, 4)
        self.held: set[int] = set()
        self.cached: set[int] = set()

    @rule(count=st.integers(0, TOTAL))
    def take(self, count: int) -> None:
        if count > self.pool.free:
            with pytest.raises(EngineFault):
                self.pool.take(count)
            return
        taken = self.pool.take(count)
        assert len(set(taken)) == count
        assert not self.held & set(taken)
        assert not self.cached & set(taken)
        self.held |= set(taken)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        pages = data.draw(st.sets(st.sampled_from(sorted(self.held))))
        self.pool.give_back(pages)
        self.held -= pages

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def cache(self, data: st.DataObject) -> None:
        page = data.draw(st.sampled_from(sorted(self.held)))
        self.pool.cache(page)
        self.held.remove(page)
        self.cached.add(page)

    @precondition(lambda self: self.cached)
    @rule(data=st.data())
    def uncache(self, data: st.DataObject) -> None:
        pages = data.draw(st.sets(st.sampled_from(sorted(self.cached))))
        self.pool.uncache(pages)
        self.cached -= pages

    @rule(page=st.integers(0, TOTAL - 1))
    def wrong_moves_change_nothing(self, page: int) -> None:
        if page not in self.held:
            with pytest.raises(EngineFault):
                self.pool.cache(page)
            with pytest.raises(EngineFault):
                self.pool.give_back([page])
        if page not in self.cached:
            with pytest.raises(EngineFault):
                self.pool.uncache([page])

    @invariant()
    def the_law_holds(self) -> None:
        self.pool.audit()
        assert (self.pool.held, self.pool.cached) == (len(self.held), len(self.cached))
        assert all(self.pool.state(page) is PageState.HELD for page in self.held)
        assert all(self.pool.state(page) is PageState.CACHED for page in self.cached)


TestPoolAgainstSets = PoolAgainstSets.TestCase
TestPoolAgainstSets.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


def test_a_page_named_twice_is_refused_whole() -> None:
    pool = PagePool(4, 4)
    page = pool.take(1)[0]
    with pytest.raises(EngineFault, match="twice"):
        pool.give_back([page, page])
    assert pool.held == 1


@pytest.mark.parametrize(("tokens", "pages"), [(0, 0), (1, 1), (16, 1), (17, 2), (32, 2)])
def test_pages_for_rounds_up(tokens: int, pages: int) -> None:
    assert PagePool(4, 16).pages_for(tokens) == pages


def test_a_broken_count_is_reported() -> None:
    pool = PagePool(4, 4)
    pool.take(1)
    pool._held = 0
    with pytest.raises(EngineFault, match="total 4"):
        pool.check()
