"""A grammar that is a list of texts: small enough to check every promise of a matcher by looking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from espalier.runtime.constraints import Constraints

Text = tuple[int, ...]


class Texts(msgspec.Struct, frozen=True):
    """What `Define.grammar` encodes here."""

    texts: tuple[Text, ...]


def encode_texts(texts: Iterable[Iterable[int]]) -> bytes:
    return msgspec.msgpack.encode(Texts(tuple(map(tuple, texts))))


class MaskRows:
    """A table that only grows: one row for each set of tokens."""

    def __init__(self, vocabulary_size: int) -> None:
        self._words = -(-vocabulary_size // 32)
        self._ids: dict[frozenset[int], int] = {}
        self.array = np.zeros((0, self._words), np.int32)
        self.row(frozenset(range(vocabulary_size)))  # row 0; padding bits are 0 in every row

    def row(self, tokens: frozenset[int]) -> int:
        if tokens not in self._ids:
            bits = np.zeros(self._words, np.uint32)
            for token in tokens:
                bits[token // 32] |= np.uint32(1 << token % 32)
            self._ids[tokens] = len(self.array)
            self.array = np.vstack([self.array, bits.view(np.int32)])
        return self._ids[tokens]


class SetGrammar:
    """Texts, each a sequence of tokens; `end` is the end token."""

    def __init__(self, texts: Sequence[Text], end: int, rows: MaskRows) -> None:
        self.texts = frozenset(map(tuple, texts))
        self.end = end
        self.rows = rows

    @property
    def min_tokens(self) -> int:
        return min(map(len, self.texts))

    def matcher(self) -> SetMatcher:
        return SetMatcher(self)


class SetMatcher:
    def __init__(self, grammar: SetGrammar) -> None:
        self._grammar = grammar
        self._said: Text = ()
        self.closed = False

    def _rest(self) -> list[Text]:
        said = len(self._said)
        return [text[said:] for text in self._grammar.texts if text[:said] == self._said]

    def _next(self, budget: int | None) -> frozenset[int]:
        """Forced text is judged without the budget, as law 5 says; the budget then narrows what is left (law 4)."""
        fits = [rest for rest in self._rest() if budget is None or len(rest) <= budget]
        end = frozenset({self._grammar.end}) if self.may_end() else frozenset()
        return frozenset(rest[0] for rest in fits if rest) | end

    def row(self, budget: int | None) -> int:
        return self._grammar.rows.row(self._next(budget))

    def accept(self, token: int) -> None:
        if token not in self._next(None) or token == self._grammar.end:
            raise ValueError(f"token {token} is not allowed after {self._said}")
        self._said += (token,)

    def forced(self, limit: int, budget: int | None = None) -> list[int]:
        ahead = SetMatcher(self._grammar)
        ahead._said = self._said
        tokens: list[int] = []
        while len(tokens) < limit and not ahead.may_end() and len(ahead._next(None)) == 1:
            tokens += ahead._next(None)
            ahead._said += (tokens[-1],)
        return tokens

    def may_end(self) -> bool:
        return self._said in self._grammar.texts

    def must_end(self) -> bool:
        return self._rest() == [()]

    def copy(self) -> SetMatcher:
        twin = SetMatcher(self._grammar)
        twin._said = self._said
        return twin

    def close(self) -> None:
        self.closed = True


def set_constraints(vocabulary_size: int, end: int) -> Constraints:
    """`Define.grammar` is then what `encode_texts` gives."""
    rows = MaskRows(vocabulary_size)
    return Constraints(
        lambda grammar: SetGrammar(msgspec.msgpack.decode(grammar, type=Texts).texts, end, rows), lambda: rows.array,
    )
