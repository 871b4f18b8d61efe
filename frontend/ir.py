"""The operations of a program, as frozen messages: what the interpreter runs, what travels as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .backends.base import GenerateSpec, Literals, Role, RoleClose, RoleOpen, Text

__all__ = ["Fork", "Gen", "Literals", "Node", "Role", "RoleClose", "RoleOpen", "Select", "Text", "decode", "encode"]

class Gen(msgspec.Struct, frozen=True, tag="gen"):
    """Generate, append the answer, write it to `name` (None: not readable by name)."""

    spec: GenerateSpec
    name: str | None = None


class Select(msgspec.Struct, frozen=True, tag="select"):
    """Score every choice by its log-probability, append the best, write it to `name`."""

    choices: tuple[str, ...]
    name: str | None = None


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """Copy the branch `count` times."""

    count: int


Node = Literals | Gen | Select | Fork


def encode(nodes: Sequence[Node]) -> bytes:
    """The nodes as a JSON array."""
    return msgspec.json.encode(list(nodes))


def decode(data: bytes) -> tuple[Node, ...]:
    """Inverse of `encode`. Raises msgspec.ValidationError with the place of what does not fit."""
    return msgspec.json.decode(data, type=tuple[Node, ...])
