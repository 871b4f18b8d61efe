"""What the session layer and the grammars ask of a tokenizer and a chat template. `Tokenizer` and `ChatTemplate` have
it; tests bring smaller ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, Protocol

from .call_format import CallFormat
from .conversation import Message, Tool
from .thinking import Thinking

Switches = Mapping[str, bool]
"""Variables of a chat template, as `enable_thinking`."""
NO_SWITCHES: Switches = MappingProxyType({})

Part = str | int
"""Of template text: plain text, or the id of a special token."""


Place = Literal["start", "section", "middle"]
"""Where a text stands: at the beginning of everything (but for a begin-of-sequence token that the tokenizer itself puts
there), behind a special token, or behind other text."""


class TokenBytes(Protocol):
    """The bytes that an id stands for."""

    def __getitem__(self, token: int, /) -> bytes: ...


class Words(Protocol):
    """token_bytes[id]: b"" for special and unused ids. bos_id: the begin-of-sequence token; None when there is none.
    prefix: what a plain prompt begins with (that token, or nothing). encode_exactly, encode_parts: plain text, specials
    in it stay text; exactly: as answers spell it, the tokenizer may change a prompt. place: of the first part."""

    @property
    def token_bytes(self) -> Sequence[bytes]: ...
    @property
    def special_ids(self) -> Collection[int]: ...
    @property
    def stop_ids(self) -> Collection[int]: ...
    @property
    def bos_id(self) -> int | None: ...
    @property
    def prefix(self) -> tuple[int, ...]: ...
    @property
    def vocab_size(self) -> int: ...
    def encode_exactly(self, text: str) -> list[int]: ...
    def encode_parts(self, parts: Iterable[Part], place: Place = "start") -> list[int]: ...
    def text_of_special(self, token: int | None) -> str: ...
    def decode(self, ids: Sequence[int]) -> str: ...


class Template(Protocol):
    """stable: messages may be appended one by one. trims: their contents must be stripped for that. calls:
    how the model writes calls of functions. thinking: how it thinks; None: it is not known to. switches: names of
    what `render` may be told by its switches."""

    @property
    def stable(self) -> bool: ...
    @property
    def trims(self) -> bool: ...
    @property
    def calls(self) -> CallFormat: ...
    @property
    def thinking(self) -> Thinking | None: ...
    @property
    def switches(self) -> Collection[str]: ...
    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True, tools: Sequence[Tool] = (),
               switches: Switches = NO_SWITCHES) -> list[int]: ...
    def opening_parts(self, role: str, first: bool = False) -> tuple[Part, ...]: ...
    def closing_parts(self, role: str) -> tuple[Part, ...]: ...
    def thinking_parts(self) -> tuple[Part, ...]: ...
    def close(self) -> None: ...
