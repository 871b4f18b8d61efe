"""The rule of an object: declared properties in order, then free keys that never repeat.

Which property may come next is a place in the order, and a place only matters as far as the key read so far can still
reach it: a state is (node of the trie of keys, range of properties below it). That keeps the states linear in the
text of the keys for any mixture of required and optional, without a register and without a dead end. The register only
remembers free keys.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..automata.build import RuleBuilder
from ..automata.utf8 import ByteDfa, json_string
from ..errors import ConstraintTooLarge
from ..ir import CLOSE_KEY, OPEN_KEY, Order, Rule
from ..schemas.json_text import spell_string
from ..schemas.strings import ANY_CHARACTERS
from .plan import Member, ObjectPlan, ValuePlan, Witnesses

if TYPE_CHECKING:
    from .emit import Emitter

# Numbers of properties that must be told apart, times the properties.
_MAX_COUNTED = 20_000


# Properties written so far (as far as they are told apart), and the demands that they meet, as bits.
_Tally = tuple[int, int]


@dataclass(slots=True)
class _Node:
    """below: sorted indices of the properties whose keys go through here."""

    below: list[int] = field(default_factory=list)
    children: dict[int, _Node] = field(default_factory=dict)
    leaf: int = -1


class ObjectEmitter:
    def __init__(self, emitter: Emitter, plan: ObjectPlan, depth: int) -> None:
        self._emitter = emitter
        self._plan = plan
        self._depth = depth
        self._layout = emitter.layout(depth)
        self._builder = RuleBuilder(f"object at {plan.pointer}", plan.pointer, emitter.meter)
        self._end = self._builder.state()
        self._members: list[Member] = [m for m in plan.members if m.value.possible]
        self._required = [i for i, member in enumerate(self._members) if member.required]
        self._trie = _trie([spell_string(member.name)[1:].encode() for member in self._members])
        self._free = self._free_keys()
        self._cap = self._count_cap()
        self._key_states: dict[tuple[int, int, int, _Tally], int] = {}
        self._key_queue: list[tuple[_Node, int, int, _Tally]] = []
        self._value_states: dict[tuple[int, _Tally], int] = {}
        self._after_states: dict[tuple[int, _Tally], int] = {}
        self._after_queue: list[tuple[int, _Tally]] = []
        self._free_states: dict[_Tally, int] = {}

    def rule(self) -> Rule:
        builder = self._builder
        opened = self._blanks(builder.text(0, b"{"))
        if self._may_close(0, (0, 0)):
            builder.text(opened, b"}", self._end)
        inside = self._layout.inside.encode()
        self._keys(0, b"{", opened, inside, 0, (0, 0))
        while self._after_queue or self._key_queue:
            while self._after_queue:
                self._after(*self._after_queue.pop())
            while self._key_queue:
                self._key_edges(*self._key_queue.pop())
        builder.final(self._end)
        return builder.finish(Order((), True) if self._free_states else None)

    # What may come

    def _count_cap(self) -> int:
        """Numbers of written properties above this are not told apart."""
        plan = self._plan
        enough = plan.most is not None and self._free is None and len(self._members) <= plan.most
        most = None if enough else plan.most
        needed = len(self._required)
        cap = most if most is not None else (plan.least if plan.least > needed else 0)
        if cap * (len(self._members) + 1) << plan.demands > _MAX_COUNTED:
            raise ConstraintTooLarge("minProperties or maxProperties is too large to count here",
                                     keyword="maxProperties", where=self._plan.pointer, fix="Use a smaller bound.")
        self._most = most
        return cap

    def _next(self, count: _Tally, met: int = 0) -> _Tally:
        """After one more property that meets the demands `met`."""
        return min(count[0] + 1, self._cap), count[1] | met

    def _full(self, count: _Tally) -> bool:
        return self._most is not None and count[0] >= self._most

    def _first_required(self, place: int) -> int | None:
        at = bisect_left(self._required, place)
        return self._required[at] if at < len(self._required) else None

    def _may_close(self, place: int, count: _Tally) -> bool:
        if count[1] != (1 << self._plan.demands) - 1:
            return False
        implied = self._cap == 0 and self._plan.least <= len(self._required)
        return self._first_required(place) is None and (implied or count[0] >= self._plan.least)

    # States

    def _keys(self, source: int, lead: bytes, opened: int | None, tail: bytes, place: int, count: _Tally) -> None:
        """From `source`, read `lead` (and `tail`) and go on to the keys that may come at `place`. opened: the state
        after `lead` when it exists already. Where declared and free keys may both come, the free ones sit behind a call
        of a rule that reads the same bytes, because two edges on one byte cannot compete."""
        if self._full(count):
            return
        builder = self._builder
        required = self._first_required(place)
        high = len(self._members) - 1 if required is None else required
        declared = place <= high
        free = self._free is not None and required is None
        if declared:
            state = opened if opened is not None else self._blanks(builder.text(source, lead))
            state = builder.text(state, tail) if tail else state
            builder.edge(state, 0x22, 0x22, self._key(self._trie, place, high, count))
        if free and declared:
            between = self._blanks(builder.state())
            builder.call(source, self._emitter.fixed(lead + tail), between)
            builder.edge(between, 0x22, 0x22, self._free_key(count), OPEN_KEY)
        elif free:
            state = opened if opened is not None else self._blanks(builder.text(source, lead))
            state = builder.text(state, tail) if tail else state
            builder.edge(state, 0x22, 0x22, self._free_key(count), OPEN_KEY)

    def _after(self, place: int, count: _Tally) -> None:
        """After a value; `place` is the first property that may still come."""
        state = self._after_states[place, count]
        if self._may_close(place, count):
            self._builder.text(state, self._layout.outside.encode() + b"}", self._end)
        self._keys(state, self._layout.comma.encode(), None, b"", place, count)

    def _blanks(self, state: int) -> int:
        return self._builder.blanks(state, self._emitter.spacing)

    def _after_state(self, place: int, count: _Tally) -> int:
        key = (place, count)
        if key not in self._after_states:
            self._after_states[key] = self._blanks(self._builder.state())
            self._after_queue.append(key)
        return self._after_states[key]

    def _key(self, node: _Node, low: int, high: int, count: _Tally) -> int:
        """The state inside a declared key; low..high: the properties that may come."""
        first = bisect_left(node.below, low)
        last = bisect_right(node.below, high) - 1
        key = (id(node), first, last, count)
        if key not in self._key_states:
            self._key_states[key] = self._builder.state()
            self._key_queue.append((node, node.below[first], node.below[last], count))
        return self._key_states[key]

    def _key_edges(self, node: _Node, low: int, high: int, count: _Tally) -> None:
        first = bisect_left(node.below, low)
        state = self._key_states[id(node), first, bisect_right(node.below, high) - 1, count]
        for byte, child in node.children.items():
            at = bisect_left(child.below, low)
            if at == len(child.below) or child.below[at] > high:
                continue
            target = self._value(child.leaf, count) if child.leaf >= 0 else self._key(child, low, high, count)
            self._builder.edge(state, byte, byte, target)

    def _value(self, index: int, count: _Tally) -> int:
        """The state after the key of property `index`."""
        key = (index, count)
        if key not in self._value_states:
            state = self._value_states[key] = self._blanks(self._builder.state())
            before = self._blanks(self._builder.text(state, self._layout.colon.encode()))
            self._values(before, self._members[index].value, self._members[index].witnesses, index + 1, count)
        return self._value_states[key]

    def _values(self, before: int, value: ValuePlan, witnesses: Witnesses, place: int, count: _Tally) -> None:
        """The value of a property, once for each set of open demands that it may meet."""
        options = {0: value} | {met: plan for met, plan in witnesses.items() if not met & count[1] and plan.possible}
        for met, plan in options.items():
            if any(plan is other and met & more == met != more for more, other in options.items()):
                continue  # the same value meets more
            rule = self._emitter.value(plan, self._depth + 1)
            self._builder.call(before, rule, self._after_state(place, self._next(count, met)))

    # Free keys

    def _witnesses_of(self, label: int) -> Witnesses:
        return self._plan.free_witnesses[label] if self._plan.free_witnesses else {}

    def _free_keys(self) -> ByteDfa | None:
        if self._plan.free is None or not any(value.possible for value in self._plan.free_values):
            return None
        meter = self._emitter.meter
        if self._plan.free is not ANY_CHARACTERS:
            return json_string(self._plan.free, meter)
        return meter.shared("any key", lambda: json_string(ANY_CHARACTERS, meter), lambda keys: keys.dfa.size)

    def _free_key(self, count: _Tally) -> int:
        """The state inside a free key."""
        if count in self._free_states:
            return self._free_states[count]
        builder, keys = self._builder, self._free
        if keys is None:
            raise ValueError("an object without free keys has no state for them")
        start = self._free_states[count] = builder.state()
        numbers = builder.graft(keys.dfa, start)
        ends: dict[int, int] = {}
        for state, label in self._plan.labels.items():
            value = self._plan.free_values[label]
            if not value.possible:
                continue
            if label not in ends:
                ends[label] = self._blanks(builder.state())
                before = self._blanks(builder.text(ends[label], self._layout.colon.encode()))
                self._values(before, value, self._witnesses_of(label), len(self._members), count)
            builder.edge(numbers[state], 0x22, 0x22, ends[label], CLOSE_KEY)
        return start


def _trie(keys: list[bytes]) -> _Node:
    """The keys end in a quote that is in no key, so a leaf has no children."""
    root = _Node(list(range(len(keys))))
    for index, key in enumerate(keys):
        node = root
        for byte in key:
            node = node.children.setdefault(byte, _Node())
            node.below.append(index)
        node.leaf = index
    return root


