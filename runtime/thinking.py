"""How a model thinks before it answers, and the text of an answer parted into thoughts and content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ..grammars.constraint import Content, Tag, Tags

Kind = Literal["mark", "thoughts", "content"]


@dataclass(frozen=True, slots=True)
class Thinking:
    """begin, end: what stands before and after the thoughts, white space included, as the chat template writes it.
    wanted: a model that is asked nothing else begins with thoughts by itself."""

    begin: str
    end: str
    wanted: bool = False

    def opened(self, prompt: str) -> bool:
        """Whether the prompt ends inside of thoughts."""
        return prompt.rstrip().endswith(self.begin.strip())

    def closed(self, prompt: str) -> bool:
        """Whether the prompt ends behind thoughts, so that the model does not think any more."""
        return prompt.rstrip().endswith(self.end.strip())

    def delimiters(self, specials: Mapping[str, int]) -> dict[str, int]:
        """Those special tokens that stand in its delimiters."""
        return {text: token for text, token in specials.items() if text in self.begin or text in self.end}

    def before(self, content: Content) -> Tags:
        """The rest of thoughts that are open, and then the content."""
        mark = self.end.lstrip()
        return Tags((Tag(mark, content),), (self.end.strip(),), at_least_one=True, stop_after_first=True, text="before")


@dataclass(frozen=True, slots=True)
class Thoughts:
    """Of one answer. opened: the prompt ends inside of them; else there are some where the answer begins with their
    delimiter. until: texts that end them too, and are content."""

    thinking: Thinking
    opened: bool
    until: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """mark: delimiters, and the white space around thoughts and before the content."""

    kind: Kind
    text: str


class ThoughtReader:
    """Parts an answer as it comes. All parts together are its text."""

    def __init__(self, thoughts: Thoughts) -> None:
        self._begin, self._end = thoughts.thinking.begin.strip(), thoughts.thinking.end.strip()
        self._until = thoughts.until
        self._held = ""
        self._state: Literal["start", "thoughts", "behind", "content"] = "thoughts" if thoughts.opened else "start"
        self._begun = False  # a thought was told

    def push(self, text: str) -> list[Part]:
        self._held += text
        return list(self._parts())

    def finish(self) -> list[Part]:
        """No text follows."""
        parts = self.push("")
        if not self._held:
            return parts
        kind: Kind = "content" if self._state == "start" else "thoughts" if self._held.strip() else "mark"
        return [*parts, *self._take(kind, len(self._held))]

    def _parts(self) -> Iterator[Part]:
        """Until what is held cannot be decided."""
        before = None
        while self._held and before != self._state:
            before = self._state
            match self._state:
                case "start":
                    yield from self._start()
                case "thoughts":
                    yield from self._thoughts()
                case "behind":
                    yield from self._behind()
                case "content":
                    yield from self._take("content", len(self._held))

    def _start(self) -> Iterator[Part]:
        rest = self._held.lstrip()
        if rest.startswith(self._begin):
            self._state = "thoughts"
            yield from self._take("mark", len(self._held) - len(rest) + len(self._begin))
        elif rest and not self._begin.startswith(rest):
            self._state = "content"

    def _thoughts(self) -> Iterator[Part]:
        ends = [(at, text) for text in (self._end, *self._until) if (at := self._held.find(text)) >= 0]
        at, end = min(ends, default=(self._undecided(), ""))
        yield from self._told(at, whole=bool(end))
        if end:
            self._state = "behind" if end == self._end else "content"
            yield from self._take("mark", len(end) if end == self._end else 0)

    def _told(self, size: int, *, whole: bool) -> Iterator[Part]:
        """Thoughts without the white space around them. whole: nothing of them follows."""
        text = self._held[:size]
        lead = 0 if self._begun else len(text) - len(text.lstrip())
        yield from self._take("mark", lead)
        told = text[lead:].rstrip()
        self._begun = self._begun or bool(told)
        yield from self._take("thoughts", len(told))
        if whole:
            yield from self._take("mark", size - lead - len(told))

    def _undecided(self) -> int:
        """Where what is held may begin an end of the thoughts."""
        size, ends = len(self._held), (self._end, *self._until)
        first = max(0, size - max(map(len, ends)) + 1)
        return next((at for at in range(first, size) if any(end.startswith(self._held[at:]) for end in ends)), size)

    def _behind(self) -> Iterator[Part]:
        rest = self._held.lstrip()
        if rest:
            self._state = "content"
        yield from self._take("mark", len(self._held) - len(rest))

    def _take(self, kind: Kind, size: int) -> Iterator[Part]:
        text, self._held = self._held[:size], self._held[size:]
        if text:
            yield Part(kind, text)
