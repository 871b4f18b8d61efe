"""The statements of a Lark grammar: definitions with their bodies still as words, imports, ignored terminals."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import UnsupportedKeyword
from .lark_tokens import Statement, Word, statements
from .productions import Source

LIBRARY = "common"
_REFUSED = {
    "%declare": "a declared terminal has no text", "%override": "no grammar is imported whole",
    "%extend": "no grammar is imported whole",
}


@dataclass(frozen=True, slots=True)
class Definition:
    """name: as it is written, with `prefix` before it for a library's. body: the words behind the colon."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Word, ...]
    at: int
    source: Source
    prefix: str = ""


@dataclass(slots=True)
class Statements:
    """imports: (name here, name in the library, place)."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    ignored: list[Definition] = field(default_factory=list)
    imports: list[tuple[str, str, int]] = field(default_factory=list)


def is_terminal(name: str) -> bool:
    return name.rpartition(".")[2].lstrip("_%")[:1].isupper()


def read_statements(source: Source, prefix: str = "") -> Statements:
    """Raises InvalidConstraint or UnsupportedKeyword with line and column."""
    reader = _Reader(source, prefix)
    for statement in statements(source):
        reader.statement(statement)
    return reader.found


class _Reader:
    def __init__(self, source: Source, prefix: str) -> None:
        self._source = source
        self._prefix = prefix
        self.found = Statements()

    def statement(self, statement: Statement) -> None:
        first = statement.words[0]
        self._source.rule = ""
        if first.kind != "directive":
            self._define(statement)
        elif first.text == "%ignore":
            body = statement.words[1:]
            self.found.ignored.append(Definition("%IGNORE", (), body, first.at, self._source, self._prefix))
        elif first.text == "%import":
            self._import(statement)
        else:
            reason = _REFUSED.get(first.text, "it is not a directive of Lark")
            raise UnsupportedKeyword(f"{first.text} is not supported: {reason}", keyword=first.text,
                                     where=self._source.place(first.at), fix="Write the rule or terminal itself.")

    def _define(self, statement: Statement) -> None:
        words = statement.words
        at = 0
        while at < len(words) - 1 and words[at].text in ("?", "!"):  # they shape the tree, not the language
            at += 1
        name = words[at]
        if name.kind not in ("rule", "terminal"):
            raise self._source.invalid(f"expected the name of a rule or terminal, not {name.text!r}", name.at)
        self._source.rule = name.text
        if name.text in self.found.definitions:
            raise self._source.invalid(f"{name.text} is defined twice", name.at)
        parameters, at = self._parameters(words, at + 1)
        if at + 1 < len(words) and words[at].text == "." and words[at + 1].kind == "number":
            at += 2  # a priority chooses between readings of a text, not between texts
        if at >= len(words) or words[at].text != ":":
            place = words[at].at if at < len(words) else statement.end
            raise self._source.invalid(f"expected a colon after {name.text}", place)
        self._add(Definition(name.text, parameters, words[at + 1:], name.at, self._source, self._prefix))

    def _parameters(self, words: tuple[Word, ...], at: int) -> tuple[tuple[str, ...], int]:
        """`{a, b}`, when it stands at `at`, and the place after it."""
        if at >= len(words) or words[at].text != "{":
            return (), at
        end = next((i for i in range(at, len(words)) if words[i].text == "}"), at)
        names, commas = words[at + 1:end:2], words[at + 2:end:2]
        fits = len(commas) == len(names) - 1 and all(comma.text == "," for comma in commas)
        distinct = {name.text for name in names if name.kind == "rule"}
        if not fits or len(distinct) < len(names):
            raise self._source.invalid("the parameters of a template are {a, b}, each once", words[at].at)
        return tuple(name.text for name in names), end + 1

    def _add(self, definition: Definition) -> None:
        self.found.definitions[definition.name] = definition

    # Imports

    def _import(self, statement: Statement) -> None:
        """`%import common.A`, `%import common.A -> B` or `%import common (A, B)`."""
        words = statement.words
        path = [words[1]] if len(words) > 1 else []
        if not path or path[0].text != LIBRARY:
            place = words[min(1, len(words) - 1)].at
            raise UnsupportedKeyword(f"only terminals of the library {LIBRARY} can be imported", keyword="%import",
                                     where=self._source.place(place), fix="Write the terminal itself.")
        if len(words) > 2 and words[2].text == "(":
            names = words[3:-1:2]
            fits = words[-1].text == ")" and all(comma.text == "," for comma in words[4:-1:2])
            aliases = names
        else:
            names = words[3:4]
            fits = words[2:3] != () and words[2].text == "."
            aliases = words[5:6] or names
            fits = fits and (len(words) == 4 or (len(words) == 6 and words[4].text == "->"))
        if not fits or not names or any(name.kind not in ("terminal", "rule") for name in (*names, *aliases)):
            raise self._source.invalid("an import is %import common.NAME, with -> ALIAS or (NAME, NAME)", words[0].at)
        self.found.imports += [(alias.text, name.text, name.at) for alias, name in zip(aliases, names, strict=True)]
