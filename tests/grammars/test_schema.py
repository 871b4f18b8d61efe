"""JSON Schema: for every keyword, texts that can be produced and texts that cannot. Compact, if not said otherwise."""

from __future__ import annotations

import json

import msgspec
import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import AnyObject, JsonSchema
from espalier.grammars.limits import Limits

from .naive import Naive

TABLE = [
    # strings
    ('{"type":"string"}', ['""', '"a\\u00e9\\/\\n"', '"\\ud83d\\ude00"', '"\x7f😀"'],
     ['"\\ud83d"', '"\\ude00"', '"\\ud83d\\u0041"', '"a', '"\t"', '"\\x"']),
    ('{"type":"string","maxLength":1}', ['""', '"é"', '"\\ud83d\\ude00"', '"😀"', '"\\n"'],
     ['"ab"', '"\\ud83d\\ude00a"']),
    ('{"type":"string","minLength":2}', ['"ab"', '"\\u0061é"'], ['"a"', '""', '"\\ud83d\\ude00"']),
    ('{"type":"string","minLength":6,"maxLength":7}', ['"abcdef"', '"abcdef\\n"'], ['"abcde"', '"abcdefgh"']),
    ('{"type":"string","minLength":3.0}', ['"abc"'], ['"ab"']),
    ('{"type":"string","pattern":"^a+$","minLength":2,"maxLength":3}', ['"aa"', '"aaa"'], ['"a"', '"aaaa"']),
    ('{"type":"string","pattern":"^(ab)*$","maxLength":5}', ['""', '"abab"'], ['"ababab"', '"ababa"']),
    ('{"type":"string","pattern":"b","allOf":[{"pattern":"^a"},{"maxLength":3}]}', ['"ab"', '"acb"'],
     ['"b"', '"accb"']),
    ('{"type":"string","pattern":"^[\\\\s\\\\S]$"}', ['"\\n"', '"\\u0000"', '"\\""', '"/"', '"é"'],
     ['"\\u000a"', '"\\u0041"', '"\\/"', '"\\u00e9"', '"\\u0000\\u0000"']),
    ('{"type":"string","const":"é\\n"}', ['"é\\n"'], ['"\\u00e9\\n"']),
    ('{"type":"string","format":"x-own"}', ['"anything"'], ["1"]),
    # types, enums
    ("true", ["1", "[]", "null"], ["", "x"]),
    ('{"type":["boolean","null"]}', ["true", "false", "null"], ["0", '"null"']),
    ('{"enum":[1,"1",true,null,[1],{"a":1}]}', ["1", '"1"', "true", "null", "[1]", '{"a":1}'],
     ["false", "[1,1]", '{"a":2}']),
    ('{"enum":["a","b","c"],"pattern":"[bc]","not":{"const":"c"}}', ['"b"'], ['"a"', '"c"']),
    ('{"enum":[1,2,3],"minimum":2}', ["2", "3"], ["1"]),
    ('{"enum":[[1],[1,2],["a"]],"items":{"type":"integer"},"minItems":2}', ["[1,2]"], ["[1]", '["a"]']),
    ('{"anyOf":[{"enum":["aa","ab"]},{"type":"string","maxLength":1}]}', ['"aa"', '"x"', '""'], ['"ac"', '"xy"']),
    # lists
    ('{"type":"array","items":{"type":"null"}}', ["[]", "[null,null]"], ["[null,]", "[1]", "null"]),
    ('{"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2}', ["[null]", "[null,null]"],
     ["[]", "[null,null,null]"]),
    ('{"type":"array","items":{"type":"null"},"minItems":70,"maxItems":72}',
     ["[" + ",".join(["null"] * n) + "]" for n in (70, 72)], ["[" + ",".join(["null"] * n) + "]" for n in (69, 73, 1)]),
    ('{"type":"array","maxItems":0}', ["[]"], ["[1]"]),
    ('{"type":"array","prefixItems":[{"const":1},{"const":2}],"items":false}', ["[]", "[1]", "[1,2]"],
     ["[2]", "[1,2,3]"]),
    ('{"type":"array","prefixItems":[{"const":1}],"minItems":2,"maxItems":3}', ["[1,9]", '[1,{},"x"]'],
     ["[1]", "[1,1,1,1]"]),
    ('{"type":"array","prefixItems":[{"const":1},false]}', ["[]", "[1]"], ["[1,1]"]),
    ('{"type":"array","items":false}', ["[]"], ["[1]"]),
    ('{"type":"array","items":{"enum":["a","ab",1,true]},"uniqueItems":true,"minItems":2,"maxItems":3}',
     ['["a","ab"]', '["ab","a",1]', '[true,1,"a"]'], ["[]", '["a"]', '["a","a"]', '["ab",1,"ab"]']),
    ('{"enum":[[1,1],[1,2]],"uniqueItems":true}', ["[1,2]"], ["[1,1]"]),
    # objects
    ('{"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"],'
     '"additionalProperties":false}',
     ['{"b":2}', '{"a":1,"b":2}', '{"b":2,"c":3}', '{"a":1,"b":2,"c":3}'],
     ["{}", '{"a":1}', '{"b":2,"a":1}', '{"c":3}', '{"b":2,}', '{"b":2,"b":2}', '{"a":1,"c":3}']),
    ('{"type":"object","properties":{"a":{"const":1}}}',
     ["{}", '{"a":1}', '{"a":1,"b":[]}', '{"b":1}', '{"aa":1}', '{"":1}'],
     ['{"a":2}', '{"b":1,"b":2}', '{"\\u0061":1}', '{"b":1,"a":2}']),
    ('{"type":"object","properties":{"a":false,"ab":{"const":1}}}', ["{}", '{"ab":1}', '{"abc":0}'],
     ['{"a":1}', '{"ab":2}']),
    ('{"type":"object","required":["z"],"properties":{"a":{"const":1}},"additionalProperties":{"type":"boolean"}}',
     ['{"z":true}', '{"a":1,"z":false,"k":true}'], ['{"a":1}', '{"z":1}', '{"k":true,"z":true}']),
    ('{"type":"object","additionalProperties":{"type":"integer"}}', ["{}", '{"a":1,"b":2}'],
     ['{"a":1,"a":2}', '{"a":""}']),
    ('{"type":"object","additionalProperties":false}', ["{}"], ['{"a":1}']),
    ('{"type":"object","minProperties":1,"maxProperties":2,"properties":{"a":{"const":1},"b":{"const":2}}}',
     ['{"a":1}', '{"a":1,"b":2}', '{"b":2,"x":0}', '{"x":0,"y":0}'], ["{}", '{"a":1,"b":2,"x":0}']),
    ('{"type":"object","minProperties":2,"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},'
     '"additionalProperties":false}', ['{"a":1,"b":2}', '{"a":1,"c":3}', '{"b":2,"c":3}'],
         ['{"a":1}', '{"c":3}', "{}"]),
    ('{"type":"object","propertyNames":{"enum":["x","y"]},"additionalProperties":{"type":"null"}}',
     ["{}", '{"x":null}', '{"x":null,"y":null}', '{"y":null,"x":null}'],
     ['{"z":null}', '{"x":1}', '{"x":null,"x":null}', '{"y":null,"x":null,"y":null}', '{"x":null,}']),
    ('{"type":"object","propertyNames":{"enum":["x","y","z"]},"minProperties":2,"maxProperties":2,'
     '"not":{"required":["y"]},"additionalProperties":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"null"}}}',
     ['{"x":null,"z":null}', '{"z":null,"x":null}'], ['{"x":null}', '{"x":null,"y":null}', '{"z":null,"z":null}']),
    ('{"type":"object","patternProperties":{"^[ab]$":{"type":"null"}},"additionalProperties":false}',
     ['{"b":null,"a":null}', '{"a":null}', "{}"], ['{"ab":null}', '{"b":null,"b":null}']),
    ('{"type":"array","uniqueItems":true,"items":{"type":"object","minProperties":1,"propertyNames":{"enum":["x","y"]},'
     '"additionalProperties":{"enum":[1,2]}}}',
     ['[{"y":1,"x":1},{"x":2,"y":1}]', '[{"x":1},{"y":1}]'], ['[{"y":1,"x":2},{"x":2,"y":1}]', '[{"x":1},{"x":1}]']),
    ('{"properties":{"a":false,"b":false},"additionalProperties":false,"type":"object"}', ["{}"], ['{"a":1}']),
    ('{"type":"object","patternProperties":{"^n":{"type":"integer"},"e$":{"maximum":3}},"additionalProperties":false}',
     ["{}", '{"n":9}', '{"nose":2}', '{"be":"x"}'], ['{"nose":9}', '{"nose":"x"}', '{"k":1}', '{"n":""}']),
    ('{"type":"object","properties":{"na":{"minimum":5}},"patternProperties":{"^n":{"type":"integer"}}}',
     ['{"na":5}', '{"nb":1}', '{"k":"x"}'], ['{"na":4}', '{"na":5.5}', '{"nb":""}']),
    # references, branches
    ('{"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/n"}},'
     '"required":["v"],"additionalProperties":false}},"$ref":"#/$defs/n"}',
     ['{"v":1}', '{"v":1,"next":{"v":2,"next":{"v":3}}}'], ['{"next":{"v":1}}', '{"v":1,"next":{}}']),
    ('{"$defs":{"a/b~c d":{"const":1}},"$ref":"#/$defs/a~1b~0c%20d"}', ["1"], ["2"]),
    ('{"$defs":{"x":{"$anchor":"here","const":1}},"$ref":"#here"}', ["1"], ["2"]),
    ('{"$id":"http://a.example/s","$defs":{"x":{"$id":"t","$defs":{"y":{"const":1}}}},"$ref":"t#/$defs/y"}', ["1"],
     ["2"]),
    ('{"$ref":"#/$defs/s","maxLength":2,"$defs":{"s":{"type":"string","minLength":2}}}', ['"ab"'], ['"a"', '"abc"']),
    ('{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},'
     '{"properties":{"a":{"minimum":3},"b":{"type":"null"}},"additionalProperties":false}]}',
     ['{"a":3}', '{"a":4,"b":null}'], ['{"a":2}', '{"a":3,"c":1}', "{}"]),
    ('{"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"null"}},"required":["k"]},'
     '{"type":"object","properties":{"k":{"const":"b"},"y":{"type":"null"}},"required":["k","y"]}]}',
     ['{"k":"a"}', '{"k":"b","y":null}', '{"k":"a","y":1}'], ['{"k":"b"}', '{"k":"a","x":1}', "{}"]),
    ('{"oneOf":[{"type":"integer"},{"type":"string"},{"type":"null"}]}', ["1", '"a"', "null"], ["1.5", "[]"]),
    ('{"oneOf":[{"minimum":5},{"maximum":7}],"type":"integer"}', ["4", "8"], ["5", "6", "7"]),
    ('{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":false,'
     '"oneOf":[{"required":["a"]},{"required":["b"]}]}', ['{"a":1}', '{"b":2}'], ["{}", '{"a":1,"b":2}']),
    ('{"not":{"type":["string","object","array"]}}', ["1", "null", "true"], ['""', "{}", "[]"]),
    ('{"not":{"type":["integer","object","array"]}}', ["1.5", "-0.10", "true", '""'], ["1", "1.0", "{}", "1e1"]),
    ('{"oneOf":[{"type":"integer"},{"type":"number","minimum":3}]}', ["1", "3.5"], ["4", "4.0", "2.5"]),
    ('{"oneOf":[{"type":"array","items":{"type":"string"}},{"type":"array","items":{"type":"object"},'
     '"uniqueItems":true,"minItems":1}]}', ["[]", '["a","a"]', '[{},{"a":1}]'], ["[{},{}]", '[{},"a"]']),
    ('{"type":"string","not":{"enum":["a","b.c"]}}', ['"b"', '"bxc"', '""'], ['"a"', '"b.c"']),
    ('{"type":"string","not":{"pattern":"^x"}}', ['"ax"', '""'], ['"x"', '"xa"']),
    ('{"type":"number","not":{"const":3}}', ["2", "3.5"], ["3", "3.0"]),
    ('{"type":"object","properties":{"t":{"enum":["a","b"]},"v":{}},"required":["t"],"additionalProperties":false,'
     '"if":{"properties":{"t":{"const":"a"}}},"then":{"required":["v"]},"else":{"properties":{"v":false}}}',
     ['{"t":"a","v":1}', '{"t":"b"}'], ['{"t":"a"}', '{"t":"b","v":1}']),
    ('{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":false,'
     '"dependentRequired":{"a":["b"]}}', ["{}", '{"b":2}', '{"a":1,"b":2}'], ['{"a":1}']),
    ('{"type":"object","properties":{"a":{"const":1},"b":{"type":"integer"}},"additionalProperties":false,'
     '"dependentSchemas":{"a":{"properties":{"b":{"minimum":5}}}}}', ['{"b":1}', '{"a":1,"b":5}'], ['{"a":1,"b":4}']),
    # older drafts
    ('{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","minimum":0,"exclusiveMinimum":true}',
     ["1"], ["0"]),
    ('{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"const":1}],"additionalItems":false}',
     ["[]", "[1]"], ["[2]", "[1,1]"]),
    ('{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{},"b":{}},'
     '"additionalProperties":false,"dependencies":{"a":["b"]}}', ['{"b":0}', '{"a":0,"b":0}'], ['{"a":0}']),
    ('{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"dependencies":'
     '{"enum":[1]},"items":{"enum":[2]}},"additionalProperties":false}',
     ['{"dependencies":1,"items":2}'], ['{"dependencies":2}']),
    # impossible parts are absent
    ('{"type":"object","properties":{"a":{"type":"string","enum":[1]},"b":{"const":2}},"additionalProperties":false}',
     ["{}", '{"b":2}'], ['{"a":1}', '{"a":""}']),
    ('{"type":"object","properties":{"self":{"$ref":"#"},"b":{"const":1}},"required":["b"],"additionalProperties":false}',
     ['{"b":1}', '{"self":{"b":1},"b":1}'], ["{}"]),
    ('{"anyOf":[{"$ref":"#/$defs/loop"},{"type":"null"}],"$defs":{"loop":{"type":"object","properties":'
     '{"x":{"$ref":"#/$defs/loop"}},"required":["x"]}}}', ["null"], ["{}", '{"x":null}']),
]


