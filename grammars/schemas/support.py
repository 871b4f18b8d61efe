"""The one table of JSON Schema's keywords: what becomes of each, and what there is to say of it.

The compiler reads its sets of keywords from here (keywords.py); docs/grammars.md is written from here by
`python -m scripts.support_tables`, so that no page can promise what the compiler does not know.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

# assertion: tells by itself whether a value fits. branch: refers to other schemas for the same value. evaluated: asks
# what those saw.
Role = Literal["assertion", "branch", "evaluated"]


class Support(NamedTuple):
    """remark: what of it is enforced, as Markdown; "": all of it."""

    names: tuple[str, ...]
    role: Role
    remark: str = ""


ENFORCED = (
    Support(("type",), "assertion", "a name or a list"),
    Support(("enum", "const"), "assertion", "any JSON values, at most 200 levels deep"),
    Support(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), "assertion", "exact"),
    Support(("multipleOf",), "assertion",
            "exact; where telling multiples apart by their digits takes more than 10,000 states (a step without its "
            "power of ten has at most as many as itself, powers of 2 and 5 have fewer: 65,536 has 2,829), those "
            "nearest to zero within the bounds are written, so many as have 10,000 digits together (1,111 of nine "
            "digits); a note then says up to where"),
    Support(("minLength", "maxLength"), "assertion", "characters, not bytes"),
    Support(("pattern",), "assertion", "a search, as the standard says: `^` and `$` anchor it"),
    Support(("format",), "assertion", "those [below](#formats)"),
    Support(("properties", "required", "additionalProperties", "patternProperties", "propertyNames"), "assertion"),
    Support(("minProperties", "maxProperties"), "assertion"),
    Support(("dependentRequired", "dependentSchemas"), "branch"),
    Support(("prefixItems", "items", "minItems", "maxItems"), "assertion"),
    Support(("contains", "minContains", "maxContains"), "assertion"),
    Support(("uniqueItems",), "assertion",
            "items are compared by value, whatever their order of keys, spelling and blanks; refused by name where "
            "200,000 steps do not tell whether recursive items have so many, and where the sets of values that places "
            "(`prefixItems`, `contains`) compete for need more than 10,000 states"),
    Support(("unevaluatedItems", "unevaluatedProperties"), "evaluated",
            "refused by name beside a union whose branches come to more than 256 combinations that one value may fit, "
            "and of which each evaluates more than its parts; negated, beside more than 8 branches with "
            "`patternProperties` or `contains`"),
    Support(("allOf", "anyOf"), "branch"),
    Support(("oneOf", "not", "if", "then", "else"), "branch",
            "`uniqueItems` cannot be negated, and is refused there by name, where the items of a list, those of lists "
            "inside it taken together, can be read in more than 256 ways: beside `contains` with bounds above some "
            "ten, in lists that nest without end"),
    Support(("$ref", "$dynamicRef", "$recursiveRef"), "branch",
            "to places, `$id` and `$anchor` of the same schema, recursion included, and to the meta-schemas of drafts "
            "4, 6, 7 and 2020-12; nothing is fetched. A dynamic one is refused where its place depends on the way that "
            "led to it"),
)
# What constrains nothing, and is not noted either.
ANNOTATIONS = (
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"),
    ("contentEncoding", "contentMediaType", "contentSchema"),
    ("$schema", "$vocabulary", "$id", "$anchor", "$dynamicAnchor", "$defs", "definitions"),
)


def names_of(role: Role) -> frozenset[str]:
    """The keywords of a role."""
    return frozenset(name for one in ENFORCED if one.role == role for name in one.names)
