"""Chains of tokens against plain lists; leases and sessions."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule

from espalier.runtime.lease import LeaseTable, TokenChain
from espalier.runtime.radix_node import Namespace


class ChainsAgainstLists(RuleBasedStateMachine):
    """Every copy goes its own way, whatever its relatives do."""

    pairs = Bundle("pairs")

    @rule(target=pairs)
    def new(self) -> tuple[TokenChain, list[int]]:
        return TokenChain(), []

    @rule(target=pairs, pair=pairs)
    def copy(self, pair: tuple[TokenChain, list[int]]) -> tuple[TokenChain, list[int]]:
        return pair[0].copy(), list(pair[1])

    @rule(pair=pairs, tokens=st.lists(st.integers(0, 9), max_size=5))
    def extend(self, pair: tuple[TokenChain, list[int]], tokens: list[int]) -> None:
        pair[0].extend(tokens)
        pair[1].extend(tokens)

    @rule(pair=pairs, length=st.integers(0, 20))
    def trim(self, pair: tuple[TokenChain, list[int]], length: int) -> None:
        pair[0].trim(length)
        del pair[1][length:]

    @rule(pair=pairs, start=st.integers(0, 20), end=st.integers(0, 20))
    def slice(self, pair: tuple[TokenChain, list[int]], start: int, end: int) -> None:
        assert pair[0].slice(start, end) == pair[1][start:end]
        assert len(pair[0]) == len(pair[1])


TestChainsAgainstLists = ChainsAgainstLists.TestCase
TestChainsAgainstLists.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_a_lease_is_never_copied_across_salts() -> None:
    table = LeaseTable()
    table.open_session(1, Namespace("one"))
    table.open_session(2, Namespace("two"))
    assert table.open(1, 1, None) is not None
    assert table.open(2, 2, 1) is None
    assert table.open(3, 1, 1) is not None


def test_closing_a_session_gives_back_its_leases_only() -> None:
    table = LeaseTable()
    for session in (1, 2):
        table.open_session(session, Namespace())
        table.open(session, session, None)
    assert [lease.id for lease in table.close_session(1)] == [1]
    assert table.get(1) is None
    assert table.get(2) is not None
    assert table.open(3, 1, None) is None
    assert table.open(4, 2, 1) is None
