"""What compilations make again and again (formats, patterns, texts, common rules), kept from one to the next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kept:
    """states: what making it cost in states, which every compilation that uses it is charged again, so that a budget
    means the same whatever came before. size: bytes, roughly."""

    value: Any
    states: int
    size: int


class Library:
    """By key, bounded by bytes; the least recently used go first. Thread-safe; what two make at once is made twice."""

    def __init__(self, byte_budget: int = 24 << 20) -> None:
        self._budget = byte_budget
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """What is kept under the key, made now if it is not. Raises what `make` raises, and keeps nothing then."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = make()
        with self._lock:
            if key not in self._kept and made.size <= self._budget:
                self._kept[key] = made
                self.used_bytes += made.size
            while self.used_bytes > self._budget:
                _, gone = self._kept.popitem(last=False)
                self.used_bytes -= gone.size
        return made
