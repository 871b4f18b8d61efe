"""Compiles constraints in a process that can be killed: `python -m espalier.runtime.compile_worker BYTES`.

Standard input is a socket. The worker says `Ready`; then comes one `Task` at a time, answered by `Done` or `Failed`.
BYTES is the address space it may have; one that needs more ends with the status OUT_OF_MEMORY, and one that takes more
processor time than its task allows is ended by the kernel. It also ends when the other side closes, compiling or not.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import sys
import threading

import msgspec

from ..grammars.constraint import AnyObject, Constraint
from ..grammars.library import Library
from ..grammars.limits import Limits
from .channel import Channel
from .confine import allow_processor_seconds, limit_memory
from .faults import pack
from .messages import Failed

OUT_OF_MEMORY = 77  # an exit status that nothing else here has


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The compiler is loaded."""


class Task(msgspec.Struct, frozen=True, tag=True):
    constraint: Constraint
    limits: Limits


class Done(msgspec.Struct, frozen=True, tag=True):
    """grammar: msgpack of a Grammar."""

    grammar: bytes


Answer = Ready | Done | Failed


def main(memory: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches the whole group: the parent decides what ends
    channel = Channel(socket.socket(fileno=sys.stdin.fileno()))
    threading.Thread(target=_end_with_parent, args=(sys.stdin.fileno(),), daemon=True).start()
    limit_memory(memory)
    tasks, library = msgspec.msgpack.Decoder(Task), Library()
    try:
        answer(Task(AnyObject(), Limits()), library)  # what is loaded and made at first use is there now
        channel.send(Ready())
        while (task := channel.receive(tasks)) is not None:
            allow_processor_seconds(math.ceil(task.limits.seconds) + 1)
            channel.send(answer(task, library))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # there may be too little left for an orderly end
    except ConnectionError:
        return 0  # nobody is left to hear
    return 0


def answer(task: Task, library: Library | None = None) -> Done | Failed:
    """library: what earlier tasks made. Raises MemoryError only."""
    from ..grammars.compile import compile_constraint

    try:
        return Done(msgspec.msgpack.encode(compile_constraint(task.constraint, task.limits, library)))
    except MemoryError:
        raise
    except Exception as error:  # the border: the caller raises it where the constraint was sent
        return pack(0, error)


def _end_with_parent(stream: int) -> None:
    """Waits for the other side to close; a compilation must not outlive who asked for it."""
    waiting = select.poll()
    waiting.register(stream, 0)  # no events asked for: only the end of the connection is told
    waiting.poll()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
