from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """One compiled variant. types: Triton type of each argument that is no constant, by name ("*fp32", "i32", ...).
    Pointers and the arguments in `aligned` count as multiples of 16, as the launch finds them. wide: every load from
    these pointers must be 16 bytes. wgmma: the machine code must use it. serial: the assembler
    may make each wgmma wait for the one before."""

    name: str
    kernel: Any
    types: dict[str, str]
    constants: dict[str, Any]
    aligned: tuple[str, ...] = ()
    warps: int = 4
    stages: int = 3
    wide: tuple[str, ...] = ()
    wgmma: bool = False
    serial: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def typed(text: str) -> dict[str, str]:
    """"*fp32: x y; i32: n" -> {"x": "*fp32", "y": "*fp32", "n": "i32"}."""
    pairs = (part.split(":") for part in text.split(";"))
    return {name: kind.strip() for kind, names in pairs for name in names.split()}
