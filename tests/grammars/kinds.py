"""Constraints of every kind in every way of writing, each with a judge of its own that tells whether a text fits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from jsonschema import Draft202012Validator

from espalier.grammars.constraint import AnyObject, Choices, Constraint, Gbnf, JsonSchema, Lark, Regex, Tag, Tags
from espalier.grammars.ir import special
from espalier.grammars.vocabulary import Vocabulary

from .derivations import Derivations, gbnf, lark
from .drawn import small_vocabulary
from .tag_texts import TagTexts

LETTERS = b'{}[]":,-.\\abcx0123456789eflnrstu <>/+*()_\n'
WORDS = [b'":', b'",', b'{"', b'"}', b'a":', b'"a":1', b'":1}', b"1,", b',"', b"ab", b"abx", b"true", b"tr", b"ull",
         b"[]", b'":{"', b"}}", b"\\u00", b'"\\u0061"', b".0", b"<t", b"t>", b"</t", b"<t>1", b"x<", b"+(", b")+",
         b"((", b"ba", b"x)", b"1+", b", ", b": ", b'"b": ', b"\n  ", b"12", b"xx"]
NAMES = ("<true>", "</true>")
Judge = Callable[[bytes], bool]


@dataclass(frozen=True)
class Kind:
    name: str
    constraint: Constraint
    fits: Judge
    vocabulary: Vocabulary = field(default_factory=lambda: VOCABULARY)


VOCABULARY = small_vocabulary(WORDS, LETTERS)
NAMING = small_vocabulary(WORDS, LETTERS, NAMES)
SCHEMA = {
    "type": "object", "required": ["a"], "additionalProperties": False, "properties": {
        "a": {"type": "integer", "minimum": -3, "maximum": 16}, "b": {"enum": ["ab", "x", True, None, [1, {"a": 2}]]},
        "ab": {"type": "array", "items": {"type": "string", "pattern": "^[abx]*$", "maxLength": 3}, "maxItems": 2},
        "x": {"type": "number", "exclusiveMinimum": 0.25, "maximum": 12}}}
FREE = {"type": "object", "properties": {"a": {"type": ["boolean", "string"], "maxLength": 4}},
        "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 3}
TREE = {"$defs": {"n": {"type": "object", "required": ["a"], "additionalProperties": False, "properties": {
    "a": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}, "b": {"const": "x"}}}}, "$ref": "#/$defs/n"}
RULES = {  # a sum in brackets; ambiguous, left and right recursive
    "root": ("seq", (("rule", "r1"), ("rep", ("text", "x"), 0, 2))),
    "r1": ("alt", (("seq", (("rule", "r1"), ("text", "+"), ("rule", "r1"))), ("seq", (("text", "("), ("rule", "r1"),
                                                                                  ("text", ")"))),
                   ("rep", ("class", "ab"), 1, None)))}
CLOSING = {  # nesting on both sides of a middle that may be empty
    "root": ("alt", (("seq", (("text", "a"), ("rule", "root"), ("text", "b"))), ("rule", "r1"))),
    "r1": ("rep", ("alt", (("text", "x"), ("seq", (("text", "("), ("rule", "root"), ("text", ")"))))), 0, 3)}
NUMBERED = Tags((Tag("<t>", Regex("[12]+"), "</t>"), Tag("<tx", None, ">"), Tag("ba", Regex("ab|x"))), ("<t", "ba"))
ONCE = Tags((Tag("ab", Regex("1*"), "x"),), at_least_one=True, stop_after_first=True)
BOOLEAN = JsonSchema('{"type":"boolean"}')
CALLED = Tags((Tag("<true>a", Regex("[12]{1,3}"), "</true>"), Tag("<true>b", BOOLEAN, "</true>")), at_least_one=True,
              specials=NAMES)
PATTERNS = {"repeated": "(ab|x,){1,3}-?[0-6]{2}", "looking": r"(?=.*a)[ab]{2,4}(?<!b)x*", "counted": "[abx]{3,40}"}
OPTIONS = ("ab", "abx", "true", "un", "{}", "a,b")


def _json(schema: object) -> Judge:
    validator = Draft202012Validator(schema)
    return lambda text: validator.is_valid(json.loads(text, object_pairs_hook=_distinct))


def _distinct(members: list[tuple[str, object]]) -> dict[str, object]:
    assert len({name for name, _ in members}) == len(members), members
    return dict(members)


def _matches(pattern: str) -> Judge:
    return lambda text: re.fullmatch(pattern, text.decode()) is not None


def _derived(rules: dict[str, tuple]) -> Judge:
    return lambda text: Derivations(rules).accepts(text.decode())


def _tagged(tags: Tags) -> Judge:
    return lambda text: TagTexts(tags).accepts(text.decode())


def _called(text: bytes) -> bool:
    begin, end = map(re.escape, map(special, NAMES))
    part = begin + rb"(?:a[12]{1,3}|b(?:true|false))" + end
    return re.fullmatch(rb"[\x00-\x7f]*(?:" + part + rb"[\x00-\x7f]*)+", text) is not None


def _written(name: str, schema: object, **options: str) -> Kind:
    return Kind(f"json_schema {name}", JsonSchema(json.dumps(schema), **options), _json(schema))  # type: ignore[arg-type]


KINDS = (
    _written("compact", SCHEMA), _written("spaced", SCHEMA, spacing="spaced"),
    _written("indented", SCHEMA, spacing="indented"), _written("any spacing", SCHEMA, spacing="any"),
    _written("any order", SCHEMA, order="any"),
    _written("any order, any spacing", SCHEMA, spacing="any", order="any"),
    _written("any spelling", SCHEMA, order="any", spelling="any"),
    _written("free keys", FREE), _written("free keys, any order", FREE, order="any"),
    _written("free keys, any spelling", FREE, order="any", spelling="any"),
    _written("recursive", TREE), _written("recursive, any order", TREE, order="any"),
    Kind("json_object", AnyObject(), _json({"type": "object"})),
    *(Kind(f"regex {name}", Regex(pattern), _matches(pattern)) for name, pattern in PATTERNS.items()),
    Kind("choices", Choices(OPTIONS), lambda text: text.decode() in OPTIONS),
    Kind("lark", Lark(lark(RULES), "root"), _derived(RULES)), Kind("lark closing", Lark(lark(CLOSING), "root"),
                                                                   _derived(CLOSING)),
    Kind("gbnf", Gbnf(gbnf(RULES)), _derived(RULES)), Kind("gbnf closing", Gbnf(gbnf(CLOSING)), _derived(CLOSING)),
    Kind("tags", NUMBERED, _tagged(NUMBERED)), Kind("tags once", ONCE, _tagged(ONCE)),
    Kind("tags of special tokens", CALLED, _called, NAMING),
)
