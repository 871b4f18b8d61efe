"""The text of a constraint becomes a verified grammar, or a typed refusal that names the place."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from .automata.build import RuleBuilder
from .automata.dfa import Dfa
from .automata.utf8 import plain
from .constraint import AnyObject, Choices, Constraint, Content, Gbnf, JsonSchema, Lark, Regex, Tags, Writing
from .effort import CollectorPaused
from .errors import ConstraintTooLarge, InvalidConstraint, Unsatisfiable, UnsupportedKeyword
from .ir import Grammar, Rule
from .library import Library
from .limits import Limits, Meter
from .plans.alike_nesting import check_nesting
from .plans.emit import Emitter
from .plans.equal_rules import shared
from .plans.planner import Planner
from .regular.choices import choices_dfa
from .regular.regex import compile_regex
from .schemas.document import Document
from .schemas.json_text import JsonValue, names_in, read_json
from .schemas.legacy import modernised
from .schemas.meaning import Meaning
from .written.context_free import calling_rule, compile_rules
from .written.counted import Repetitions
from .written.gbnf import read_gbnf
from .written.lark import START, read_lark
from .written.tags import compile_tags

_WRITTEN_OUT = 160  # states of a regular expression up to which counts are states

def compile_constraint(constraint: Constraint, limits: Limits = Limits(),  # noqa: B008  (frozen)
                       library: Library | None = None) -> Grammar:
    """library: what earlier compilations made, to be found again and added to; the grammar is the same without.

    Raises a ConstraintError: UnsupportedKeyword, InvalidConstraint, Unsatisfiable or ConstraintTooLarge.
    """
    with CollectorPaused():
        return _any(constraint, Meter(limits, _place(constraint), library))


def _any(constraint: Constraint, meter: Meter) -> Grammar:
    return compile_tags(constraint, _content, meter) if isinstance(constraint, Tags) else _content(constraint, meter)


def _content(constraint: Content, meter: Meter) -> Grammar:
    """Every kind but tags: what a tag may hold."""
    if isinstance(constraint, JsonSchema):
        return _json_schema(constraint, meter)
    if isinstance(constraint, AnyObject):
        return _schema(Meaning(_document({"type": "object"}, {"type"}), meter), Writing(constraint.spacing), meter)
    if isinstance(constraint, Regex):
        return _regex(constraint.pattern, meter)
    if isinstance(constraint, Choices):
        return _choices(constraint, meter)
    return _written(constraint, meter)


def _place(constraint: Constraint) -> str:
    """Where to point when nothing nearer is known."""
    if isinstance(constraint, JsonSchema | AnyObject):
        return "#"
    if isinstance(constraint, Tags):
        return "tags"
    return "line 1, column 1" if isinstance(constraint, Lark | Gbnf) else "column 1"


def _json_schema(constraint: JsonSchema, meter: Meter) -> Grammar:
    written = read_json(constraint.schema, meter.limits)
    names = names_in(written)
    schema, ignored = modernised(written, names)
    if ignored and constraint.strict_keywords:
        raise UnsupportedKeyword(ignored[0].note, keyword=ignored[0].keyword, where=ignored[0].pointer,
                                 fix="Remove it, or allow unknown keywords.")
    meaning = Meaning(_document(schema, names), meter, strict=constraint.strict_keywords,
                      annotated=constraint.format == "annotation")
    for one in ignored:
        meaning.notes.add(one.note)
    if constraint.spelling == "any" and constraint.order == "schema":
        raise InvalidConstraint('spelling="any" is enforced for objects in any order', keyword="spelling", where="#",
                                fix='Compile with order="any" too.')
    return _schema(meaning, Writing(constraint.spacing, constraint.order, constraint.spelling), meter)


def _document(schema: JsonValue, names: Set[str]) -> Document:
    if not isinstance(schema, bool | dict):
        raise InvalidConstraint("a schema must be an object, true or false", keyword="schema", where="#")
    return Document(schema, names)


def _schema(meaning: Meaning, writing: Writing, meter: Meter) -> Grammar:
    planner = Planner(meaning, meter, writing)
    root = planner.plan(("#",), "#")
    planner.settle(root)
    rules, start = Emitter(meter, writing).emit(root)
    check_nesting(rules, meter.limits.readings)
    rules, start = shared(rules, start)
    return Grammar(rules, start, meaning.notes.texts(meaning.document.repeated))


def _regex(pattern: str, meter: Meter) -> Grammar:
    _check_size(len(pattern.encode("utf-8", "surrogatepass")), meter, "regex")
    dfa = compile_regex(pattern, meter)
    if dfa.empty:
        raise Unsatisfiable("no text matches this regular expression", keyword="regex", where="column 1",
                            fix="Check its anchors and look-aheads.")
    text = plain(dfa, meter).dfa
    counted = _counted(text, meter) if len(text.edges) > _WRITTEN_OUT else None
    return counted or _single(text, "text", meter)


def _counted(dfa: Dfa, meter: Meter) -> Grammar | None:
    """The automaton with its repetitions of a class counted by registers; None where there are none."""
    repetitions = Repetitions(1, meter)
    counted = repetitions.rewritten(dfa)
    if not len(repetitions):
        return None
    alone = repetitions.alone(counted)
    if alone is not None:
        return Grammar((repetitions.rule(alone, "text", ""),), 0)
    numbers = {1 + k: 1 + k for k in range(len(repetitions))}
    return _apart(calling_rule(counted, numbers, "text", "", meter), repetitions.rules("text", ""))


def _apart(root: Rule, called: list[Rule]) -> Grammar:
    """A rule of its own for each call: so the fewest tokens from any place in it are known (token_paths.py)."""
    calls = tuple(msgspec.structs.replace(call, rule=1 + k) for k, call in enumerate(root.calls))
    return Grammar((msgspec.structs.replace(root, calls=calls), *(called[call.rule - 1] for call in root.calls)), 0)


def _choices(constraint: Choices, meter: Meter) -> Grammar:
    _check_size(sum(len(option.encode("utf-8", "surrogatepass")) for option in constraint.options), meter, "choices")
    return _single(choices_dfa(constraint.options, meter), "choice", meter)


def _written(constraint: Lark | Gbnf, meter: Meter) -> Grammar:
    """A grammar that was written as one."""
    size = len(constraint.grammar.encode("utf-8", "surrogatepass"))
    _check_size(size, meter, "gbnf" if isinstance(constraint, Gbnf) else "lark", "line 1, column 1")
    if isinstance(constraint, Gbnf):
        return compile_rules(read_gbnf(constraint.grammar, meter), constraint.root, meter)
    return compile_rules(read_lark(constraint.grammar, constraint.start, meter), START, meter)


def _single(dfa: Dfa, name: str, meter: Meter) -> Grammar:
    """One rule, of one automaton over bytes."""
    builder = RuleBuilder(name, "", meter)
    numbers = builder.graft(dfa, 0)
    for state in dfa.finals:
        builder.final(numbers[state])
    return Grammar((builder.finish(),), 0)


def _check_size(size: int, meter: Meter, keyword: str, where: str = "column 1") -> None:
    if size > meter.limits.source_bytes:
        raise ConstraintTooLarge(f"the constraint is longer than {meter.limits.source_bytes} bytes", keyword=keyword,
                                 where=where, fix="Send a smaller one.")
