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

from .dfa import Edge
from .network import CALL, Network

# A place is a goal and a node: goal << _NODE_BITS | node. The start of a rule is the start of the goal.
_NODE_BITS = 32
_NODE_MASK = (1 << _NODE_BITS) - 1


class Corners:
    """The left corners of a network, read once; grafts made later are seen."""

    def __init__(self, network: Network, groups: list[list[int]], leading: list[list[tuple[int, int]]]) -> None:
        """groups: the cycles of rules that begin with each other, a rule alone included when it begins with itself.
        leading: the calls that each rule can begin with."""
        self._network = network
        self._members: dict[int, tuple[int, ...]] = {}
        # behind[D]: the nodes behind a leading D in the rules of D's cycle.
        self.behind: dict[int, list[int]] = {}
        for group in groups:
            inside = frozenset(group)
            for rule in group:
                self._members[rule] = tuple(group)
                for called, target in leading[rule]:
                    if called in inside:
                        self.behind.setdefault(called, []).append(target)

    def members(self, goal: int) -> tuple[int, ...]:
        """The cycle of a goal; the goal alone when it is not left-recursive."""
        return self._members.get(goal, (goal,))

    def reach(self, goal: int, nodes: list[int]) -> tuple[list[int], bool]:
        """The nodes reached without reading, and whether the goal may have ended."""
        network = self._network
        seen = dict.fromkeys(nodes)
        queue = list(seen)
        over = False
        for node in queue:
            followers = network.empty[node]
            ended = network.ended.get(node)
            if ended is not None:
                over = over or ended == goal
                followers = self.behind.get(ended, [])
            for target in followers:
                if target not in seen:
                    seen[target] = None
                    queue.append(target)
        return [n for n in queue if network.edges[n] or network.calls[n]], over


class Rows:
    """The rows of one rule's automaton over bytes and calls, place by place. open: whether a tail call of another rule
    may become a jump into it."""

    def __init__(self, network: Network, corners: Corners, goal: int, *, open: bool) -> None:
        self._network = network
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
            skipped: tuple[int, ...] = ()
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
            network.meter.states(0)
        return tuple(moves), final

    def _beginning(self, goal: int) -> tuple[list[int], tuple[int, ...]]:
        """The nodes at the start of a goal, and the rules whose calls there are left recursion."""
        members = self._corners.members(goal)
        network = self._network
        nodes = network.closure([network.starts[rule] for rule in members])
        return nodes, members if goal in self._corners.behind else ()

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
            self._tails[key] = over, frozenset(nodes)
        return self._tails[key]


def leading_calls(network: Network) -> list[list[tuple[int, int]]]:
    """The calls that each rule can begin with, as (rule, target)."""
    found = []
    for start in network.starts:
        found.append([call for node in network.closure([start]) for call in network.calls[node]])
    return found


def bypass_nullable(network: Network) -> list[bool]:
    """An empty move beside every call of a rule that accepts the empty text; returns which rules those are."""
    nullable = network.nullable()
    for node, calls in enumerate(network.calls):
        network.empty[node].extend(target for rule, target in calls if nullable[rule])
    return nullable
