"""Runs the operations of one branch in order, on the event loop.

A program declares operations faster than they run. Each branch has its own queue; reading a value waits for its slot
and for nothing else. A failed operation fails its slot and every later one with the same cause, so that no read can
hang. Everything here happens on one event loop; other threads come in through LoopThread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from . import ir
from .backends.base import Answer, Backend, Branch, ChosenText, Piece, Usage
from .choices import winner
from .errors import BranchClosed, BranchFailed
from .slot import Slot, Written
from .steps import Append, Barrier, Group, Split, Step, Write
from .transcript import Entry


@dataclass(frozen=True, slots=True)
class Event:
    """A piece of a running program. variable: the name being written, None for literals and unnamed answers.
    generated: written by the model. branch: the fork path, () for the root, (1,) for its second branch."""

    text: str
    variable: str | None = None
    generated: bool = False
    branch: tuple[int, ...] = ()


Emit = Callable[[Event], None]


class Interpreter:
    """One branch. error: why it stopped. untold: a failure below it that no reader was told of. sealed: given back; its
    values stay readable, nothing can be added. ended_by: what the body raised, of the root."""

    def __init__(
        self, session: Backend, emit: Emit, above: Interpreter | None = None, path: tuple[int, ...] = ()
    ) -> None:
        self.error: Exception | None = None
        self.untold: Exception | None = None
        self.sealed = False
        self.ended_by: Exception | None = None
        self.tail: Entry | None = None
        self.usage = Usage()
        self.path = path
        self.group: Group | None = None
        self._session = session
        self._emit = emit
        self._above = above
        self._branch: Branch | None = None
        self._steps: deque[Step] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._groups: list[Group] = []

    def members(self, count: int) -> Group:
        """New branches below this one; they begin when a Split step with them is reached. Any thread may call."""
        return Group([Interpreter(self._session, self._emit, self, (*self.path, k)) for k in range(count)])

    async def begin(self, branch: Branch, tail: Entry | None = None) -> None:
        """The branch exists now; what was queued meanwhile runs."""
        self._branch, self.tail = branch, tail
        if self._refusal() is not None:
            await self._release()
        self._wake()

    def submit(self, steps: Sequence[Step]) -> None:
        """Queue the steps, or fail them at once when the branch has failed or is sealed."""
        self._groups.extend(step.group for step in steps if isinstance(step, Split))
        if (cause := self._refusal()) is not None:
            for step in steps:
                step.fail(cause)
            return
        self._steps.extend(steps)
        self._wake()

    def refuse(self, cause: Exception) -> None:
        """Nothing more will run: what is queued fails with `cause`."""
        self.error = self.error or cause
        self._drop(self.error)

    async def idle(self) -> None:
        """Wait until what was queued has run or failed."""
        slot = Slot()
        self.submit([Barrier(slot)])
        await slot.settled()

    async def settle(self) -> None:
        """`idle` for this branch and all below it. Finds `untold`."""
        await self.idle()
        for group in self._groups:
            for member in group.members:
                await member.settle()
            if not group.taken:
                self.untold = self.untold or group.outcome()

    async def stop(self, cause: Exception | None = None) -> None:
        """Abort what runs, give this branch and all below it back. What is finished stays readable.

        cause None: the scope was left; nothing failed.
        """
        if cause is None:
            self.sealed = True
            self._drop(self.error or self._closed("the branch was released before this was written"))
        else:
            self.refuse(cause)
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])
        for group in self._groups:
            await group.stop(cause)
        await self._release()

    # How it runs

    def _refusal(self) -> Exception | None:
        return self.error or (self._closed("the branch was released") if self.sealed else None)

    def _closed(self, words: str) -> BranchClosed:
        """With what the program raised, where that ended it."""
        root = self
        while root._above is not None:
            root = root._above
        why = root.ended_by
        error = BranchClosed(words if why is None else f"{words}: the program raised {type(why).__name__}: {why}")
        error.__cause__ = why
        return error

    def _wake(self) -> None:
        if self._branch is not None and self._worker is None and self._steps:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    def _drop(self, cause: Exception) -> None:
        while self._steps:
            self._steps.popleft().fail(cause)

    async def _work(self) -> None:
        try:
            while self._steps:
                await self._attempt(self._steps.popleft())
        finally:
            self._worker = None

    async def _attempt(self, step: Step) -> None:
        try:
            await self._run(step)
        except asyncio.CancelledError:
            step.fail(self._refusal() or BranchClosed("the run was cancelled"))
            raise
        except Exception as cause:
            step.fail(cause)
            self.refuse(cause)
            if self.group is not None:
                await self.group.failed(self, cause)
            await self._release()

    async def _release(self) -> None:
        if self._branch is not None:
            branch, self._branch = self._branch, None
            # Shielded: a cancellation that comes now must not leave the branch with nobody.
            await asyncio.shield(self._session.release(branch))

    async def _run(self, step: Step) -> None:
        branch = self._branch
        if branch is None:
            raise BranchClosed("the branch was released")
        match step:
            case Append(node):
                await self._extend(branch, node)
            case Write(ir.Gen() as node, slot):
                slot.write(await self._generate(branch, node, slot))
            case Write(ir.Select() as node, slot):
                slot.write(await self._choose(branch, node))
            case Split(node, group):
                for member, copy in zip(group.members, await self._session.fork(branch, node.count), strict=True):
                    await member.begin(copy, self.tail)
            case Barrier(slot):
                slot.write(Written(""))

    async def _extend(self, branch: Branch, first: ir.Literals) -> None:
        """Append `first` and the literals right behind it, as one call."""
        nodes = [first]
        while self._steps and isinstance(step := self._steps[0], Append):
            nodes.append(step.node)
            self._steps.popleft()
        await self._session.extend(branch, list(_pieces(nodes)))
        for node in nodes:
            self.tail = Entry(node, self.tail)
            if isinstance(node, ir.Text):
                self._emit(Event(node.text, branch=self.path))

    async def _generate(self, branch: Branch, node: ir.Gen, slot: Slot) -> Written:
        answer = None
        async with aclosing(self._session.generate(branch, node.spec)) as items:
            async for item in items:
                if isinstance(item, Answer):
                    answer = item
                else:
                    slot.add(item.text)
                    self._emit(Event(item.text, node.name, True, self.path))
        if answer is None:
            raise BranchFailed("the backend ended the generation without an answer", where=node.name or "")
        self._note(answer.text, answer.usage)
        return Written(answer.text, answer=answer)

    async def _choose(self, branch: Branch, node: ir.Select) -> Written:
        scores = await self._session.choose(branch, node.choices)
        best = winner(scores)
        text = node.choices[best]
        await self._session.extend(branch, [ChosenText(text, scores.tokens[best] if scores.tokens else ())])
        self._emit(Event(text, node.name, True, self.path))
        self._note(text, scores.usage)
        return Written(text, scores=dict(zip(node.choices, scores.totals, strict=True)))

    def _note(self, text: str, usage: Usage) -> None:
        self.tail = Entry(ir.Text(text), self.tail)
        branch: Interpreter | None = self
        while branch is not None:
            branch.usage = _sum(branch.usage, usage)
            branch = branch._above


def _pieces(nodes: Sequence[ir.Literals]) -> Iterator[Piece]:
    """Adjacent literals are one text."""
    pending: list[str] = []
    for node in nodes:
        if isinstance(node, ir.Text):
            pending.append(node.text)
            continue
        if pending:
            yield ir.Text("".join(pending))
            pending = []
        yield node
    if pending:
        yield ir.Text("".join(pending))


def _sum(a: Usage, b: Usage) -> Usage:
    return Usage(
        prompt=a.prompt + b.prompt, cached=a.cached + b.cached, computed=a.computed + b.computed,
        generated=a.generated + b.generated, forced=a.forced + b.forced,
    )
