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
    def close(self) -> None: ...


class CompiledLike(Protocol):
    """The part of `grammars.matcher.CompiledGrammar` that the engine uses."""

    @property
    def min_tokens(self) -> int: ...
    def matcher(self) -> Any: ...


Bind = Callable[[bytes], CompiledLike]


class Constrained:
    """The matcher of one request, with the time it took and whether the budget ever narrowed its choice."""

    def __init__(self, matcher: MatcherLike, clock: Callable[[], float] = time.perf_counter) -> None:
        self._matcher = matcher
        self._clock = clock
        self.mask_s = 0.0
        self.cut_short = False

    def row(self, budget: int) -> int:
        """Mask row for the next token, with `budget` tokens left, this one included."""
        began = self._clock()
        # Equal masks are one row, and the matcher keeps the first from being replaced until it has the second.
        free = None if self.cut_short else self._matcher.row(None)
        row = self._matcher.row(budget)
        self.cut_short = row != free
        self.mask_s += self._clock() - began
        return row

    def accept(self, token: int) -> None:
        self._matcher.accept(token)

    def forced(self, left: int) -> list[int]:
        """Forced tokens from here, now accepted, with a budget of `left`."""
        if left <= 0:
            return []
        tokens = list(self._matcher.forced(left, left))[:left]
        for token in tokens:
            self._matcher.accept(token)
        return tokens

    def must_end(self) -> bool:
        return self._matcher.must_end()

    def close(self) -> None:
        self._matcher.close()


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
