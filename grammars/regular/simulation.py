"""The simulation of an expression that looks around, as a deterministic automaton.

Look-around and word boundaries are exact: a thread carries, beside its place, the look-aheads that it still owes, each
as a state of its own automaton; the automata of look-behinds run along with the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..automata import charset
from ..automata.charset import Ranges
from ..automata.dfa import Dfa, Edge, explore, overlay, trim
from ..limits import Meter


@dataclass(slots=True)
class Nfa:
    """Numbered places. chars[s]: (set, target); empty[s]: moves without a character, under a condition ('' for none;
    'start', 'end', 'boundary', 'inside', the number of a look-ahead, or -1 - that of a look-behind). looks: two
    automata for each look-ahead, the first for the start of the text, the second for later places. behinds: the texts
    that end in what must have come before."""

    chars: list[list[tuple[Ranges, int]]] = field(default_factory=list)
    empty: list[list[tuple[str | int, int]]] = field(default_factory=list)
    looks: list[tuple[Dfa, bool]] = field(default_factory=list)
    behinds: list[tuple[Dfa, bool]] = field(default_factory=list)
    boundaries: bool = False

    def place(self) -> int:
        self.chars.append([])
        self.empty.append([])
        return len(self.chars) - 1


# A thread: its place, and the look-aheads it owes as (look-ahead, state of its automaton).
_Owed = frozenset[tuple[int, int]]
_Thread = tuple[int, _Owed]
# What came before: at the start of the text?, was the last character a word character?, the states of the look-behinds.
_Past = tuple[bool, bool, tuple[int, ...]]
# The state of the simulation.
_Simulation = tuple[_Past, frozenset[_Thread]]
_FREE: _Owed = frozenset()


class Simulator:
    """Subset construction. open_end: once the end is reached without debts, anything may follow."""

    def __init__(self, nfa: Nfa, start: int, end: int, meter: Meter, *, open_end: bool) -> None:
        self._nfa = nfa
        self._end = end
        self._meter = meter
        self._open_end = open_end
        self._start = start
        self._closures: dict[_Simulation, _Simulation] = {}
        self._done: _Simulation = ((False, False, ()), frozenset([(end, _FREE)]))
        if open_end:
            nfa.chars[end].append((charset.ALL, end))

    def run(self, at_start: bool) -> Dfa:
        past = (at_start, False, (0,) * len(self._nfa.behinds))
        first = self._closed(past, frozenset([(self._start, _FREE)]))
        return trim(explore(first, self._step, self._final, self._meter))

    def _closed(self, past: _Past, threads: frozenset[_Thread]) -> _Simulation:
        key = (past, threads)
        if key not in self._closures:
            self._closures[key] = self._close(past, threads)
        return self._closures[key]

    def _close(self, past: _Past, threads: frozenset[_Thread]) -> _Simulation:
        reached = self._follow(threads, past, at_end=False)
        if self._open_end and (self._end, _FREE) in reached:
            return self._done
        moving = frozenset(t for t in reached if self._nfa.chars[t[0]] or self._nfa.empty[t[0]] or t[0] == self._end)
        return past, moving

    def _follow(self, threads: frozenset[_Thread], past: _Past, *, at_end: bool) -> set[_Thread]:
        seen = set(threads)
        queue = list(threads)
        for place, owed in queue:
            self._meter.states(0)  # debts are as many as the pattern has look-arounds
            for condition, target in self._nfa.empty[place]:
                debts = self._pass(condition, owed, past, at_end)
                if debts is not None and (target, debts) not in seen:
                    seen.add((target, debts))
                    queue.append((target, debts))
        return seen

    def _pass(self, condition: str | int, owed: _Owed, past: _Past, at_end: bool) -> _Owed | None:
        """What a thread owes after this empty move; None when it may not move."""
        at_start, after_word, behind = past
        if condition == "":
            return owed
        if condition == "start":
            return owed if at_start else None
        if condition == "end":
            return owed if at_end else None
        if isinstance(condition, int) and condition < 0:
            dfa, negative = self._nfa.behinds[-1 - condition]
            return owed if (behind[-1 - condition] in dfa.finals) != negative else None
        if isinstance(condition, int):
            condition += not at_start
            dfa, negative = self._nfa.looks[condition]
            if dfa.empty or _accepts_all(dfa, 0):
                return owed if negative == dfa.empty else None
            return owed | {(condition, 0)}
        # A boundary: whether the next character is a word character becomes a debt, written as a negative number.
        wants_word = after_word != (condition == "boundary")
        if at_end:
            return None if wants_word else owed
        return owed | {(-1 if wants_word else -2, 0)}

    def _step(self, state: _Simulation) -> Iterable[tuple[int, int, _Simulation]]:
        past, threads = state
        if state == self._done and self._open_end:
            return [(low, high, state) for low, high in charset.ALL]
        ordered = list(threads)
        rows, movers = self._rows(ordered, past)
        out: list[tuple[int, int, _Simulation]] = []
        for low, high, targets in overlay(rows):
            alive = [(targets[i], owed) for i, (_, owed) in enumerate(movers) if targets[i] >= 0]
            followers = self._paid(low, alive)
            if followers:
                word = self._nfa.boundaries and _is_word(low)
                out.append((low, high, self._closed((False, word, self._behind(past, low)), followers)))
        return out

    def _behind(self, past: _Past, symbol: int) -> tuple[int, ...]:
        """The look-behinds one character on; -1 where one can never hold again."""
        return tuple(
            next((t for low, high, t in dfa.edges[at] if low <= symbol <= high), -1) if at >= 0 else -1
            for (dfa, _), at in zip(self._nfa.behinds, past[2], strict=True))

    def _rows(self, threads: list[_Thread], past: _Past) -> tuple[list[tuple[Edge, ...]], list[_Thread]]:
        """One row of edges per (thread, character move), and rows that only cut the line where debts may differ."""
        rows: list[tuple[Edge, ...]] = []
        movers: list[_Thread] = []
        cuts: set[int] = set()
        for thread in threads:
            self._meter.states(0)  # it may owe thousands
            for members, target in self._nfa.chars[thread[0]]:
                rows.append(tuple((low, high, target) for low, high in members))
                movers.append(thread)
            cuts.update(look for look, _ in thread[1])
        states = {debt for _, owed in threads for debt in owed if debt[0] >= 0}
        rows.extend(self._nfa.looks[look][0].edges[at] for look, at in states)
        rows.extend(dfa.edges[at] for (dfa, _), at in zip(self._nfa.behinds, past[2], strict=True) if at >= 0)
        if self._nfa.boundaries:
            rows.append(tuple((low, high, 0) for low, high in charset.WORD))
        return rows, movers

    def _paid(self, symbol: int, threads: list[_Thread]) -> frozenset[_Thread]:
        """Advance what each thread owes by one character; threads whose debt failed are gone."""
        left: dict[_Owed, _Owed | None] = {_FREE: _FREE}  # most threads owe the same
        kept: list[_Thread] = []
        for place, owed in threads:
            if owed not in left:
                self._meter.states(0)
                left[owed] = self._advance(symbol, owed)
            debts = left[owed]
            if debts is not None:
                kept.append((place, debts))
        return frozenset(kept)

    def _advance(self, symbol: int, owed: _Owed) -> _Owed | None:
        left: set[tuple[int, int]] = set()
        for look, at in owed:
            if look < 0:
                if _is_word(symbol) != (look == -1):
                    return None
                continue
            dfa, negative = self._nfa.looks[look]
            target = next((t for low, high, t in dfa.edges[at] if low <= symbol <= high), -1)
            if target < 0:
                if not negative:
                    return None
            elif _accepts_all(dfa, target):
                if negative:
                    return None
            else:
                left.add((look, target))
        return frozenset(left)

    def _final(self, state: _Simulation) -> bool:
        past, threads = state
        reached = self._follow(threads, past, at_end=True)
        return any(place == self._end and self._settled(owed) for place, owed in reached)

    def _settled(self, owed: _Owed) -> bool:
        """May the text end while this is owed?"""
        for look, at in owed:
            if look == -1:
                return False
            if look >= 0:
                dfa, negative = self._nfa.looks[look]
                if (at in dfa.finals) == negative:
                    return False
        return True


_WORD = frozenset(code for low, high in charset.WORD for code in range(low, high + 1))


def _is_word(symbol: int) -> bool:
    return symbol in _WORD


def _accepts_all(dfa: Dfa, state: int) -> bool:
    """The state that only loops on every character and accepts."""
    return state in dfa.finals and dfa.edges[state] == tuple((low, high, state) for low, high in charset.ALL)
