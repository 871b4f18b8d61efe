"""A regular expression becomes a deterministic automaton over code points: for the whole text, or as a search.

Look-around and word boundaries are exact: a thread of the simulation carries, beside its place, the look-aheads that it
still owes, each as a state of its own automaton; the automata of look-behinds run along with the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from . import charset, regex_syntax
from .charset import Ranges
from .dfa import Dfa, Edge, explore, minimise, overlay, trim
from .errors import ConstraintTooLarge, UnsupportedKeyword
from .leads import behind, without_lead
from .limits import Meter
from .positions import Positions
from .regex_syntax import Assertion, Look, Node
from .trees import Alternatives, Chars, Repeat, Sequence


@dataclass(slots=True)
class _Nfa:
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


def compile_regex(pattern: str, meter: Meter, *, search: bool = False, pointer: str = "", fold: bool = False,
                  dot_all: bool = False) -> Dfa:
    """The texts that `pattern` matches, as a whole or (search) somewhere. Trimmed; may accept nothing.
    fold, dot_all: see regex_syntax.parse.

    Raises InvalidConstraint, UnsupportedKeyword or ConstraintTooLarge with the column.
    """
    tree = regex_syntax.parse(pattern, meter.limits, pointer, fold=fold, dot_all=dot_all)
    _check_repetitions(tree, meter, pointer)
    split = without_lead(tree) if search else None
    if split is None:
        return _determinise(tree, meter, pointer, before=search, after=search)
    lead, rest = split
    meter.states(len(lead))
    return behind(lead, meter.shared(("rest of a pattern", rest), lambda: _determinise(
        rest, meter, pointer, before=True, after=True), lambda dfa: dfa.size))


def _check_repetitions(tree: Node, meter: Meter, pointer: str) -> None:
    """Copies of one-character bodies that counted repetition asks for, multiplied through."""
    limit = meter.limits.repetitions
    total = 0
    stack: list[tuple[Node, int]] = [(tree, 1)]
    while stack:
        node, copies = stack.pop()
        if isinstance(node, Repeat):
            count = max(node.minimum, node.maximum or 0, 1)
            if count > 1:
                copies *= count
                total += copies
            stack.append((node.body, copies))
        elif isinstance(node, Sequence):
            stack.extend((part, copies) for part in node.parts)
        elif isinstance(node, Alternatives):
            stack.extend((option, copies) for option in node.options)
        elif isinstance(node, Look):
            stack.append((node.body, copies))
        if total > limit:
            raise ConstraintTooLarge(
                f"counted repetition adds up to more than {limit} copies", keyword="pattern" if pointer else "regex",
                where=f"{pointer} column 1" if pointer else "column 1", fix="Use smaller or fewer counts.",
            )


def _build(tree: Node, nfa: _Nfa, start: int, end: int, meter: Meter, pointer: str) -> None:
    """Thompson's construction between two given places; a work list instead of recursion."""
    work: list[tuple[Node, int, int]] = [(tree, start, end)]
    while work:
        node, a, b = work.pop()
        meter.states(0)
        if isinstance(node, Chars):
            nfa.chars[a].append((node.ranges, b))
        elif isinstance(node, Alternatives):
            work.extend((option, a, b) for option in node.options)
        elif isinstance(node, Sequence):
            work.extend(_chain(node.parts, nfa, a, b, meter))
        elif isinstance(node, Repeat):
            work.extend(_repeat(node, nfa, a, b, meter))
        elif isinstance(node, Assertion):
            nfa.boundaries = nfa.boundaries or node.kind in ("boundary", "inside")
            nfa.empty[a].append((node.kind, b))
        elif node.behind:
            _check_behind(node.body, pointer)
            nfa.behinds.append((_determinise(node.body, meter, pointer, before=True, after=False), node.negative))
            nfa.empty[a].append((-len(nfa.behinds), b))
        else:
            _check_look(node.body, pointer)
            nfa.empty[a].append((len(nfa.looks), b))
            first = later = _determinise(node.body, meter, pointer, before=False, after=True)
            if any(isinstance(one, Assertion) and one.kind == "start" for one in _within(node.body)):
                later = _determinise(node.body, meter, pointer, before=False, after=True, at_start=False)
            nfa.looks += [(first, node.negative), (later, node.negative)]


def _check_look(body: Node, pointer: str) -> None:
    """The automaton of a look-ahead does not know which character came before its place."""
    for node in _within(body):
        if (isinstance(node, Assertion) and node.kind in ("boundary", "inside")) or (
                isinstance(node, Look) and node.behind):
            raise UnsupportedKeyword("a word boundary or look-behind is not supported inside a look-ahead",
                                     keyword="lookahead", where=pointer or "column 1")


def _check_behind(body: Node, pointer: str) -> None:
    """The automaton of a look-behind does not know what follows its place."""
    for node in _within(body):
        if isinstance(node, Look) or (isinstance(node, Assertion) and node.kind != "start"):
            raise UnsupportedKeyword("look-around, $ and word boundaries are not supported inside a look-behind",
                                     keyword="lookbehind", where=pointer or "column 1")


def _within(body: Node) -> Iterable[Node]:
    stack = [body]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Sequence):
            stack.extend(node.parts)
        elif isinstance(node, Alternatives):
            stack.extend(node.options)
        elif isinstance(node, Repeat | Look):
            stack.append(node.body)


def _chain(parts: tuple[Node, ...], nfa: _Nfa, a: int, b: int, meter: Meter) -> Iterable[tuple[Node, int, int]]:
    if not parts:
        nfa.empty[a].append(("", b))
        return
    for part in parts[:-1]:
        meter.states(1)
        middle = nfa.place()
        yield part, a, middle
        a = middle
    yield parts[-1], a, b


def _repeat(node: Repeat[Node], nfa: _Nfa, a: int, b: int, meter: Meter) -> Iterable[tuple[Node, int, int]]:
    for _ in range(node.minimum):
        meter.states(1)
        middle = nfa.place()
        yield node.body, a, middle
        a = middle
    if node.maximum is None:
        loop = nfa.place()
        nfa.empty[a].append(("", loop))
        nfa.empty[loop].append(("", b))
        yield node.body, loop, loop
        return
    for _ in range(node.maximum - node.minimum):
        meter.states(1)
        nfa.empty[a].append(("", b))
        middle = nfa.place()
        yield node.body, a, middle
        a = middle
    nfa.empty[a].append(("", b))


def _determinise(tree: Node, meter: Meter, pointer: str, *, before: bool, after: bool, at_start: bool = True) -> Dfa:
    """before, after: anything may come there. at_start: the text begins here, so `^` holds."""
    nfa = _Nfa()
    start, end = nfa.place(), nfa.place()
    if before:
        entry = nfa.place()
        nfa.chars[start].append((charset.ALL, start))
        nfa.empty[start].append(("", entry))
    else:
        entry = start
        start = nfa.place()
        nfa.empty[start].append(("", entry))
    _build(tree, nfa, entry, end, meter, pointer)
    if not nfa.looks and not nfa.behinds:
        return Positions(nfa.chars, nfa.empty, end, meter, open_end=after).run(start, at_start)
    return minimise(_Simulator(nfa, start, end, meter, open_end=after).run(at_start))


class _Simulator:
    """Subset construction. open_end: once the end is reached without debts, anything may follow."""

    def __init__(self, nfa: _Nfa, start: int, end: int, meter: Meter, *, open_end: bool) -> None:
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
