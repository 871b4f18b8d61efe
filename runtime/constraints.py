"""Constraints of the engine: id -> a grammar bound to the vocabulary, and one matcher per request."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..grammars.errors import BudgetTooSmall
from .errors import EngineFault, InvalidParameter


class MatcherLike(Protocol):
    """The part of `grammars.matcher.Matcher` that the engine uses."""

    def row(self, budget: int | None) -> int: ...
    def accept(self, token: int) -> None: ...
    def forced(self, limit: int, budget: int | None = None) -> Sequence[int]: ...
    def may_end(self) -> bool: ...
    def must_end(self) -> bool: ...
    def copy(self) -> MatcherLike: ...
    def close(self) -> None: ...


class CompiledLike(Protocol):
    """The part of `grammars.matcher.CompiledGrammar` that the engine uses."""

    @property
    def min_tokens(self) -> int: ...
    def matcher(self) -> Any: ...


Bind = Callable[[bytes], CompiledLike]


class Constrained:
    """The matcher of one request, with the time it took and whether its budget ever changed the answer.

    cut_short: with a larger budget some token would have been another. Where the budget narrows a mask this is known
    by drawing from the wider one too, with the same random number; where it leaves no room for the tokenizer's own
    tokens of forced text, by comparing with those.
    """

    def __init__(self, matcher: MatcherLike, clock: Callable[[], float] = time.perf_counter) -> None:
        self._matcher = matcher
        self._clock = clock
        self._wide: MatcherLike | None = None  # keeps the row without a budget while that is drawn from
        self._missed: list[int] = []  # tokens that would have been forced
        self.mask_s = 0.0
        self.cut_short = False

    def rows(self, budget: int) -> tuple[int, ...]:
        """Mask rows for the next token, with `budget` tokens left, this one included. The last one is the answer's;
        one before it is to be drawn from too, for `drawn`. They are valid until asked again."""
        began = self._clock()
        rows = self._rows(budget)
        self.mask_s += self._clock() - began
        return rows

    def _rows(self, budget: int) -> tuple[int, ...]:
        if self._wide is not None:
            self._wide.close()
            self._wide = None
        self._miss(budget)
        if self.cut_short or self._missed:
            return (self._matcher.row(budget),)
        # Equal masks are one row, and the matcher keeps the first from being replaced until it has the second.
        free = self._matcher.row(None)
        row = self._matcher.row(budget)
        if row == free:
            return (row,)
        self._wide = self._matcher.copy()
        return self._wide.row(None), row

    def _miss(self, budget: int) -> None:
        """Notes the forced tokens that the matcher is about to give up for the budget."""
        if not self.cut_short and not self._missed:
            planned = self._matcher.forced(budget + 1)
            if planned and not self._matcher.forced(1, budget):
                self._missed = list(planned)

    def drawn(self, token: int, free: int) -> None:
        """Of the rows that were asked for last: what the answer's gave, and what the first gave."""
        expected = self._missed.pop(0) if self._missed else free
        if token != expected:
            self.cut_short = True
            self._missed = []

    def accept(self, token: int) -> None:
        self._matcher.accept(token)

    def forced(self, left: int) -> list[int]:
        """Forced tokens from here, now accepted, with a budget of `left`."""
        if left <= 0:
            return []
        self._miss(left)
        tokens = list(self._matcher.forced(left, left))[:left]
        for token in tokens:
            self._matcher.accept(token)
        return tokens

    def must_end(self) -> bool:
        return self._matcher.must_end()

    def close(self) -> None:
        self._matcher.close()
        if self._wide is not None:
            self._wide.close()


class Constraints:
    """bind: a msgpack-encoded Grammar -> a CompiledGrammar of this engine's vocabulary and mask table.

    rows: the mask table's array (int32 [n, words]) at this moment, or None when there is no table; versions: how often
    each row got new content (int64 [n]), or None. A grammar that cannot be bound is kept with its error, so that the
    request that uses it fails with the true cause.
    """

    def __init__(self, bind: Bind | None = None, rows: Callable[[], Any] | None = None,
                 versions: Callable[[], Any] | None = None) -> None:
        self._bind = bind
        self._rows = rows
        self._versions = versions
        self._bound: dict[int, CompiledLike | Exception] = {}

    def define(self, constraint: int, grammar: bytes) -> None:
        try:
            if self._bind is None:
                raise EngineFault("this engine was built without grammars", where="constraint")
            self._bound[constraint] = self._bind(grammar)
        except Exception as error:  # kept for the request that asks for it: one fault, one victim
            self._bound[constraint] = error

    def forget(self, constraint: int) -> None:
        self._bound.pop(constraint, None)

    def open(self, constraint: int, budget: int) -> Constrained:
        """A fresh matcher. Raises the error of a failed bind, InvalidParameter, or BudgetTooSmall."""
        bound = self._bound.get(constraint)
        if bound is None:
            raise InvalidParameter(f"constraint {constraint} is not defined", where="constraint")
        if isinstance(bound, Exception):
            raise bound
        if bound.min_tokens > budget:
            raise BudgetTooSmall(bound.min_tokens, budget)
        return Constrained(bound.matcher())

    def rows(self) -> Any:
        return self._rows() if self._rows else None

    def versions(self) -> Any:
        return self._versions() if self._versions else None
