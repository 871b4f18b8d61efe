"""What the tests of the engine share: binding a grammar, reading a row as a set, closing answers."""

from __future__ import annotations

from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.ir import Grammar
from espalier.grammars.masks.configuration import Limits
from espalier.grammars.matcher import Matcher
from espalier.grammars.rows import MaskTable
from espalier.grammars.vocabulary import Vocabulary


def bind(grammar: Grammar, vocabulary: Vocabulary, table: MaskTable | None = None,
         limits: Limits | None = None) -> CompiledGrammar:
    return CompiledGrammar(grammar, vocabulary, table or MaskTable(vocabulary.size, 1 << 20), limits)


def allowed(grammar: CompiledGrammar, matcher: Matcher, budget: int | None = None) -> set[int]:
    """The ids that the row of a matcher allows."""
    row = matcher.row(budget)  # first: it may replace the array
    words = grammar.table.array[row]
    return {i for i in range(32 * len(words)) if words[i >> 5] >> (i & 31) & 1}
