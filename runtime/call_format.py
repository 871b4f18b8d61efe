"""How a model writes calls of functions: as its chat template does, or, where that knows no functions, in a form of our
own that a part of the system's message tells it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
from msgspec import structs

from ..grammars.constraint import Content, JsonSchema, Spacing, Tag, Tags
from .conversation import Call, Message, Tool

# What no JSON text without blanks begins with: another first character, or a blank behind a bracket, a key or a colon.
_NO_JSON = re.compile(r"""[^{\["\-0-9tfn]|[\[{]+(?:"[^"\\]*":?)?\s|\[[A-Z]""")


@dataclass(frozen=True, slots=True)
class CallFormat:
    """A call is before + name + middle + arguments + end; `before` begins with no white space. between: what stands
    between two calls; None: an answer has one call at most. spacing: of the arguments. told: the chat template tells
    the model its functions, and writes calls and their results itself."""

    before: str
    middle: str
    end: str
    between: str | None
    spacing: Spacing
    told: bool

    @property
    def trigger(self) -> str:
        """What text that is no call never holds."""
        return self.before.split()[0]

    @property
    def apart(self) -> bool:
        """No JSON that is written compact is taken for a call by how it begins."""
        return _NO_JSON.match(self.before) is not None

    def begin(self, name: str) -> str:
        return self.before + name + self.middle

    def written(self, calls: Sequence[Call]) -> str:
        """Calls of the history."""
        between = "\n" if self.between is None else self.between
        return between.join(self.begin(call.name) + call.arguments + self.end for call in calls)

    def constraint(self, tools: Sequence[Tool], *, required: bool, one: bool, whole: Content | None = None) -> Tags:
        """An answer in which only these are called, with arguments that fit their parameters: calls alone where they
        are required, else any text and then calls. one: at most one call. whole: what an answer without calls fits; one
        with calls then has no other text."""
        tags = [Tag(self.begin(tool.name), JsonSchema(tool.parameters, spacing=self.spacing), self.end)
                for tool in tools]
        alone = required or whole is not None
        return Tags(
            tuple(tags), () if alone else (self.trigger,), at_least_one=alone,
            stop_after_first=one or self.between is None, text="none" if alone else "before",
            between=self.between or "", whole=None if required else whole,
        )

    def folded(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
        """The same conversation without calls and tools, for a template that knows neither."""
        plain = [message for run in _runs(messages) for message in self._plain(run)]
        if not tools:
            return plain
        if plain and plain[0].role == "system":
            head, *plain = plain
            return [structs.replace(head, content=f"{head.content}\n\n{self._told(tools)}"), *plain]
        return [Message("system", self._told(tools)), *plain]

    def _plain(self, run: Sequence[Message]) -> Iterator[Message]:
        """run: results that follow each other, which become one message of the user, or one other message."""
        if run[0].role == "tool":
            results = [f"<tool_response>\n{message.content}\n</tool_response>" for message in run]
            yield Message("user", "\n".join(results))
        for message in run:
            if message.role != "tool":
                calls = self.written(message.calls)
                parts = [part for part in (message.content, calls) if part]
                yield structs.replace(message, content="\n".join(parts), calls=())

    def _told(self, tools: Sequence[Tool]) -> str:
        listed = "\n".join(
            f'{{"name": {_json(tool.name)}, "description": {_json(tool.description)}, "parameters": {tool.parameters}}}'
            for tool in tools
        )
        example = f'{self.before}NAME{self.middle}{{"PARAMETER": VALUE}}{self.end}'
        return (
            "You can call functions. Each line has one: its name, what it does, and the JSON Schema of its parameters."
            f"\n<tools>\n{listed}\n</tools>\nTo call a function, write its name and arguments like this:\n{example}\n"
            "What it returned follows in the next message, between <tool_response> and </tool_response>."
        )


OWN = CallFormat(
    before='<tool_call>\n{"name": "', middle='", "arguments": ', end="}\n</tool_call>", between="\n", spacing="spaced",
    told=False,
)


def _runs(messages: Sequence[Message]) -> Iterator[list[Message]]:
    for role, run in groupby(messages, key=lambda message: message.role):
        if role == "tool":
            yield list(run)
        else:
            yield from ([message] for message in run)


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
