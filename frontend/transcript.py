"""What a branch says so far: a chain of entries, newest first, so that a fork copies one pointer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

from .ir import Role, RoleClose, RoleOpen, Text

Mark = Text | RoleOpen | RoleClose


class Message(TypedDict):
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Entry:
    mark: Mark
    before: Entry | None


def _marks(tail: Entry | None) -> Iterator[Mark]:
    chain = []
    while tail is not None:
        chain.append(tail.mark)
        tail = tail.before
    return reversed(chain)


def text_of(tail: Entry | None) -> str:
    """Literals and answers in order. The template's own text around roles is not part of it."""
    return "".join(mark.text for mark in _marks(tail) if isinstance(mark, Text))


def messages_of(tail: Entry | None) -> list[Message]:
    """One message a role, with its exact text. Text outside of roles belongs to no message."""
    messages: list[Message] = []
    inside = False
    for mark in _marks(tail):
        if isinstance(mark, RoleOpen):
            messages.append({"role": mark.role, "content": ""})
        elif isinstance(mark, Text) and inside:
            messages[-1]["content"] += mark.text
        inside = isinstance(mark, RoleOpen) or (inside and isinstance(mark, Text))
    return messages
