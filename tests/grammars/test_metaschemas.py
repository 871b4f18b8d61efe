"""Meta-schemas: written here, they say what the published ones say."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import UnsupportedKeyword
from espalier.grammars.schemas.metaschemas import metaschema

from .naive import Naive

PUBLISHED: dict[str, Any] = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
VALUES: list[Any] = [
    True, None, 0, 3, -1, 1.5, "", "string", "a b", "^a+$", "(", "#a", "http://a.b/c", [], [True], [1], ["a"],
    ["a", "a"], ["string"], ["string", "null"], ["null", "null"], [{}], [{"type": "x"}], {}, {"a": True}, {"a": 1},
    {"a": ["b"]},
    {"a": {"minLength": -1}}, {"(": {}}, {"http://a": True}, {"not": {"not": {"enum": 1}}},
]


@pytest.mark.parametrize("address", PUBLISHED)
def test_each_keyword_takes_what_the_published_meta_schema_takes(address: str) -> None:
    naive = Naive(compile_constraint(JsonSchema(json.dumps({"$ref": address}), "spaced", order="any")))
    validator = PUBLISHED[address]
    published = validator(validator.META_SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    own = metaschema(address.rstrip("#")) or {}
    keywords = own["properties"].keys() - ({"writeOnly"} if "draft-07" in address else set())  # type: ignore[union-attr]
    assert keywords >= validator.META_SCHEMA.get("properties", {}).keys()
    wrong = [(keyword, value) for keyword in (*sorted(keywords), "unknown") for value in VALUES
             if naive.accepts(json.dumps({keyword: value})) != published.is_valid({keyword: value})]
    assert wrong == []
    both = {"exclusiveMinimum": True, "minimum": 1}
    assert naive.accepts(json.dumps(both)) == published.is_valid(both)


@pytest.mark.parametrize(("schema", "accepted", "rejected"), [
    ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, [{"minLength": 1}, False], [{"minLength": -1}, 1]),
    ({"properties": {"a": {"$ref": "http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger"}}},
     [{"a": 1}], [{"a": -1}, {"a": {}}]),
    ({"items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"$ref": "http://json-schema.org/draft-06/schema#"}}},
     [[True, {"items": [{}]}], {}], [[[]], [{"items": [1]}]]),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "string"}},
      "items": [{"$ref": "#"}, {"$ref": "http://json-schema.org/draft-04/schema#/properties/title"}]},
     [[[], "a"], 1], [[1, 2]]),
    ({"$id": "http://x.y", "$dynamicAnchor": "meta", "$ref": "https://json-schema.org/draft/2020-12/schema",
      "properties": {"title": {"maxLength": 3}}},
     [{"title": "abc"}, {"not": {"title": "abc"}}], [{"title": "abcd"}, {"not": {"title": "abcd"}}, {"not": 1}]),
], ids=str)
def test_references_lead_to_meta_schemas(schema: Any, accepted: list[Any], rejected: list[Any]) -> None:
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema), "spaced")))
    assert [value for value in accepted if not naive.accepts(json.dumps(value))] == []
    assert [value for value in rejected if naive.accepts(json.dumps(value))] == []


@pytest.mark.parametrize("address", ["https://json-schema.org/draft/2020-12/meta/core", "http://a.b/schema#",
                                     "https://json-schema.org/draft/2019-09/schema"])
def test_nothing_else_is_known(address: str) -> None:
    with pytest.raises(UnsupportedKeyword, match="nothing is fetched"):
        compile_constraint(JsonSchema(json.dumps({"$ref": address})))
