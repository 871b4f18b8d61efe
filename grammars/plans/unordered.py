"""The rule of an object whose keys come in any order: one automaton of all keys, one state after every value.

Which keys were written, and which must still come, is the register's business, so the states are those of the keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..automata.build import RuleBuilder
from ..automata.dfa import NOTHING, Dfa, Edge
from ..errors import ConstraintTooLarge
from ..ir import CLOSE_KEY, KEY, MEET, OPEN_KEY, WRITTEN, Members, Names, Rule
from ..limits import Meter
from ..schemas.strings import ANY_CHARACTERS
from .plan import Member, ObjectPlan, ValuePlan, Witnesses

if TYPE_CHECKING:
    from .emit import Emitter

# Objects that one object with demands becomes, at most.
_MAX_CHOICES = 64
# What a final state of the automaton of keys stands for: a declared key, or a kind of free ones.
_Ends = dict[int, tuple[int, int]]


class UnorderedEmitter:
    def __init__(self, emitter: Emitter, plan: ObjectPlan, depth: int) -> None:
        self._emitter = emitter
        self._plan = plan
        self._depth = depth
        self._builder = RuleBuilder(f"object at {plan.pointer}", plan.pointer, emitter.meter)
        self._members = [member for member in plan.members if member.value.possible]
        self._after = self._blanks(self._builder.state())
        self._behind: dict[tuple[tuple[int, int], ...], int] = {}  # states after a key, by what may follow

    def rule(self) -> Rule:
        builder, plan, layout = self._builder, self._plan, self._emitter.layout(self._depth)
        end = builder.state()
        opened = self._blanks(builder.text(0, b"{"))
        required = tuple(member.required for member in self._members)
        if not (plan.least or any(required) or plan.demands):
            builder.text(opened, b"}", end)
        before = builder.text(opened, layout.inside.encode()) if layout.inside else opened
        builder.text(self._after, layout.outside.encode() + b"}", end)
        again = self._blanks(builder.text(self._after, layout.comma.encode()))
        builder.final(end)
        free = plan.free if any(value.possible for value in plan.free_values) else None
        # Every key ends: declared ones that are possible, or whatever else. Without any, some states lead nowhere.
        whole = free is ANY_CHARACTERS or (free is None and len(self._members) > 0)
        decoded = self._emitter.writing.spelling == "any"
        names = self._names(free) if whole and decoded else None
        key = builder.state()
        builder.edge(before, 0x22, 0x22, key, OPEN_KEY)
        builder.edge(again, 0x22, 0x22, key, OPEN_KEY)
        if names is None:
            whole = self._keys(key, free) or whole
        register = Members(required, plan.least, plan.most, plan.demands > 0, decoded)
        return builder.finish(register, whole=whole, names=names)

    def _names(self, free: Dfa | None) -> Names:
        """The keys by name, and what follows each."""
        targets = {member.name: (index, self._value(member.value, member.witnesses))
                   for index, member in enumerate(self._members)}
        if free is not None:
            targets |= {member.name: (-1, 0) for member in self._plan.members if not member.value.possible}
        names = sorted(targets)
        self._emitter.meter.states(sum(map(len, names)) + 1, self._plan.pointer)
        return Names(tuple(names), tuple([targets[name][0] for name in names]),
                     tuple([targets[name][1] for name in names]), -1 if free is None else self._others(0))

    def _others(self, label: int) -> int:
        """The state behind a free key."""
        witnesses = self._plan.free_witnesses[label] if self._plan.free_witnesses else {}
        return self._value(self._plan.free_values[label], witnesses)

    def _keys(self, key: int, free: Dfa | None) -> bool:
        """The keys from their first character on, and what follows each. Whether each state is reached and ends."""
        builder, plan = self._builder, self._plan
        codes, ends = self._all_keys(free)
        if self._emitter.writing.spelling == "any":
            numbers = builder.characters(codes, key)
        else:
            numbers = builder.graft(self._emitter.text(codes).dfa, key)
        behind: dict[int, int] = {}
        for state, (declared, label) in ends.items():
            if declared >= 0:
                member = self._members[declared]
                builder.edge(numbers[state], 0x22, 0x22, self._value(member.value, member.witnesses), KEY + declared)
            elif plan.free_values[label].possible:
                if label not in behind:
                    behind[label] = self._others(label)
                builder.edge(numbers[state], 0x22, 0x22, behind[label], CLOSE_KEY)
        return len(ends) > 0 and len(self._members) == len(plan.members) and all(
            plan.free_values[label].possible for label in plan.labels.values())

    def _all_keys(self, free: Dfa | None) -> tuple[Dfa, _Ends]:
        names = [member.name for member in self._members]
        barred = [member.name for member in self._plan.members if not member.value.possible]
        trie = _trie(names + barred, self._emitter.meter)
        if free is ANY_CHARACTERS:
            return _with_others(trie, len(names))
        return _keyed(trie, len(names), free or NOTHING, self._plan.labels, self._emitter.meter)

    def _blanks(self, state: int) -> int:
        return self._builder.blanks(state, self._emitter.spacing)

    def _value(self, value: ValuePlan, witnesses: Witnesses) -> int:
        """The state after a key, one for all keys whose values are alike. witnesses: the value where it meets the
        demand of the object."""
        emitter, below = self._emitter, self._depth + 1
        calls = ((WRITTEN, emitter.value(value, below)),
                 *[(MEET, emitter.value(plan, below)) for plan in witnesses.values() if plan.possible])
        if calls not in self._behind:
            builder = self._builder
            state = self._behind[calls] = self._blanks(builder.state())
            before = self._blanks(builder.text(state, emitter.layout(self._depth).colon.encode()))
            for action, rule in calls:
                builder.call(before, rule, self._after, action)
        return self._behind[calls]


@dataclass(slots=True)
class _Trie:
    """rows[node]: the node behind each character. leaves[node]: which of the names ends there."""

    rows: list[dict[int, int]]
    leaves: dict[int, int]


def _trie(names: list[str], meter: Meter) -> _Trie:
    rows: list[dict[int, int]] = [{}]
    leaves: dict[int, int] = {}
    for index, name in enumerate(names):
        state = 0
        for character in name:
            if ord(character) not in rows[state]:
                rows[state][ord(character)] = len(rows)
                rows.append({})
            state = rows[state][ord(character)]
        leaves[state] = index
    meter.states(len(rows))
    return _Trie(rows, leaves)


def _with_others(trie: _Trie, declared: int) -> tuple[Dfa, _Ends]:
    """The first `declared` names of the trie, and as free keys of label 0 all that are no names of it."""
    others = len(trie.rows)
    edges = tuple([_filled(row, others) for row in trie.rows] + [_filled({}, others)])
    ends = {state: (trie.leaves.get(state, -1), 0) for state in range(others + 1)}
    ends = {state: end for state, end in ends.items() if end[0] < declared}
    return Dfa(edges, frozenset(ends)), ends


def _filled(row: dict[int, int], others: int) -> tuple[Edge, ...]:
    """Edges for these characters, and for all others to one state."""
    edges: list[Edge] = []
    at = 0
    for code in sorted(row):
        edges += _gap(at, code - 1, others)
        edges.append((code, code, row[code]))
        at = code + 1
    return (*edges, *_gap(at, 0x10FFFF, others))


def _gap(low: int, high: int, target: int) -> list[Edge]:
    """All characters from low to high: without halves of pairs."""
    if high < 0xD800 or low > 0xDFFF:
        return [(low, high, target)] if low <= high else []
    return [*_gap(low, 0xD7FF, target), *_gap(0xE000, high, target)]


def _keyed(trie: _Trie, declared: int, free: Dfa, labels: dict[int, int], meter: Meter) -> tuple[Dfa, _Ends]:
    """All keys as one automaton over characters: the nodes of the trie, then the free keys. The first `declared` names
    of the trie are no free keys, the others no keys at all."""
    nodes = len(trie.rows)
    beside = {0: 0}  # by node, where its text leads among the free keys
    rows: list[list[Edge]] = []
    for node, row in enumerate(trie.rows):
        rows.append(_beside(row, free.edges[beside[node]] if node in beside else (), beside, nodes))
    numbers = [*range(nodes), *[-1] * len(free.edges)]
    order: list[int] = []
    for target in [target for row in rows for _, _, target in row]:
        if numbers[target] < 0:
            numbers[target] = nodes + len(order)
            order.append(target - nodes)
    for state in order:  # grows while it runs
        for _, _, follower in free.edges[state]:
            if numbers[nodes + follower] < 0:
                numbers[nodes + follower] = nodes + len(order)
                order.append(follower)
    meter.states(len(order))
    edges = [tuple([(low, high, numbers[target]) for low, high, target in row]) for row in rows]
    beyond = numbers[nodes:]
    edges += [tuple([(low, high, beyond[target]) for low, high, target in free.edges[state]]) for state in order]
    ends = {node: (trie.leaves.get(node, -1), labels.get(beside.get(node, -1), -1)) for node in range(nodes)}
    ends |= {nodes + number: (-1, labels.get(state, -1)) for number, state in enumerate(order)}
    ends = {state: end for state, end in ends.items() if end[0] < declared and max(end) >= 0}
    return Dfa(tuple(edges), frozenset(ends)), ends


def _beside(row: dict[int, int], above: tuple[Edge, ...], beside: dict[int, int], nodes: int) -> list[Edge]:
    """Edges to the children of a node, and for all other characters those `above` of free keys, from `nodes` on. Notes
    where the children lie among these."""
    edges: list[Edge] = []
    codes = sorted(row, reverse=True)
    for low, high, target in above:
        while codes and codes[-1] <= high:
            code = codes.pop()
            if code >= low:
                edges += [(low, code - 1, nodes + target)] if low < code else []
                beside[row[code]], low = target, code + 1
            edges.append((code, code, row[code]))
        if low <= high:
            edges.append((low, high, nodes + target))
    return [*edges, *((code, code, row[code]) for code in reversed(codes))]


def one_demand_each(plan: ObjectPlan) -> list[ObjectPlan]:
    """Objects that together are the one of the plan, of which none has a demand that a declared property could meet,
    and none more than one. Raises ConstraintTooLarge."""
    if not plan.demands:
        return [plan]
    found: list[dict[int, int]] = []
    for chosen in _choices(plan, (1 << plan.demands) - 1, {}):
        if not any(_asks_less(other, chosen) for other in found):
            found = [*(other for other in found if not _asks_less(chosen, other)), chosen]
        if len(found) > _MAX_CHOICES:
            raise _too_many(plan)
    return [_chosen(plan, chosen) for chosen in found]


def _asks_less(one: dict[int, int], other: dict[int, int]) -> bool:
    """Every object that fits the other choice fits this one."""
    return all(met & other.get(who, 0) == met for who, met in one.items())


def _choices(plan: ObjectPlan, unmet: int, chosen: dict[int, int]) -> Iterator[dict[int, int]]:
    """Which members meet which demands, as bits; -1 stands for a free property. unmet: demands that are left."""
    if not unmet:
        yield chosen
        return
    demand = unmet & -unmet
    for who in (*range(len(plan.members)), -1):
        met = chosen.get(who, 0) | demand
        if who < 0 and who in chosen and any(_values(plan, who, demand)):  # perhaps by another free property
            raise _too_many(plan)
        able = _values(plan, who, met)
        if not any(able):
            continue
        for other in range(plan.demands):
            # What meets this demand may meet others whatever its value.
            if unmet >> other & 1 and _values(plan, who, met | 1 << other) == able:
                met |= 1 << other
        yield from _choices(plan, unmet & ~met, {**chosen, who: met})


def _values(plan: ObjectPlan, who: int, met: int) -> list[ValuePlan | None]:
    """The values with which a member meets these demands, or, for -1, each kind of free property."""
    witnesses = [plan.members[who].witnesses] if who >= 0 else plan.free_witnesses
    return [found.get(met) for found in witnesses]


def _too_many(plan: ObjectPlan) -> ConstraintTooLarge:
    return ConstraintTooLarge("negations here ask for properties in too many ways", keyword="not", where=plan.pointer,
                              fix="Combine fewer negations of objects.")


def _chosen(plan: ObjectPlan, chosen: dict[int, int]) -> ObjectPlan:
    """The object in which the members meet the demands that they are chosen for."""
    members = [replace(member, witnesses={}) for member in plan.members]
    for index, met in chosen.items():
        if index >= 0:
            members[index] = Member(members[index].name, plan.members[index].witnesses[met], True)
    left = chosen.get(-1, 0)
    witnesses = [{1: found[left]} if left in found else {} for found in plan.free_witnesses]
    return ObjectPlan(plan.pointer, members, plan.free, plan.labels, plan.free_values, plan.least, plan.most, witnesses,
                      int(left > 0))
