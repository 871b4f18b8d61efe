"""What a mask should allow, by a recogniser that is too simple to be wrong; and how adversaries choose from a mask."""

from __future__ import annotations

from random import Random

from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.matcher import Matcher
from espalier.grammars.vocabulary import Vocabulary

from .naive import Naive

WAYS = ("any", "longest", "farthest")


def readable(grammar: CompiledGrammar, matcher: Matcher, naive: Naive, threads: frozenset) -> set[int]:
    """The tokens that can be read and closed: by the plain recogniser, and by a step of the engine."""
    vocabulary, found = grammar.vocabulary, set()
    for token, text in enumerate(vocabulary.tokens):
        if not vocabulary.is_text(token):
            continue
        after = threads
        for byte in text:
            after = naive.step(after, byte)
        if matcher.allows(token):
            assert after, (token, text)
            found.add(token)
        elif after:
            assert not _closes(naive, after), text
    return found | (set(vocabulary.stop) if naive.may_end(threads) else set())


def _closes(naive: Naive, threads: frozenset, limit: int = 20) -> bool:
    """Whether some text of few bytes ends from here; gives up after a number of sets of threads."""
    layer, seen = [threads], {threads}
    while layer and len(seen) < limit:
        following = []
        for here in layer:
            if naive.may_end(here):
                return True
            for after in naive.followers(here).values():
                if after not in seen:
                    seen.add(after)
                    following.append(after)
        layer = following
    return False


def chosen(vocabulary: Vocabulary, matcher: Matcher, tokens: list[int], way: str, random: Random) -> int:
    """One of the tokens: any, the longest, or the one that leaves the end farthest."""
    if way == "any":
        return random.choice(tokens)
    if way == "longest":
        return max(tokens, key=lambda token: len(vocabulary.tokens[token]))
    far = []
    for token in tokens:
        there = matcher.copy()
        there.accept(token)
        far.append((there.min_tokens(), token))
    return max(far)[1]
