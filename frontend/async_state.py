"""The state of an async body: what `State` blocks for, this awaits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from .backends.base import Answer
from .branches import AsyncBranches
from .expressions import Expression, gen, select
from .slot import Slot, Written
from .state import BaseState, scores_of, would_block
from .transcript import Message, messages_of, text_of


class AsyncState(BaseState):
    """Of an async body. `await s.get("x")`, or `value = await s.gen(...)`."""

    def __getitem__(self, name: str) -> Any:
        """The value, when it is there already; otherwise a ProgramError that says to await it."""
        slot = self._slot(name)
        if not slot.done:
            raise would_block()
        return slot.value()

    async def get(self, name: str) -> Any:
        """The value. Raises the cause when its operation failed, UnknownVariable when nothing declared it."""
        return await self._value(self._slot(name))

    async def gen(self, name: str | None = None, **options: Any) -> Any:
        """`s += gen(name, ...)` and its value; the options are those of `gen`."""
        return await self._written(gen(name, **options))

    async def select(self, name: str | None = None, choices: Sequence[str] = ()) -> Any:
        """`s += select(name, choices)` and its value."""
        return await self._written(select(name, choices))

    async def partial(self, name: str) -> AsyncIterator[Any]:
        """What the value is known to be, again and again while it is written; as of `State`."""
        slot = self._slot(name)
        reader, pieces = slot.partial(), slot.listen()
        while (piece := await pieces.get()) is not None:
            if reader.feed(piece):
                yield reader.value
        if reader.finish((await self._wait(slot)).text):
            yield reader.value

    async def raw(self, name: str) -> str:
        return (await self._wait(self._slot(name))).text

    async def answer(self, name: str) -> Answer | None:
        return (await self._wait(self._slot(name))).answer

    async def scores(self, name: str) -> Mapping[str, float]:
        return scores_of(name, await self._wait(self._slot(name)))

    async def text(self) -> str:
        await self.sync()
        return text_of(self._core.tail)

    async def messages(self) -> list[Message]:
        await self.sync()
        return messages_of(self._core.tail)

    async def sync(self) -> None:
        if (slot := self._barrier()) is not None:
            await self._wait(slot)

    def fork(self, count: int = 2) -> AsyncBranches:
        """Copies of this state, variables included, that go on independently."""
        group, members = self._split(count)
        return AsyncBranches(members, group, self._loop)

    async def join(self, branches: AsyncBranches) -> list[AsyncState]:
        return await branches.join()

    async def _written(self, addition: Expression) -> Any:
        slot = self.add(addition)
        return None if slot is None else await self._value(slot)

    async def _value(self, slot: Slot) -> Any:
        await self._wait(slot)
        return slot.value()

    async def _wait(self, slot: Slot) -> Written:
        try:
            return await slot.written()
        except Exception:
            self._told()
            raise
