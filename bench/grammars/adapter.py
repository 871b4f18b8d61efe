"""Our engine behind the face that the harness of grammar engines asks for: `bench.py PATH/adapter.py:Engine`.

Its profile: `", "` and `": "` between items, keys in any order, every spelling, and the grammar's own masks (laws 4 and
5 off, as the harness has no budget and its texts are tokenized whole).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# The harness loads this file by path, in its own folder; its interpreter need not have us installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from engines.base import CompileError, EngineBase, MatcherBase

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import Constraint, Gbnf, JsonSchema, Lark, Regex
from espalier.grammars.errors import ConstraintError
from espalier.grammars.library import Library
from espalier.grammars.matcher import Matcher as Walker
from espalier.grammars.matcher import TokenRejected, rows_of
from espalier.grammars.rows import MaskTable
from espalier.grammars.standard import prepare_bodies
from espalier.grammars.vocabulary import Vocabulary
from espalier.runtime.collector import keep_loaded


def constraint(kind: str, source: Any) -> Constraint:
    if kind == "json_schema":
        return JsonSchema(json.dumps(source), spacing="spaced", order="any", spelling="any")
    return {"regex": Regex, "ebnf": Gbnf, "lark": Lark}[kind](source)


class Matcher(MatcherBase):  # type: ignore[misc]  # (the harness is untyped)
    __slots__ = ("filled", "into", "views", "walker")  # filled: the caller's row, and `into` its words

    def __init__(self, walker: Walker, table: MaskTable) -> None:
        self.walker = walker
        self.views = table.views
        self.filled: Any = None

    def fill(self, mask_row: Any) -> None:
        if mask_row is not self.filled:
            self.filled, self.into = mask_row, memoryview(mask_row)
        self.into[:] = self.views[self.walker.row(None)]

    def accept(self, token: int) -> bool:
        try:
            self.walker.accept(token)
        except TokenRejected:
            return False
        return True

    def forced(self) -> list[int]:
        return self.walker.forced(64)


class Engine(EngineBase):  # type: ignore[misc]
    name = "espalier"
    kinds = ("json_schema", "regex", "lark", "ebnf")

    def __init__(self, tok: Any) -> None:
        """tok: the harness's TokData."""
        self.vocabulary = Vocabulary(tok.tokens, special=tok.special, stop=(tok.eos,), encode=tok.encode,
                                     size=tok.vocab_size)
        prepare_bodies(self.vocabulary)
        self.table = MaskTable(self.vocabulary.size)
        self.library = Library()
        keep_loaded()  # as the process that serves does; the harness collects before each case

    def version(self) -> str:
        return "espalier"

    def compile(self, kind: str, source: Any) -> CompiledGrammar:
        try:
            grammar = compile_constraint(constraint(kind, source), library=self.library)
            return CompiledGrammar(grammar, self.vocabulary, self.table)
        except ConstraintError as error:
            raise CompileError(str(error)[:300]) from error

    def start(self, compiled: CompiledGrammar) -> Matcher:
        return Matcher(compiled.matcher(forcing=False, closing=False), self.table)

    def compiled_bytes(self, compiled: CompiledGrammar) -> int:
        return sum(array.nbytes for array in compiled.tables)

    def batch_fill(self, matchers: Sequence[Matcher], mask: Any) -> None:
        self.table.gather(rows_of([matcher.walker for matcher in matchers]), mask)
