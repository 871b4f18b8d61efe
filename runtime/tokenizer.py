"""Text to token ids and back, by the vocabulary and merges of the model's own files (BPE).

Special tokens are kept out of the encoder's vocabulary: text that spells one is encoded as the ordinary text it is.
Only `encode_template` and `parts`, made for template text, turn such strings into their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..grammars.errors import MissingByte
from .errors import InvalidParameter, PromptTooLong
from .gguf import GGUFFile
from .text_changes import NO_CHANGES
from .vocabulary import Vocabulary, read_vocabulary
from .words import Place

Part = str | int
"""Of template text: plain text, or the id of a special token."""


_LONG = 1 << 12  # characters; what is longer is encoded without holding the interpreter


class Tokenizer:
    """Thread-safe and immutable.

    token_bytes[id]: the bytes an id stands for; b"" for special and unused ids. special_ids: never allowed in
    constrained text. stop_ids: end of sequence, of turn, of message. bos_id: None when there is none; add_bos: whether
    a fresh prompt begins with it (`prefix` is then that id; `encode` never adds it)."""

    def __init__(self, vocabulary: Vocabulary, *, context: int | None = None) -> None:
        """context: most tokens of a prompt; `encode_parts` refuses unread what is certain to pass it."""
        self.vocab_size = len(vocabulary.token_bytes)
        self.token_bytes = list(vocabulary.token_bytes)
        self.specials = dict(vocabulary.specials)
        self._special_texts = {token: text for text, token in vocabulary.specials.items()}
        self.special_ids = frozenset(vocabulary.special_ids)
        self.stop_ids = frozenset(vocabulary.stop_ids)
        self.bos_id = vocabulary.bos_id
        self.eos_id = vocabulary.eos_id
        self.add_bos = vocabulary.bos_id is not None and vocabulary.add_bos
        self.prefix = (vocabulary.bos_id,) if self.add_bos and vocabulary.bos_id is not None else ()
        self._encoder = vocabulary.encoder
        self._changes = vocabulary.changes
        self._known_bytes = bytes(token[0] for token in self.token_bytes if len(token) == 1)
        self._user_defined = dict(vocabulary.user_defined)
        self._user_pattern = _pattern(self._user_defined)
        self._special_pattern = _pattern(self.specials)
        self._context = context
        # A character is a byte of its token at least; NFC makes two bytes of at most three.
        self._most_characters = max(map(len, self.token_bytes), default=1) * (1 if self._changes is NO_CHANGES else 2)

    @classmethod
    def from_gguf(cls, gguf: GGUFFile) -> Tokenizer:
        """Raises TokenizerError, or WeightsError when a key is missing or of the wrong type."""
        return cls(read_vocabulary(gguf))

    def encode(self, text: str, place: Place = "start") -> list[int]:
        """All of `text` as ordinary text that stands at `place`, changed as the model's tokenizer changes texts. Raises
        MissingByte when the vocabulary cannot spell it, InvalidParameter when it is not Unicode text (a lone
        surrogate)."""
        self._check_unicode(text)
        ids: list[int] = []
        for part in self._split_user_defined(text):
            ids += [part] if isinstance(part, int) else self._encode_ordinary(self._changes.applied(part, place))
            place = "section"
        return ids

    def encode_exactly(self, text: str) -> list[int]:
        """Ids that spell just `text`, behind other text: what an answer is made of. Raises like `encode`."""
        self._check_unicode(text)
        ids: list[int] = []
        for part in self._split_user_defined(text):
            ids += [part] if isinstance(part, int) else self._encode_ordinary(part)
        return ids

    def parts(self, text: str) -> tuple[Part, ...]:
        """Template text cut at its special strings, each of them as its id. No empty text, no two texts in a row."""
        if self._special_pattern is None:
            return (text,) if text else ()
        return tuple(_split(text, self._special_pattern, self.specials))

    def encode_parts(self, parts: Iterable[Part], place: Place = "start") -> list[int]:
        """Of a prompt. Texts in a row are encoded as one. place: of the first part. Raises like `encode`, and
        PromptTooLong."""
        ids: list[int] = []
        texts: list[str] = []
        for part in self._checked(list(parts)):
            if isinstance(part, str):
                texts.append(part)
                continue
            ids += self.encode("".join(texts), place)
            texts.clear()
            ids.append(part)
            place = "section"
        return ids + self.encode("".join(texts), place)

    def encode_template(self, text: str) -> list[int]:
        """Special strings in `text` become special ids. Never for text of users."""
        return self.encode_parts(self.parts(text))

    def text_of_special(self, token: int | None) -> str:
        """The string that template text calls a special token by; "" for None or an ordinary token."""
        return "" if token is None else self._special_texts.get(token, "")

    def bytes_of(self, ids: Sequence[int]) -> bytes:
        """Raises InvalidParameter for an id outside of the vocabulary."""
        for place, token in enumerate(ids):
            if not 0 <= token < self.vocab_size:
                raise InvalidParameter(f"token id {token} is outside of 0..{self.vocab_size - 1}", where=f"ids/{place}")
        return b"".join([self.token_bytes[token] for token in ids])

    def decode(self, ids: Sequence[int]) -> str:
        """Special ids give nothing; bytes that are no UTF-8 give U+FFFD."""
        return self.bytes_of(ids).decode(errors="replace")

    def _split_user_defined(self, text: str) -> list[Part]:
        if self._user_pattern is None:
            return [text]
        return _split(text, self._user_pattern, self._user_defined)

    def _encode_ordinary(self, text: str) -> list[int]:
        self._check_spellable(text)
        if len(text) <= _LONG:
            return self._encoder.encode(text, add_special_tokens=False).ids
        # The library lets other threads go on in its calls for many texts only.
        return self._encoder.encode_batch_fast([text], add_special_tokens=False)[0].ids

    def _checked(self, parts: list[Part]) -> list[Part]:
        """The parts. Raises PromptTooLong where the longest token of all, again and again, would pass the context:
        megabytes take seconds to encode."""
        if self._context is not None:
            characters = sum(len(part) for part in parts if isinstance(part, str))
            if characters > self._context * self._most_characters:
                raise PromptTooLong(
                    f"{characters} characters of prompt are more than {self._context} tokens, which is the context",
                    where="prompt", fix="Shorten the prompt.",
                )
        return parts

    def _check_unicode(self, text: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidParameter(
                "the text holds a lone surrogate, which is not Unicode text", where=f"character {error.start}",
                fix="Decode the input as UTF-8 first.",
            ) from error

    def _check_spellable(self, text: str) -> None:
        raw = text.encode()
        missing = raw.translate(None, self._known_bytes)
        if missing:
            raise MissingByte(
                f"the model's vocabulary has no token for byte 0x{missing[0]:02X}",
                where=f"byte {raw.index(missing[0])} of the text", fix="Remove that character or use another model.",
            )


def _pattern(strings: Iterable[str]) -> re.Pattern[str] | None:
    """The longest of the strings at each place; None when there is none."""
    longest_first = sorted(strings, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _split(text: str, pattern: re.Pattern[str], ids: dict[str, int]) -> list[Part]:
    found: list[Part] = []
    end = 0
    for match in pattern.finditer(text):
        if match.start() > end:
            found.append(text[end : match.start()])
        found.append(ids[match.group()])
        end = match.end()
    if end < len(text):
        found.append(text[end:])
    return found
