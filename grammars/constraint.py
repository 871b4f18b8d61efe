"""What a caller asks for: one frozen message per kind of constraint, the same in the language, server and engine.

Light: the language imports it to build requests. The compiler turns one into a `Grammar`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Spacing = Literal["compact", "spaced", "indented", "any"]
Formats = Literal["assertion", "annotation"]
Order = Literal["schema", "any"]
Spelling = Literal["one", "any"]
FreeText = Literal["any", "before", "none"]


class Writing(msgspec.Struct, frozen=True):
    """How the values of a schema are written, as JsonSchema says."""

    spacing: Spacing = "compact"
    order: Order = "schema"
    spelling: Spelling = "one"

    @property
    def strict(self) -> bool:
        """Every value of an enum has one text."""
        return self.order == "schema" and self.spelling == "one" and self.spacing != "any"


class JsonSchema(msgspec.Struct, frozen=True, tag="json_schema"):
    """schema: the schema as JSON text, meaning what the standard says. spacing: compact `{"a":1}`, spaced `{"a": 1}`,
    indented by two spaces, or any blanks, as many as the model likes. strict_keywords: refuse keywords outside the
    standard instead of noting them. format: whether the standard's formats are enforced. order: of the keys of objects,
    as the schema declares them or any. spelling: of keys, restricted strings, enums and integers, one or any that means
    the same (any: with any order)."""

    schema: str
    spacing: Spacing = "compact"
    strict_keywords: bool = False
    format: Formats = "assertion"
    order: Order = "schema"
    spelling: Spelling = "one"


class AnyObject(msgspec.Struct, frozen=True, tag="json_object"):
    """Any JSON object."""

    spacing: Spacing = "compact"


class Regex(msgspec.Struct, frozen=True, tag="regex"):
    """The whole text matches `pattern` (ECMA-262 with the u flag)."""

    pattern: str


class Choices(msgspec.Struct, frozen=True, tag="choices"):
    """The whole text is one of `options`."""

    options: tuple[str, ...]


class Lark(msgspec.Struct, frozen=True, tag="lark"):
    """The whole text is one that rule `start` of a Lark grammar derives, read without a lexer."""

    grammar: str
    start: str = "start"


class Gbnf(msgspec.Struct, frozen=True, tag="gbnf"):
    """The whole text is one that rule `root` of a GBNF grammar derives."""

    grammar: str
    root: str = "root"


Content = JsonSchema | AnyObject | Regex | Choices | Lark | Gbnf


class Tag(msgspec.Struct, frozen=True):
    """`begin`, then a text of `content`, then `end`. content None: any text, up to the first `end`."""

    begin: str
    content: Content | None = None
    end: str = ""


class Tags(msgspec.Struct, frozen=True, tag="tags"):
    """Free text in which tags may stand: the base of tool calls and of reasoning phases.

    triggers: strings that free text never contains; where one appears, a tag that begins with it follows. Each tag
    begins with one of them; (): the beginnings themselves. at_least_one: free text alone is no answer.
    stop_after_first: the first tag ends the answer. text: where free text may stand; before: up to the first tag, after
    which only tags follow, each behind `between` (for none and before alone). whole: instead of all this the text may
    be one of this content (for none alone). specials: the strings among the delimiters that are special tokens of the
    model; these are written by id, and free text does not spell them either. The runtime fills them in.
    """

    tags: tuple[Tag, ...]
    triggers: tuple[str, ...] = ()
    at_least_one: bool = False
    stop_after_first: bool = False
    text: FreeText = "any"
    between: str = ""
    whole: Content | None = None
    specials: tuple[str, ...] = ()


Constraint = Content | Tags
