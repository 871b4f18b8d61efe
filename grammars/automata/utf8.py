"""An automaton over code points becomes one over the bytes that spell it: plain UTF-8, or the inside of a JSON string.

The states of the given automaton keep their numbers, so the edges that leave states below `characters` are exactly the
first bytes of characters; that is where a counter belongs: a character that may not begin is blocked at once, not in
its middle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir import CHARACTER
from ..limits import Meter
from .dfa import Dfa, Edge

# (first code point, last, marker bits of the first byte, bits after it)
_LENGTHS = ((0x80, 0x7FF, 0xC0, 6), (0x800, 0xFFFF, 0xE0, 12), (0x10000, 0x10FFFF, 0xF0, 18))
_SHORT = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}
_ESCAPED = (*range(0x20), 0x22, 0x5C)
_PRINTED = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F))  # ASCII that stands for itself


@dataclass(frozen=True, slots=True)
class ByteDfa:
    """An automaton over bytes, and characters where every spelling is read (ir.CHARACTER). States below `characters`
    lie between characters, the others inside one."""

    dfa: Dfa
    characters: int


def plain(dfa: Dfa, meter: Meter) -> ByteDfa:
    """The text itself in UTF-8."""
    return _Speller(dfa, meter).run(json=False)


def json_string(dfa: Dfa, meter: Meter) -> ByteDfa:
    """The inside of a JSON string, each character in the one spelling that json.dumps(ensure_ascii=False) gives it."""
    return _Speller(dfa, meter).run(json=True)


def json_string_freely(dfa: Dfa, meter: Meter) -> ByteDfa:
    """The inside of a JSON string, each character in any of the spellings of RFC 8259."""
    edges = tuple([tuple([(CHARACTER + low, CHARACTER + high, target) for low, high, target in row])
                   for row in dfa.edges])
    return ByteDfa(Dfa(edges, dfa.finals), len(dfa.edges))


class _Speller:
    def __init__(self, dfa: Dfa, meter: Meter) -> None:
        self._source = dfa
        self._meter = meter
        self._rows: list[list[Edge]] = [[] for _ in dfa.edges]
        self._known: dict[tuple[object, ...], int] = {}
        # Most states of an automaton agree beyond ASCII.
        self._beyond: dict[tuple[Edge, ...], list[Edge]] = {}
        self._escapes: dict[tuple[Edge, ...], int] = {}

    def run(self, *, json: bool) -> ByteDfa:
        for state, row in enumerate(self._source.edges):
            out = self._rows[state]
            if json:
                self._json_ascii(row, out)
            else:
                out.extend((low, min(high, 0x7F), t) for low, high, t in row if low <= 0x7F)
            self._beyond_ascii(row, out)
            out.sort()
        edges = tuple(tuple(row) for row in self._rows)
        return ByteDfa(Dfa(edges, self._source.finals), len(self._source.edges))

    def _place(self, key: tuple[object, ...], row: Iterable[Edge]) -> int:
        """The state with these edges; equal keys share one."""
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._rows)
            self._rows.append(list(row))
            self._meter.states(1)
        return number

    # UTF-8

    def _beyond_ascii(self, row: tuple[Edge, ...], out: list[Edge]) -> None:
        if not row or row[-1][1] < 0x80:
            return
        beyond = tuple([(low if low > 0x7F else 0x80, high, target) for low, high, target in row if high > 0x7F])
        found = self._beyond.get(beyond)
        if found is None:
            found = self._beyond[beyond] = [
                edge for first, last, marker, bits in _LENGTHS
                for edge in self._blocks([(max(low, first), min(high, last), t) for low, high, t in beyond
                                          if low <= last and high >= first], bits, marker)]
        out.extend(found)

    def _blocks(self, inside: list[Edge], bits: int, marker: int) -> list[Edge]:
        """Edges on one byte, `bits` bits above the end of the character; `inside` are code points or tails of them."""
        pieces: dict[int, list[Edge]] = {}
        edges: list[Edge] = []
        for low, high, target in inside:
            first, last = low >> bits, high >> bits
            if low & ((1 << bits) - 1):
                pieces.setdefault(first, []).append((low, min(high, ((first + 1) << bits) - 1), target))
                first += 1
            if first <= last and (high + 1) & ((1 << bits) - 1):
                pieces.setdefault(last, []).append((max(low, last << bits), high, target))
                last -= 1
            if first <= last:
                edges.append((marker | first, marker | last, self._whole(target, bits)))
        for block, parts in pieces.items():
            tail = tuple((low - (block << bits), high - (block << bits), t) for low, high, t in parts)
            edges.append((marker | block, marker | block, self._tail(tail, bits)))
        return sorted(edges)

    def _whole(self, target: int, bits: int) -> int:
        if bits == 0:
            return target
        return self._tail(((0, (1 << bits) - 1, target),), bits)

    def _tail(self, tail: tuple[Edge, ...], bits: int) -> int:
        key = ("tail", bits, tail)
        if key in self._known:
            return self._known[key]
        return self._place(key, self._blocks(list(tail), bits - 6, 0x80))

    # JSON

    def _json_ascii(self, row: tuple[Edge, ...], out: list[Edge]) -> None:
        escaped: list[Edge] = []
        for low, high, target in row:
            if low > 0x7F:
                break
            if high < 0x20:
                escaped.append((low, high, target))
            elif low > 0x5C or (low >= 0x23 and high < 0x5C):
                out.append((low, min(high, 0x7F), target))
            else:
                out.extend([(max(low, first), min(high, last), target) for first, last in _PRINTED
                            if low <= last and high >= first])
                escaped.append((low, min(high, 0x5C), target))
        if escaped:
            state = self._escape(tuple(escaped))
            if state >= 0:
                out.append((0x5C, 0x5C, state))

    def _escape(self, escaped: tuple[Edge, ...]) -> int:
        """After the backslash, for exactly those of these characters that need one; -1 when none does."""
        state = self._escapes.get(escaped)
        if state is None:
            codes = tuple([(code, target) for low, high, target in escaped for code in _ESCAPED if low <= code <= high])
            state = self._escapes[escaped] = self._escape_of(codes) if codes else -1
        return state

    def _escape_of(self, escaped: tuple[tuple[int, int], ...]) -> int:
        if ("escape", escaped) in self._known:
            return self._known["escape", escaped]
        short = [(ord(_SHORT[code]), ord(_SHORT[code]), target) for code, target in escaped if code in _SHORT]
        long = tuple((code, target) for code, target in escaped if code not in _SHORT)
        if long:
            short.append((0x75, 0x75, self._text(b"00", self._control(long))))
        return self._place(("escape", escaped), sorted(short))

    def _control(self, long: tuple[tuple[int, int], ...]) -> int:
        """The last two hexadecimal digits of a control character."""
        firsts: list[Edge] = []
        for high in (0, 1):
            tail = tuple((ord("0123456789abcdef"[c & 15]), t) for c, t in long if c >> 4 == high)
            if tail:
                state = self._place(("hex", tail), [(byte, byte, t) for byte, t in sorted(tail)])
                firsts.append((0x30 + high, 0x30 + high, state))
        return self._place(("control", long), firsts)

    def _text(self, text: bytes, target: int) -> int:
        """The state from which `text` leads to `target`."""
        for byte in reversed(text):
            target = self._place(("text", byte, target), [(byte, byte, target)])
        return target
