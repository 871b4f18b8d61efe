"""Tags: free text in which delimited parts follow grammars of their own.

The root is one automaton: free text, at the end of each trigger a trie of the rest of the beginnings, and at the end of
each beginning the call of its tag, which returns into free text. The grammars of the contents are taken in as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from ..automata.build import RuleBuilder
from ..automata.dfa import Dfa
from ..automata.utf8 import plain
from ..constraint import Content, Tags
from ..errors import ConstraintError, InvalidConstraint
from ..ir import Call, Counter, Grammar, Order, Rule, Unlike, pack_edges, special, unpack_edges
from ..limits import Meter
from .delimiters import FIRST_SPECIAL, Search, Symbols, search, symbols

Compile = Callable[[Content, Meter], Grammar]


def compile_tags(constraint: Tags, compile_content: Compile, meter: Meter) -> Grammar:
    """Raises a ConstraintError whose place is tags/K or whole, for a content followed by the place in it."""
    return _Compiler(constraint, compile_content, meter).run()


@dataclass(frozen=True, slots=True)
class _Trigger:
    """rest: for each tag that begins so, what is left of its beginning."""

    text: Symbols
    rest: Mapping[int, Symbols]


class _Compiler:
    def __init__(self, constraint: Tags, compile_content: Compile, meter: Meter) -> None:
        self._tags = constraint
        self._compile = compile_content
        self._meter = meter
        self._specials = constraint.specials
        self._begins = [self._delimiter(tag.begin, f"tags/{k}/begin") for k, tag in enumerate(constraint.tags)]
        self._ends = [self._delimiter(tag.end, f"tags/{k}/end", optional=tag.content is not None)
                      for k, tag in enumerate(constraint.tags)]
        if constraint.text == "any" and constraint.between:
            raise InvalidConstraint("free text may stand between tags", keyword="between", where="between",
                                    fix="Leave it out, or let free text stand before the first tag only.")
        if constraint.whole is not None and constraint.text != "none":
            raise InvalidConstraint("free text and a content may be the whole text", keyword="whole", where="whole",
                                    fix="Leave it out, or let no free text stand.")
        self._delimiter(constraint.between, "between", optional=True)
        self._rules: list[Rule] = []
        self._notes: list[str] = []
        self._hollow: set[int] = set()  # tags behind whose beginning the whole text may end

    def run(self) -> Grammar:
        if not self._tags.tags:
            raise InvalidConstraint("there are no tags", keyword="tags", where="tags", fix="Give at least one tag.")
        triggers = [] if self._tags.text == "none" else self._triggers()
        tags = [self._tag(k) for k in range(len(self._tags.tags))]
        self._rules.append(self._root(triggers, tags))
        used = sorted({symbol for text in (*self._begins, *self._ends) for symbol in text if symbol >= FIRST_SPECIAL})
        names = tuple(self._specials[symbol - FIRST_SPECIAL] for symbol in used)
        return Grammar(tuple(self._rules), len(self._rules) - 1, tuple(self._notes), names)

    # Delimiters

    def _delimiter(self, text: str, where: str, *, optional: bool = False) -> Symbols:
        if not text and not optional:
            raise InvalidConstraint("a delimiter is empty", keyword="tags", where=where,
                                    fix="Only a tag with content may lack its end.")
        try:
            return symbols(text, self._specials)
        except ValueError as error:
            raise InvalidConstraint(str(error), keyword="tags", where=where) from error

    def _triggers(self) -> list[_Trigger]:
        """None holds another. A special token ends a trigger: free text holds none, so a tag must follow."""
        given = [self._delimiter(text, f"triggers/{k}") for k, text in enumerate(self._tags.triggers)]
        texts = sorted({_to_special(text) for text in given or self._begins}, key=lambda text: (len(text), text))
        if not given:
            texts = [text for text in texts if not any(text != other and text[:len(other)] == other for other in texts)]
        for text in texts:
            inner = next((other for other in texts if other != text and _holds(text, other)), None)
            if inner is not None:
                raise InvalidConstraint(f"the trigger {self._spelled(text)!r} holds another, {self._spelled(inner)!r}",
                                        keyword="triggers", where="triggers", fix="Keep the shorter one.")
        found = [_Trigger(text, {k: begin[len(text):] for k, begin in enumerate(self._begins)
                                 if begin[:len(text)] == text}) for text in texts]
        self._check(found)
        return found

    def _check(self, triggers: Sequence[_Trigger]) -> None:
        for trigger in triggers:
            if not trigger.rest:
                raise InvalidConstraint(f"no tag begins with the trigger {self._spelled(trigger.text)!r}",
                                        keyword="triggers", where="triggers", fix="Leave it out.")
        for k in range(len(self._begins)):
            if not any(k in trigger.rest for trigger in triggers):
                raise InvalidConstraint("the tag begins with no trigger", keyword="triggers", where=f"tags/{k}/begin",
                                        fix="Add its beginning to the triggers.")

    def _spelled(self, text: Symbols) -> str:
        return "".join(chr(s) if s < FIRST_SPECIAL else self._specials[s - FIRST_SPECIAL] for s in text)

    def _plain(self, text: Symbols) -> Symbols | None:
        """The text with its special tokens spelled out; None when it has none."""
        spelled = tuple(map(ord, self._spelled(text)))
        return None if spelled == text else spelled

    def _bytes(self, text: Symbols) -> bytes:
        return b"".join(chr(s).encode() if s < FIRST_SPECIAL else special(self._specials[s - FIRST_SPECIAL])
                        for s in text)

    # Rules

    def _search(self, patterns: Sequence[Symbols]) -> Search:
        forbidden = [spelled for text in patterns if (spelled := self._plain(text)) is not None]
        return search(patterns, forbidden, self._meter)

    def _free(self, builder: RuleBuilder, start: int, found: Search, ends: Sequence[int]) -> list[int]:
        """Puts free text in at state `start`; the end of pattern k is state ends[k]. Returns the states in which it may
        stop: those between characters."""
        text = tuple(tuple(edge for edge in row if edge[0] < FIRST_SPECIAL) for row in found.dfa.edges)
        spelled = plain(Dfa(text, found.dfa.finals), self._meter).dfa
        names = [start, *(builder.state() for _ in range(1, found.inside)), *ends]
        names += [builder.state() for _ in range(len(names), len(spelled.edges))]
        for state, row in enumerate(spelled.edges):
            for low, high, target in row:
                builder.edge(names[state], low, high, names[target])
        chains: dict[tuple[tuple[int, int], ...], int] = {}
        for state in range(found.inside):
            specials = tuple((low, target) for low, _, target in found.dfa.edges[state] if low >= FIRST_SPECIAL)
            if specials:
                if specials not in chains:
                    chains[specials] = self._after_mark(builder, {s: names[target] for s, target in specials})
                mark = special("")[0]
                builder.edge(names[state], mark, mark, chains[specials])
        return names[:found.inside]

    def _after_mark(self, builder: RuleBuilder, targets: Mapping[int, int]) -> int:
        """The state after the first byte of a special token, of which each leads to its target."""
        state = builder.state()
        _branch(builder, state, [(self._bytes((symbol,))[1:], target) for symbol, target in targets.items()])
        return state

    def _root(self, triggers: Sequence[_Trigger], tags: Sequence[int]) -> Rule:
        builder = RuleBuilder("free text", "", self._meter)
        once, must, anywhere = self._tags.stop_after_first, self._tags.at_least_one, self._tags.text == "any"
        after = builder.state() if once or must or not anywhere else 0
        if self._tags.text == "none":
            self._next(builder, 0, b"", tags, after)
            before = [0]
        else:
            before = self._text(builder, 0, triggers, tags, after)
        stops = [] if must else before
        if once or not anywhere:
            stops = [*stops, after]
        elif must:
            stops = self._text(builder, after, triggers, tags, after)
        if not once and not anywhere:
            self._next(builder, after, self._tags.between.encode(), tags, after)
        if self._tags.whole is not None:
            stops = [*stops, *self._whole(builder, self._tags.whole)]
        for state in sorted(set(stops)):
            builder.final(state)
        return builder.finish()

    def _whole(self, builder: RuleBuilder, content: Content) -> list[int]:
        """The content in place of all tags; where it may end."""
        rule, empty = self._taken_in(self._content(content, "whole"), "whole ")
        last = builder.state()
        builder.call(0, rule, last)
        return [0, last] if empty else [last]

    def _next(self, builder: RuleBuilder, start: int, between: bytes, tags: Sequence[int], after: int) -> None:
        """Any of the tags at `start`, without free text before it."""
        begins = [(between + self._bytes(begin), None) for begin in self._begins]
        places = _branch(builder, start, begins)
        for place, tag in zip(places, tags, strict=True):
            builder.call(place, tag, after)
        self._end_hollow(builder, [place for k, place in enumerate(places) if k in self._hollow])

    def _text(self, builder: RuleBuilder, start: int, triggers: Sequence[_Trigger], tags: Sequence[int], after: int
              ) -> list[int]:
        """Free text from `start` on, and behind each of its triggers the tags, which go on in `after`."""
        found = self._search([trigger.text for trigger in triggers])
        ends = [builder.state() for _ in triggers]
        for state, trigger in zip(ends, triggers, strict=True):
            places = _branch(builder, state, [(self._bytes(rest), None) for rest in trigger.rest.values()])
            for place, k in zip(places, trigger.rest, strict=True):
                builder.call(place, tags[k], after)
            self._end_hollow(builder, [place for place, k in zip(places, trigger.rest, strict=True)
                                       if k in self._hollow])
        return self._free(builder, start, found, ends)

    def _end_hollow(self, builder: RuleBuilder, places: Sequence[int]) -> None:
        """Nothing follows the tag, so that a root that ends there says the same as a tag without content."""
        for place in places:
            builder.final(place)

    def _tag(self, k: int) -> int:
        """The rule of what stands behind the beginning of a tag, its end included."""
        tag, end = self._tags.tags[k], self._bytes(self._ends[k])
        builder = RuleBuilder(f"tag {tag.begin!r}", f"tags/{k}", self._meter)
        last = builder.state()
        builder.final(last)
        if tag.content is None:
            self._free(builder, 0, self._search([_to_special(self._ends[k])]), [self._after_end(builder, k, last)])
        else:
            rule, empty = self._taken_in(self._content(tag.content, f"tags/{k}/content"), f"tags/{k}/content ")
            builder.call(0, rule, self._chain(builder, end, last))
            if empty and not end and not self._tags.stop_after_first:
                raise InvalidConstraint("a tag whose content may be empty needs an end", keyword="tags",
                                        where=f"tags/{k}/end", fix="Give it one, or let it be the last thing.")
            if empty and not end:
                self._hollow.add(k)
            elif empty:
                builder.text(0, end, last)
        self._rules.append(builder.finish())
        return len(self._rules) - 1

    def _after_end(self, builder: RuleBuilder, k: int, last: int) -> int:
        """Where the end of free content is known; what its end has behind a special token still follows."""
        return self._chain(builder, self._bytes(self._ends[k][len(_to_special(self._ends[k])):]), last)

    @staticmethod
    def _chain(builder: RuleBuilder, text: bytes, last: int) -> int:
        """The state from which `text` leads to `last`."""
        if not text:
            return last
        first = builder.state()
        builder.text(first, text, last)
        return first

    def _content(self, content: Content, place: str) -> Grammar:
        try:
            return self._compile(content, self._meter)
        except ConstraintError as error:
            error.where = f"{place} {error.where}".rstrip()
            raise

    def _taken_in(self, grammar: Grammar, place: str) -> tuple[int, bool]:
        """The number of its start among our rules, and whether it accepts the empty text; the rule then does not."""
        offset = len(self._rules)
        self._rules += [_moved(rule, offset, place) for rule in grammar.rules]
        self._notes += [note for note in grammar.notes if note not in self._notes]
        start = offset + grammar.start
        root = self._rules[start]
        if 0 not in root.finals:
            return start, False
        self._rules[start], empty = _without_empty(root)  # nothing calls it: only a root may accept the empty text
        return start, empty


def _to_special(text: Symbols) -> Symbols:
    """Up to the first special token."""
    return next((text[:at + 1] for at, symbol in enumerate(text) if symbol >= FIRST_SPECIAL), text)


def _holds(text: Symbols, part: Symbols) -> bool:
    return any(text[at:at + len(part)] == part for at in range(len(text) - len(part) + 1))


def _branch(builder: RuleBuilder, start: int, texts: Sequence[tuple[bytes, int | None]]) -> list[int]:
    """A trie of the texts below `start`; returns where each ends: at its target, or where it has none, in a state of
    its own that it may share with equal texts."""
    known: dict[tuple[int, int], int] = {}
    ends: list[int] = []
    for text, target in texts:
        state = start
        for index, byte in enumerate(text):
            last = target if index == len(text) - 1 else None
            if (state, byte) not in known:
                known[state, byte] = builder.state() if last is None else last
                builder.edge(state, byte, byte, known[state, byte])
            state = known[state, byte]
        ends.append(state)
    return ends


def _moved(rule: Rule, offset: int, place: str) -> Rule:
    """The rule with its calls `offset` rules further on, its pointer inside of `place`."""
    calls = tuple(Call(call.source, call.rule + offset, call.target, call.action) for call in rule.calls)
    register = rule.register
    if isinstance(register, Unlike):
        register = structs.replace(register, few=tuple((number + offset, many) for number, many in register.few))
    return structs.replace(rule, pointer=place + rule.pointer, calls=calls, register=register)


def _without_empty(rule: Rule) -> tuple[Rule, bool]:
    """The rule with a start that is not final and that nothing leads back to; whether the empty text was accepted."""
    edges = [(s + 1, low, high, t + 1, action) for s, low, high, t, action in unpack_edges(rule.edges)]
    edges += [(0, low, high, t, action) for s, low, high, t, action in edges if s == 1]
    calls = [Call(call.source + 1, call.rule, call.target + 1, call.action) for call in rule.calls]
    calls += [Call(0, call.rule, call.target, call.action) for call in calls if call.source == 1]
    finals = tuple(state + 1 for state in rule.finals)
    register = rule.register
    empty = register is None or (isinstance(register, Counter) and register.minimum == 0) or (
        isinstance(register, Order) and not any(register.required))
    whole = structs.replace(rule, states=rule.states + 1, edges=pack_edges(sorted(edges)), calls=tuple(calls),
                            finals=finals)
    return whole, empty
