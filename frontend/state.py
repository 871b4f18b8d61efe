"""The state a program writes to: `State` for plain bodies and results; async bodies have an `AsyncState`.

Adding only queues, so both share it; they differ in how they wait for a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from . import ir
from .backends.base import Answer, Usage
from .branches import Branches
from .errors import BranchClosed, ProgramError, UnknownVariable
from .expressions import Expression, Part, expression, gen, select
from .interpreter import Interpreter
from .loop import LoopThread, Work
from .slot import Slot, Written
from .steps import Append, Barrier, Group, Split, Step, Write
from .transcript import Message, messages_of, text_of

T = TypeVar("T")


class BaseState:
    """One branch of a program. Variables are declared when an operation is added, in the program's order."""

    def __init__(
        self, core: Interpreter, loop: LoopThread, slots: Mapping[str, Slot] | None = None, role: str | None = None
    ) -> None:
        self._core = core
        self._loop = loop
        self._slots = dict(slots or {})
        self._role = role

    def __iadd__(self, addition: str | Expression) -> Self:
        self.add(addition)
        return self

    def __repr__(self) -> str:
        trouble = f", error={self.error!r}" if self.error is not None else ""
        return f"<{type(self).__name__} variables={list(self._slots)}{trouble}>"

    def __contains__(self, name: object) -> bool:
        return name in self._slots

    @property
    def variables(self) -> tuple[str, ...]:
        """The names that were declared so far, whether their values are there or not."""
        return tuple(self._slots)

    @property
    def usage(self) -> Usage:
        """Tokens of all operations that finished so far, here and in all branches of this state."""
        return self._core.usage

    @property
    def error(self) -> Exception | None:
        """Why this branch, or one below that nobody read, stopped; None while all is well. Does not wait."""
        return self._core.error or self._core.untold

    def set(self, name: str, value: Any) -> None:
        """Give a variable a value of the program's own."""
        self._slots[name] = Slot.holding(value)

    @contextmanager
    def system(self) -> Iterator[None]:
        with self._speaking("system"):
            yield

    @contextmanager
    def user(self) -> Iterator[None]:
        with self._speaking("user"):
            yield

    @contextmanager
    def assistant(self) -> Iterator[None]:
        with self._speaking("assistant"):
            yield

    @contextmanager
    def _speaking(self, role: ir.Role) -> Iterator[None]:
        self.add(Expression((Part(ir.RoleOpen(role)),)))
        try:
            yield
        finally:
            self._role = None
            if not self._core.sealed:
                self._submit([Append(ir.RoleClose(role))])

    def add(self, addition: object) -> Slot | None:
        """What `+=` does: queue an expression whole, or raise and queue nothing. Returns the slot of its last value."""
        parts = expression(addition).parts
        if self._core.sealed:
            raise BranchClosed("the branch was released", fix="Add to it before it is joined or its scope ends.")
        role = self._role_after(parts)
        steps: list[Step] = []
        named: dict[str, Slot] = {}
        slot = None
        for part in parts:
            if isinstance(part.node, (ir.Gen, ir.Select)):
                slot = Slot(part.read, json=part.writes_json)
                steps.append(Write(part.node, slot))
                if part.node.name is not None:
                    named[part.node.name] = slot
            else:
                steps.append(Append(part.node))
        self._submit(steps)
        # Only now: a slot that nobody will write must not be readable.
        self._role = role
        self._slots |= named
        return slot

    def _role_after(self, parts: Sequence[Part]) -> str | None:
        role = self._role
        for part in parts:
            if isinstance(part.node, ir.RoleOpen):
                if role is not None:
                    raise ProgramError(
                        f"{part.node.role} was opened inside {role}", where=part.node.role,
                        fix=f"Leave the {role} role first.",
                    )
                role = part.node.role
            elif isinstance(part.node, ir.RoleClose):
                role = None
        return role

    def _submit(self, steps: Sequence[Step]) -> None:
        self._loop.soon(self._core.submit, steps)

    def _split(self, count: int) -> tuple[Group, list[Self]]:
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ProgramError(f"fork needs a count of at least 1, not {count!r}", where="count")
        if self._core.sealed:
            raise BranchClosed("the branch was released", fix="Fork it before it is joined or its scope ends.")
        group = self._core.members(count)
        self._submit([Split(ir.Fork(count), group)])
        return group, [type(self)(member, self._loop, self._slots, self._role) for member in group.members]

    def _slot(self, name: str) -> Slot:
        if name in self._slots:
            return self._slots[name]
        known = ", ".join(map(repr, self._slots)) or "none"
        raise UnknownVariable(f"no gen or select has written {name!r}", where=str(name), fix=f"Known names: {known}.")

    def _told(self) -> None:
        """A failure of this branch was raised to the program."""
        if self._core.group is not None:
            self._core.group.taken = True

    def _barrier(self) -> Slot | None:
        """A slot that is written when everything added so far has run; None when nothing can run any more."""
        if self._core.sealed:
            if self._core.error is not None:
                raise self._core.error
            return None
        slot = Slot()
        self._submit([Barrier(slot)])
        return slot


