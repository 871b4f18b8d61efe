"""One branch of a session: its tokens, its text, and the literals that are not tokenized yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .answering import Cut
from .checks import check_tokens
from .lease import TokenChain
from .textchain import TextChain
from .words import Part, Place, Words


class BranchState:
    """Literals are kept until a token of them is needed, so that adjacent ones are one text; then they are fixed.

    busy: an answer is being generated. sent: how many tokens the engine's lease has.
    """

    def __init__(self, words: Words, chain: TokenChain | None = None, text: TextChain | None = None, sent: int = 0,
                 place: Place = "start") -> None:
        self._words = words
        self._chain = TokenChain() if chain is None else chain
        self._text = TextChain() if text is None else text
        self._tail: list[Part] = []
        self._place = place  # of the tail
        self.sent = sent
        self.busy = False

    @property
    def empty(self) -> bool:
        return not self._tail and not len(self._chain)

    def append_text(self, text: str) -> None:
        """A plain prompt begins with the tokenizer's prefix."""
        if text:
            if self.empty:
                self._chain.extend(self._words.prefix)
            self._tail.append(text)

    def append_parts(self, parts: Iterable[Part]) -> None:
        """Of the template; they bring what a conversation begins with themselves."""
        self._tail += parts

    def append_ids(self, ids: Sequence[int]) -> None:
        """Raises InvalidParameter for ids outside of the vocabulary."""
        check_tokens("tokens", ids, self._words.vocab_size)
        self.flush()
        self._add(ids)
        self._text = self._text.append(self._decoded(ids))

    @property
    def lead(self) -> tuple[int, ...]:
        """What an answer follows that is the first thing in a branch: the begin-of-sequence token, if there is one."""
        return () if self._words.bos_id is None else (self._words.bos_id,)

    def begin(self) -> None:
        """Of a flushed branch: without any token it begins with the lead."""
        if not len(self._chain):
            self._chain.extend(self.lead)

    def flush(self) -> int:
        """Tokenize the literals since the last boundary. Returns the length of the branch in tokens.

        Raises MissingByte or InvalidParameter for text that cannot be spelled; the branch is then as before.
        """
        if self._tail:
            self._add(self._words.encode_parts(self._tail, self._place))
            self._text = self._text.append("".join(map(self._spelled, self._tail)))
            self._tail = []
        return len(self._chain)

    @property
    def unsent(self) -> int:
        """Tokens that the engine's lease lacks."""
        return len(self._chain) - self.sent

    def hand_over(self) -> tuple[int, ...]:
        """Those tokens; the lease has them from now on."""
        tokens = tuple(self._chain.slice(self.sent, len(self._chain)))
        self.sent = len(self._chain)
        return tokens

    def take_answer(self, cut: Cut) -> None:
        """What stays of an answer; the engine's lease has its tokens already."""
        self._add(cut.tokens)
        self._text = self._text.append(cut.text)
        self.sent = len(self._chain)
        if cut.literal:
            self._tail.append(cut.literal)
            self._place = "middle"

    def copy(self) -> BranchState:
        """O(1), of a flushed branch."""
        return BranchState(self._words, self._chain.copy(), self._text, self.sent, self._place)

    def encode_next(self, text: str) -> list[int]:
        """What the tokens of a text would be behind a flushed branch."""
        return self._words.encode_parts((text,), self._place)

    def whole_text(self) -> str:
        return self._text.whole() + "".join(map(self._spelled, self._tail))

    def all_tokens(self) -> list[int]:
        return self._chain.slice(0, self.flush())

    def _add(self, ids: Sequence[int]) -> None:
        self._chain.extend(ids)
        if ids:
            self._place = "section" if ids[-1] in self._words.special_ids else "middle"

    def _decoded(self, ids: Sequence[int]) -> str:
        """As `decode`, with special tokens spelled as the template spells them."""
        parts: list[str] = []
        run: list[int] = []
        for id in ids:
            if id in self._words.special_ids:
                parts += [self._words.decode(run), self._spelled(id)]
                run = []
            else:
                run.append(id)
        return "".join([*parts, self._words.decode(run)])

    def _spelled(self, part: Part) -> str:
        return part if isinstance(part, str) else self._words.text_of_special(part)