@pytest.mark.parametrize(("schema", "accepted", "rejected"), TABLE, ids=[row[0][:70] for row in TABLE])
def test_texts_follow_the_schema(schema: str, accepted: list[str], rejected: list[str]) -> None:
    naive = Naive(compile_constraint(JsonSchema(schema)))
    assert [text for text in accepted if not naive.accepts(text)] == []
    assert [text for text in rejected if naive.accepts(text)] == []


ANY = '{"a":{"b":[1,{"c":[]},{}],"d":"x"},"e":[[true]]}'


def test_a_negated_object_names_places_that_callers_know() -> None:
    schema = {"not": {"properties": {"a": {"items": {"type": "string"}}}, "patternProperties": {"^b": {"type": "null"}},
                      "propertyNames": {"pattern": "^[ab]"}, "additionalProperties": {"type": "object"}}}
    grammar = compile_constraint(JsonSchema(json.dumps(schema)))
    assert all(rule.pointer.isascii() and rule.name.isascii() for rule in grammar.rules)
    msgspec.msgpack.encode(grammar)


@pytest.mark.parametrize("spacing", ["compact", "spaced", "indented"])
def test_each_spacing_has_one_layout(spacing: str) -> None:
    def closed(**properties: object) -> dict[str, object]:
        return {"type": "object", "properties": properties, "additionalProperties": False}

    rows = {"type": "array", "items": closed(c={"type": "array", "items": {"type": "null"}})}
    schema = closed(a=closed(b=rows, d={"type": "string"}),
                    e={"type": "array", "items": {"enum": [[True], {"k": [1, {}]}]}, "minItems": 1})
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema), spacing)))  # type: ignore[arg-type]
    value = {"a": {"b": [{"c": [None]}, {}, {"c": []}], "d": "x"}, "e": [[True], {"k": [1, {}]}]}
    layouts = {"compact": json.dumps(value, separators=(",", ":")), "spaced": json.dumps(value),
               "indented": json.dumps(value, indent=2)}
    for name, text in layouts.items():
        assert naive.accepts(text) == (name == spacing), name
    assert naive.accepts("{}")


