"""Lists of which two items must be equal, and lists in each other whose items are compared: what of it is refused.

Which items may come again, and count for `contains`, is followed in all ways at once (alike_lists.py), in a list and in
each list inside it: these ways multiply, and an answer has so many only (Limits.readings).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import UnsupportedKeyword
from ..ir import Rule, Unlike, unpack_edges
from ..schemas.keywords import refuse


def check_nesting(rules: Sequence[Rule], most: int) -> None:
    """Raises UnsupportedKeyword where lists of which two items must be equal can be read in more than `most` ways."""
    alike = {number for number, rule in enumerate(rules) if isinstance(rule.register, Unlike) and rule.register.alike}
    ways = _Ways(rules, alike, most)
    for number in sorted(alike):
        ways.of(number, 0)


class _Ways:
    """In how many ways the lists of which two items must be equal can be read at once, at most."""

    def __init__(self, rules: Sequence[Rule], alike: set[int], most: int) -> None:
        self._rules = rules
        self._alike = alike
        self._most = most
        self._known: dict[int, int] = {}

    def of(self, number: int, depth: int) -> int:
        """Raises UnsupportedKeyword where there are too many; each list doubles those of the lists around it."""
        if number not in self._known:
            if 2 ** depth > self._most:
                raise self._many(number, depth)
            calls: dict[int, list[tuple[int, int]]] = {}
            for call in self._rules[number].calls:
                calls.setdefault(call.source, []).append((call.rule, call.target))
            inside = {rule: self._inside(rule, depth) for rule in {rule for out in calls.values() for rule, _ in out}}
            most = max((sum(inside[rule] for state in states for rule, _ in calls[state])
                        for states in self._levels(number, calls)), default=1)
            if most > self._most:
                raise self._many(number, depth + max(inside.values()) - 1)
            self._known[number] = most
        return self._known[number]

    def _many(self, number: int, nested: int) -> UnsupportedKeyword:
        what = "in lists inside each other where both" if nested > 0 else "where the items"
        return _refuse(self._rules[number], f"{what} can be read in more than {self._most} ways together")

    def _inside(self, rule: int, depth: int) -> int:
        lists = [one for one in _within(self._rules, [rule], self._alike) if one in self._alike]
        return max(1, sum(self.of(one, depth + 1) for one in lists))

    def _levels(self, number: int, calls: dict[int, list[tuple[int, int]]]) -> Iterable[frozenset[int]]:
        """The states before an item that may be reached behind so many items."""
        ways: dict[int, list[int]] = {}
        for source, _, _, target, _ in unpack_edges(self._rules[number].edges):
            ways.setdefault(source, []).append(target)
        states, seen = self._before([0], ways, calls), set[frozenset[int]]()
        while states and states not in seen:
            seen.add(states)
            yield states
            states = self._before([target for state in states for _, target in calls[state]], ways, calls)

    @staticmethod
    def _before(starts: Iterable[int], ways: dict[int, list[int]],
                calls: dict[int, list[tuple[int, int]]]) -> frozenset[int]:
        found = dict.fromkeys(starts)
        for state in (queue := list(found)):  # grows while it runs
            for target in ways.get(state, ()):
                if target not in found:
                    found[target] = None
                    queue.append(target)
        return frozenset(state for state in found if state in calls)


def _within(rules: Sequence[Rule], starts: Iterable[int], stops: Iterable[int]) -> list[int]:
    """These rules and those that they call, not looking into `stops`."""
    found, stops = list(dict.fromkeys(starts)), frozenset(stops)
    seen = set(found)
    for rule in found:  # grows while it runs
        more = [] if rule in stops else [call.rule for call in rules[rule].calls if call.rule not in seen]
        found += dict.fromkeys(more)
        seen.update(more)
    return found


def _refuse(rule: Rule, why: str) -> UnsupportedKeyword:
    return refuse("uniqueItems", rule.pointer, f"is not negated (not, oneOf, if) {why}")
