"""The text of one completion with its tokens: the piece of the text that each wrote, where, and how likely it was."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import msgspec

from ..branch import Answer
from ..messages import TokenLogprob
from .logprobs import Spelled, clamped, shown


class CompletionLogprobs(msgspec.Struct, frozen=True):
    """One entry a token. tokens: the piece of the text that it completed. text_offset: where that begins, in code
    points of the whole text, an echoed prompt included. The first token of all has no log-probability."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]

    def joined(self, more: CompletionLogprobs | None) -> CompletionLogprobs:
        if more is None:
            return self
        return CompletionLogprobs(
            self.tokens + more.tokens, self.token_logprobs + more.token_logprobs,
            self.top_logprobs + more.top_logprobs, self.text_offset + more.text_offset,
        )


class CompletionText:
    def __init__(self, spelled: Spelled, *, scored: bool, prompt: Sequence[int], text: str | None,
                 scores: Sequence[TokenLogprob]) -> None:
        """prompt: the tokens that are echoed. text: the prompt, where it was given as text. scores: of its tokens but
        the first."""
        self._spelled = spelled
        self._scored = scored
        self._prompt = prompt
        self._text = text
        self._scores = scores
        self._at = 0  # code points told
        self._told = 0  # tokens of the answer told
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def head(self) -> tuple[str, CompletionLogprobs | None]:
        """The echoed prompt."""
        if not self._prompt:
            return "", None
        pieces = self._prompt_pieces()
        scores: list[TokenLogprob | None] = [None, *self._scores]
        told = self._logprobs(self._prompt, pieces, scores) if self._scored else None
        self._at = sum(map(len, pieces))
        return "".join(pieces), told

    def part(self, text: str, tokens: Sequence[int], logprobs: Sequence[TokenLogprob]
             ) -> tuple[str, CompletionLogprobs | None]:
        """New text, and the tokens that are complete in it."""
        self._told += len(tokens)
        if not self._scored or not tokens:
            return text, None
        pieces = [self._decoder.decode(self._spelled(token)) for token in tokens]
        told = self._logprobs(tokens, pieces, logprobs)
        self._at += sum(map(len, pieces))
        return text, told

    def rest(self, answer: Answer, text: str = "") -> tuple[str, CompletionLogprobs | None]:
        """The tokens of a complete answer that were not told yet."""
        return self.part(text, answer.tokens[self._told:], answer.logprobs[self._told:])

    def _prompt_pieces(self) -> list[str]:
        """What a tokenizer writes before every text is no part of a prompt that was given as text."""
        spelled = [self._spelled(token) for token in self._prompt]
        first = 0
        if self._text is not None:
            wanted = self._text.encode()
            first = next((at for at in range(len(spelled)) if b"".join(spelled[at:]) == wanted), 0)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        last = len(spelled) - 1
        return [
            "" if at < first else decoder.decode(spelling, at == last) for at, spelling in enumerate(spelled)
        ]

    def _logprobs(self, tokens: Sequence[int], pieces: Sequence[str], scores: Sequence[TokenLogprob | None]
                  ) -> CompletionLogprobs:
        offsets, at = [], self._at
        for piece in pieces:
            offsets.append(at)
            at += len(piece)
        logprobs = [None if one is None else clamped(one.logprob) for one in scores]
        top = [None if one is None else self._top(token, one) for token, one in zip(tokens, scores, strict=True)]
        return CompletionLogprobs(list(pieces), logprobs, top, offsets)

    def _top(self, token: int, one: TokenLogprob) -> dict[str, float]:
        """The token itself is always among them."""
        pairs = [(token, one.logprob), *reversed(one.top)]
        return {shown(self._spelled(id)): clamped(logprob) for id, logprob in pairs}
