"""The text of one answer as its tokens come: whole characters, cut before a stop string, tokens and text in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .branch import Chunk, GenerateSpec
from .detokenizer import Detokenizer
from .messages import TokenLogprob
from .stops import StopFinder
from .thinking import Part, ThoughtReader
from .words import TokenBytes


@dataclass(frozen=True, slots=True)
class _Written:
    """One token and the characters of the answer that are complete after it; whole: no character is half written."""

    token: int
    logprob: TokenLogprob | None
    characters: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """tokens: those that stay in the branch, and their logprobs. text: what they spell. literal: text of the answer
    after them (a token that straddled a stop string is dropped, what it spelled before the stop is kept)."""

    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    text: str
    literal: str


class Writer:
    def __init__(self, token_bytes: TokenBytes, spec: GenerateSpec) -> None:
        self._detokenizer = Detokenizer(token_bytes)
        self._finder = StopFinder(spec.stop, spec.stop_until)
        self._least = spec.min_tokens
        self._thoughts = ThoughtReader(spec.thoughts) if spec.thoughts else None
        self._parts = bool(spec.stop)  # whether stop strings are looked for in some parts only
        self._ahead = 0  # characters before the content
        self._thinks = self._behind = False  # whether a thought came, and content
        self._written: list[_Written] = []
        self._characters = 0  # decoded
        self._shown = 0  # of _written, told in chunks
        self._text: list[str] = []
        self._visible = 0  # characters in _text

    @property
    def stop(self) -> str | None:
        """The stop string that was met."""
        return self._finder.found.stop if self._finder.found else None

    @property
    def read(self) -> int:
        """Tokens of the answer, the one that completed the stop string included and none after it."""
        return len(self._written)

    @property
    def text(self) -> str:
        return "".join(self._text)

    def push(self, tokens: Sequence[int], logprobs: Sequence[TokenLogprob]) -> Chunk | None:
        """What can be shown now; tokens after a stop are not even looked at."""
        parts = []
        for index, token in enumerate(tokens):
            if self.stop is not None:
                break
            text = self._detokenizer.push(token)
            self._characters += len(text)
            self._written.append(_Written(
                token, logprobs[index] if logprobs else None, self._characters, not self._detokenizer.pending,
            ))
            parts.append(self._searched(text))
        return self._chunk("".join(parts))

    def _searched(self, text: str) -> str:
        """What of it can be shown."""
        return self._found(text, [] if self._thoughts is None else self._thoughts.push(text))

    def _found(self, text: str, parts: Sequence[Part]) -> str:
        """text, or what is told of it: its parts, where stop strings depend on them."""
        for part in parts:
            self._behind = self._behind or part.kind == "content"
            self._thinks = self._thinks or part.kind == "thoughts"
            self._ahead += 0 if self._behind else len(part.text)
        find, early = self._finder, self.read <= self._least
        told = parts if self._thoughts is not None and self._parts else [Part("content", text)]
        return "".join(find.skip(part.text) if early or part.kind != "content" else find.push(part.text)
                       for part in told)

    @property
    def thoughts(self) -> int:
        """Tokens before the content, where there are thoughts; call it after `finish`."""
        return sum(one.characters < self._ahead or (one.whole and one.characters == self._ahead)
                   for one in self._written) if self._thinks else 0

    def finish(self) -> Chunk | None:
        """No token follows: held text, and U+FFFD for a character that was cut."""
        rest = self._detokenizer.finish() if self.stop is None else ""
        self._characters += len(rest)
        last = self._searched(rest)
        if self._thoughts is not None:
            last += self._found("", self._thoughts.finish())
        return self._chunk(last + self._finder.finish())

    def _chunk(self, text: str) -> Chunk | None:
        self._text.append(text)
        self._visible += len(text)
        first = self._shown
        while self._shown < len(self._written) and self._written[self._shown].characters <= self._visible:
            self._shown += 1
        shown = self._written[first:self._shown] if self.stop is None else []
        if not text and not shown:
            return None
        return Chunk(text, tuple(one.token for one in shown), _logprobs(shown))

    def cut(self) -> Cut:
        """What stays in the branch; call it after `finish`."""
        kept = len(self._written)
        if self._finder.found is not None:
            whole = (
                index + 1 for index, one in enumerate(self._written)
                if one.whole and one.characters <= self._finder.found.start
            )
            kept = max(whole, default=0)
        characters = self._written[kept - 1].characters if kept else 0
        if kept == len(self._written):
            characters = len(self.text)
        return Cut(
            tuple(one.token for one in self._written[:kept]), _logprobs(self._written[:kept]),
            self.text[:characters], self.text[characters:],
        )


def _logprobs(written: Sequence[_Written]) -> tuple[TokenLogprob, ...]:
    return tuple(one.logprob for one in written if one.logprob is not None)
