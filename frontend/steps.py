"""What a branch has in its queue: an operation and who waits for it. A step that cannot run is failed with a cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import ir
from .errors import BranchFailed
from .slot import Slot

if TYPE_CHECKING:
    from .interpreter import Interpreter


@dataclass(frozen=True, slots=True)
class Append:
    """Literals have no reader."""

    node: ir.Literals

    def fail(self, cause: Exception) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Write:
    """An operation that writes a value."""

    node: ir.Gen | ir.Select
    slot: Slot

    def fail(self, cause: Exception) -> None:
        self.slot.fail(cause)


@dataclass(frozen=True, slots=True)
class Split:
    """A fork and the branches that wait to begin."""

    node: ir.Fork
    group: Group

    def fail(self, cause: Exception) -> None:
        self.group.refuse(cause)


@dataclass(frozen=True, slots=True)
class Barrier:
    """A reader waits for everything before it."""

    slot: Slot

    def fail(self, cause: Exception) -> None:
        self.slot.fail(cause)


Step = Append | Write | Split | Barrier


class Group:
    """The branches of one fork. error: the first failure among them. taken: a reader or a join was told of it, so that
    the program has had its chance to handle it."""

    def __init__(self, members: Sequence[Interpreter]) -> None:
        self.members = tuple(members)
        self.error: Exception | None = None
        self.taken = False
        for member in members:
            member.group = self

    async def failed(self, member: Interpreter, cause: Exception) -> None:
        """The first failure cancels the siblings; later ones are its consequences."""
        if self.error is not None:
            return
        self.error = cause
        for sibling in self.members:
            if sibling is not member:
                await sibling.stop(_cancelled_by(member, cause))

    def refuse(self, cause: Exception) -> None:
        """The fork itself will not happen."""
        self.error = self.error or cause
        for member in self.members:
            member.refuse(cause)

    async def join(self) -> None:
        """Wait for all branches and give them back. Raises the failure that came first."""
        self.taken = True
        for member in self.members:
            await member.settle()
        await self.stop()
        if (error := self.outcome()) is not None:
            raise error

    def outcome(self) -> Exception | None:
        """The failure that came first; else one from below a branch; else None."""
        below = (member.error or member.untold for member in self.members)
        return self.error or next((error for error in below if error is not None), None)

    async def stop(self, cause: Exception | None = None) -> None:
        for member in self.members:
            await member.stop(cause)


def _cancelled_by(member: Interpreter, cause: Exception) -> BranchFailed:
    error = BranchFailed(f"cancelled, because branch {list(member.path)} failed: {cause}")
    error.__cause__ = cause
    return error
