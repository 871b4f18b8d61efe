"""All rules of a grammar as one automaton over bytes with empty moves, in which a rule mentions another by a call.

Nothing is transformed here yet: rules may accept the empty text, and call themselves before they read a byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..automata.charset import Ranges
from ..automata.dfa import Dfa, Edge
from ..automata.trees import Alternatives, Chars, Repeat
from ..automata.utf8 import plain
from ..errors import InvalidConstraint, Unsatisfiable
from ..limits import Meter
from .productions import Automaton, Node, Production, Reference, Word

Work = list[tuple[Node, int, int]]
CALL = 256  # in an automaton over bytes and calls, the symbol CALL + r is a call of rule r


class Network:
    """Nodes are numbers, and each belongs to one rule. Rule r runs from starts[r] to ends[r]; nothing leads back into
    a start, and nothing leaves an end.

    edges[n]: bytes (low, high, target). calls[n]: (rule, target). empty[n]: targets. ended[n]: the rule that ends in n.
    """

    def __init__(self, productions: Sequence[Production], meter: Meter) -> None:
        self.meter = meter
        self.rules = tuple(productions)
        self.edges: list[list[Edge]] = []
        self.calls: list[list[tuple[int, int]]] = []
        self.empty: list[list[int]] = []
        self.ended: dict[int, int] = {}
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._numbers = {production.name: i for i, production in enumerate(self.rules)}
        self._spelled: dict[Ranges, Dfa] = {}
        for rule in range(len(self.rules)):
            self.starts.append(self.node())
            self.ends.append(self.node())
            self.ended[self.ends[rule]] = rule
        for rule, production in enumerate(self.rules):
            self._build(production.body, self.starts[rule], self.ends[rule])

    def number(self, name: str) -> int | None:
        return self._numbers.get(name)

    def node(self) -> int:
        self.meter.states(1)
        self.edges.append([])
        self.calls.append([])
        self.empty.append([])
        return len(self.edges) - 1

    def graft(self, dfa: Dfa, a: int, b: int) -> None:
        """Copy an automaton over bytes and calls in between a and b."""
        numbers = [self.node() for _ in dfa.edges]
        self.empty[a].append(numbers[0])
        for state, row in enumerate(dfa.edges):
            here = numbers[state]
            for low, high, target in row:
                if low < CALL:
                    self.edges[here].append((low, high, numbers[target]))
                else:
                    self.calls[here].extend((symbol - CALL, numbers[target]) for symbol in range(low, high + 1))
            if state in dfa.finals:
                self.empty[here].append(b)

    # Thompson's construction

    def _build(self, tree: Node, start: int, end: int) -> None:
        """A work list instead of recursion."""
        work: Work = [(tree, start, end)]
        while work:
            node, a, b = work.pop()
            self.meter.states(0)
            if isinstance(node, Chars):
                self._chars(node.ranges, a, b)
            elif isinstance(node, Word):
                self._word(node.text, a, b)
            elif isinstance(node, Automaton):
                self.graft(node.dfa, a, b)
            elif isinstance(node, Reference):
                self.calls[a].append((self._referred(node), b))
            elif isinstance(node, Alternatives):
                work.extend((option, a, b) for option in node.options)
            elif isinstance(node, Repeat):
                work.extend(self._repeat(node, a, b))
            else:
                work.extend(self._chain(node.parts, a, b))

    def _referred(self, node: Reference) -> int:
        number = self._numbers.get(node.name)
        if number is None:
            raise InvalidConstraint(f"the rule {node.name} is not defined", keyword=node.name, where=node.where,
                                    fix="Define it, or correct the name.")
        return number

    def _chars(self, ranges: Ranges, a: int, b: int) -> None:
        if not ranges or ranges[-1][1] < 0x80:
            self.edges[a].extend((low, high, b) for low, high in ranges)
            return
        if ranges not in self._spelled:
            one = Dfa((tuple((low, high, 1) for low, high in ranges), ()), frozenset([1]))
            self._spelled[ranges] = plain(one, self.meter).dfa
        self.graft(self._spelled[ranges], a, b)

    def _word(self, text: bytes, a: int, b: int) -> None:
        if not text:
            self.empty[a].append(b)
            return
        for byte in text[:-1]:
            middle = self.node()
            self.edges[a].append((byte, byte, middle))
            a = middle
        self.edges[a].append((text[-1], text[-1], b))

    def _chain(self, parts: tuple[Node, ...], a: int, b: int) -> Iterable[tuple[Node, int, int]]:
        if not parts:
            self.empty[a].append(b)
            return
        for part in parts[:-1]:
            middle = self.node()
            yield part, a, middle
            a = middle
        yield parts[-1], a, b

    def _repeat(self, node: Repeat[Node], a: int, b: int) -> Iterable[tuple[Node, int, int]]:
        for _ in range(node.minimum):
            middle = self.node()
            yield node.body, a, middle
            a = middle
        if node.maximum is None:
            loop = self.node()
            self.empty[a].append(loop)
            self.empty[loop].append(b)
            yield node.body, loop, loop
            return
        for _ in range(node.maximum - node.minimum):
            self.empty[a].append(b)
            middle = self.node()
            yield node.body, a, middle
            a = middle
        self.empty[a].append(b)

    # What rules can do

    def _fixpoint(self, *, reading: bool) -> list[bool]:
        """Rules whose end is reached from their start over empty moves, calls of such rules and (reading) bytes."""
        reached = [False] * len(self.rules)
        seen = set(self.starts)
        queue = list(self.starts)
        waiting: dict[int, list[int]] = {}

        def reach(node: int) -> None:
            if node not in seen:
                seen.add(node)
                queue.append(node)

        for node in queue:  # grows while it runs
            for target in self.empty[node]:
                reach(target)
            if reading:
                for _, _, target in self.edges[node]:
                    reach(target)
            for rule, target in self.calls[node]:
                if reached[rule]:
                    reach(target)
                else:
                    waiting.setdefault(rule, []).append(target)
            if node in self.ended:
                reached[self.ended[node]] = True
                for target in waiting.pop(self.ended[node], ()):
                    reach(target)
        return reached

    def nullable(self) -> list[bool]:
        """Whether each rule accepts the empty text."""
        return self._fixpoint(reading=False)

    def check_productive(self, root: int) -> None:
        """Raises Unsatisfiable for the root or a rule it needs that no finite text fits."""
        productive = self._fixpoint(reading=True)
        if all(productive):
            return
        mentioned = self.mentioned()
        seen = {root: None}
        queue = [root]
        for rule in queue:
            if not productive[rule]:
                raise self._endless(rule, productive, mentioned)
            for called in mentioned[rule]:
                if called not in seen:
                    seen[called] = None
                    queue.append(called)

    def _endless(self, rule: int, productive: list[bool], mentioned: list[list[int]]) -> Unsatisfiable:
        """The refusal of the rule that is the reason, followed down as far as there is one."""
        seen = {rule}
        while True:
            inner = next((called for called in mentioned[rule] if not productive[called] and called not in seen), None)
            if inner is None:
                break
            rule = inner
            seen.add(rule)
        production = self.rules[rule]
        return Unsatisfiable(f"no finite text fits the rule {production.name}", keyword=production.name,
                             where=production.where, fix="Give it an alternative that ends.")

    def mentioned(self) -> list[list[int]]:
        """The rules that each rule calls."""
        found: list[list[int]] = []
        for start in self.starts:
            seen = {start}
            queue = [start]
            called: dict[int, None] = {}
            for node in queue:
                called.update((rule, None) for rule, _ in self.calls[node])
                for target in (*self.empty[node], *(t for _, _, t in self.edges[node]),
                               *(t for _, t in self.calls[node])):
                    if target not in seen:
                        seen.add(target)
                        queue.append(target)
            found.append(list(called))
        return found

    def closure(self, starts: Iterable[int]) -> list[int]:
        """The nodes reached over empty moves."""
        seen = dict.fromkeys(starts)
        queue = list(seen)
        for node in queue:
            for target in self.empty[node]:
                if target not in seen:
                    seen[target] = None
                    queue.append(target)
        return queue
