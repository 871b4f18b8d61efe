"""The executor as the engine loop calls it: its faults have a name, its time is counted, its masks are bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .errors import EngineFault
from .executor import Executor, Ticket
from .plan import Pick, Plan, Sampled


class ExecutorFault(Exception):
    """The executor raised `cause` in one of its three calls."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Device:
    """rows: the array of mask rows as it is now, or None; versions: how often each got new content, or None. seconds:
    spent in the executor so far."""

    def __init__(self, executor: Executor, *, rows: Callable[[], Any], versions: Callable[[], Any],
                 clock: Callable[[], float]) -> None:
        self.seconds = 0.0
        self._executor = executor
        self._rows = rows
        self._versions = versions
        self._clock = clock
        self._bound: Any = None

    def forward(self, plan: Plan) -> Ticket:
        """Starts the plan. Raises ExecutorFault."""
        with self._counted():
            return self._executor.forward(plan)

    def sample(self, ticket: Ticket, picks: Sequence[Pick]) -> None:
        """Starts the draws. Raises ExecutorFault."""
        with self._counted():
            self._bind_masks()
            self._executor.sample(ticket, picks)

    def result(self, ticket: Ticket, count: int) -> list[Sampled]:
        """One for each of `count` picks, in order. Raises ExecutorFault."""
        with self._counted():
            drawn = self._executor.result(ticket)
            if len(drawn) != count:
                raise EngineFault(f"{count} picks came back as {len(drawn)}", where="executor.result")
        return drawn

    def close(self) -> None:
        self._executor.close()

    def _bind_masks(self) -> None:
        rows = self._rows()
        if rows is not None and rows is not self._bound:
            self._executor.bind_masks(rows, self._versions())
            self._bound = rows

    @contextmanager
    def _counted(self) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        except Exception as error:
            raise ExecutorFault(error) from error
        finally:
            self.seconds += self._clock() - began
