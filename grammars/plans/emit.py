"""From settled plans to rules. Nothing is inlined: every plan is one rule per depth of indentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..automata.build import RuleBuilder, accepting, merged, quoted
from ..automata.dfa import Dfa, literals
from ..automata.digits import DIGITS, MAX_DIGITS
from ..automata.utf8 import ByteDfa, json_string, json_string_freely
from ..constraint import Spacing, Writing
from ..errors import ConstraintTooLarge, UnsupportedKeyword
from ..ir import Call, Counter, Rule
from ..limits import Meter
from ..schemas.json_text import JsonValue, Layout, spell
from ..schemas.strings import Speller, StringText
from .constants import written_freely
from .lists import ListEmitter
from .nested_patterns import GROUPS, group_rule, pattern_rule
from .number_text import NumberText
from .objects import ObjectEmitter
from .plan import ListPlan, ObjectPlan, ValuePlan
from .unordered import UnorderedEmitter

_Part = StringText | NumberText | ListPlan | ObjectPlan

# Indentation is part of the rules, so only schemas of bounded depth can be indented.
_MAX_INDENTATION = 64


class Emitter:
    """Rules by number; `rule_of` gives a number at once and queues the work."""

    def __init__(self, meter: Meter, writing: Writing) -> None:
        self.writing = writing
        self.meter = meter
        self.spacing: Spacing = writing.spacing
        self._rules: list[Rule | None] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._queue: list[tuple[int, Callable[[], Rule]]] = []
        self._values: dict[tuple[int, int], int] = {}
        self._keep: list[object] = []  # plans are known by id, so they must stay
        self._freely: dict[int, ValuePlan] = {}
        self._layouts: dict[int, Layout] = {}

    def emit(self, root: ValuePlan) -> tuple[tuple[Rule, ...], int]:
        """All rules that the root needs, and its number."""
        start = self.value(root, 0)
        for number, make in self._queue:  # grows while it runs
            self.meter.time()
            self._rules[number] = make()
        self._queue.clear()
        return tuple(rule for rule in self._rules if rule is not None), start

    def layout(self, depth: int) -> Layout:
        found = self._layouts.get(depth)
        if found is None:
            found = self._layouts[depth] = Layout(self.spacing, depth)
        return found

    def _reserve(self, key: tuple[object, ...], make: Callable[[], Rule], pointer: str) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._rules)
            if number >= self.meter.limits.rules:
                raise ConstraintTooLarge(f"the schema needs more than {self.meter.limits.rules} rules", keyword="rules",
                                         where=pointer, fix="Use a smaller schema.")
            self._rules.append(None)
            self._queue.append((number, make))
        return number

    def _level(self, depth: int, pointer: str) -> int:
        if self.spacing != "indented":
            return 0
        if depth > _MAX_INDENTATION:
            raise UnsupportedKeyword(
                f"indented text needs a bound on nesting, and this schema nests deeper than {_MAX_INDENTATION} levels "
                "(it is recursive, or allows any value)", keyword="spacing", where=pointer,
                fix="Use compact or spaced text.")
        return depth

    def fixed(self, text: bytes) -> int:
        """The rule that reads exactly this; a call of it may compete with a byte edge where an edge could not."""
        def make() -> Rule:
            builder = RuleBuilder(f"text {text.decode()!r}", "", self.meter)
            builder.final(builder.text(0, text))
            return builder.finish()
        return self._reserve(("text", text), make, "")

    def value(self, plan: ValuePlan, depth: int) -> int:
        """The rule of a possible plan."""
        depth = self._level(depth, plan.pointer)
        number = self._values.get((id(plan), depth))
        if number is None:
            self._keep.append(plan)
            number = self._values[id(plan), depth] = self._value(plan, depth)
        return number

    def _value(self, plan: ValuePlan, depth: int) -> int:
        if plan.values and (plan.freely or not self.writing.strict):
            if id(plan) not in self._freely:
                self._freely[id(plan)] = written_freely(plan, self.writing, self.meter)
            plan = self._freely[id(plan)]
        parts = self._parts(plan)
        if len(parts) == 1:
            return self._part(plan, parts[0], depth)
        self._keep.append(plan)
        return self._reserve((id(plan), depth), lambda: self._union(plan, depth), plan.pointer)

    @staticmethod
    def _parts(plan: ValuePlan) -> list[_Part | None]:
        """None stands for all scalars without a counter, which become one automaton."""
        texts: list[NumberText | StringText] = [*plan.numbers, *plan.strings]
        apart = [text for text in texts if text.apart]
        plain = plan.values or plan.words or len(apart) < len(texts)
        lists = [one for one in plan.lists if one.possible]
        objects = [one for one in plan.objects if one.possible]
        return [*([None] if plain else []), *apart, *lists, *objects]

    def _part(self, plan: ValuePlan, part: _Part | None, depth: int) -> int:
        self._keep.append(part or plan)
        if part is None:
            # Scalars are shared by what they are: one rule for all plain strings of a schema.
            key = ("scalar", self._spelled(plan, depth), tuple(map(id, plan.numbers)), tuple(map(id, plan.strings)))
            return self._reserve(key, lambda: self._choice(plan, depth), plan.pointer)
        if isinstance(part, StringText) and part.nested is not None:
            return self._patterns(part.nested, plan.pointer)
        if isinstance(part, StringText):
            return self._reserve((id(part),), lambda: self._counted(part, plan.pointer), plan.pointer)
        if isinstance(part, NumberText):
            return self._reserve((id(part),), lambda: self._digits(part.dfa, plan.pointer), plan.pointer)
        if isinstance(part, ListPlan):
            return self._reserve((id(part), depth), lambda: ListEmitter(self, part, depth).rule(), plan.pointer)
        objects = ObjectEmitter if self.writing.order == "schema" and not part.loose else UnorderedEmitter
        return self._reserve((id(part), depth), lambda: objects(self, part, depth).rule(), plan.pointer)

    def _union(self, plan: ValuePlan, depth: int) -> Rule:
        parts = self._parts(plan)
        most = self.meter.limits.readings
        for kind in (ListPlan, ObjectPlan):
            if sum(isinstance(part, kind) for part in parts) > most:
                raise ConstraintTooLarge(f"a value here may be one of more than {most} that begin alike",
                                         keyword="anyOf", where=plan.pointer, fix="Use fewer alternatives.")
        others = [self._part(plan, part, depth) for part in parts if part is not None]
        plain = len(others) < len(parts)
        return self._choice(plan, depth, others) if plain else self._calls(plan, others)

    def _calls(self, plan: ValuePlan, rules: list[int]) -> Rule:
        builder = RuleBuilder(f"value at {plan.pointer}", plan.pointer, self.meter)
        end = builder.state()
        builder.final(end)
        for rule in rules:
            builder.call(0, rule, end)
        return builder.finish()

    def _choice(self, plan: ValuePlan, depth: int, rules: Sequence[int] = ()) -> Rule:
        """The scalars of a plan, or one of these rules."""
        spelled = self._spelled(plan, depth)
        texts: list[NumberText | StringText] = [*plan.numbers, *plan.strings]
        parts = [text for text in texts if not text.apart]

        def made() -> tuple[Rule, object]:
            return accepting(self._scalars(plan, spelled), len(rules), self.meter), parts  # kept: their ids are theirs

        key = ("choice", spelled, tuple(map(id, parts)), len(rules))
        rule, _ = self.meter.shared(key, made, lambda kept: 2 * len(kept[0].edges) + sum(map(len, spelled)) + 500)
        calls = tuple([Call(call.source, rules[call.rule], call.target) for call in rule.calls])
        return Rule(f"value at {plan.pointer}", plan.pointer, rule.states, rule.edges, calls, rule.finals)

    def _scalars(self, plan: ValuePlan, texts: tuple[bytes, ...]) -> Dfa:
        """All scalars without a counter, and all spelled values, as one automaton."""
        parts = [*(text.dfa for text in plan.numbers if not text.apart),
                 *(quoted(text.body) for text in plan.strings if not text.apart)]
        if texts:
            parts.append(literals(texts, self.meter))
        return merged(parts, self.meter)

    def text(self, dfa: Dfa) -> ByteDfa:
        """The inside of a string, as strings are spelled here."""
        return json_string(dfa, self.meter) if self.writing.spelling == "one" else json_string_freely(dfa, self.meter)

    def texts(self, plan: ValuePlan, depth: int) -> tuple[bytes, ...]:
        """The spelled values of a plan that has nothing else."""
        return self._spelled(plan, self._level(depth, plan.pointer))

    def _spelled(self, plan: ValuePlan, depth: int) -> tuple[bytes, ...]:
        words: list[JsonValue] = [*plan.values, *plan.words]
        return tuple(dict.fromkeys(spell(value, self.spacing, depth).encode() for value in words))

    def _patterns(self, speller: Speller, pointer: str) -> int:
        """Strings that are patterns."""
        inside = [self._group(k, speller, pointer) for k in GROUPS]
        return self._reserve(("pattern", speller), lambda: pattern_rule(inside, speller, self.meter), pointer)

    def _group(self, closed: int, speller: Speller, pointer: str) -> int:
        number = self._reserve(("group", speller, closed), lambda: group_rule(closed, number, speller, self.meter),
                               pointer)
        return number

    def _digits(self, numbers: Dfa, pointer: str) -> Rule:
        """Numbers whose digits a register counts."""
        builder = RuleBuilder(f"number at {pointer}", pointer, self.meter)
        places = builder.graft(numbers, 0, counted=DIGITS)
        for state in numbers.finals:
            builder.final(places[state])
        return builder.finish(Counter(0, MAX_DIGITS))

    def _counted(self, text: StringText, pointer: str) -> Rule:
        """A string whose length a register counts. A least length is checked where the body returns, before the
        closing quote, so that no text can run into a quote that is too early."""
        builder = RuleBuilder(f"string at {pointer}", pointer, self.meter)
        body = builder.state()
        builder.edge(0, 0x22, 0x22, body)
        numbers = builder.graft(text.body.dfa, body, counted_below=text.body.characters)
        ends = [numbers[state] for state in text.body.dfa.finals]
        if not text.minimum:
            close = builder.state()
            for end in ends:
                builder.edge(end, 0x22, 0x22, close)
            ends = [close]
        for end in ends:
            builder.final(end)
        rule = builder.finish(Counter(text.minimum, text.maximum))
        if not text.minimum:
            return rule
        return self.closed(rule, b'"', ("open", id(text)))

    def closed(self, body: Rule, closing: bytes, key: tuple[object, ...]) -> Rule:
        """The rule that runs `body` and then reads `closing`."""
        number = self._reserve(key, lambda: body, body.pointer)
        builder = RuleBuilder(body.name, body.pointer, self.meter)
        after = builder.state()
        builder.call(0, number, after)
        builder.final(builder.text(after, closing))
        return builder.finish()


