"""What of a configuration a mask depends on: the key under which finished masks are shared.

Registers are told apart only as far as the longest token can feel: two values of a register are one class when the
columns that the next `reach` counts lead through have the same distances, up to a constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arena import PARENT, REGISTER, RETURN
from .configuration import Configuration, Explorer
from .tables import BASE, COUNTER, FAR, HIGH, KIND, LOW, MEMBERS, PLAIN, PLATEAU, RULE, Layout, Tables
from .walk import NODE, REG, STATE

Key = tuple[Any, ...]
_BOTTOM = (-1, -1)


class Signatures:
    """Keys of configurations of one grammar. reach: bytes of the longest token."""

    def __init__(self, tables: Tables, layout: Layout, reach: int) -> None:
        self._tables = tables
        self._layout = layout
        self._reach = reach
        self._classes: dict[tuple[int, int], int] = {}
        self._windows: dict[tuple[int, bytes], int] = {}
        self._profiles: dict[int, tuple[Any, Any]] = {}

    def plateau(self, configuration: Configuration) -> int | None:
        """Where the register of a counter may stand for the one of this configuration: its masks are those with it,
        since no token comes near a bound. None otherwise, and for several threads."""
        if configuration.count > 1:
            return None
        state, register = configuration.first
        if self._tables.states[state, KIND] != COUNTER:
            return None
        low, plateau, high = self._tables.rules[self._tables.states[state, RULE], [LOW, PLATEAU, HIGH]].tolist()
        return low if low < register and high >= 0 and register + self._reach <= plateau else None

    def near(self, configuration: Configuration, explorer: Explorer) -> Key:
        """The part that every mask depends on: states, register classes, whether the text may end."""
        threads = configuration.threads.tolist()
        parts = [(t[STATE], self._register(t[STATE], t[REG], explorer)) for t in threads]
        return (configuration.distance == 0, *sorted(parts))

    def whole(self, configuration: Configuration, explorer: Explorer, costs: list[int], looked: int) -> Key:
        """near, and the frames that a walk looked into. costs: U of each thread, free keys aside."""
        nearest = min(costs)
        return (configuration.distance == 0, *sorted(
            (t[STATE], self._register(t[STATE], t[REG], explorer), cost - nearest,
             *self._frames(t[NODE], explorer, looked))
            for t, cost in zip(configuration.threads.tolist(), costs, strict=True)))

    def _frames(self, node: int, explorer: Explorer, looked: int) -> list[tuple[int, int]]:
        nodes = explorer.nodes
        frames: list[tuple[int, int]] = []
        while len(frames) < looked:
            if node == 0:
                frames.append(_BOTTOM)
                break
            state = int(nodes[node, RETURN])
            frames.append((state, self._register(state, int(nodes[node, REGISTER]), explorer)))
            node = int(nodes[node, PARENT])
        return frames

    def _register(self, state: int, register: int, explorer: Explorer) -> int:
        kind = self._tables.states[state, KIND]
        if kind == PLAIN:
            return 0
        if kind == MEMBERS:
            return explorer.class_of(state, register)
        rule = int(self._tables.states[state, RULE])
        if kind != COUNTER:
            return min(register, int(self._tables.rules[rule, LOW]))
        found = self._classes.get((rule, register))
        if found is None:
            window = self._window(rule, register)
            found = self._classes[rule, register] = self._windows.setdefault((rule, window), len(self._windows))
        return found

    def _window(self, rule: int, register: int) -> bytes:
        """What `reach` counts from this register can meet, as bytes."""
        low, plateau, high = (int(self._tables.rules[rule, c]) for c in (LOW, PLATEAU, HIGH))
        last = register + self._reach if high < 0 else min(high, register + self._reach)
        registers = np.arange(register, last + 1)
        columns = np.minimum(registers, low) + np.maximum(0, registers - plateau)
        shapes, nearest = self._profile(rule)
        return bytes(shapes[columns].tobytes() + (nearest[columns] - nearest[columns[0]]).tobytes())

    def _profile(self, rule: int) -> tuple[Any, Any]:
        """(shape id, least distance) of each column of a rule. Equal shapes: equal distances up to that least one."""
        if rule not in self._profiles:
            states, columns = int(self._layout.flat.states[rule]), self._layout.columns[rule]
            base = int(self._tables.states[self._layout.offsets[rule], BASE])
            distance = self._tables.distance[base: base + states * columns].reshape(states, columns)
            nearest = distance.min(axis=0)
            shape = np.where(distance < FAR, distance - nearest, FAR).astype(np.int32)
            shape = np.concatenate([shape, (nearest == 0)[None, :].astype(np.int32)])
            _, shapes = np.unique(shape, axis=1, return_inverse=True)
            self._profiles[rule] = (shapes.reshape(-1).astype(np.int32), nearest.astype(np.int32))
        return self._profiles[rule]
