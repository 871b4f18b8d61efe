"""The reference that the compiled engine is held against: the IR's meaning, written as plainly as possible.

A thread is a tuple of frames, the running one last; a frame is (rule, state, register, free keys, open key or None).
"""

from __future__ import annotations

from espalier.grammars.binding.characters import written_out
from espalier.grammars.binding.flat import flatten
from espalier.grammars.binding.names import with_names
from espalier.grammars.ir import CLOSE_KEY, COUNT, KEY, NOTHING, OPEN_KEY, Counter, Grammar, Order

Frame = tuple[int, int, int, frozenset[bytes], bytes | None]
Thread = tuple[Frame, ...]


class Reference:
    """Threads of a grammar, one byte at a time. single: the bytes that are tokens, the only ones law 4 may use."""

    def __init__(self, grammar: Grammar, single: frozenset[int] = frozenset(range(256))) -> None:
        self.grammar = grammar
        self.single = sorted(single)
        flat = written_out(with_names(flatten(grammar)))
        self.edges = [flat.edges_of(index)[:, 1:].tolist() for index in range(len(grammar.rules))]
        self.start: frozenset[Thread] = frozenset([((grammar.start, 0, 0, frozenset(), None),)])
        self._closable: dict[Thread, int | None] = {}

    def act(self, frame: Frame, action: int) -> Frame | None:
        rule, state, register, keys, key = frame
        kind = self.grammar.rules[rule].register
        if action == NOTHING:
            return frame
        if isinstance(kind, Counter):
            assert action == COUNT
            if kind.maximum is not None and register >= kind.maximum:
                return None
            ceiling = kind.minimum if kind.maximum is None else kind.maximum
            return rule, state, min(register + 1, max(ceiling, 0)), keys, key
        assert isinstance(kind, Order)
        required = kind.required
        if action >= KEY:
            j = action - KEY
            return None if register > j or any(required[register:j]) else (rule, state, j + 1, keys, key)
        if action == OPEN_KEY:
            if any(required[register:]):
                return None
            return rule, state, len(required), keys, b"" if kind.distinct else None
        if kind.distinct and key is not None:
            return None if key in keys else (rule, state, register, keys | {key}, None)
        return frame

    def may_return(self, frame: Frame) -> bool:
        rule, state, register = frame[:3]
        if state not in self.grammar.rules[rule].finals:
            return False
        kind = self.grammar.rules[rule].register
        if isinstance(kind, Counter):
            return register >= kind.minimum
        return not (isinstance(kind, Order) and any(kind.required[register:]))

    def step(self, threads: frozenset[Thread], byte: int) -> frozenset[Thread]:
        found: set[Thread] = set()
        todo, seen = list(threads), set(threads)
        while todo:
            thread = todo.pop()
            for following in self._free_moves(thread):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
            moved = self._read(thread, byte)
            if moved is not None:
                found.add(moved)
        return frozenset(found)

    def _free_moves(self, thread: Thread) -> list[Thread]:
        rule, state = thread[-1][:2]
        moves = []
        for call in self.grammar.rules[rule].calls:
            if call.source == state:
                caller = self.act(thread[-1], call.action)
                if caller is not None:
                    back = (rule, call.target, *caller[2:])
                    moves.append((*thread[:-1], back, (call.rule, 0, 0, frozenset(), None)))
        if len(thread) > 1 and self.may_return(thread[-1]):
            moves.append(thread[:-1])
        return moves

    def _read(self, thread: Thread, byte: int) -> Thread | None:
        rule, state = thread[-1][:2]
        for source, low, high, target, action in self.edges[rule]:
            if source == state and low <= byte <= high:
                below = tuple(self._grow(frame, byte) for frame in thread[:-1])
                frame = thread[-1] if action == CLOSE_KEY else self._grow(thread[-1], byte)
                moved = self.act(frame, action)
                return None if moved is None else (*below, (rule, target, *moved[2:]))
        return None

    @staticmethod
    def _grow(frame: Frame, byte: int) -> Frame:
        rule, state, register, keys, key = frame
        return (rule, state, register, keys, None if key is None else key + bytes([byte]))

    def complete(self, threads: frozenset[Thread]) -> bool:
        """Whether the text may end here."""
        return any(all(self.may_return(frame) for frame in thread) for thread in threads)

    def distance(self, threads: frozenset[Thread], limit: int = 60) -> int | None:
        """The fewest one-byte tokens to a complete text; None when there is none. Breadth first.

        Raises Undecided after `limit` sets of threads.
        """
        layer, seen, depth = [threads], {threads}, 0
        while layer:
            below = []
            for here in layer:
                if self.complete(here):
                    return depth
                for byte in self.single:
                    following = _bounded(self.step(here, byte))
                    if following and following not in seen:
                        seen.add(following)
                        below.append(following)
                if len(seen) > limit:
                    raise UndecidedError
            layer, depth = below, depth + 1
        return None

    def read(self, threads: frozenset[Thread], text: bytes) -> frozenset[Thread]:
        for byte in text:
            threads = _bounded(self.step(threads, byte))
        return threads


# Readings of one text that the reference follows; the drawn grammars that pass it double them with every byte.
READINGS = 256


def _bounded(threads: frozenset[Thread]) -> frozenset[Thread]:
    if len(threads) > READINGS:
        raise UndecidedError
    return threads


class UndecidedError(Exception):
    """The search passed its limit."""
