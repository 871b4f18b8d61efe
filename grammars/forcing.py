"""Law 5: where every continuation shares a text, which of its tokens are beyond doubt.

The tokens are the model's own for that text: taken on the text of the last ids with it, when that gives those ids
again, else on it alone. Of those, kept are the ones before the first place from which something else could still be
spelled in one token:
- the first offset of the text at which some token begins that reads the rest of it, goes on past its end, and is
  grammatical (checked at every offset, not only at token boundaries, since merges shift);
- the first token that the tokenizer would choose otherwise if one of the characters came next that may come next
  (a sample of them: a letter, a capital, a digit, a space, and each punctuation mark).
When nothing may follow, or a special token must, all are kept. Text is cut at a character boundary first,
and where the tokenizer's tokens do not spell the text in ordinary tokens, nothing is forced.
"""

from __future__ import annotations

import string

import numpy as np

from .binding.trie import find_node
from .ir import special as spelled
from .masks.configuration import Configuration, Explorer, Forced
from .vocabulary import Vocabulary

_MARK = spelled("")[:1]  # what a special token begins with
_SAMPLED = tuple("aAd0 \n" + string.punctuation)


def forced_tokens(explorer: Explorer, vocabulary: Vocabulary, configuration: Configuration,
                  last: tuple[int, ...]) -> tuple[int, ...]:
    """The forced tokens from a configuration on; () when there is a choice. last: the ids just before, newest last."""
    forced = explorer.forced(configuration)
    before_special, special, _ = forced.text.partition(_MARK)
    text, cut = _whole_characters(before_special)
    if not text:
        return _special(vocabulary, forced.text)
    before, tokens = _own_tokens(vocabulary, last, text)
    if not tokens:
        return ()
    if cut or len(text) < len(before_special):
        return tuple(tokens[:-1])
    if special or not forced.open:
        return tuple(tokens)
    kept = _before_offset(vocabulary, tokens, _overrun(explorer, vocabulary, forced))
    return tuple(_stable(explorer, vocabulary, forced, before, kept))


def _whole_characters(text: bytes) -> tuple[str, bool]:
    """(the longest prefix of whole characters, whether bytes were cut off); "" when it begins inside one."""
    try:
        return text.decode(), False
    except UnicodeDecodeError as error:
        if error.end < len(text) and error.reason != "unexpected end of data":
            return "", True
        return text[: error.start].decode(), True


def _special(vocabulary: Vocabulary, text: bytes) -> tuple[int, ...]:
    """The special token that the text begins with, if it does."""
    ids = (i for i in vocabulary.specials.values() if text.startswith(vocabulary.spelled[i]))
    return tuple(ids)[:1]


def _spelled(vocabulary: Vocabulary, ids: tuple[int, ...]) -> str | None:
    try:
        return b"".join(vocabulary.tokens[i] for i in ids).decode()
    except UnicodeDecodeError:
        return None


def _own_tokens(vocabulary: Vocabulary, last: tuple[int, ...], text: str) -> tuple[tuple[int, ...], list[int]]:
    """(`last`, the tokenizer's tokens of `text` after them) when it gives these ids again on their text followed by
    `text`, else ((), its tokens of `text`); no tokens when they are not ordinary ones that spell it."""
    before = _spelled(vocabulary, last) if last else None
    ids = vocabulary.encode(before + text) if before else []
    if not before or tuple(ids[: len(last)]) != last:
        last, ids = (), vocabulary.encode(text)
    tokens = ids[len(last):]
    spelled = all(map(vocabulary.is_text, tokens)) and b"".join(vocabulary.tokens[t] for t in tokens) == text.encode()
    return last, tokens if spelled else []


def _overrun(explorer: Explorer, vocabulary: Vocabulary, forced: Forced) -> int:
    """The least offset at which a grammatical token begins that reads past the end of the forced text."""
    text = np.frombuffer(forced.text, np.uint8).copy()
    size = text.size
    for offset in range(max(0, size - vocabulary.longest), size):
        node = find_node(vocabulary.trie, text, offset, size)
        if node >= 0 and explorer.any_token(forced.threads, node + 1, node + int(vocabulary.trie.size[node])):
            return offset
    return size


def _before_offset(vocabulary: Vocabulary, tokens: list[int], offset: int) -> list[int]:
    """The first tokens, those that end at `offset` or before."""
    end = 0
    for kept, token in enumerate(tokens):
        end += len(vocabulary.tokens[token])
        if end > offset:
            return tokens[:kept]
    return tokens


def _stable(explorer: Explorer, vocabulary: Vocabulary, forced: Forced, before: tuple[int, ...],
            tokens: list[int]) -> list[int]:
    """The first tokens that the tokenizer also gives when one of the sampled next characters follows."""
    allowed = explorer.following(forced.threads, forced.answer)
    text = (_spelled(vocabulary, before) or "") + forced.text.decode()
    for sample in _SAMPLED:
        if not tokens:
            break
        if ord(sample) in allowed:
            longer = vocabulary.encode(text + sample)
            if tuple(longer[: len(before)]) != before:
                return []
            tokens = _common(tokens, longer[len(before):])
    return tokens


def _common(left: list[int], right: list[int]) -> list[int]:
    length = 0
    while length < min(len(left), len(right)) and left[length] == right[length]:
        length += 1
    return left[:length]
