"""Small schemas with any keywords, and values they may fit."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = ["a", "ab", "b", "c"]  # also the order in which instances write them; other keys follow
SCALARS = st.sampled_from([None, True, False, 0, 1, -2, 5, 1.5, "", "a", "ab", "bb", "abc"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "x", "y"]), inner, max_size=3),
    max_leaves=6,
)
SMALL = st.integers(0, 3)


def _ordered(draw_map: dict[str, object]) -> dict[str, object]:
    return {name: draw_map[name] for name in sorted(draw_map)}


def _keywords(inner: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    some = st.lists(inner, min_size=1, max_size=2)
    maps = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3).map(_ordered)
    names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(sorted)
    types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
    optional: dict[str, st.SearchStrategy[object]] = {
        "type": st.one_of(types, st.lists(types, min_size=1, max_size=3, unique=True)),
        "enum": st.lists(VALUES, min_size=1, max_size=4),
        "const": VALUES,
        "minimum": st.integers(-3, 3), "exclusiveMaximum": st.integers(0, 6),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": SMALL, "maxLength": SMALL, "pattern": st.sampled_from(["a", "^a", "b$", "^[ab]*$", "^(?!ab)"]),
        "contains": inner, "minContains": SMALL, "maxContains": SMALL,
        "items": inner, "prefixItems": some, "uniqueItems": st.booleans(), "minItems": SMALL, "maxItems": SMALL,
        "properties": maps, "required": names, "additionalProperties": inner, "minProperties": SMALL,
        "maxProperties": SMALL,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "x"]), inner, max_size=2),
        "propertyNames": st.sampled_from([{"maxLength": 1}, {"pattern": "^[abx]"}, {"enum": ["a", "x"]}, True]),
        "anyOf": some, "allOf": some, "oneOf": some, "not": inner,
        "if": inner, "then": inner, "else": inner, "dependentRequired": st.just({"a": ["b"]}),
        "unevaluatedProperties": inner, "unevaluatedItems": inner,
        "dependentSchemas": st.fixed_dictionaries({"b": inner}),
        "$ref": st.just("#/$defs/d"),
    }
    chosen = st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True)
    return chosen.flatmap(lambda keys: st.fixed_dictionaries({key: optional[key] for key in sorted(keys)}))


SCHEMAS = st.recursive(st.one_of(st.booleans(), _keywords(st.booleans())), _keywords, max_leaves=4)


def _without_references(schema: object) -> object:
    """A definition that refers to itself, with no instance in between, has no meaning; the oracle would not end."""
    if isinstance(schema, list):
        return [_without_references(item) for item in schema]
    if isinstance(schema, dict):
        return {key: _without_references(item) for key, item in schema.items() if key != "$ref"}
    return schema


DEFINITIONS = SCHEMAS.map(_without_references)
