"""Calls of small rules become copies of them, so that readings which would compete as frames are one automaton.

Of each cycle of rules some are kept as calls, so that the others no longer recurse: first those that are mentioned
between other things, as in `"(" e ")"`, because there a frame cannot be avoided.
"""

from __future__ import annotations

from ..automata.components import components
from ..automata.dfa import Dfa, trim
from ..automata.minimise import minimise
from ..automata.subsets import Subsets
from ..effort import Effort, TooMuchWork
from .corners import Corners, Rows
from .network import CALL, Network

# Sizes that keep the whole within a few times the grammar.
_STATES = 96  # of a rule that is copied
_WORK = 20_000  # to find that a rule is small
_NODES = 100_000  # added by copies, over all
_CYCLE = 400  # rules of a cycle in which to look for those to keep


def copy_small_rules(network: Network, root: int) -> None:
    """Changes the network: calls of rules that are small and can do without a frame are replaced, callees first."""
    _Copier(network, root).run()


def deterministic(network: Network, corners: Corners, rule: int, effort: Effort, *, open: bool) -> Dfa:
    """The automaton of a goal over bytes and calls. Raises TooMuchWork. open: see Rows."""
    rows = Rows(network, corners, rule, effort, open=open)
    return minimise(trim(Subsets(rows.row, effort).automaton(rows.start)))


def calls_of(dfa: Dfa) -> set[int]:
    """The rules that an automaton calls."""
    return {symbol - CALL for row in dfa.edges for low, high, _ in row if low >= CALL
            for symbol in range(low, high + 1)}


class _Copier:
    def __init__(self, network: Network, root: int) -> None:
        self._network = network
        self._root = root
        self._corners = Corners(network)
        self._called = network.mentioned()
        self._sites: dict[int, list[int]] = {}
        for node, calls in enumerate(network.calls):
            for rule, _ in calls:
                self._sites.setdefault(rule, []).append(node)
        self._leading = set(network.closure(network.starts))
        self._ending = _before(network, network.ends)
        self._left = _NODES
        # Rules without recursion that are called nevertheless: what calls them is not small either.
        self._large: set[int] = set()

    def run(self) -> None:
        for component in components(self._called, [self._root]):
            self._network.meter.time()
            recursive = len(component) > 1 or component[0] in self._called[component[0]]
            for rule in self._ordered(component) if recursive else component:
                if not self._copied(rule) and not recursive:
                    self._large.add(rule)

    def _copied(self, rule: int) -> bool:
        """Copies a rule to where it is called, if it may be."""
        if rule == self._root or not self._large.isdisjoint(self._called[rule]):
            return False
        if len(self._corners.members(rule)) > 1:  # its goals take the whole cycle of left recursion in anyway
            return False
        effort = Effort(self._network.meter, _STATES, _WORK)
        try:
            dfa = deterministic(self._network, self._corners, rule, effort, open=False)
        except TooMuchWork:
            return False
        sites = self._sites.get(rule, [])
        if rule in calls_of(dfa) or len(dfa.edges) * len(sites) > self._left:
            return False
        self._left -= len(dfa.edges) * len(sites)
        self._replace(rule, dfa, sites)
        return True

    def _replace(self, rule: int, dfa: Dfa, sites: list[int]) -> None:
        network = self._network
        first = len(network.edges)
        for node in sites:
            targets = [target for called, target in network.calls[node] if called == rule]
            network.calls[node] = [call for call in network.calls[node] if call[0] != rule]
            for target in targets:
                network.graft(dfa, node, target)
        for node in range(first, len(network.edges)):
            for called, _ in network.calls[node]:
                self._sites[called].append(node)

    def _ordered(self, component: list[int]) -> list[int]:
        """The rules of a cycle: those that no longer recurse once others are kept, callees first, then the kept."""
        if len(component) > _CYCLE:
            return []
        inside = set(component)
        weight = {rule: self._weight(rule) for rule in component}
        kept: list[int] = []
        order: list[int] = []
        todo = [component]
        while todo:
            part = todo.pop()
            if len(part) == 1:
                order.append(part[0])
                continue
            best = max(part, key=lambda rule: (weight[rule], -rule))
            kept.append(best)
            inside.discard(best)
            arcs = {rule: [c for c in self._called[rule] if c in inside and c in part and c != rule] for rule in part}
            rest = [rule for rule in part if rule != best]
            todo.extend(reversed(_parts(arcs, rest)))
        return order + kept[::-1]

    def _weight(self, rule: int) -> tuple[float, int]:
        """How well a rule is kept: the share of its mentions that stand between other things, and their number."""
        sites = self._sites.get(rule, [])
        embedded = sum(self._embedded(node, rule) for node in sites)
        return embedded / max(len(sites), 1), len(sites)

    def _embedded(self, node: int, rule: int) -> bool:
        return node not in self._leading and any(
            target not in self._ending for called, target in self._network.calls[node] if called == rule)


def _before(network: Network, nodes: list[int]) -> set[int]:
    """The nodes from which one of these is reached over empty moves."""
    backward: list[list[int]] = [[] for _ in network.empty]
    for node, targets in enumerate(network.empty):
        for target in targets:
            backward[target].append(node)
    seen = set(nodes)
    queue = list(nodes)
    for node in queue:
        for source in backward[node]:
            if source not in seen:
                seen.add(source)
                queue.append(source)
    return seen


def _parts(arcs: dict[int, list[int]], rules: list[int]) -> list[list[int]]:
    """The components among some rules, callees first."""
    numbers = {rule: i for i, rule in enumerate(rules)}
    found = components([[numbers[c] for c in arcs[rule] if c in numbers] for rule in rules], range(len(rules)))
    return [[rules[i] for i in part] for part in found]
