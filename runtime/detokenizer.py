"""Token ids to text as they come: whole characters only."""

from __future__ import annotations

import codecs

from .words import TokenBytes

_UTF8 = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """What `push` and `finish` give, put together, is the decoding of all bytes at once, with U+FFFD for each
    sequence that is broken or cut. Special ids (b"" in token_bytes) give ""."""

    __slots__ = ("_decoder", "_token_bytes")

    def __init__(self, token_bytes: TokenBytes) -> None:
        self._token_bytes = token_bytes
        self._decoder = _UTF8(errors="replace")

    def push(self, token: int) -> str:
        """The characters that this token completes."""
        return self._decoder.decode(self._token_bytes[token])

    def finish(self) -> str:
        """What a character cut at the end still gives ("" or U+FFFD). The detokenizer is then as new."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest

    @property
    def pending(self) -> bytes:
        """The bytes of the character that is not whole yet."""
        return self._decoder.getstate()[0]

    def copy(self) -> Detokenizer:
        """One that goes on from here on its own."""
        twin = Detokenizer(self._token_bytes)
        twin._decoder.setstate(self._decoder.getstate())
        return twin
