"""A written grammar becomes rules of the IR: no left recursion, no empty rules, regular parts as plain automata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..automata.build import RuleBuilder
from ..automata.components import components
from ..automata.dfa import Dfa
from ..effort import Effort, TooMuchWork
from ..errors import ConstraintTooLarge, InvalidConstraint
from ..ir import Grammar, Rule
from ..limits import Meter
from .copies import calls_of, copy_small_rules, deterministic
from .corners import Corners, bypass_nullable
from .counted import Repetitions
from .network import CALL, Network
from .productions import Production

# Goals that take in what they begin with, and jumps, copy rules too; past so many states for each node of the grammar,
# or so many moves looked at, calls stay calls.
_STATES_EACH, _STATES_MORE = 4, 20_000
_WORK_EACH, _WORK_MORE = 10, 400_000
_DEEPEST = 256  # calls that may begin one in another; the engine enters them all before a byte


def compile_rules(productions: Sequence[Production], root: str, meter: Meter) -> Grammar:
    """The grammar of the texts of rule `root`.

    Raises InvalidConstraint, Unsatisfiable or ConstraintTooLarge with the rule and its line and column.
    """
    network = Network(productions, meter)
    start = network.number(root)
    if start is None:
        raise InvalidConstraint(f"there is no rule {root}", keyword=root, where="line 1, column 1",
                                fix="Define it, or name another rule as the start.")
    network.check_productive(start)
    return _Compiler(network, start).run()


class _Compiler:
    def __init__(self, network: Network, root: int) -> None:
        self._network = network
        self._meter = network.meter
        self._root = root
        self._empty = bypass_nullable(network)[root]

    def run(self) -> Grammar:
        copy_small_rules(self._network, self._root)
        nodes = len(self._network.edges)
        most, work = _STATES_EACH * nodes + _STATES_MORE, _WORK_EACH * nodes + _WORK_MORE
        try:
            automata = self._automata(Corners(self._network, wide=True), Effort(self._meter, most, work), open=True)
        except TooMuchWork:
            effort = Effort(self._meter, self._meter.limits.states, None)
            automata = self._automata(Corners(self._network), effort, open=False)
            self._check_depth(automata)
        return self._grammar(automata)

    # Automata

    def _automata(self, corners: Corners, effort: Effort, *, open: bool) -> dict[int, Dfa]:
        """The automaton of the root and of every rule that is still called. Raises TooMuchWork."""
        automata: dict[int, Dfa] = {}
        queue = [self._root]
        seen = {self._root}
        for rule in queue:  # grows while it runs
            if len(queue) > self._meter.limits.rules:
                raise ConstraintTooLarge(f"the grammar needs more than {self._meter.limits.rules} rules",
                                         keyword="rules", where=self._network.rules[rule].where,
                                         fix="Use a smaller grammar.")
            automata[rule] = deterministic(self._network, corners, rule, effort, open=open)
            for called in sorted(calls_of(automata[rule]) - seen):
                seen.add(called)
                queue.append(called)
        return automata

    def _check_depth(self, automata: dict[int, Dfa]) -> None:
        """Raises ConstraintTooLarge for rules that begin one in another too deeply."""
        numbers = {rule: i for i, rule in enumerate(automata)}
        first = [sorted(numbers[called] for called in calls_of(Dfa(dfa.edges[:1], frozenset())))
                 for dfa in automata.values()]
        depth = [0] * len(first)
        for rule, in components(first, range(len(first))):
            depth[rule] = 1 + max((depth[called] for called in first[rule]), default=0)
            if depth[rule] > _DEEPEST:
                production = self._network.rules[list(automata)[rule]]
                raise ConstraintTooLarge(f"more than {_DEEPEST} rules begin one in another", keyword=production.name,
                                         where=production.where, fix="Nest the rules less deeply.")

    # Rules

    def _grammar(self, automata: dict[int, Dfa]) -> Grammar:
        repetitions = Repetitions(len(self._network.rules), self._meter)
        automata = {rule: repetitions.rewritten(dfa) for rule, dfa in automata.items()}
        root = automata[self._root]
        numbers = {rule: i for i, rule in enumerate(automata)}
        numbers.update({len(self._network.rules) + k: len(automata) + k for k in range(len(repetitions))})
        rules = [self._rule(rule, dfa, numbers, repetitions) for rule, dfa in automata.items()]
        production = self._network.rules[self._root]
        rules += repetitions.rules(production.name, production.where)
        if not self._empty:
            return Grammar(tuple(rules), 0)
        whole = self._rule(self._root, _with_empty(root), numbers, repetitions)
        if any(self._root in calls_of(dfa) for dfa in automata.values()):
            return Grammar((*rules, whole), len(rules))
        return Grammar((whole, *rules[1:]), 0)

    def _rule(self, rule: int, dfa: Dfa, numbers: dict[int, int], repetitions: Repetitions) -> Rule:
        production = self._network.rules[rule]
        alone = repetitions.alone(dfa)
        if alone is not None:
            return repetitions.rule(alone, production.name, production.where)
        return calling_rule(dfa, numbers, production.name, production.where, self._meter)


def calling_rule(dfa: Dfa, numbers: Mapping[int, int], name: str, where: str, meter: Meter) -> Rule:
    """The rule of an automaton over bytes and calls. numbers: of the rules called, by their symbols less CALL."""
    builder = RuleBuilder(name, where, meter)
    for _ in range(len(dfa.edges) - 1):
        builder.state()
    for state, row in enumerate(dfa.edges):
        for low, high, target in row:
            if low < CALL:
                builder.edge(state, low, high, target)
            else:
                for symbol in range(low, high + 1):
                    builder.call(state, numbers[symbol - CALL], target)
    for state in dfa.finals:
        builder.final(state)
    return builder.finish()


def _with_empty(dfa: Dfa) -> Dfa:
    """Also the empty text, by a start that nothing leads back to."""
    moved = [tuple((low, high, target + 1) for low, high, target in row) for row in dfa.edges]
    return Dfa((moved[0], *moved), frozenset([0, *(state + 1 for state in dfa.finals)]))