@pytest.mark.parametrize("spacing", ["compact", "spaced"])
def test_any_object_is_any_object(spacing: str) -> None:
    naive = Naive(compile_constraint(AnyObject(spacing)))  # type: ignore[arg-type]
    separators = (",", ":") if spacing == "compact" else None
    assert naive.accepts(json.dumps(json.loads(ANY), separators=separators))
    assert naive.accepts("{}")
    for text in ("[]", "1", '{"a":1,"a":2}', "", '{"a"}'):
        assert not naive.accepts(text)


def test_unknown_keywords_are_notes() -> None:
    grammar = compile_constraint(JsonSchema('{"type":"string","x-a":1}'))
    assert len(grammar.notes) == 1
    assert "x-a at #/x-a" in grammar.notes[0]
    inner = compile_constraint(JsonSchema('{"properties":{"b":{"format":"own","nullable":true}}}'))
    assert {note.split(" at ")[0] for note in inner.notes} == {"nullable", "format 'own'"}


def test_notes_name_every_place_of_schemas_that_say_the_same() -> None:
    inner = {"type": "object", "properties": {"x": {"format": "own"}, "y": {"items": {"format": "own"}}}}
    schema = {"properties": {"a": inner, "b": {"properties": {"c": inner}}, "d": {"properties": {"c": inner}}}}
    places = {note.split(" ")[3] for note in compile_constraint(JsonSchema(json.dumps(schema))).notes}
    assert places == {f"#/properties/{way}{end}" for way in ("a", "b/properties/c", "d/properties/c")
                      for end in ("/properties/x/format", "/properties/y/items/format")}


