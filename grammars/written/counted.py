"""Characters of a class that repeat within bounds, written out as states of an automaton, become rules that count."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass

from ..automata.build import RuleBuilder
from ..automata.dfa import Dfa, Edge
from ..ir import COUNT, Counter, Rule
from ..limits import Meter
from .network import CALL

_LONG = 16  # repetitions up to here stay written out
_LEADS = ((0xC2, 0xDF, 1), (0xE0, 0xEF, 2), (0xF0, 0xF4, 3))  # first bytes of a character, how many follow

# The bytes of one character of a class: (low, high, what follows them; () for nothing).
Step = tuple[tuple[int, int, "Step"], ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A state as a step to `next` and what else there is: exits, and whether the text may end."""

    next: int
    step: Step
    exits: tuple[Edge, ...]
    final: bool


@dataclass(frozen=True, slots=True)
class Repetition:
    """`least` to `most` characters, None: without end."""

    step: Step
    least: int
    most: int | None


class Repetitions:
    """The repetitions of a grammar's automata. In these, CALL + first + k is a call of repetition k."""

    def __init__(self, first: int, meter: Meter) -> None:
        self._first = first
        self._meter = meter
        self._found: dict[Repetition, int] = {}

    def __len__(self) -> int:
        return len(self._found)

    def rewritten(self, dfa: Dfa) -> Dfa:
        """The automaton with calls of the repetitions in it; states that nothing leads to any more stay."""
        if len(dfa.edges) <= _LONG:
            return dfa
        rows, finals = list(dfa.edges), set(dfa.finals)
        parts = _parts(dfa)
        inner = {part.next for state, part in parts.items() if part.next != state
                 and part.next in parts and parts[part.next].step == part.step}
        for head in sorted(parts.keys() - inner):
            self._meter.states(0)
            end = _end(dfa, parts, _chain(parts, head))
            if end is None:
                continue
            repetition, target = end
            if repetition.most is None:  # the last state goes on; what follows the repetition does not
                if parts[target].final:
                    finals.add(len(rows))
                rows.append(parts[target].exits)
                target = len(rows) - 1
            symbol = CALL + self._first + self._found.setdefault(repetition, len(self._found))
            rows[head] = tuple(sorted([*parts[head].exits, (symbol, symbol, target)]))
        return Dfa(tuple(rows), frozenset(finals))

    def alone(self, dfa: Dfa) -> Repetition | None:
        """The repetition that is all of a rewritten automaton."""
        if len(dfa.edges[0]) != 1 or 0 in dfa.finals:
            return None
        low, _, target = dfa.edges[0][0]
        number = low - CALL - self._first
        if number < 0 or dfa.edges[target] or target not in dfa.finals:
            return None
        return list(self._found)[number]

    def rules(self, name: str, where: str) -> list[Rule]:
        """The rules of all repetitions."""
        return [self.rule(repetition, name, where) for repetition in self._found]

    def rule(self, repetition: Repetition, name: str, where: str) -> Rule:
        builder = RuleBuilder(name, where, self._meter)
        loop = builder.state()
        known: dict[Step, int] = {(): loop}
        for state in (0, loop):
            self._write(builder, state, repetition.step, known, COUNT)
        builder.final(loop)
        return builder.finish(Counter(repetition.least, repetition.most))

    def _write(self, builder: RuleBuilder, source: int, step: Step, known: dict[Step, int], action: int = 0) -> None:
        """The bytes of a step from `source` on; what follows equal bytes is one state. At most four deep."""
        for low, high, rest in step:
            if rest not in known:
                known[rest] = builder.state()
                self._write(builder, known[rest], rest, known)
            builder.edge(source, low, high, known[rest], action)


def _parts(dfa: Dfa) -> dict[int, _Part]:
    """The states from which a class leads to one state."""
    found: dict[int, _Part] = {}
    tails: dict[tuple[int, int, int], Step | None] = {}
    for state, row in enumerate(dfa.edges):
        votes: Tally[int] = Tally()
        for low, high, target in row:
            landing = _landing(dfa, low, target)
            if landing >= 0:
                votes[landing] += high - low + 1
        if not votes:
            continue
        (goal, _), = votes.most_common(1)
        step: list[tuple[int, int, Step]] = []
        exits: list[Edge] = []
        for low, high, target in row:
            rest = _rest(dfa, low, high, target, goal, tails)
            if rest is None:
                exits.append((low, high, target))
            else:
                step.append((low, high, rest))
        if step:
            found[state] = _Part(goal, tuple(step), tuple(exits), state in dfa.finals)
    return found


def _follow(low: int, high: int) -> int:
    """How many bytes follow these first ones of a character; -1 where they do not agree, or are none."""
    if high < 0x80:
        return 0
    return next((more for first, last, more in _LEADS if first <= low and high <= last), -1)


def _landing(dfa: Dfa, low: int, target: int) -> int:
    """A state in which the character ends that begins with the byte `low`; -1 for none."""
    for _ in range(_follow(low, low)):
        if not dfa.edges[target]:
            return -1
        target = dfa.edges[target][0][2]
    return -1 if _follow(low, low) < 0 else target


def _rest(dfa: Dfa, low: int, high: int, target: int, goal: int,
          tails: dict[tuple[int, int, int], Step | None]) -> Step | None:
    """What follows these first bytes up to the state `goal`; None where they lead elsewhere too."""
    more = _follow(low, high)
    return None if more < 0 else _tail(dfa, target, more, goal, tails)


def _tail(dfa: Dfa, state: int, more: int, goal: int, tails: dict[tuple[int, int, int], Step | None]) -> Step | None:
    if more == 0:
        return () if state == goal else None
    key = (state, more, goal)
    if key not in tails:
        tails[key] = None
        found: list[tuple[int, int, Step]] = []
        for low, high, target in dfa.edges[state]:
            rest = _tail(dfa, target, more - 1, goal, tails) if low >= 0x80 and high <= 0xBF else None
            if rest is None:
                return None
            found.append((low, high, rest))
        if state not in dfa.finals and found:
            tails[key] = tuple(found)
    return tails[key]


def _chain(parts: dict[int, _Part], head: int) -> list[int]:
    """The states that one step leads through, the last of which goes on otherwise, or by the step to itself."""
    chain, seen = [head], {head}
    step = parts[head].step
    while chain[-1] in parts and parts[chain[-1]].step == step and parts[chain[-1]].next not in seen:
        chain.append(parts[chain[-1]].next)
        seen.add(chain[-1])
    return chain


def _end(dfa: Dfa, parts: dict[int, _Part], chain: list[int]) -> tuple[Repetition, int] | None:
    """The repetition that a chain is, and its last state; None when it is none, or short."""
    if len(chain) <= _LONG:
        return None
    step, last = parts[chain[0]].step, chain[-1]
    ways = [(parts[state].exits, parts[state].final) for state in chain[1:-1]]
    least = next((k for k, way in enumerate(ways) if way != ((), False)), len(ways))
    if any(way != ways[least] for way in ways[least:]):
        return None
    if last in parts and parts[last].step == step:
        if parts[last].next != last:
            return None
        way = parts[last].exits, parts[last].final
        return (Repetition(step, least + 1, None), last) if least == len(ways) or way == ways[least] else None
    if least < len(ways) and ways[least] != (dfa.edges[last], last in dfa.finals):
        return None
    return Repetition(step, least + 1, len(ways) + 1), last
