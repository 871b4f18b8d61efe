"""Messages: what may come next, and where."""

from __future__ import annotations

import json

import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Choices, Constraint, Gbnf, JsonSchema, Lark, Regex, Tag, Tags
from espalier.grammars.matcher import TokenRejected
from espalier.grammars.vocabulary import Vocabulary

from .engine import bind

PERSON = json.dumps({
    "type": "object", "required": ["age"], "additionalProperties": False,
    "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 130}, "name": {"type": "string", "maxLength": 2},
                   "kind": {"enum": ["person", "place"]}}})
SUM = Lark('start: expr\nexpr: expr "+" expr | NUMBER | "(" expr ")"\n%import common.INT -> NUMBER')
TAGS = Tags((Tag("<t>", JsonSchema('{"type":"boolean"}'), "</t>"), Tag("<think>", None, "</think>")))
TABLE: list[tuple[Constraint, str, str]] = [
    (JsonSchema(PERSON), "", """expected '{"age":' in object at #"""),
    (JsonSchema(PERSON), '{"age":1', "expected ',', '0'..'9' or '}' in value at #/properties/age"),
    (JsonSchema(PERSON), '{"age":1,"', "expected 'k' or 'n' in object at #"),
    (JsonSchema(PERSON), '{"age":1,"kind":', """expected '"p' in object at #"""),
    (JsonSchema(PERSON), '{"age":1,"name":"ab', """expected '"' in value at #/properties/name"""),
    (JsonSchema(PERSON), '{"age":1}', "expected the end in object at #"),
    (JsonSchema(PERSON, order="any", spelling="any"), '{"', r"expected '\\', 'a', 'k' or 'n' in object at #"),
    (Regex("(ab|x,){1,3}-?[0-6]{2}"), "ab", "expected '-', '0'..'6', 'a' or 'x' in text"),
    (Regex("é+[^a]"), "", "expected 'é' in text"),
    (Regex("[éÀ]x"), "", "expected some characters above ASCII in text"),
    (Regex(".x"), "\u00e9", "expected 'x' in text"),
    (Choices(("north", "south", "漢字")), "", "expected 'n', 's' or some characters above ASCII in choice"),
    (Choices(("north", "south", "漢字")), "漢", "expected '字' in choice"),
    (SUM, "(1", "expected ')', '+' or '0'..'9' in expr (line 2, column 1)"),
    (SUM, "1", "expected '+', '0'..'9' or the end in start (line 1, column 1)"),
    (Gbnf('root ::= "x" [0-9]+ | "y" root "z"'), "yx1", "expected '0'..'9' or 'z' in root (line 1, column 1)"),
    (TAGS, "<t>", "expected 'f' or 't' in free text"),
    (TAGS, "<t>true", "expected '</t>' in value at # (tags/0/content #)"),
    (TAGS, "<think>a", r"expected '\x00'..'\x7f' or any character above ASCII in tag '<think>' (tags/1)"),
]


@pytest.mark.parametrize(("constraint", "text", "message"), TABLE)
def test_the_message_names_what_may_come_and_where(constraint: Constraint, text: str, message: str) -> None:
    matcher = bind(compile_constraint(constraint), Vocabulary.bytes_only()).matcher(forcing=False)
    for byte in text.encode():
        matcher.accept(byte)
    assert matcher.explain() == message


def test_a_rejected_token_says_what_was_expected_instead() -> None:
    matcher = bind(compile_constraint(Choices(("north", "south"))), Vocabulary.bytes_only()).matcher(forcing=False)
    with pytest.raises(TokenRejected, match="token 120 is not allowed here: expected 'n' or 's' in choice"):
        matcher.accept(ord("x"))