@pytest.mark.parametrize(("one", "other", "rules"), [
    ({"properties": {"x": {"type": "null"}}}, {"properties": {"x": {"type": "null"}}}, 3),
    ({"title": "a", "properties": {"x": {"type": "null"}}}, {"title": "b", "properties": {"x": {"type": "null"}}}, 3),
    ({"enum": [1, 2]}, {"enum": [1, 2]}, 2),
    ({"properties": {"x": {"const": 1}}}, {"properties": {"x": {"const": True}}}, 5),
])
def test_equal_parts_are_one_rule(one: object, other: object, rules: int) -> None:
    parts = [{"type": "object", "additionalProperties": False, **part} if "properties" in part else part  # type: ignore
             for part in (one, other)]
    schema = {"type": "object", "additionalProperties": False, "properties": {"a": parts[0], "b": parts[1]}}
    assert len(compile_constraint(JsonSchema(json.dumps(schema))).rules) == rules


def test_the_order_of_names_keeps_schemas_apart() -> None:
    parts = [{"properties": {name: {"type": "null"} for name in names}} for names in ("xy", "yx")]
    naive = Naive(compile_constraint(JsonSchema(json.dumps({"type": "array", "prefixItems": parts}))))
    assert naive.accepts('[{"x":null,"y":null},{"y":null,"x":null}]')
    assert not naive.accepts('[{"x":null,"y":null},{"x":null,"y":null}]')


