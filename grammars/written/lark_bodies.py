"""The body of one definition of a Lark grammar becomes a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..automata.trees import Alternatives, Repeat, Sequence
from ..errors import UnsupportedKeyword
from .lark_syntax import Definition, is_terminal
from .lark_terminals import letters, regex, string
from .lark_tokens import Word
from .productions import Group, Node, Reference

_CLOSING = {"(": ")", "[": "]"}
_REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
# What a mention of a name, with arguments or without, stands for.
Resolve = Callable[[Word, tuple[Node, ...] | None, Definition], Node]


class BodyReader:
    """bound: the parameters of a template. gap: what may stand before each terminal of a rule; None: nothing.

    Iterative for groups; only templates inside the arguments of templates cost Python stack.
    """

    def __init__(self, definition: Definition, bound: Mapping[str, Node], resolve: Resolve, gap: Node | None) -> None:
        self._definition = definition
        self._source = definition.source
        self._words = definition.body
        self._bound = bound
        self._resolve = resolve
        self._gap = None if is_terminal(definition.name) else gap
        self._at = 0

    def read(self) -> Node:
        """Raises InvalidConstraint, UnsupportedKeyword or ConstraintTooLarge with line and column."""
        self._source.rule = self._definition.name
        groups = [Group("", self._definition.at, [], [])]
        while self._at < len(self._words):
            word = self._words[self._at]
            if word.text in _CLOSING:
                self._at += 1
                self._source.check_depth(len(groups), word.at)
                groups.append(Group(word.text, word.at, [], []))
            elif word.text in (")", "]"):
                self._at += 1
                groups[-2:] = self._closed(groups, word)
            elif word.text == "|":
                self._at += 1
                groups[-1].bar()
            elif word.text == "->":
                self._alias(word)
            else:
                groups[-1].parts.append(self._repeated(self._value(0)))
        if len(groups) > 1:
            raise self._source.invalid("a group is not closed", groups[-1].at)
        return groups[0].close()

    def _closed(self, groups: list[Group], word: Word) -> list[Group]:
        """The last two groups become one."""
        if _CLOSING.get(groups[-1].opening) != word.text:
            raise self._source.invalid(f"{word.text!r} closes nothing", word.at)
        inner = groups[-1].close()
        node = Repeat(inner, 0, 1) if word.text == "]" else inner
        groups[-2].parts.append(self._repeated(node))
        return [groups[-2]]

    def _alias(self, arrow: Word) -> None:
        """`-> name` names a branch of the tree."""
        name = self._peek(1)
        if name is None or name.kind not in ("rule", "terminal"):
            raise self._source.invalid("an alias is -> name", arrow.at)
        self._at += 2
        following = self._peek()
        if following is not None and following.text not in ("|", ")", "]"):
            raise self._source.invalid("an alias ends its alternative", following.at)

    def _repeated(self, node: Node) -> Node:
        """`*`, `+`, `?`, `~n` or `~n..m` behind a value."""
        operator = self._peek()
        if operator is not None and operator.text in _REPEATS:
            self._at += 1
            return self._source.repeat(node, *_REPEATS[operator.text], operator.at)
        if operator is None or operator.text != "~":
            return node
        self._at += 1
        low = high = self._count(operator)
        if self._text() == "..":
            self._at += 1
            high = self._count(operator)
        return self._source.repeat(node, low, high, operator.at)

    def _count(self, operator: Word) -> int:
        number = self._peek()
        if number is None or not number.text.isdigit():
            raise self._source.invalid("a repetition is ~n or ~n..m", operator.at)
        self._at += 1
        return self._source.number(number.text, number.at)

    # Values

    def _value(self, depth: int) -> Node:
        word = self._words[self._at]
        self._at += 1
        if word.kind == "string":
            last = self._peek(1)
            if self._text() == ".." and last is not None and last.kind == "string":
                self._at += 2
                return self._spaced(letters(word, last, self._source))
            return self._spaced(string(word, self._source))
        if word.kind == "regex":
            return self._spaced(regex(word, self._source))
        if word.text.startswith("%"):
            raise UnsupportedKeyword(
                f"{word.text} inside a rule is not supported", keyword=word.text, where=self._source.place(word.at),
                fix="Use tags: each holds a schema, a regular expression or a grammar of its own.")
        if word.kind not in ("rule", "terminal"):
            raise self._source.invalid(f"unexpected {word.text!r}", word.at)
        arguments = self._arguments(word, depth) if self._text() == "{" else None
        if word.text in self._bound and arguments is None:
            return self._bound[word.text]
        node = self._resolve(word, arguments, self._definition)
        return self._spaced(node) if word.kind == "terminal" else node

    def _spaced(self, terminal: Node) -> Node:
        return terminal if self._gap is None else Sequence((self._gap, terminal))

    def _arguments(self, name: Word, depth: int) -> tuple[Node, ...]:
        """`{a, "b", other{c}}` behind the name of a template."""
        if depth > 16:
            raise self._source.invalid("templates are nested deeper than 16 in one mention", name.at,
                                       fix="Give the inner mentions rules of their own.")
        found: list[Node] = []
        while not found or self._text() == ",":
            self._at += 1
            if self._peek() is None:
                break
            found.append(self._value(depth + 1))
        if self._text() != "}":
            raise self._source.invalid("the arguments of a template are {a, b}", name.at)
        self._at += 1
        return tuple(found)

    # Reading

    def _peek(self, ahead: int = 0) -> Word | None:
        place = self._at + ahead
        return self._words[place] if place < len(self._words) else None

    def _text(self) -> str:
        word = self._peek()
        return "" if word is None else word.text


def references(tree: Node) -> list[Reference]:
    """The mentions in a tree."""
    found: list[Reference] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Reference):
            found.append(node)
        else:
            stack.extend(inner(node))
    return found


def inner(node: Node) -> tuple[Node, ...]:
    """The parts of a node."""
    if isinstance(node, Sequence):
        return node.parts
    if isinstance(node, Repeat):
        return (node.body,)
    return node.options if isinstance(node, Alternatives) else ()
