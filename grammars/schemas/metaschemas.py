"""The meta-schemas of JSON Schema, by their addresses: what a schema may look like that is a value itself.

Written here from the specifications, each as one resource, so that nothing is fetched. They say the same as the
published ones; of the vocabularies of 2020-12 there are no addresses. The keywords have their order from here.
"""

from __future__ import annotations

from .json_text import JsonValue

_DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
_ALL = (4, 6, 7, 2020)
_SINCE_6, _SINCE_7, _OLDER, _NOW = _ALL[1:], _ALL[2:], _ALL[:3], _ALL[3:]
# kind of value: (drafts, keywords)
_KEYWORDS = (
    ("address", _NOW, "$schema"), ("identifier", _NOW, "$id"), ("anchor", _NOW, "$anchor $dynamicAnchor"),
    ("reference", _SINCE_6[:2], "$id"), ("text", (4,), "id $schema"), ("address", _SINCE_6[:2], "$schema"),
    ("reference", _SINCE_6, "$ref"), ("reference", _NOW, "$dynamicRef"), ("vocabulary", _NOW, "$vocabulary"),
    ("text", _SINCE_7, "$comment"), ("text", _ALL, "title description"), ("any", _ALL, "default"),
    ("flag", _NOW, "deprecated"), ("flag", _SINCE_7, "readOnly writeOnly"), ("values", _SINCE_6, "examples"),
    ("type", _ALL, "type"), ("any", _SINCE_6, "const"), ("enum", _ALL, "enum"),
    ("positive", _ALL, "multipleOf"), ("number", _ALL, "minimum"), ("exclusive", _ALL, "exclusiveMinimum"),
    ("number", _ALL, "maximum"), ("exclusive", _ALL, "exclusiveMaximum"),
    ("count", _ALL, "minLength maxLength"), ("pattern", _ALL, "pattern"), ("text", _SINCE_6, "format"),
    ("text", (4,), "format"), ("text", _SINCE_7, "contentEncoding contentMediaType"),
    ("schema", _NOW, "contentSchema"), ("schemas", _NOW, "prefixItems"), ("items", _OLDER, "items"),
    ("schema", _NOW, "items"), ("loose", _OLDER, "additionalItems"), ("count", _ALL, "minItems maxItems"),
    ("flag", _ALL, "uniqueItems"), ("schema", _SINCE_6, "contains"), ("count", _NOW, "minContains maxContains"),
    ("schema", _NOW, "unevaluatedItems"), ("count", _ALL, "minProperties maxProperties"),
    ("required", _ALL, "required"), ("map", _ALL, "properties"), ("patterns", _SINCE_6, "patternProperties"),
    ("map", (4,), "patternProperties"), ("loose", _ALL, "additionalProperties"),
    ("schema", _SINCE_6, "propertyNames"), ("dependentRequired", _NOW, "dependentRequired"),
    ("map", _NOW, "dependentSchemas"), ("dependencies", _ALL, "dependencies"),
    ("schema", _NOW, "unevaluatedProperties"), ("schema", _SINCE_7, "if then else"),
    ("schemas", _ALL, "allOf anyOf oneOf"), ("schema", _ALL, "not"), ("map", _NOW, "$defs"),
    ("map", _ALL, "definitions"), ("anchor", _NOW, "$recursiveAnchor"), ("reference", _NOW, "$recursiveRef"),
)
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def metaschema(uri: str) -> dict[str, JsonValue] | None:
    """The meta-schema at an absolute address without fragment, in keywords of 2020-12; None for any other."""
    draft = _DRAFTS.get(uri)
    if draft is None:
        return None
    kinds = _kinds(draft)
    properties: dict[str, JsonValue] = {
        keyword: kinds[kind] for kind, drafts, keywords in _KEYWORDS if draft in drafts for keyword in keywords.split()}
    found: dict[str, JsonValue] = {
        "$id": uri, "type": "object" if draft == 4 else ["object", "boolean"], "properties": properties}
    found["$defs" if draft == 2020 else "definitions"] = _definitions(draft)
    if draft == 2020:
        found["$dynamicAnchor"] = "meta"
    if draft == 4:
        found["dependentRequired"] = {"exclusiveMaximum": ["maximum"], "exclusiveMinimum": ["minimum"]}
    return found


def _kinds(draft: int) -> dict[str, JsonValue]:
    """What each kind of value looks like. In draft 4 schemas are objects, and exclusive bounds booleans."""
    schema: JsonValue = {"$dynamicRef": "#meta"} if draft == 2020 else {"$ref": "#"}
    schemas: JsonValue = _shared("schemaArray", draft)
    strings: JsonValue = _shared("stringArray", draft)
    flag: JsonValue = {"type": "boolean"}
    number: JsonValue = {"type": "number"}
    text: JsonValue = {"type": "string"}
    return {
        "schema": schema, "schemas": schemas, "map": _map(schema), "flag": flag, "number": number, "text": text,
        "patterns": {**_map(schema), "propertyNames": {"format": "regex"}},
        "loose": {"anyOf": [flag, schema]} if draft == 4 else schema,
        "items": {"anyOf": [schema, schemas]},
        "any": {} if draft == 4 else True,
        "values": {"type": "array", "items": True},
        "enum": {"type": "array", "minItems": 1, "uniqueItems": True} if draft == 4 else {"type": "array"},
        "count": _shared("positiveInteger" if draft == 4 else "nonNegativeInteger", draft),
        "positive": {"type": "number", "exclusiveMinimum": 0},
        "exclusive": flag if draft == 4 else number,
        "type": {"anyOf": [_shared("simpleTypes", draft), {
            "type": "array", "items": _shared("simpleTypes", draft), "minItems": 1, "uniqueItems": True}]},
        "address": {"type": "string", "format": "uri"},
        "reference": {"type": "string", "format": "uri-reference"},
        "identifier": {"type": "string", "format": "uri-reference", "pattern": "^[^#]*#?$"},
        "anchor": {"type": "string", "pattern": "^[A-Za-z_][-A-Za-z0-9._]*$"},
        "pattern": {"type": "string", "format": "regex"},
        "vocabulary": {**_map(flag), "propertyNames": {"type": "string", "format": "uri"}},
        "required": strings,
        "dependentRequired": _map(strings),
        "dependencies": _map({"anyOf": [schema, strings]}),
    }


def _map(values: JsonValue) -> dict[str, JsonValue]:
    return {"type": "object", "additionalProperties": values}


def _shared(name: str, draft: int) -> JsonValue:
    return {"$ref": f"#/{'$defs' if draft == 2020 else 'definitions'}/{name}"}


def _definitions(draft: int) -> dict[str, JsonValue]:
    """Under the names that schemas refer to in the published ones."""
    schema: JsonValue = {"$dynamicRef": "#meta"} if draft == 2020 else {"$ref": "#"}
    count: JsonValue = {"type": "integer", "minimum": 0}
    name = "positiveInteger" if draft == 4 else "nonNegativeInteger"
    strings: dict[str, JsonValue] = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    if draft == 4:
        strings["minItems"] = 1
    return {
        "schemaArray": {"type": "array", "minItems": 1, "items": schema},
        name: count, f"{name}Default0": count,
        "simpleTypes": {"enum": list(_TYPES)},
        "stringArray": strings,
    }
