"""Compiles the engine ahead of its first use, in several processes.

A file's code can be compiled once all that it imports is: that lies on disk then, so a process that did not compile it
loads it. What a file waits for is read from the imports, as in `jit.py`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from .errors import EspalierError
from .jit import compiled_files

Pipes = tuple[IO[str], IO[str]]  # to a process that compiles, and from it


def compile_ahead(processes: int) -> None:
    """Compiles what is not compiled yet; another process that imports the engine meanwhile does the same work again.

    Raises EspalierError where a process ended (each needs some 0.5 GB); what it said is on stderr.
    """
    with ExitStack() as stack:
        idle: SimpleQueue[Pipes] = SimpleQueue()
        for _ in range(processes):
            idle.put(stack.enter_context(_process()))
        pool = stack.enter_context(ThreadPoolExecutor(processes))
        _compile_in_turn(pool, idle, compiled_files(Path(__file__).parent))


def _compile_in_turn(pool: ThreadPoolExecutor, idle: SimpleQueue[Pipes], waits: Mapping[str, frozenset[str]]) -> None:
    compiled: set[str] = set()
    begun: dict[Future[None], str] = {}
    while len(compiled) < len(waits):
        for name in waits.keys() - compiled - set(begun.values()):
            if waits[name] <= compiled:
                begun[pool.submit(_compile, idle, name)] = name
        for ended in wait(begun, return_when=FIRST_COMPLETED).done:
            ended.result()
            compiled.add(begun.pop(ended))


@contextmanager
def _process() -> Iterator[Pipes]:
    command = (sys.executable, "-m", __name__)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdin is not None and process.stdout is not None:  # both were asked for
            yield process.stdin, process.stdout


def _compile(idle: SimpleQueue[Pipes], name: str) -> None:
    to, back = pipes = idle.get()
    try:
        print(name, file=to, flush=True)
        if back.readline() != f"{name}\n":
            raise EspalierError(f"the process that compiles {name} ended", fix="Its own message stands above.")
    except BrokenPipeError:
        raise EspalierError("a process that compiles has ended", fix="Its own message stands above.") from None
    finally:
        idle.put(pipes)


def _answer() -> None:
    """Imports each file that a line of stdin names, and says so."""
    for line in sys.stdin:
        import_module(f"{__package__}.{line.strip()}")
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    _answer()
