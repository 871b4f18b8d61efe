"""Which texts fit Tags, by a reading too simple to be wrong."""

from __future__ import annotations

import re

from espalier.grammars.constraint import Regex, Tag, Tags


class TagTexts:
    """What Tags mean, for contents that are regular expressions: every way to read a text, by trial."""

    def __init__(self, tags: Tags) -> None:
        self.tags = tags
        self.triggers = tags.triggers or tuple(tag.begin for tag in tags.tags)

    def accepts(self, text: str) -> bool:
        whole = self.tags.whole
        return self._free(text, 0, 0) or (isinstance(whole, Regex) and bool(re.fullmatch(whole.pattern, text)))

    def _free(self, text: str, at: int, done: int) -> bool:
        """Whether text[at:] fits from free text on, after `done` tags."""
        if done and self.tags.stop_after_first:
            return at == len(text)
        if self.tags.text == "none" or (done and self.tags.text == "before"):
            return self._tight(text, at, done)
        first = min((end for end in range(at, len(text) + 1) if self._triggered(text[at:end])), default=None)
        if first is None:
            return done > 0 or not self.tags.at_least_one
        begun = [trigger for trigger in self.triggers if text[at:first].endswith(trigger)]
        start = first - min(map(len, begun))
        return any(self._tag(text, start, tag, done) for tag in self.tags.tags if text.startswith(tag.begin, start))

    def _tight(self, text: str, at: int, done: int) -> bool:
        """The same where no free text may stand."""
        if at == len(text):
            return done > 0 or not self.tags.at_least_one
        between = self.tags.between if done else ""
        start = at + len(between)
        return text.startswith(between, at) and any(
            self._tag(text, start, tag, done) for tag in self.tags.tags if text.startswith(tag.begin, start))

    def _triggered(self, text: str) -> bool:
        return any(text.endswith(trigger) for trigger in self.triggers)

    def _tag(self, text: str, start: int, tag: Tag, done: int) -> bool:
        start += len(tag.begin)
        if tag.content is None:
            end = text.find(tag.end, start)
            return end >= 0 and self._free(text, end + len(tag.end), done + 1)
        return any(re.fullmatch(tag.content.pattern, text[start:end]) and text.startswith(tag.end, end)
                   and self._free(text, end + len(tag.end), done + 1) for end in range(start, len(text) + 1))
