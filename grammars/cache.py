"""Compiled grammars kept by constraint: bounded by bytes, and each compiled once however many ask at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

import msgspec

from .constraint import Constraint
from .ir import Grammar


class GrammarCache:
    """compile: Constraint -> Grammar, called without a lock held. byte_budget: of constraints and grammars, as msgspec
    encodes them; the least recently used go first. Failures are handed to everyone who waited, and not kept.
    """

    def __init__(self, compile: Callable[[Constraint], Grammar], byte_budget: int = 64 << 20) -> None:
        self._compile = compile
        self._budget = byte_budget
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, tuple[Grammar, int]] = OrderedDict()
        self._running: dict[bytes, Future[Grammar]] = {}
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, constraint: Constraint) -> Grammar:
        """The grammar of a constraint. Raises what `compile` raises."""
        key = msgspec.msgpack.encode(constraint)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            future = self._running.get(key)
            mine = future is None
            if future is None:
                future = self._running[key] = Future()
        if mine:
            self._run(key, constraint, future)
        return future.result()

    def _run(self, key: bytes, constraint: Constraint, future: Future[Grammar]) -> None:
        try:
            grammar = self._compile(constraint)
        except BaseException as error:
            with self._lock:
                del self._running[key]
            future.set_exception(error)
            return
        with self._lock:
            self._keep(key, grammar)
            del self._running[key]
        future.set_result(grammar)

    def _keep(self, key: bytes, grammar: Grammar) -> None:
        size = len(key) + len(msgspec.msgpack.encode(grammar))
        if size > self._budget:
            return
        self._kept[key] = (grammar, size)
        self.used_bytes += size
        while self.used_bytes > self._budget:
            _, (_, freed) = self._kept.popitem(last=False)
            self.used_bytes -= freed