def test_definitions_stay_shared() -> None:
    defs = {f"d{i}": {"type": "object", "properties": {"l": {"$ref": f"#/$defs/d{i + 1}"},
        "r": {"$ref": f"#/$defs/d{i + 1}"}},
                      "additionalProperties": False} for i in range(22)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**defs, "d22": {"type": "null"}}}
    assert len(compile_constraint(JsonSchema(json.dumps(schema))).rules) == 23


def test_a_longer_length_costs_no_state() -> None:
    sizes = [sum(rule.states for rule in compile_constraint(JsonSchema(json.dumps({"type": "string",
        "maxLength": n}))).rules)
             for n in (50, 5000)]
    assert sizes[0] == sizes[1]


def test_optional_properties_cost_linear_states() -> None:
    def states(count: int) -> int:
        names = {f"property{i}": {"type": "integer"} for i in range(count)}
        grammar = compile_constraint(JsonSchema(json.dumps({"properties": names, "type": "object",
                                                            "additionalProperties": False})))
        return sum(rule.states for rule in grammar.rules)
    assert states(200) < 5 * states(50)


def test_deep_schemas_compile() -> None:
    schema: object = {"type": "null"}
    for _ in range(256):
        schema = {"type": "array", "items": schema, "minItems": 1}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema)), Limits()))
    assert naive.accepts("[" * 256 + "null" + "]" * 256)
    assert not naive.accepts("[" * 255 + "null" + "]" * 255)
    nested: object = {"type": "null"}
    for keyword in ("anyOf", "allOf") * 128:
        nested = {keyword: [nested]}
    assert Naive(compile_constraint(JsonSchema(json.dumps(nested)))).accepts("null")


def test_every_prefix_of_a_sentence_can_be_continued_without_a_register() -> None:
    """Declared properties leave no dead ends: from each live set of threads some text closes."""
    schema = {"type": "object", "properties": {f"p{i:02}": {"const": i} for i in range(12)}, "required": ["p03", "p07"],
              "additionalProperties": False}
    naive = Naive(compile_constraint(JsonSchema(json.dumps(schema))))
    assert all(rule.register is None for rule in naive.grammar.rules)
    assert naive.accepts('{"p01":1,"p03":3,"p07":7,"p11":11}')
    for prefix in ('{"p04', '{"p03":3,"p08', '{"p03":3,"p07":7,"p06', '{"p11'):
        threads = naive.start()
        for byte in prefix.encode():
            threads = naive.step(threads, byte)
        assert not threads, prefix
