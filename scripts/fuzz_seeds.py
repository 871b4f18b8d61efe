"""Seeds of the fuzzer, and how they are mutated: by bytes, by lines, and for JSON by its parts."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

KINDS = ("json_schema", "regex", "lark", "gbnf", "tags", "gguf", "tokenizer")
_TREES = ("json_schema", "tags", "tokenizer")

_KEYWORDS = """$ref $dynamicRef $defs # #/$defs/a allOf anyOf oneOf not if then else items prefixItems contains
    minContains maxContains uniqueItems properties required additionalProperties patternProperties propertyNames
    unevaluatedProperties unevaluatedItems dependentSchemas dependentRequired enum const multipleOf minimum maximum
    pattern format minLength maxLength minItems maxItems $schema $id $anchor type"""
_REGEX = r"""(?= (?! (?<= (?<! \b \B (?: (?i) \p{L} \P{Lu} \u{10FFFF} \1 {0,9999} {3} {2,} [^ - ] | ^ $ . *? +
    \d \W \cA ) ("""
_LARK = r"""| ~3 ~2..400 / /i " [ ] -> ? ! ( ) * .2 .. \u0000 // _a{x,y}:"""
_TAGS = """begin end content triggers tags type regex lark gbnf choices json_object json_schema at_least_one
    stop_after_first specials pattern grammar options schema <s> </s> <tool> <t </tool>"""
_GBNF = r"""| {2,400} {3} [^ ] " \x \u00e9 . ( ) * + ? # root"""
_WORDS = {
    "json_schema": _KEYWORDS.split(),
    "regex": _REGEX.split(),
    "lark": ["%import common.", "%ignore ", "\nstart: ", "\nA: ", "\\\n", *_LARK.split()],
    "gbnf": ["root ::= ", "\na ::= ", "\r\n", *_GBNF.split()],
    "tags": _TAGS.split(),
}
_ATOMS: list[Any] = [None, True, False, 0, 1, -1, 2.5, 1e308, 10**25, 1e-300, "", "a", "^a*$", "#", "date", "object",
                     "array", "string", "integer", [], {}, [1, 1.0], {"type": "object"}, {"$ref": "#"}, "\ud800", "é漢"]
_WRITTEN = {
    "regex": [r"^(a|bc)*\d{2,5}[^x-z]?$", r"(?=.*\d)(?!.*x)\w+\b.", r"\p{Lu}[\u00e9-\u{1F600}]{1,3}|(?<!a)b"],
    "lark": ['start: a+ [B] ("x" | /y+/i)~1..3\n?a: a "+" B | B -> c\nB.2: "0".."9"\n%import common (INT, WS)\n'
             "%ignore WS\n_l{i, s}: i (s i)*\n"],
    "gbnf": ['root ::= e (ws "," ws e){0,3}\ne ::= e [+*] e | "(" e ")" | [0-9]+ | "\\x41\\u00e9"\n'
             "ws ::= [ \\t\\n]*\n"],
    "json_schema": ['{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'],
    "tags": [
        json.dumps({"type": "tags", "triggers": ["<t"], "tags": [
            {"begin": "<tool>", "end": "</tool>", "content": {"type": "json_schema", "schema": '{"type": "object"}'}},
            {"begin": "<think>", "end": "</think>"}], "at_least_one": True}),
        json.dumps({"type": "tags", "specials": ["<s>"], "stop_after_first": True, "tags": [
            {"begin": "<s>f", "end": "<s>", "content": {"type": "regex", "pattern": "[a-f]{1,3}|"}},
            {"begin": "<s>g", "end": ";", "content": {"type": "lark", "grammar": 'start: "x" | start "+" start'}},
            {"begin": "!", "content": {"type": "choices", "options": ["ab", "c"]}}]})],
}


def seeds(folders: Iterable[Path]) -> dict[str, list[bytes]]:
    """By kind, at least one each."""
    found: dict[str, list[bytes]] = {kind: [text.encode() for text in texts] for kind, texts in _WRITTEN.items()}
    found["gguf"] = [_gguf()]
    found["tokenizer"] = [json.dumps(_tokenizer(fallback)).encode() for fallback in (False, True)]
    for folder in folders:
        for path in sorted(folder.rglob("*.json")):
            for kind, source in _sources(json.loads(path.read_text("utf-8"))):
                text = source if isinstance(source, str) else json.dumps(source)
                if len(text) < 20_000:
                    found[kind].append(text.encode("utf-8", "surrogatepass"))
    return found


def _sources(case: Any) -> list[tuple[str, Any]]:
    groups = case if isinstance(case, list) else [case]
    found: list[tuple[str, Any]] = []
    for group in groups:
        if not isinstance(group, dict):
            continue
        held = group.get("input")
        given: dict[str, Any] = held if isinstance(held, dict) else group
        found += [(kind, given[key]) for key, kind in (("schema", "json_schema"), ("regex", "regex"), ("lark", "lark"),
                                                       ("gbnf", "gbnf")) if isinstance(given.get(key), dict | str)]
    return found


def _tokenizer(fallback: bool) -> dict[str, Any]:
    letters = [chr(b) for b in range(0x21, 0x7F)] + [chr(0x100 + i) for i in range(0x44)]
    words = [f"<0x{b:02X}>" for b in range(256)] + ["\u2581", "\u2581a"] if fallback else letters
    vocabulary = {word: i for i, word in enumerate([*words, "ab"])} if not fallback else {
        word: i for i, word in enumerate([*words, "a", "b", "ab"])}
    end = {"id": len(vocabulary), "content": "</s>", "special": True, "single_word": False, "lstrip": False,
           "rstrip": False, "normalized": False}
    return {"version": "1.0", "added_tokens": [end], "model": {
        "type": "BPE", "byte_fallback": fallback, "vocab": vocabulary, "merges": ["a b"]}}


def _gguf() -> bytes:
    texts = ["<s>", "</s>", *(chr(b) for b in range(0x21, 0x7F)), "ab"]
    types = [3, 3, *([1] * (len(texts) - 2))]

    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text.encode())) + text.encode()

    def array(name: str, kind: int, count: int, raw: bytes) -> bytes:
        return string(name) + struct.pack("<IIQ", 9, kind, count) + raw

    keys = [string("tokenizer.ggml.model") + struct.pack("<I", 8) + string("gpt2"),
            string("tokenizer.ggml.pre") + struct.pack("<I", 8) + string("smollm"),
            array("tokenizer.ggml.tokens", 8, len(texts), b"".join(map(string, texts))),
            array("tokenizer.ggml.merges", 8, 1, string("a b")),
            array("tokenizer.ggml.token_type", 5, len(types), struct.pack(f"<{len(types)}i", *types)),
            string("tokenizer.ggml.eos_token_id") + struct.pack("<II", 4, 1)]
    tensor = string("w") + struct.pack("<IQIQ", 1, 32, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys)) + b"".join(keys) + tensor
    return head + bytes(-len(head) % 32) + bytes(128)


class Mutator:
    def __init__(self, random: Random, corpus: dict[str, list[bytes]]) -> None:
        self._random = random
        self._corpus = corpus
        self._trees = {kind: [json.loads(text) for text in texts] for kind, texts in corpus.items()
                       if kind in _TREES}

    def mutated(self, kind: str) -> bytes:
        random = self._random
        if kind in self._trees and random.random() < 0.8:
            return json.dumps(self._tree(kind)).encode()
        data = bytearray(random.choice(self._corpus[kind]))
        for _ in range(random.choice((1, 1, 2, 3, 8))):
            data = self._bytes(kind, data)
        return self._text(data) if kind not in ("gguf", "tokenizer") else bytes(data)

    @staticmethod
    def _text(data: bytearray) -> bytes:
        return bytes(data).decode("utf-8", "replace").encode()

    def _bytes(self, kind: str, data: bytearray) -> bytearray:
        random = self._random
        a, b = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
        b = min(b, a + random.choice((1, 2, 8, 60)))
        way = random.randrange(8)
        if way == 0:
            del data[a:b]
        elif way == 1:
            data[a:a] = data[a:b] * random.choice((1, 2, 30, 2000 if b - a < 20 else 1))
        elif way == 2 and data:
            data[min(a, len(data) - 1)] = random.randrange(256)
        elif way == 3:
            other = random.choice(self._corpus[kind])
            c = random.randrange(len(other) + 1)
            data[a:b] = other[c:c + random.choice((1, 10, 100))]
        elif way == 4 and len(data) >= a + 8:
            data[a:a + 8] = struct.pack("<q", random.choice((0, -1, 1, 2**31, 2**62, 255, 65536)))
        elif kind in _WORDS:
            data[a:a] = (random.choice(_WORDS[kind]) * random.choice((1, 1, 1, 3, 40))).encode()
        else:
            data[a:b] = random.randbytes(b - a)
        return data

    # JSON

    def _tree(self, kind: str) -> Any:
        tree = copy.deepcopy(self._random.choice(self._trees[kind]))
        for _ in range(self._random.choice((1, 1, 2, 4))):
            tree = self._changed(kind, tree)
        return tree

    def _changed(self, kind: str, tree: Any) -> Any:
        random = self._random
        places, words = _places(tree), _WORDS["tags" if kind == "tags" else "json_schema"]
        if not places:
            return self._part(kind)
        holder, key = random.choice(places)
        way = random.randrange(6)
        if way == 0:
            del holder[key]
        elif way == 1:
            holder[key] = self._part(kind)
        elif way == 2:
            holder[key] = copy.deepcopy(random.choice(_ATOMS))  # some are lists and objects
        elif way == 3 and isinstance(holder, dict):
            holder[random.choice(words)] = self._part(kind)
        elif way == 4 and isinstance(holder, dict):
            holder[random.choice(words)] = holder.pop(key)
        else:
            for _ in range(random.choice((1, 2, 30))):
                holder[key] = random.choice(([holder[key]], {random.choice(words): holder[key]}))
        return tree

    def _part(self, kind: str) -> Any:
        tree = self._random.choice(self._trees[kind])
        places = _places(tree)
        if not places:
            return copy.deepcopy(tree)
        holder, key = self._random.choice(places)
        return copy.deepcopy(holder[key])


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """(holder, key or index) of every part, by an explicit stack."""
    found: list[tuple[Any, Any]] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            found.append((node, key))
            stack.append(node[key])
    return found
