"""The branches of one fork: a list of states that are added to, read and joined together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from .errors import ProgramError, UnknownVariable
from .expressions import Expression
from .loop import LoopThread
from .steps import Group

if TYPE_CHECKING:
    from .async_state import AsyncState
    from .state import BaseState, State

S = TypeVar("S", bound="BaseState")
Addition = str | Expression


class BaseBranches(Generic[S]):
    """A failing branch cancels its siblings; what they had finished can still be read."""

    def __init__(self, members: Sequence[S], group: Group, loop: LoopThread) -> None:
        self._members = tuple(members)
        self._group = group
        self._loop = loop

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[S]:
        return iter(self._members)

    def __setitem__(self, index: int, state: S) -> None:
        """Only what `branches[i] += ...` does: put back the same state."""
        if state is not self._members[index]:
            raise ProgramError("a branch cannot be replaced by another", where=f"branches[{index}]")

    def __iadd__(self, addition: Addition | Sequence[Addition] | Callable[[int], Addition]) -> Self:
        """One addition for all, a list with one for each, or a function of the branch's index."""
        for member, one in zip(self._members, self._spread(addition), strict=True):
            member.add(one)
        return self

    def _spread(self, addition: Addition | Sequence[Addition] | Callable[[int], Addition]) -> list[Addition]:
        if isinstance(addition, (str, Expression)):
            return [addition] * len(self)
        if callable(addition):
            return [addition(k) for k in range(len(self))]
        if not isinstance(addition, (list, tuple)):
            raise ProgramError(f"branches take an expression, a list or a function, not {type(addition).__name__}")
        if len(addition) != len(self):
            raise ProgramError(f"{len(addition)} additions were given to {len(self)} branches")
        return list(addition)

    def _known(self, name: str) -> None:
        if any(name not in member for member in self._members):
            known = ", ".join(repr(n) for n in self._members[0].variables) or "none"
            raise UnknownVariable(f"not every branch has written {name!r}", where=name, fix=f"Known names: {known}.")


class Branches(BaseBranches["State"]):
    """As a context manager: leaving joins, and leaving by an exception cancels."""

    def __getitem__(self, key: int | str) -> Any:
        """By index: the branch. By name: the list of that variable's values; raises the failure that came first."""
        if not isinstance(key, str):
            return self._members[key]
        self._known(key)
        try:
            return [member[key] for member in self._members]
        except Exception:
            if self._group.error is not None:
                raise self._group.error from None
            raise

    def join(self) -> list[State]:
        """Wait for all branches and release them. Raises the failure that came first, with its true cause."""
        self._loop.call(self._group.join)
        return list(self._members)

    def release(self) -> None:
        """Abort what still runs and give the branches back. Values that are there stay readable."""
        self._loop.call(self._group.stop)

    def __enter__(self) -> Self:
        if self._loop.is_current():
            raise ProgramError("leaving this block would stop the event loop", fix="Use `async with`.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.join()
        else:
            self.release()


class AsyncBranches(BaseBranches["AsyncState"]):
    """As an async context manager: leaving joins, and leaving by an exception cancels."""

    def __getitem__(self, key: int) -> AsyncState:
        return self._members[key]

    async def get(self, name: str) -> list[Any]:
        """The values of a variable, one a branch; raises the failure that came first."""
        self._known(name)
        try:
            return [await member.get(name) for member in self._members]
        except Exception:
            if self._group.error is not None:
                raise self._group.error from None
            raise

    async def join(self) -> list[AsyncState]:
        """Wait for all branches and release them. Raises the failure that came first, with its true cause."""
        await self._group.join()
        return list(self._members)

    async def release(self) -> None:
        """Abort what still runs and give the branches back. Values that are there stay readable."""
        await self._group.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.join()
        else:
            await self.release()
