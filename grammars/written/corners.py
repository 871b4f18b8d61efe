"""Rules without empty texts, left recursion and tail calls: what a rule looks like from where it is wanted.

A *goal* is a rule that some place wants to read, and never as the empty text (places that may skip it have an empty
move beside the call). Three exact rewritings happen while rows are made, none on the text of the grammar:

- Left recursion is iteration. Rules that begin with each other form a cycle. A goal of a cycle begins with anything
  that any rule of the cycle begins with outside of it; when a rule D of the cycle ends, every place behind a leading D
  in the cycle may follow, and the goal has ended when D is the goal itself (the left-corner transform, on automata).
- A call whose return leads only to the end of the rule is a jump: it needs no frame. So right recursion is a loop.
- A call of the goal itself is also a jump where what follows it may follow the goal's own end, and may be nothing:
  `e: e "+" e` reads the second operand in the same frame, which takes the ambiguity out.
"""

from __future__ import annotations

from ..automata.components import components
from ..automata.dfa import Edge
from ..effort import Effort
from .network import CALL, Network

# A place is a goal and a node: goal << _NODE_BITS | node. The start of a rule is the start of the goal.
_NODE_BITS = 32
_NODE_MASK = (1 << _NODE_BITS) - 1


class Corners:
    """What goals of a network can begin with, read once; copies made later are seen.

    Narrow: a goal takes in the cycle of rules that begin with each other, if it is on one. Wide: every rule that it
    can begin with, so that no goal begins with a call.
    """

    def __init__(self, network: Network, *, wide: bool = False) -> None:
        self._network = network
        self._wide = wide
        self._leading = [[call for node in network.closure([start]) for call in network.calls[node]]
                         for start in network.starts]
        self._arcs = [sorted({rule for rule, _ in calls}) for calls in self._leading]
        self._cycles: dict[int, tuple[int, ...]] = {}
        for group in components(self._arcs, range(len(self._arcs))):
            if len(group) > 1 or group[0] in self._arcs[group[0]]:
                self._cycles.update((rule, tuple(group)) for rule in group)
        self._known: dict[int, tuple[tuple[int, ...], dict[int, list[int]]]] = {}

    def members(self, goal: int) -> tuple[int, ...]:
        """The rules that a goal takes in, itself included."""
        return self._of(goal)[0]

    def behind(self, goal: int) -> dict[int, list[int]]:
        """For each rule that a member begins with and that is a member: the nodes behind such beginnings."""
        return self._of(goal)[1]

    def _of(self, goal: int) -> tuple[tuple[int, ...], dict[int, list[int]]]:
        if not self._arcs[goal]:
            return (goal,), {}
        if goal not in self._known:
            members = self._reached(goal) if self._wide else self._cycles.get(goal, (goal,))
            inside = frozenset(members)
            behind: dict[int, list[int]] = {}
            for rule in members:
                for called, target in self._leading[rule]:
                    if called in inside:
                        behind.setdefault(called, []).append(target)
            self._known[goal] = members, behind
        return self._known[goal]

    def _reached(self, goal: int) -> tuple[int, ...]:
        seen = {goal: None}
        queue = [goal]
        for rule in queue:
            for called in self._arcs[rule]:
                if called not in seen:
                    seen[called] = None
                    queue.append(called)
        return tuple(queue)

    def reach(self, goal: int, nodes: list[int]) -> tuple[list[int], bool]:
        """The nodes reached without reading, and whether the goal may have ended."""
        network = self._network
        behind = self.behind(goal)
        seen = dict.fromkeys(nodes)
        queue = list(seen)
        over = False
        for node in queue:
            followers = network.empty[node]
            ended = network.ended.get(node)
            if ended is not None:
                over = over or ended == goal
                followers = behind.get(ended, [])
            for target in followers:
                if target not in seen:
                    seen[target] = None
                    queue.append(target)
        return [n for n in queue if network.edges[n] or network.calls[n]], over


class Rows:
    """The rows of one rule's automaton over bytes and calls, place by place. open: whether a tail call of another rule
    may become a jump into it."""

    def __init__(self, network: Network, corners: Corners, goal: int, effort: Effort, *, open: bool) -> None:
        self._network = network
        self._effort = effort
        self._corners = corners
        self._goal = goal
        self._open = open
        self._tails: dict[int, tuple[bool, frozenset[int]]] = {}
        self._rows: dict[int, tuple[tuple[Edge, ...], bool]] = {}
        self.start = self._entry(goal)

    def _entry(self, goal: int) -> int:
        return goal << _NODE_BITS | self._network.starts[goal]

    def row(self, place: int) -> tuple[tuple[Edge, ...], bool]:
        """(moves, whether the rule may end). Moves may overlap."""
        found = self._rows.get(place)
        if found is None:
            found = self._rows[place] = self._row(place)
        return found

    def _row(self, place: int) -> tuple[tuple[Edge, ...], bool]:
        network = self._network
        moves: dict[Edge, None] = {}
        final = False
        seen = {place}
        queue = [place]
        for here in queue:  # grows with every jump
            goal, node = here >> _NODE_BITS, here & _NODE_MASK
            base = goal << _NODE_BITS
            skipped: dict[int, list[int]] = {}
            if node == network.starts[goal]:
                nodes, skipped = self._beginning(goal)
            else:
                nodes, over = self._corners.reach(goal, [node])
                final = final or over
            for inner in nodes:
                moves.update(((low, high, base | target), None) for low, high, target in network.edges[inner])
                for rule, target in network.calls[inner]:
                    if rule in skipped:
                        continue
                    if not self._jumps(goal, rule, target):
                        moves[CALL + rule, CALL + rule, base | target] = None
                    elif self._entry(rule) not in seen:
                        seen.add(self._entry(rule))
                        queue.append(self._entry(rule))
            self._effort.spend(len(nodes))
        return tuple(moves), final

    def _beginning(self, goal: int) -> tuple[list[int], dict[int, list[int]]]:
        """The nodes at the start of a goal, and the rules whose calls there are beginnings of the goal itself."""
        network = self._network
        nodes = network.closure([network.starts[rule] for rule in self._corners.members(goal)])
        return nodes, self._corners.behind(goal)

    def _jumps(self, goal: int, rule: int, target: int) -> bool:
        over, beyond = self._tail(goal, target)
        if not over:
            return False
        if not beyond and (self._open or rule == self._goal):
            return True
        return rule == goal and beyond <= self._tail(goal, self._network.ends[goal])[1]

    def _tail(self, goal: int, target: int) -> tuple[bool, frozenset[int]]:
        """(whether the goal may end at `target`, the nodes from which it may go on)."""
        key = goal << _NODE_BITS | target
        if key not in self._tails:
            nodes, over = self._corners.reach(goal, [target])
            self._effort.spend(len(nodes))
            self._tails[key] = over, frozenset(nodes)
        return self._tails[key]


def bypass_nullable(network: Network) -> list[bool]:
    """An empty move beside every call of a rule that accepts the empty text; returns which rules those are."""
    nullable = network.nullable()
    for node, calls in enumerate(network.calls):
        network.empty[node].extend(target for rule, target in calls if nullable[rule])
    return nullable
