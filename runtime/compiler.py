"""Constraints compiled once, off the event loop, and defined in the engine; the least recently used leave first."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from ..grammars.constraint import Constraint
from ..grammars.errors import InvalidConstraint
from .faults import describe
from .messages import Command, Define, Forget

Compile = Callable[[Constraint], bytes]
"""A constraint -> its msgpack-encoded Grammar. Raises ConstraintError."""

DEFAULT_BYTES = 64 << 20
# A bound grammar with the configurations of one answer takes half a megabyte in the engine (schemas of three
# properties, a vocabulary of 128,256), one made to be large three times as much, whatever the size of its text.
MOST_KEPT = 512
# Compilations that run at once: one that takes all the time it may have must not make the others wait for its end.
WORKERS = 4


class _Notes(msgspec.Struct, frozen=True):
    """The one field of an encoded Grammar that callers read; the rest is for the engine."""

    notes: tuple[str, ...] = ()


_NOTES = msgspec.msgpack.Decoder(_Notes)


@dataclass(frozen=True, slots=True)
class Compiled:
    """id: by which the engine knows the grammar. size: bytes of the constraint and of the grammar. notes: keywords
    outside the standard, which constrain nothing."""

    id: int
    size: int
    notes: tuple[str, ...] = ()


class Compiler:
    """An LRU bounded by bytes and by number. A compile that many wait for runs once; a failed one is not kept."""

    def __init__(self, compile: Compile, *, send: Callable[[Command], None], next_id: Callable[[], int],
                 budget: int = DEFAULT_BYTES, most: int = MOST_KEPT) -> None:
        self._compile = compile
        self._send = send
        self._next_id = next_id
        self._budget = budget
        self._most = most
        self._lock = threading.Lock()
        self._done: OrderedDict[bytes, Compiled] = OrderedDict()
        self._open: dict[bytes, Future[Compiled]] = {}
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="espalier-compile")

    async def compiled(self, constraint: Constraint) -> Compiled:
        """Defined in the engine and, until the caller awaits again, not forgotten. Raises ConstraintError, or
        EngineFault when the compiler fell over."""
        key = _key(constraint)
        while True:
            with self._lock:
                kept = self._done.get(key)
                if kept is not None:
                    self._done.move_to_end(key)
                    return kept
                future = self._open.get(key)
                if future is None:
                    future = self._open[key] = self._pool.submit(self._work, key, constraint)
            await asyncio.shield(asyncio.wrap_future(future))  # others may push it out before this caller goes on

    def _work(self, key: bytes, constraint: Constraint) -> Compiled:
        try:
            grammar = self._compile(constraint)
            notes = _NOTES.decode(grammar).notes
        except BaseException as error:
            with self._lock:
                del self._open[key]
            raise describe(error) from error
        compiled = Compiled(self._next_id(), len(key) + len(grammar), notes)
        with self._lock:
            self._send(Define(compiled.id, grammar))
            self._done[key] = compiled
            del self._open[key]
            self._shrink()
        return compiled

    def _shrink(self) -> None:
        """The newest stays whatever its size: somebody is about to use it."""
        while len(self._done) > 1 and (len(self._done) > self._most or self._bytes() > self._budget):
            _, oldest = self._done.popitem(last=False)
            self._send(Forget(oldest.id))

    def _bytes(self) -> int:
        return sum(kept.size for kept in self._done.values())

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _key(constraint: Constraint) -> bytes:
    try:
        return msgspec.msgpack.encode(constraint)
    except UnicodeEncodeError as error:
        raise InvalidConstraint("the constraint holds a lone surrogate, which is not a character", where="#") from error
