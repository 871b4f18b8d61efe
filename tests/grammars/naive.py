"""A recogniser over the IR that is too simple to be wrong: a set of threads, byte by byte. The oracle of the tests."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, replace
from decimal import Decimal

from espalier.grammars.binding.characters import written_out
from espalier.grammars.binding.names import with_names
from espalier.grammars.binding.verify import verify
from espalier.grammars.ir import (
    AGAIN,
    ANYWAY,
    CLOSE_KEY,
    COPY,
    COUNT,
    KEY,
    MEET,
    NEXT_KEY,
    NOTHING,
    OPEN_KEY,
    WRITTEN,
    Counter,
    Grammar,
    Members,
    Order,
    Rule,
    Unlike,
)
from espalier.grammars.schemas.json_text import identity


@dataclass(frozen=True, slots=True)
class Frame:
    """rule, state, register; keys: free keys written so far, and numbers of declared ones where these come in any
    order, and values of unlike items; key: the free key being written, None outside one. text: what was written since
    the outermost list of unlike items began, kept by the running frame."""

    rule: int
    state: int
    register: int = 0
    keys: frozenset[Hashable] = frozenset()
    key: bytes | None = None
    text: bytes = b""


def _meant(key: bytes | None, decoded: bool) -> bytes | None:
    if key is None or not decoded:
        return key
    return b'"' + json.loads(key).encode() if key.startswith(b'"') else json.loads(b'"' + key + b'"').encode()


def _item(text: bytes) -> tuple[Hashable, bytes]:
    """The value of the item with which a text ends, and its text: the longest end that is a value behind a bracket or a
    comma."""
    for start in range(1, len(text)):
        if text[start - 1: start] in (b"[", b",", b" ", b"\n", b"\t", b"\r"):
            try:
                return identity(json.loads(text[start:], parse_float=Decimal)), text[start:].lstrip()
            except ValueError:
                continue
    raise AssertionError(text)


Stack = tuple[Frame, "Stack"] | None


class Naive:
    def __init__(self, grammar: Grammar) -> None:
        flat = written_out(with_names(verify(grammar)))
        self.grammar = grammar
        self._edges: list[dict[int, list[tuple[int, int, int, int]]]] = []
        self._calls: list[dict[int, list]] = []
        for index, rule in enumerate(grammar.rules):
            edges: dict[int, list[tuple[int, int, int, int]]] = {}
            for _, source, low, high, target, action in flat.edges_of(index).tolist():
                edges.setdefault(source, []).append((low, high, target, action))
            calls: dict[int, list] = {}
            for call in rule.calls:
                calls.setdefault(call.source, []).append(call)
            self._edges.append(edges)
            self._calls.append(calls)
        self._finals = [frozenset(rule.finals) for rule in grammar.rules]

    def start(self) -> frozenset:
        return self._closed({(Frame(self.grammar.start, 0), None)})

    def step(self, threads: frozenset, byte: int) -> frozenset:
        """The threads after one more byte; empty: the text is refused."""
        moved = set()
        for frame, below in threads:
            for low, high, target, action in self._edges[frame.rule].get(frame.state, ()):
                if low <= byte <= high:
                    after = self._act(frame, target, action, byte)
                    if after is not None:
                        moved.add((self._longer(after, byte), below))
        return self._closed(moved)

    def _longer(self, frame: Frame, byte: int) -> Frame:
        begun = frame.text or isinstance(self._rule(frame).register, Unlike)
        return replace(frame, text=frame.text + bytes([byte])) if begun else frame

    def may_end(self, threads: frozenset) -> bool:
        return any(below is None and self._may_return(frame) for frame, below in threads)

    def followers(self, threads: frozenset) -> dict[int, frozenset]:
        """One byte of each edge that may be taken, with the threads after it."""
        edges = [edge for frame, _ in threads for edge in self._edges[frame.rule].get(frame.state, ())]
        bytes_ = {byte for edge in edges for byte in edge[:2]}
        found = {byte: self.step(threads, byte) for byte in bytes_}
        return {byte: after for byte, after in found.items() if after}

    def accepts(self, text: str | bytes) -> bool:
        threads = self.start()
        for byte in text.encode() if isinstance(text, str) else text:
            threads = self.step(threads, byte)
            if not threads:
                return False
        return self.may_end(threads)

    def _closed(self, threads: set) -> frozenset:
        """Follow calls and returns. A called frame's caller waits in the target of the call, its action pending."""
        seen = set(threads)
        queue = list(threads)
        while queue:
            frame, below = queue.pop()
            followers = []
            for call in self._calls[frame.rule].get(frame.state, ()):
                waiting = replace(frame, text=b"")
                followers.append((Frame(call.rule, 0, text=frame.text), (waiting, call, below)))
            if below is not None and self._may_return(frame):
                caller, call, rest = below
                after = self._act(caller, call.target, call.action, None)
                if after is not None:
                    after = self._returned(after, rest, frame.text, call.action)
                if after is not None:
                    followers.append((after, rest))
            for follower in followers:
                if follower not in seen:
                    seen.add(follower)
                    queue.append(follower)
        return frozenset(seen)

    def _returned(self, frame: Frame, below: Stack, text: bytes, action: int) -> Frame | None:
        """A frame to which another returned, at the end of `text`; None where that may not end with this item. Of lists
        in which two must be equal, `keys` has texts too."""
        register = self._rule(frame).register
        if isinstance(register, Unlike) and action != ANYWAY:
            value, spelled = _item(text)
            if action in (AGAIN, COPY):
                known = (value if action == AGAIN else (COPY, spelled)) in frame.keys
                return replace(frame, keys=frozenset(), text=text) if known else None
            more = {value, (COPY, spelled)} if register.alike else {value}
            return None if value in frame.keys else replace(frame, keys=frame.keys | more, text=text)
        if isinstance(register, Unlike):
            return replace(frame, text=text)
        while below is not None and not isinstance(self._rule(below[0]).register, Unlike):
            below = below[2]
        return replace(frame, text=text if below is not None else b"")

    def _rule(self, frame: Frame) -> Rule:
        return self.grammar.rules[frame.rule]

    def _may_return(self, frame: Frame) -> bool:
        if frame.state not in self._finals[frame.rule]:
            return False
        register = self._rule(frame).register
        if isinstance(register, Counter):
            within = register.maximum is None or frame.register <= register.maximum
            return within and register.minimum <= frame.register
        if isinstance(register, Members):
            missing = {j for j, required in enumerate(register.required) if required} - frame.keys
            return not missing and len(frame.keys) >= register.least and frame.register == register.demand
        return register is None or isinstance(register, Unlike) or not any(register.required[frame.register:])

    def _act(self, frame: Frame, target: int, action: int, byte: int | None) -> Frame | None:
        register, value, keys, key = self._rule(frame).register, frame.register, frame.keys, frame.key
        if key is not None and action not in (CLOSE_KEY, NEXT_KEY) and byte is not None:
            key += bytes([byte])
        if action == COUNT and isinstance(register, Counter):
            if register.maximum is not None and value >= register.maximum:
                return None
            value += 1
        elif isinstance(register, Members):
            return self._act_members(register, frame, target, action, key)
        elif isinstance(register, Order) and action != NOTHING:
            if action == OPEN_KEY:
                if any(register.required[value:]):
                    return None
                value, key = len(register.required), b""
            elif action in (CLOSE_KEY, NEXT_KEY):
                key = _meant(key, register.decoded)
                if register.distinct and key in keys:
                    return None
                keys = keys | {key} if register.distinct and key is not None else keys
                key = b"" if action == NEXT_KEY else None
            else:
                index = action - KEY
                if value > index or any(register.required[value:index]):
                    return None
                value = index + 1
        return Frame(frame.rule, target, value, keys, key, frame.text)

    @staticmethod
    def _act_members(register: Members, frame: Frame, target: int, action: int, key: bytes | None) -> Frame | None:
        keys, met = frame.keys, frame.register
        if action == OPEN_KEY:
            key = b""
        elif action == CLOSE_KEY or action >= KEY:
            written = _meant(key, register.decoded) if action == CLOSE_KEY else action - KEY
            if written in keys or len(keys) == register.most:
                return None
            keys, key = keys | {written}, None
        elif action == MEET:
            met = 1
        else:
            assert action in (NOTHING, WRITTEN)
        return Frame(frame.rule, target, met, keys, key, frame.text)
