"""Lark grammars, read without a lexer: a terminal is a set of texts, and priorities and longest matches do not exist.

Ignored text may stand before each terminal of a rule and at the end. Where every ignored terminal is bounded, one of
them may stand in a gap; else any number. A template is read again for each list of arguments it is used with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..automata.components import components
from ..automata.dfa import longest
from ..automata.trees import Alternatives, Repeat, Sequence
from ..errors import ConstraintTooLarge, InvalidConstraint
from ..limits import Meter
from .lark_bodies import BodyReader, inner, references
from .lark_syntax import LIBRARY, Definition, Statements, is_terminal, read_statements
from .lark_tokens import Word
from .productions import Automaton, Node, Production, Reference, Source

START = "%start"
_GAP = Reference("%gap", "")
_IGNORED = "%ignored"
_INSTANCES = 2_000  # templates with their arguments


def read_lark(text: str, start: str, meter: Meter) -> list[Production]:
    """The rules, and one more by the name START: what `start` reads, and ignored text behind it.

    Raises InvalidConstraint, UnsupportedKeyword or ConstraintTooLarge with line and column.
    """
    source = Source(text, "lark", meter)
    return _Meaning(source, read_statements(source)).productions(start)


class _Meaning:
    """Definitions become productions when something mentions them."""

    def __init__(self, source: Source, given: Statements) -> None:
        self._source = source
        self._given = given
        self._library = self._read_library()
        self._gap = _GAP if given.ignored else None
        self._instances: dict[tuple[str, tuple[Node, ...]], str] = {}
        self._pending: list[tuple[str, Definition, Mapping[str, Node]]] = []
        self._queued: set[str] = set()
        self._found: dict[str, Production] = {}

    def _read_library(self) -> dict[str, Definition]:
        """The definitions of the library, when something is imported; checks the imports."""
        if not self._given.imports:
            return {}
        path = Path(__file__).parents[1] / "data" / f"{LIBRARY}.lark"
        text = path.read_text(encoding="utf-8")
        known = read_statements(Source(text, LIBRARY, self._source.meter), f"{LIBRARY}.").definitions
        self._source.rule = "%import"
        for alias, name, at in self._given.imports:
            if name not in known:
                raise self._source.invalid(f"the library {LIBRARY} has no {name}", at,
                                           fix=f"It has {', '.join(sorted(known))}.")
            if alias in self._given.definitions:
                raise self._source.invalid(f"{alias} is imported and defined", at)
        return known

    def productions(self, start: str) -> list[Production]:
        for name, definition in self._given.definitions.items():
            if not definition.parameters:
                self._queue(name, definition, {})
        for alias, name, at in self._given.imports:
            where = self._source.place(at)
            self._found[alias] = Production(alias, self._of_library(name, where), where)
        self._read_pending()
        if start not in self._found:
            raise InvalidConstraint(f"there is no rule {start}", keyword=start, where="line 1, column 1",
                                    fix="Define it, or name another rule as the start.")
        self._read_gap()
        self._check_terminals()
        where = self._found[start].where
        whole = Sequence((Reference(start, where), *((_GAP,) if self._gap else ())))
        return [*self._found.values(), Production(START, whole, where)]

    def _read_pending(self) -> None:
        for name, definition, bound in self._pending:  # grows while it runs
            where = definition.source.place(definition.at)
            self._found[name] = Production(name, self._body(definition, bound), where)
        self._pending.clear()

    def _body(self, definition: Definition, bound: Mapping[str, Node]) -> Node:
        return BodyReader(definition, bound, self._resolve, self._gap).read()

    # Mentions

    def _resolve(self, word: Word, arguments: tuple[Node, ...] | None, inside: Definition) -> Node:
        where = inside.source.place(word.at)
        if inside.prefix:
            return self._of_library(word.text, where)
        definition = self._given.definitions.get(word.text)
        given = len(arguments or ())
        expected = len(definition.parameters) if definition is not None else 0
        if given != expected:
            raise inside.source.invalid(f"{word.text} takes {expected} arguments, not {given}", word.at)
        if definition is None or not arguments:
            return Reference(word.text, where)
        return Reference(self._instance(definition, arguments, where), where)

    def _of_library(self, name: str, where: str) -> Node:
        full = f"{LIBRARY}.{name}"
        if full not in self._queued:
            self._queue(full, self._library[name], {})
        return Reference(full, where)

    def _instance(self, definition: Definition, arguments: tuple[Node, ...], where: str) -> str:
        """The name of a template with these arguments."""
        key = (definition.name, tuple(_placeless(argument) for argument in arguments))
        if key not in self._instances:
            if len(self._instances) >= _INSTANCES:
                raise ConstraintTooLarge(f"templates are used with more than {_INSTANCES} lists of arguments",
                                         keyword=definition.name, where=where, fix="Use templates less deeply.")
            name = self._instances[key] = f"{definition.name}{{{len(self._instances) + 1}}}"
            self._queue(name, definition, dict(zip(definition.parameters, arguments, strict=True)))
        return self._instances[key]

    def _queue(self, name: str, definition: Definition, bound: Mapping[str, Node]) -> None:
        self._queued.add(name)
        self._pending.append((name, definition, bound))

    # Ignored text

    def _read_gap(self) -> None:
        if self._gap is None:
            return
        bodies = [self._body(definition, {}) for definition in self._given.ignored]
        self._read_pending()
        where = self._source.place(self._given.ignored[0].at)
        most = None if any(self._endless(body) for body in bodies) else 1
        self._found[_IGNORED] = Production(_IGNORED, Alternatives(tuple(bodies)), where)
        self._found[_GAP.name] = Production(_GAP.name, Repeat(Reference(_IGNORED, where), 0, most), where)

    def _endless(self, tree: Node) -> bool:
        """Whether the texts of a tree have no longest."""
        stack, seen = [tree], set[str]()
        while stack:
            node = stack.pop()
            if isinstance(node, Reference):
                if node.name not in seen and node.name in self._found:
                    seen.add(node.name)
                    stack.append(self._found[node.name].body)
            elif (isinstance(node, Repeat) and node.maximum is None) or (
                    isinstance(node, Automaton) and longest(node.dfa) is None):
                return True
            else:
                stack.extend(inner(node))
        return False

    # Checks

    def _check_terminals(self) -> None:
        """Terminals are made of terminals, and not of themselves."""
        names = list(self._found)
        numbers = {name: i for i, name in enumerate(names)}
        mentioned: list[list[int]] = []
        for name, production in self._found.items():
            mentions = references(production.body) if is_terminal(name) else []
            for reference in mentions:
                if not is_terminal(reference.name):
                    raise InvalidConstraint(f"the terminal {name} is made of the rule {reference.name}", keyword=name,
                                            where=reference.where, fix="Write it as a rule.")
            mentioned.append([numbers[reference.name] for reference in mentions if reference.name in numbers])
        for component in components(mentioned, range(len(names))):
            if len(component) > 1 or component[0] in mentioned[component[0]]:
                name = names[component[0]]
                raise InvalidConstraint(f"the terminal {name} is made of itself", keyword=name,
                                        where=self._found[name].where, fix="Write it as a rule.")


def _placeless(node: Node) -> Node:
    """An argument without the places of its mentions, so that equal ones are equal."""
    if isinstance(node, Reference):
        return Reference(node.name, "")
    if isinstance(node, Sequence):
        return Sequence(tuple(_placeless(part) for part in node.parts))
    return node
