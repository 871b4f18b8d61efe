"""A regular expression becomes a deterministic automaton over code points: for the whole text, or as a search."""

from __future__ import annotations

from collections.abc import Iterable

from ..automata import charset
from ..automata.dfa import Dfa
from ..automata.minimise import minimise
from ..automata.trees import Alternatives, Chars, Repeat, Sequence
from ..errors import ConstraintTooLarge, UnsupportedKeyword
from ..limits import Meter
from . import regex_syntax
from .leads import behind, without_lead
from .positions import Positions
from .regex_syntax import Assertion, Look, Node
from .simulation import Nfa, Simulator


def compile_regex(pattern: str, meter: Meter, *, search: bool = False, pointer: str = "", fold: bool = False,
                  dot_all: bool = False) -> Dfa:
    """The texts that `pattern` matches, as a whole or (search) somewhere. Trimmed; may accept nothing.
    fold, dot_all: see regex_syntax.parse.

    Raises InvalidConstraint, UnsupportedKeyword or ConstraintTooLarge with the column.
    """
    tree = regex_syntax.parse(pattern, meter, pointer, fold=fold, dot_all=dot_all)
    _check_repetitions(tree, meter, pointer)
    split = without_lead(tree) if search else None
    if split is None:
        return _determinise(tree, meter, pointer, before=search, after=search)
    lead, rest = split
    meter.states(len(lead))
    return behind(lead, meter.shared(("rest of a pattern", rest), lambda: _determinise(
        rest, meter, pointer, before=True, after=True), lambda dfa: dfa.size))


def _check_repetitions(tree: Node, meter: Meter, pointer: str) -> None:
    """Copies of one-character bodies that counted repetition asks for, multiplied through."""
    limit = meter.limits.repetitions
    total = 0
    stack: list[tuple[Node, int]] = [(tree, 1)]
    while stack:
        node, copies = stack.pop()
        if isinstance(node, Repeat):
            count = max(node.minimum, node.maximum or 0, 1)
            if count > 1:
                copies *= count
                total += copies
            stack.append((node.body, copies))
        elif isinstance(node, Sequence):
            stack.extend((part, copies) for part in node.parts)
        elif isinstance(node, Alternatives):
            stack.extend((option, copies) for option in node.options)
        elif isinstance(node, Look):
            stack.append((node.body, copies))
        if total > limit:
            raise ConstraintTooLarge(
                f"counted repetition adds up to more than {limit} copies", keyword="pattern" if pointer else "regex",
                where=f"{pointer} column 1" if pointer else "column 1", fix="Use smaller or fewer counts.",
            )


def _build(tree: Node, nfa: Nfa, start: int, end: int, meter: Meter, pointer: str) -> None:
    """Thompson's construction between two given places; a work list instead of recursion."""
    work: list[tuple[Node, int, int]] = [(tree, start, end)]
    while work:
        node, a, b = work.pop()
        meter.states(0)
        if isinstance(node, Chars):
            nfa.chars[a].append((node.ranges, b))
        elif isinstance(node, Alternatives):
            work.extend((option, a, b) for option in node.options)
        elif isinstance(node, Sequence):
            work.extend(_chain(node.parts, nfa, a, b, meter))
        elif isinstance(node, Repeat):
            work.extend(_repeat(node, nfa, a, b, meter))
        elif isinstance(node, Assertion):
            nfa.boundaries = nfa.boundaries or node.kind in ("boundary", "inside")
            nfa.empty[a].append((node.kind, b))
        elif node.behind:
            _check_behind(node.body, pointer)
            nfa.behinds.append((_determinise(node.body, meter, pointer, before=True, after=False), node.negative))
            nfa.empty[a].append((-len(nfa.behinds), b))
        else:
            _check_look(node.body, pointer)
            nfa.empty[a].append((len(nfa.looks), b))
            first = later = _determinise(node.body, meter, pointer, before=False, after=True)
            if any(isinstance(one, Assertion) and one.kind == "start" for one in _within(node.body)):
                later = _determinise(node.body, meter, pointer, before=False, after=True, at_start=False)
            nfa.looks += [(first, node.negative), (later, node.negative)]


def _check_look(body: Node, pointer: str) -> None:
    """The automaton of a look-ahead does not know which character came before its place."""
    for node in _within(body):
        if (isinstance(node, Assertion) and node.kind in ("boundary", "inside")) or (
                isinstance(node, Look) and node.behind):
            raise UnsupportedKeyword("a word boundary or look-behind is not supported inside a look-ahead",
                                     keyword="lookahead", where=pointer or "column 1")


def _check_behind(body: Node, pointer: str) -> None:
    """The automaton of a look-behind does not know what follows its place."""
    for node in _within(body):
        if isinstance(node, Look) or (isinstance(node, Assertion) and node.kind != "start"):
            raise UnsupportedKeyword("look-around, $ and word boundaries are not supported inside a look-behind",
                                     keyword="lookbehind", where=pointer or "column 1")


def _within(body: Node) -> Iterable[Node]:
    stack = [body]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Sequence):
            stack.extend(node.parts)
        elif isinstance(node, Alternatives):
            stack.extend(node.options)
        elif isinstance(node, Repeat | Look):
            stack.append(node.body)


def _chain(parts: tuple[Node, ...], nfa: Nfa, a: int, b: int, meter: Meter) -> Iterable[tuple[Node, int, int]]:
    if not parts:
        nfa.empty[a].append(("", b))
        return
    for part in parts[:-1]:
        meter.states(1)
        middle = nfa.place()
        yield part, a, middle
        a = middle
    yield parts[-1], a, b


def _repeat(node: Repeat[Node], nfa: Nfa, a: int, b: int, meter: Meter) -> Iterable[tuple[Node, int, int]]:
    for _ in range(node.minimum):
        meter.states(1)
        middle = nfa.place()
        yield node.body, a, middle
        a = middle
    if node.maximum is None:
        loop = nfa.place()
        nfa.empty[a].append(("", loop))
        nfa.empty[loop].append(("", b))
        yield node.body, loop, loop
        return
    for _ in range(node.maximum - node.minimum):
        meter.states(1)
        nfa.empty[a].append(("", b))
        middle = nfa.place()
        yield node.body, a, middle
        a = middle
    nfa.empty[a].append(("", b))


def _determinise(tree: Node, meter: Meter, pointer: str, *, before: bool, after: bool, at_start: bool = True) -> Dfa:
    """before, after: anything may come there. at_start: the text begins here, so `^` holds."""
    nfa = Nfa()
    start, end = nfa.place(), nfa.place()
    if before:
        entry = nfa.place()
        nfa.chars[start].append((charset.ALL, start))
        nfa.empty[start].append(("", entry))
    else:
        entry = start
        start = nfa.place()
        nfa.empty[start].append(("", entry))
    _build(tree, nfa, entry, end, meter, pointer)
    if not nfa.looks and not nfa.behinds:
        return Positions(nfa.chars, nfa.empty, end, meter, open_end=after).run(start, at_start)
    return minimise(Simulator(nfa, start, end, meter, open_end=after).run(at_start))
