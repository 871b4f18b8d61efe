"""A model's vocabulary as the engine sees it: the bytes of each id, the ids that are never text, the ids that end."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from .binding.trie import Trie, build_trie, heads
from .bodies.body_store import BodyStore
from .bodies.loops import Loops
from .bodies.slices import Slices
from .ir import special as spelled

_BACKSLASH = 0x5C


class Vocabulary:
    """tokens[i]: the bytes of id i (b"" for special and unused ids). special: ids that are never text; stop: the end
    ids (never text either). encode: the model's own tokenizer on plain text, without specials added.
    size: the width of the logits, at least len(tokens); ids beyond len(tokens) are never allowed.
    specials: the special ids that a grammar may name, by their names.

    Law 6 begins here: of the special ids only those of `specials` are in the trie, under bytes that are no text, so no
    mask of a text can hold a special id, whatever its bytes; stop ids are never there.
    Raises ValueError for ids outside the vocabulary.
    """

    def __init__(self, tokens: Sequence[bytes], *, special: Collection[int], stop: Collection[int],
                 encode: Callable[[str], list[int]], size: int | None = None,
                 specials: Mapping[str, int] | None = None) -> None:
        self.tokens = tuple(tokens)
        self.size = len(self.tokens) if size is None else size
        if self.size < len(self.tokens):
            raise ValueError(f"size {self.size} is below the number of tokens, {len(self.tokens)}")
        self.special = frozenset(special)
        self.stop = tuple(sorted(set(stop)))
        self.specials = {name: i for name, i in (specials or {}).items() if i in self.special and i not in self.stop}
        for token in (*self.special, *self.stop):
            if not 0 <= token < self.size:
                raise ValueError(f"id {token} is outside the vocabulary of {self.size} ids")
        self.encode = encode
        self.text_ids = self._text_ids()
        self.words = (self.size + 31) // 32
        self.spelled = self._spelled()
        ids = (*self.text_ids, *self.specials.values())
        self.longest = max((len(self.spelled[i]) for i in ids), default=1)
        # What a grammar can read of token i is text[starts[i]: starts[i + 1]].
        read = [b""] * self.size
        for i in ids:
            read[i] = self.spelled[i]
        self.text = np.frombuffer(bytearray(b"".join(read)) or bytearray(1), np.uint8)
        self.starts = np.zeros(self.size + 1, np.int64)
        np.cumsum([len(text) for text in read], out=self.starts[1:])
        self.trie: Trie = build_trie(self.spelled, ids, max(self.size, 1))
        self.heads = heads(self.trie)
        self.slices = Slices(self.trie, self.words)
        self.bodies = BodyStore(self.trie, self.spelled, self.words)
        self.loops = Loops(self.bodies)
        self.escaping = self.bodies.listing.holding(int(self.bodies.groups[_BACKSLASH]), self.size)
        self.node_of = self._nodes()
        self.single = self._single_bytes()
        self.wide = self._wide()
        self.stop_words = self._bits(self.stop)
        self._is_text = bytearray(self.size)
        for i in self.text_ids:
            self._is_text[i] = 1

    def _text_ids(self) -> tuple[int, ...]:
        """Where special tokens may be named, a token with one of the two bytes that spell them is no text."""
        hidden = self.special.union(self.stop)
        ids = (i for i, text in enumerate(self.tokens) if text and i not in hidden)
        marks = spelled("") if self.specials else b""
        return tuple(i for i in ids if not any(mark in self.tokens[i] for mark in marks))

    def _spelled(self) -> Sequence[bytes]:
        """The bytes of each id as edges of a grammar spell them: of a special id that may be named, its name's."""
        if not self.specials:
            return self.tokens
        found = [*self.tokens, *([b""] * (self.size - len(self.tokens)))]
        for name, i in self.specials.items():
            found[i] = spelled(name)
        return tuple(found)

    def is_text(self, token: int) -> bool:
        """Whether the id stands for bytes: not special, not a stop id, not empty."""
        return 0 <= token < self.size and bool(self._is_text[token])

    def _nodes(self) -> npt.NDArray[np.int32]:
        """[size] the trie node at which each text token ends, -1 for other ids."""
        ends = np.flatnonzero(self.trie.token >= 0).astype(np.int32)
        tokens, found = self.trie.token[ends], np.full(self.size, -1, np.int32)
        while len(tokens):
            found[tokens] = ends
            tokens = self.trie.twin[tokens]
            tokens, ends = tokens[tokens >= 0], ends[tokens >= 0]
        return found

    def _single_bytes(self) -> npt.NDArray[np.uint8]:
        """[256] 1 where some text token is exactly that byte; also for those that begin and end special tokens."""
        single = np.zeros(256, np.uint8)
        if self.specials:
            single[[*spelled("")]] = 1
        for i in self.text_ids:
            if len(self.tokens[i]) == 1:
                single[self.tokens[i][0]] = 1
        return single

    def _wide(self) -> tuple[bytes, ...]:
        """Tokens, special ones by their names, that hold a byte which is no token itself, each once."""
        missing = re.compile(b"[" + re.escape(bytes(np.flatnonzero(self.single == 0).tolist())) + b"]") \
            if not self.single.all() else None
        texts = (self.spelled[i] for i in (*self.text_ids, *self.specials.values()))
        return tuple(dict.fromkeys(text for text in texts if missing and missing.search(text)))

    def _bits(self, ids: Sequence[int]) -> npt.NDArray[np.uint32]:
        """[words] the row that allows exactly `ids`."""
        words = np.zeros(self.words, np.uint32)
        for i in ids:
            words[i >> 5] |= np.uint32(1 << (i & 31))
        return words

    @classmethod
    def bytes_only(cls) -> Vocabulary:
        """256 tokens of one byte each and the stop id 256."""
        return cls([bytes([b]) for b in range(256)] + [b""], special=(256,), stop=(256,),
                   encode=lambda text: list(text.encode()))
