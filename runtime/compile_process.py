"""The near side of the compile workers: a few processes, kept warm; one that passes a limit is ended and replaced."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from ..grammars.constraint import AnyObject, Constraint, Gbnf, JsonSchema, Lark, Tags
from ..grammars.errors import ConstraintTooLarge, EspalierError
from ..grammars.limits import Limits
from .channel import Channel
from .compile_worker import OUT_OF_MEMORY, Answer, Done, Ready, Task
from .errors import EngineFault
from .faults import unpack
from .messages import Failed

WORKERS = 2
# Address space of one worker. The largest that a constraint came to within the other limits is 0.5 GB (regular
# expressions whose automaton has 2^16 states and more, ten seconds).
MEMORY_BYTES = 1 << 30
# The worker keeps the limit of seconds itself, of its processor; this is of the wall clock, for one that does not come
# to look at its own, on a machine that does other work too.
GRACE_SECONDS = 12.0
_START_SECONDS = 60.0  # with imports
_LAST_SECONDS = 5.0  # between the end of a child's socket and its own
_ANSWERS = msgspec.msgpack.Decoder(Answer)


class CompileProcess:
    """Compiles constraints outside of this process. Thread-safe: as many at once as there are workers, the others wait.
    The first worker starts now, without being waited for; the others when they are needed."""

    def __init__(self, *, workers: int = WORKERS, limits: Limits = Limits(),  # noqa: B008  (frozen)
                 deadline: float | None = None, memory: int = MEMORY_BYTES,
                 command: Sequence[str] | None = None) -> None:
        """deadline: seconds after which a worker is ended; None: a little above limits.seconds. memory: bytes of
        address space of a worker. command: what a worker is, for tests."""
        self._workers = workers
        self._limits = limits
        self._deadline = limits.seconds + GRACE_SECONDS if deadline is None else deadline
        self._memory = memory
        # -P: the folder that we happen to run in must not be able to stand in for a module.
        self._command = command or (sys.executable, "-P", "-m", f"{__package__}.compile_worker", str(memory))
        self._change = threading.Condition()
        self._busy: set[_Child] = set()
        self._closed = False
        self._idle = [_Child(self._command)]

    def compile(self, constraint: Constraint) -> bytes:
        """The encoded grammar. Blocks. Raises ConstraintError, with ConstraintTooLarge for a constraint that its worker
        did not survive, or EngineFault when there is no compiler to be had. The texts hold no lone surrogates."""
        task = msgspec.msgpack.encode(Task(constraint, self._limits))
        child = self._take()
        try:
            return self._ask(child, task, constraint)
        except EspalierError as error:
            if self._closed:
                raise _closed() from error
            raise
        finally:
            self._give(child)

    def _take(self) -> _Child:
        with self._change:
            self._change.wait_for(lambda: self._closed or len(self._busy) < self._workers)
            if self._closed:
                raise _closed()
            child = self._living() or _Child(self._command)
            self._busy.add(child)
            return child

    def _living(self) -> _Child | None:
        while self._idle:
            child = self._idle.pop()
            if child.alive():
                return child
            child.end()
        return None

    def _give(self, child: _Child) -> None:
        with self._change:
            self._busy.remove(child)
            if child.alive() and not self._closed:
                self._idle.append(child)
            else:
                child.end()
            self._change.notify_all()

    def _ask(self, child: _Child, task: bytes, constraint: Constraint) -> bytes:
        try:
            answer = child.ask(task, self._deadline)
        except TimeoutError as error:
            raise self._too_large(constraint, "seconds", f"took longer than {self._deadline:g} seconds") from error
        if isinstance(answer, Done):
            return answer.grammar
        if isinstance(answer, Failed):
            raise unpack(answer)
        raise self._death(constraint, answer)

    def _death(self, constraint: Constraint, status: int) -> EspalierError:
        if status == OUT_OF_MEMORY:
            return self._too_large(constraint, "memory", f"needed more than {self._memory >> 20} MiB of memory")
        if status == -signal.SIGXCPU:
            return self._too_large(constraint, "seconds", f"took more than {self._limits.seconds:g} processor seconds")
        return self._too_large(constraint, "process", f"ended its process (status {status})")

    def _too_large(self, constraint: Constraint, limit: str, what: str) -> ConstraintTooLarge:
        return ConstraintTooLarge(f"compiling {what}", keyword=limit, where=_place(constraint),
                                  fix="Simplify the constraint.")

    def close(self) -> None:
        """Ends the workers; compilations that run or wait fail with EngineFault. Returns when no process is left."""
        with self._change:
            self._closed = True
            for child in self._busy:
                child.kill()  # who waits for its answer gives it back
            while self._idle:
                self._idle.pop().end()
            self._change.notify_all()
            self._change.wait_for(lambda: not self._busy)


class _Child:
    """end() kills it and gives its socket back; so does losing the last reference."""

    def __init__(self, command: Sequence[str]) -> None:
        near, far = socket.socketpair()
        with far:
            try:
                self._process = subprocess.Popen(
                    command, stdin=far.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
            except OSError as error:
                near.close()
                raise EngineFault(f"the compile process cannot start: {error.strerror}", where="compile") from error
        self._channel = Channel(near)
        self._ready = False
        self.end = weakref.finalize(self, _end, self._process, self._channel)

    def alive(self) -> bool:
        return self.end.alive and self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def ask(self, task: bytes, seconds: float) -> Done | Failed | int:
        """task: msgpack of a Task. An int: the exit status of a child that died of the task. Raises TimeoutError, and
        EngineFault for a child that cannot start or talks nonsense. Whatever is not an answer ends the child."""
        try:
            self._greet()
            self._channel.allow(seconds)
            answer = self._exchange(task)
            if isinstance(answer, Done | Failed):
                return answer
            if answer is None:
                return self._status()
            raise EngineFault("the compile process answered out of turn", where="compile")
        except BaseException:
            self.end()
            raise

    def _greet(self) -> None:
        if self._ready:
            return
        self._channel.allow(_START_SECONDS)
        try:
            greeting = self._channel.receive(_ANSWERS)
        except TimeoutError as error:
            raise EngineFault(
                f"the compile process did not start in {_START_SECONDS:g} seconds", where="compile"
            ) from error
        if greeting is None:
            raise EngineFault(f"the compile process ended with status {self._status()}", where="compile")
        if not isinstance(greeting, Ready):
            raise EngineFault("the compile process answered out of turn", where="compile")
        self._ready = True

    def _exchange(self, task: bytes) -> Answer | None:
        """None: the child closed its end."""
        with suppress(ConnectionError):  # it may have died of the first bytes: its status tells
            self._channel.send_body(task)
        return self._channel.receive(_ANSWERS)

    def _status(self) -> int:
        try:
            return self._process.wait(_LAST_SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            return self._process.returncode


def _end(process: subprocess.Popen[bytes], channel: Channel) -> None:
    process.kill()
    process.wait()
    channel.close()


def _closed() -> EngineFault:
    return EngineFault("the compiler was closed", where="compile")


def _place(constraint: Constraint) -> str:
    """Where to point: the whole constraint, as the compiler names it."""
    if isinstance(constraint, JsonSchema | AnyObject):
        return "#"
    if isinstance(constraint, Tags):
        return "tags"
    return "line 1, column 1" if isinstance(constraint, Lark | Gbnf) else "column 1"
