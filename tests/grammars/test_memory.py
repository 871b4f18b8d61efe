"""Distinct schemas without end leave memory flat: every cache is bounded by bytes, and what it lets go is gone."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from contextlib import closing
from random import Random

import msgspec
import psutil
import pytest

from espalier.grammars.bodies.body_store import BodyStore
from espalier.grammars.cache import GrammarCache
from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import Constraint, JsonSchema
from espalier.grammars.ir import Grammar
from espalier.grammars.library import Library
from espalier.grammars.rows import MaskTable
from espalier.grammars.vocabulary import Vocabulary
from espalier.runtime.compile_process import CompileProcess

MB = 1 << 20


def schema(number: int) -> JsonSchema:
    """One of its own for each number: other names, bounds, patterns and lengths."""
    random = Random(number)

    def word() -> str:
        return "".join(random.choice("abcdefghij") for _ in range(random.randint(3, 9)))

    def value() -> object:
        return random.choice([
            {"type": "string", "maxLength": random.randint(1, 5000)},
            {"type": "integer", "minimum": -random.randrange(10**6), "maximum": random.randrange(10**6)},
            {"type": "string", "pattern": f"^{word()}[a-z]{{1,{random.randint(1, 9)}}}$"},
            {"enum": [word() for _ in range(5)]},
            {"type": "array", "items": {"type": "string", "format": "date"}, "maxItems": random.randint(1, 50)},
            {"type": "object", "additionalProperties": {"type": "number", "multipleOf": 0.5}},
        ])

    properties = {f"{word()}{number}": value() for _ in range(random.randint(1, 5))}
    text = json.dumps({"type": "object", "properties": properties, "required": [next(iter(properties))]})
    return JsonSchema(text, order="any" if number % 3 == 0 else "schema")


class Engine:
    """What lives as long as a server: a vocabulary with its bodies, one table of masks."""

    def __init__(self) -> None:
        words = [bytes([byte]) for byte in range(256)]
        words += [b"", *(f"w{k}".encode() for k in range(300)), b'":', b'","', b'{"']
        self.vocabulary = Vocabulary(words, special=(256,), stop=(256,), encode=lambda text: list(text.encode()))
        self.vocabulary.bodies = BodyStore(self.vocabulary.trie, words, self.vocabulary.words, byte_budget=MB // 4,
                                           worth=256, dense=8)
        self.table = MaskTable(self.vocabulary.size, MB // 8)

    def use(self, grammar: Grammar, number: int) -> None:
        """Binds it, and writes the beginning of a text."""
        matcher, random = CompiledGrammar(grammar, self.vocabulary, self.table).matcher(), Random(number)
        for _ in range(6):
            matcher.row(matcher.min_tokens() + 5)
            tokens = [token for token in range(256) if matcher.allows(token)]
            if not tokens:
                break
            matcher.accept(random.choice(tokens))
        matcher.close()


def grown(count: int, warm: int, compiled: Callable[[Constraint], Grammar], check: Callable[[], None]) -> float:
    """Bytes by which this process grows from schema `warm` to schema `count`."""
    engine, process, before = Engine(), psutil.Process(), 0
    for number in range(count):
        engine.use(compiled(schema(number)), number)
        if number == warm:
            gc.collect()
            before = process.memory_info().rss
        check()
    assert engine.table.pinned == 0
    assert len(engine.table.views) <= len(engine.table.array)
    gc.collect()
    return process.memory_info().rss - before


def test_a_hundred_schemas_leave_memory_flat() -> None:
    library = Library(MB // 8)
    cache = GrammarCache(lambda constraint: compile_constraint(constraint, library=library), byte_budget=MB // 4)

    def check() -> None:
        assert library.used_bytes <= MB // 8
        assert cache.used_bytes <= MB // 4

    assert grown(120, 60, cache.get, check) < 8 * MB
    assert 0 < len(cache) < 60
    assert library.used_bytes > MB // 16


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_schemas_through_the_contained_compile_leave_memory_flat() -> None:
    decoder = msgspec.msgpack.Decoder(Grammar)
    with closing(CompileProcess(workers=1)) as pool:
        pool.compile(JsonSchema("{}"))
        workers = [child for child in psutil.Process().children() if "compile_worker" in "".join(child.cmdline())]
        sizes: list[int] = []

        def check() -> None:
            sizes.append(sum(worker.memory_info().rss for worker in workers))

        assert grown(10_000, 4_000, lambda one: decoder.decode(pool.compile(one)), check) < 16 * MB
        assert sizes[-1] - sizes[4_000] < 32 * MB
        assert workers[0].is_running()


def test_what_a_compilation_made_is_freed_without_the_collector() -> None:
    def garbage(count: int) -> int:
        properties = {f"p{k}": {"oneOf": [{"type": "string", "pattern": f"^{k}"}, {"const": k}]} for k in range(count)}
        constraint = JsonSchema(json.dumps({"properties": properties}), order="any", spelling="any")
        gc.collect()
        gc.disable()
        try:
            compile_constraint(constraint)
            return gc.collect()
        finally:
            gc.enable()

    assert garbage(30) - garbage(10) < 50
