"""The tokenizer of a folder in the form of Hugging Face: tokenizer.json, read by the library that writes it.

Of what changes a text only NFC and a space put in front are known, and told apart from the encoder; the mark of
SentencePiece for a space comes back as one. Special tokens are kept out of the encoder, as for every tokenizer here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from .errors import TokenizerError
from .json_file import JsonFile, read_bytes
from .text_changes import SPACE_MARK, TextChanges
from .tokenizer_file import Spelling, library_faults, spelling
from .tokenizer_steps import check_steps, put_in_front, text_changes, without_changes
from .vocabulary import Vocabulary

_LIMIT = 256 << 20  # bytes; the largest have about 40 MB
_PARTS = ("model", "normalizer", "pre_tokenizer", "post_processor", "added_tokens")
_PROBES = ("a", " a", "  A\n\n b ", "e\u0301\u00e9 \ufb01", "\U0001f642 x", "<s>[1] 'S 12345\t.\r\n")


class TokenizerJson:
    def __init__(self, path: Path) -> None:
        """Raises TokenizerError, or WeightsError when the file cannot be read."""
        raw = read_bytes(path, _LIMIT)
        with library_faults("not a tokenizer.json", str(path)):
            self._library = tokenizers.Tokenizer.from_str(raw.decode())
            self._data: dict[str, Any] = json.loads(self._library.to_str())  # older spellings as newer ones
        self._file = path.name

    def parts(self) -> dict[str, object]:
        """What makes it the tokenizer that it is, by the place in the file."""
        return {f"{self._file}: {key}": self._data.get(key) for key in _PARTS}

    def vocabulary(self, size: int, config: JsonFile, ends: Iterable[int]) -> Vocabulary:
        """size: rows of the embedding; there may be more than tokens. config: tokenizer_config.json. ends: end tokens
        that other files name. Raises TokenizerError."""
        check_steps(self._data, self._file)
        changes = text_changes(self._data)
        added = self._data.get("added_tokens") or []
        spelled = spelling(self._library, added, self._file)
        self._check_added(added, spelled, size, changes)
        bos, eos = (self._named(config, key, spelled) for key in ("bos_token", "eos_token"))
        encoder = self._encoder(spelled, without_changes(self._data))
        self._check_probes(encoder, spelled)
        if changes:
            self._check_changes(encoder, self._encoder(spelled, {}), changes)
        return Vocabulary(
            encoder=encoder,
            changes=changes,
            token_bytes=spelled.tokens + (b"",) * (size - len(spelled.tokens)),
            specials={text: token for text, token in spelled.ids.items() if token in spelled.special},
            user_defined=_user_defined(spelled),
            special_ids=spelled.special,
            stop_ids=self._stop_ids([*ends, *([] if eos is None else [eos])], spelled),
            bos_id=bos,
            eos_id=eos,
            add_bos=self._adds_bos(config, bos),
        )

    def _check_added(
        self, added: list[Mapping[str, Any]], spelled: Spelling, size: int, changes: TextChanges
    ) -> None:
        if len(spelled.tokens) > size:
            raise TokenizerError(f"{len(spelled.tokens)} tokens for {size} rows of the embedding", where=self._file)
        if not spelled.byte_level and not self._data["model"].get("byte_fallback"):
            raise TokenizerError("it spells neither bytes nor GPT-2's letters for them", where=f"{self._file}: model")
        for entry in added:
            place = f"{self._file}: added_tokens: {entry['content'][:80]}"
            if self._library.token_to_id(entry["content"]) != entry["id"]:
                raise TokenizerError("the vocabulary gives it another id", where=place)
            if any(entry.get(flag) for flag in ("single_word", "lstrip", "rstrip")):
                raise TokenizerError("tokens that take blanks beside them are not supported", where=place)
            if changes and entry.get("normalized") and entry["id"] not in spelled.special:
                raise TokenizerError("tokens that are looked for in changed text are not supported", where=place)

    def _named(self, config: JsonFile, key: str, spelled: Spelling) -> int | None:
        """A special token that the config names, by a string or by an object with its content."""
        if not config.has(key):
            return None
        stated = config.metadata[key]
        text = config.child(key).text("content") if isinstance(stated, dict) else config.text(key)
        token = spelled.ids.get(text)
        if token is None or token not in spelled.special:
            raise TokenizerError(f"{text[:80]!r} is no special token of {self._file}", where=config.place(key))
        return token

    def _stop_ids(self, ends: list[int], spelled: Spelling) -> frozenset[int]:
        if not ends:
            raise TokenizerError("no end token is named", where=self._file,
                                 fix="Name it: eos_token of tokenizer_config.json.")
        strange = next((end for end in ends if end not in spelled.special), None)
        if strange is not None:
            raise TokenizerError(f"the end token {strange} is no special token of {self._file}", where="eos_token_id")
        return frozenset(ends)

    def _adds_bos(self, config: JsonFile, bos: int | None) -> bool:
        """As tokenizer_config.json says, else as the post-processor does."""
        front = put_in_front(self._data, self._file)
        if front and front != [bos]:
            raise TokenizerError("it puts more than bos_token in front", where=f"{self._file}: post_processor")
        if config.has("add_eos_token") and config.flag("add_eos_token"):
            raise TokenizerError("an end token behind a prompt is not supported", where=config.place("add_eos_token"))
        return config.flag("add_bos_token") if config.has("add_bos_token") else bool(front)

    def _encoder(self, spelled: Spelling, steps: dict[str, Any]) -> tokenizers.Tokenizer:
        """steps: in place of the file's."""
        model = self._data["model"]
        ordinary = {word: token for word, token in model["vocab"].items() if token not in spelled.special}
        stripped = self._data | dict.fromkeys(("post_processor", "truncation", "padding", "decoder")) | steps
        stripped |= {"added_tokens": [], "model": {**model, "vocab": ordinary, "unk_token": None}}
        with library_faults("special tokens cannot be left out", f"{self._file}: model"):
            return tokenizers.Tokenizer.from_str(json.dumps(stripped))

    def _check_probes(self, encoder: tokenizers.Tokenizer, spelled: Spelling) -> None:
        """Where the vocabulary can spell them, which some small ones cannot."""
        known = {token[0] for token in spelled.tokens if len(token) == 1}
        for text in _PROBES:
            found = b"".join([spelled.tokens[token] for token in encoder.encode(text, add_special_tokens=False).ids])
            if found != text.encode() and known.issuperset(text.encode()):
                raise TokenizerError(f"the tokens of {text!r} spell {found!r}", where=self._file,
                                     fix="This runtime reads tokenizers that keep texts as they are.")

    def _check_changes(self, encoder: tokenizers.Tokenizer, whole: tokenizers.Tokenizer, changes: TextChanges) -> None:
        """whole: the encoder with the file's steps."""
        for text in _PROBES:
            ours, theirs = (each.encode(told, add_special_tokens=False).ids for each, told in (
                (encoder, changes.applied(text, "start")), (whole, text)))
            if ours != theirs:
                raise TokenizerError(f"its steps change {text!r} in a way that is not known", where=self._file,
                                     fix="This runtime reads NFC, and a space put in front.")


def _user_defined(spelled: Spelling) -> dict[str, int]:
    """Added tokens that are text, by what they spell."""
    plain = [(text if spelled.byte_level else text.replace(SPACE_MARK, " "), token)
             for text, token in spelled.ids.items() if token not in spelled.special]
    return {text: token for text, token in plain if text and spelled.tokens[token] == text.encode()}
