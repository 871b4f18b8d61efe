"""Patterns that begin with certain characters: what follows those is an expression of its own, which patterns share."""

from __future__ import annotations

from ..automata.charset import Ranges
from ..automata.dfa import NOTHING, Dfa
from ..automata.trees import Alternatives, Chars, Repeat, Sequence
from .regex_syntax import Assertion, Look, Node

_SHORT = 3  # leads of fewer characters save nothing
# Nesting up to which expressions are compared with each other, which is recursive.
_DEEPEST = 50


def without_lead(tree: Node) -> tuple[list[Ranges], Node] | None:
    """The sets of the first characters of an expression that begins with `^`, and `^` with what follows them; None
    where that is not worth it, or where what follows could look back."""
    lead: list[Ranges] = []
    rest = [tree]  # the next part last
    while rest and isinstance(rest[-1], Chars | Sequence | Assertion):
        part = rest.pop()
        if isinstance(part, Sequence):
            rest += reversed(part.parts)
        elif isinstance(part, Chars) and lead:
            lead.append(part.ranges)
        elif isinstance(part, Assertion) and part.kind == "start" and not lead:
            lead.append(())  # stands for `^`
        else:
            rest.append(part)
            break
    if len(lead) <= _SHORT or not all(map(_looks_ahead, rest)):
        return None
    return lead[1:], Sequence((Assertion("start"), *reversed(rest)))


def _looks_ahead(tree: Node) -> bool:
    stack: list[tuple[Node, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > _DEEPEST or (isinstance(node, Assertion) and node.kind != "end") or isinstance(node, Look):
            return False
        if isinstance(node, Sequence):
            stack += [(part, depth + 1) for part in node.parts]
        elif isinstance(node, Alternatives):
            stack += [(option, depth + 1) for option in node.options]
        elif isinstance(node, Repeat):
            stack.append((node.body, depth + 1))
    return True


def behind(lead: list[Ranges], rest: Dfa) -> Dfa:
    """One character of each set, then a text of `rest`."""
    if rest.empty or not all(lead):
        return NOTHING
    first = len(lead)
    rows = [tuple([(low, high, i + 1) for low, high in ranges]) for i, ranges in enumerate(lead)]
    rows += [tuple([(low, high, first + target) for low, high, target in row]) for row in rest.edges]
    return Dfa(tuple(rows), frozenset([first + state for state in rest.finals]))
