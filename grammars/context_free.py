"""A written grammar becomes rules of the IR: no left recursion, no empty rules, regular parts as plain automata."""

from __future__ import annotations

from collections.abc import Sequence

from .build import RuleBuilder
from .components import components
from .corners import Corners, Rows, bypass_nullable, leading_calls
from .dfa import Dfa, minimise, trim
from .errors import ConstraintTooLarge, InvalidConstraint
from .ir import Grammar, Rule
from .limits import Meter
from .network import CALL, Network
from .productions import Production
from .subsets import Subsets, TooManyStates

# A rule that does not call itself is copied to where it is mentioned when it is at most this large. Copies make
# competing readings one automaton; the sizes keep the whole within a few times the grammar.
_COPIED_STATES = 64
_CYCLE = 8  # rules of a cycle that may still turn out to be loops
_COPIES = 100_000  # nodes added by copies, over all
# Jumps into other rules copy them too; past this many states for each node of the grammar they stay calls.
_JUMP_FACTOR = 4
_JUMP_STATES = 20_000


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
        leading = leading_calls(network)
        cycles = _cycles([[rule for rule, _ in calls] for calls in leading])
        self._corners = Corners(network, cycles, leading)

    def run(self) -> Grammar:
        self._copy_small_rules()
        nodes = len(self._network.edges)
        try:
            automata = self._automata(_JUMP_FACTOR * nodes + _JUMP_STATES, open=True)
        except TooManyStates:
            automata = self._automata(self._meter.limits.states, open=False)
        return self._grammar(automata)

    # Copies

    def _copy_small_rules(self) -> None:
        """Replaces calls of small rules that do not recurse by copies of their automata, callees first."""
        network = self._network
        called = network.mentioned()
        sites: dict[int, list[int]] = {}
        for node, calls in enumerate(network.calls):
            for rule, _ in calls:
                sites.setdefault(rule, []).append(node)
        left = _COPIES
        open_rules: set[int] = set()  # that do not recurse, and are called nevertheless
        for component in components(called, [self._root]):
            self._meter.time()
            for rule in component:
                if rule == self._root or not open_rules.isdisjoint(called[rule]):
                    dfa = None
                else:
                    dfa = self._small(rule, component, called)
                if dfa is not None and len(dfa.edges) * len(sites[rule]) <= left:
                    left -= len(dfa.edges) * len(sites[rule])
                    self._replace(rule, dfa, sites[rule])
                elif not _recurses(component, called):
                    open_rules.add(rule)

    def _small(self, rule: int, component: list[int], called: list[list[int]]) -> Dfa | None:
        """The automaton of a rule that can be copied: small, and without calls that lead back to it."""
        if len(component) > _CYCLE:
            return None
        rows = Rows(self._network, self._corners, rule, open=_recurses(component, called))
        try:
            dfa = self._deterministic(rows, _COPIED_STATES)
        except TooManyStates:
            return None
        return None if _calls(dfa) & set(component) else dfa

    def _replace(self, rule: int, dfa: Dfa, sites: list[int]) -> None:
        network = self._network
        for node in sites:
            targets = [target for called, target in network.calls[node] if called == rule]
            network.calls[node] = [call for call in network.calls[node] if call[0] != rule]
            for target in targets:
                network.graft(dfa, node, target)

    # Automata

    def _deterministic(self, rows: Rows, most: int) -> Dfa:
        return minimise(trim(Subsets(rows.row, self._meter).automaton(rows.start, most)))

    def _automata(self, most: int, *, open: bool) -> dict[int, Dfa]:
        """The automaton of the root and of every rule that is still called; raises TooManyStates past `most` states."""
        automata: dict[int, Dfa] = {}
        queue = [self._root]
        seen = {self._root}
        for rule in queue:  # grows while it runs
            if len(queue) > self._meter.limits.rules:
                raise ConstraintTooLarge(f"the grammar needs more than {self._meter.limits.rules} rules",
                                         keyword="rules", where=self._network.rules[rule].where,
                                         fix="Use a smaller grammar.")
            rows = Rows(self._network, self._corners, rule, open=open)
            automata[rule] = self._deterministic(rows, most)
            most -= len(automata[rule].edges)
            for called in sorted(_calls(automata[rule]) - seen):
                seen.add(called)
                queue.append(called)
        return automata

    # Rules

    def _grammar(self, automata: dict[int, Dfa]) -> Grammar:
        numbers = {rule: i for i, rule in enumerate(automata)}
        root = automata[self._root]
        rules = [self._rule(rule, dfa, numbers) for rule, dfa in automata.items()]
        if not self._empty:
            return Grammar(tuple(rules), 0)
        whole = self._rule(self._root, _with_empty(root), numbers)
        if any(self._root in _calls(dfa) for dfa in automata.values()):
            return Grammar((*rules, whole), len(rules))
        return Grammar((whole, *rules[1:]), 0)

    def _rule(self, rule: int, dfa: Dfa, numbers: dict[int, int]) -> Rule:
        production = self._network.rules[rule]
        builder = RuleBuilder(production.name, production.where, self._meter)
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


def _calls(dfa: Dfa) -> set[int]:
    """The rules that an automaton calls."""
    return {symbol - CALL for row in dfa.edges for low, high, _ in row if low >= CALL
            for symbol in range(low, high + 1)}


def _with_empty(dfa: Dfa) -> Dfa:
    """Also the empty text, by a start that nothing leads back to."""
    moved = [tuple((low, high, target + 1) for low, high, target in row) for row in dfa.edges]
    return Dfa((moved[0], *moved), frozenset([0, *(state + 1 for state in dfa.finals)]))


def _recurses(component: list[int], called: list[list[int]]) -> bool:
    return len(component) > 1 or component[0] in called[component[0]]


def _cycles(arcs: list[list[int]]) -> list[list[int]]:
    """The components in which something leads back to itself."""
    return [found for found in components(arcs, range(len(arcs))) if _recurses(found, arcs)]
