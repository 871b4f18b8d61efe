"""Grammars as trees, their GBNF text, and a recogniser too simple to be wrong: which parts of a text each rule derives,
as the least fixed point over all rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from hypothesis import strategies as st

# ("text", "ab") | ("class", "ab") | ("rule", "r1") | ("seq", [..]) | ("alt", [..]) | ("rep", tree, low, high or None)
Tree = tuple
Spans = frozenset[tuple[int, int]]


class Derivations:
    def __init__(self, rules: dict[str, Tree]) -> None:
        self.rules = rules

    def accepts(self, text: str, root: str = "root") -> bool:
        table: dict[str, Spans] = dict.fromkeys(self.rules, frozenset())
        changed = True
        while changed:
            changed = False
            for name, tree in self.rules.items():
                found = self._spans(tree, text, table)
                changed = changed or found != table[name]
                table[name] = found
        return (0, len(text)) in table[root]

    def begins(self, text: str, root: str = "root") -> bool:
        """Whether some derived text begins with this one. Every rule must derive something."""
        spans: dict[str, Spans] = dict.fromkeys(self.rules, frozenset())
        cut: dict[str, frozenset[int]] = dict.fromkeys(self.rules, frozenset([len(text)]))
        changed = True
        while changed:
            changed = False
            for name, tree in self.rules.items():
                found = self._spans(tree, text, spans), self._cut(tree, text, spans, cut)
                changed = changed or found != (spans[name], cut[name])
                spans[name], cut[name] = found
        return 0 in cut[root]

    def _cut(self, tree: Tree, text: str, spans: dict[str, Spans], cut: dict[str, frozenset[int]]) -> frozenset[int]:
        """The places from which the rest of the text begins something that the tree derives."""
        kind, body = tree[0], tree[1]
        end = len(text)
        if kind == "text":
            return frozenset(i for i in range(end + 1) if body.startswith(text[i:]))
        if kind == "class":
            return frozenset(i for i in range(end + 1) if i == end or (i == end - 1 and text[i] in body))
        if kind == "rule":
            return cut[body]
        if kind == "alt":
            return frozenset().union(*(self._cut(part, text, spans, cut) for part in body))
        if kind == "seq":
            found = frozenset([end])
            for part in reversed(body):
                inner = self._spans(part, text, spans)
                found = self._cut(part, text, spans, cut) | {i for i, j in inner if j in found}
            return found
        once, inner = self._cut(body, text, spans, cut), self._spans(body, text, spans)
        found = frozenset([end])
        for _ in range(tree[2] + (end + 1 if tree[3] is None else tree[3] - tree[2])):
            found = found | once | {i for i, j in inner if j in found}
        return found

    def _spans(self, tree: Tree, text: str, table: dict[str, Spans]) -> Spans:
        kind, body = tree[0], tree[1]
        if kind == "text":
            return frozenset((i, i + len(body)) for i in range(len(text) + 1) if text.startswith(body, i))
        if kind == "class":
            return frozenset((i, i + 1) for i, c in enumerate(text) if c in body)
        if kind == "rule":
            return table[body]
        if kind == "alt":
            return frozenset().union(*(self._spans(part, text, table) for part in body))
        if kind == "seq":
            found = _nothing(text)
            for part in body:
                found = _joined(found, self._spans(part, text, table))
            return found
        return _repeated(self._spans(body, text, table), tree[2], tree[3], text)


def _nothing(text: str) -> Spans:
    return frozenset((i, i) for i in range(len(text) + 1))


def _joined(first: Spans, second: Spans) -> Spans:
    return frozenset((i, k) for i, j in first for jj, k in second if j == jj)


def _repeated(once: Spans, low: int, high: int | None, text: str) -> Spans:
    found = _nothing(text)
    for _ in range(low):
        found = _joined(found, once)
    rounds = len(text) + 1 if high is None else high - low
    for _ in range(rounds):
        found |= _joined(found, once)
    return found


@dataclass(frozen=True, slots=True)
class Dialect:
    """letters: a class, around its letters. nothing: an empty sequence. counted: a tree, written, low to high times."""

    letters: str
    nothing: str
    counted: Callable[[str, int, int | None], str]

    def spelled(self, tree: Tree) -> str:
        kind, body = tree[0], tree[1]
        if kind == "text":
            return f'"{body}"'
        if kind == "class":
            return self.letters.format(body)
        if kind == "rule":
            return body
        if kind in ("alt", "seq"):
            return f"({(' | ' if kind == 'alt' else ' ').join(map(self.spelled, body))})" if body else self.nothing
        suffix, once = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((tree[2], tree[3])), self.spelled(body)
        return f"({once}){suffix}" if suffix else self.counted(once, tree[2], tree[3])


GBNF = Dialect("[{}]", '""', lambda once, low, high: f"({once}){{{low},{'' if high is None else high}}}")
LARK = Dialect("/[{}]/", "()", lambda once, low, high: (
    f"(({once})~{low} ({once})*)" if high is None else f"({once})~{low}..{high}"))


def gbnf(rules: dict[str, Tree]) -> str:
    return "\n".join(f"{name} ::= {GBNF.spelled(tree)}" for name, tree in rules.items())


def lark(rules: dict[str, Tree]) -> str:
    return "\n".join(f"{name}: {LARK.spelled(tree)}" for name, tree in rules.items())


def texts(letters: str, longest: int) -> list[str]:
    return ["".join(text) for n in range(longest + 1) for text in product(letters, repeat=n)]


NAMES = ("root", "r1", "r2", "r3")


def trees(names: tuple[str, ...]) -> st.SearchStrategy[Tree]:
    leaves = st.one_of(
        st.sampled_from(["a", "b", "ab", "c", ""]).map(lambda text: ("text", text)),
        st.sampled_from(["ab", "bc", "a"]).map(lambda text: ("class", text)),
        st.sampled_from(names).map(lambda name: ("rule", name)),
        st.sampled_from(names).map(lambda name: ("rule", name)),
    )
    bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 3), (0, 2), (2, None)])

    def larger(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.one_of(
            st.lists(inner, max_size=3).map(lambda parts: ("seq", tuple(parts))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("alt", tuple(parts))),
            st.tuples(inner, bounds).map(lambda pair: ("rep", pair[0], *pair[1])),
        )

    return st.recursive(leaves, larger, max_leaves=6)


@st.composite
def grammars(draw: st.DrawFn) -> dict[str, Tree]:
    """Up to four rules over a, b and c that mention each other in any way."""
    names = NAMES[: draw(st.integers(1, 4))]
    return {name: draw(trees(names)) for name in names}