class State(BaseState):
    """Of a plain body, or the outcome of a run. Reading blocks until the value is there.

    error: why the body or an operation failed. ok: neither did.
    """

    _returned: Any = None
    _raised: Exception | None = None

    @classmethod
    def ended(cls, face: BaseState, result: Any, raised: Exception | None) -> State:
        """The outcome of a run whose body wrote to `face`."""
        state = cls(face._core, face._loop, face._slots)
        state._returned = result
        state._raised = raised
        return state

    @property
    def result(self) -> Any:
        """What the body returned. Raises what it raised."""
        return self.unless_raised()._returned

    @property
    def error(self) -> Exception | None:
        return self._raised or super().error

    @property
    def ok(self) -> bool:
        return self.error is None

    def unless_raised(self) -> Self:
        """Itself, unless the body raised: then that."""
        if self._raised is not None:
            raise self._raised
        return self

    def __getitem__(self, name: str) -> Any:
        """The value. Raises the cause when its operation failed, UnknownVariable when nothing declared it."""
        slot = self._slot(name)
        self._wait(slot)
        return slot.value()

    def partial(self, name: str) -> Iterator[Any]:
        """What the value is known to be, again and again while it is written; `s[name]` afterwards is the typed value.

        With a schema plain JSON values: see `PartialJson`. Otherwise the text so far. Ends when the value is written;
        raises the cause when its operation failed.
        """
        slot = self._slot(name)
        reader, pieces = slot.partial(), None if slot.done else self._loop.call(_on_loop(slot.listen))
        while pieces is not None and (piece := self._loop.call(pieces.get)) is not None:
            if reader.feed(piece):
                yield reader.value
        if reader.finish(self._wait(slot).text):
            yield reader.value

    def raw(self, name: str) -> str:
        """The text of a value as it was generated, before it was read as JSON or as a class."""
        return self._wait(self._slot(name)).text

    def gen(self, name: str | None = None, **options: Any) -> Any:
        """`s += gen(name, ...)` and its value; the options are those of `gen`."""
        return self._written(gen(name, **options))

    def select(self, name: str | None = None, choices: Sequence[str] = ()) -> Any:
        """`s += select(name, choices)` and its value."""
        return self._written(select(name, choices))

    def answer(self, name: str) -> Answer | None:
        """How a gen ended (finish, stop, usage); None for a select."""
        return self._wait(self._slot(name)).answer

    def scores(self, name: str) -> Mapping[str, float]:
        """Log-probability of each choice of a select."""
        return scores_of(name, self._wait(self._slot(name)))

    def text(self) -> str:
        """All literals and answers, once everything added so far has run."""
        self.sync()
        return text_of(self._core.tail)

    def messages(self) -> list[Message]:
        """Role and content of each role, once everything added so far has run."""
        self.sync()
        return messages_of(self._core.tail)

    def sync(self) -> None:
        """Wait for everything added so far. Raises the cause when it failed."""
        if (slot := self._barrier()) is not None:
            self._wait(slot)

    def fork(self, count: int = 2) -> Branches:
        """Copies of this state, variables included, that go on independently."""
        group, members = self._split(count)
        return Branches(members, group, self._loop)

    def join(self, branches: Branches) -> list[State]:
        return branches.join()

    def _written(self, addition: Expression) -> Any:
        slot = self.add(addition)
        if slot is None:
            return None
        self._wait(slot)
        return slot.value()

    def _wait(self, slot: Slot) -> Written:
        if not slot.done and self._loop.is_current():
            raise would_block()
        try:
            return slot.wait()
        except Exception:
            self._told()
            raise


def _on_loop(action: Callable[[], T]) -> Work[T]:
    """The action as a coroutine, for who is on another thread."""

    async def work() -> T:
        return action()

    return work


def scores_of(name: str, written: Written) -> Mapping[str, float]:
    if written.scores is None:
        raise ProgramError(f"{name!r} was not written by a select and has no scores", where=name)
    return written.scores


def would_block() -> ProgramError:
    return ProgramError(
        "the value is not there yet, and waiting for it here would stop the event loop",
        fix="In an async body write `await s.get(name)`.",
    )
