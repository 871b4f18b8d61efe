"""What a mask should allow, by a recogniser that is too simple to be wrong; and how adversaries choose from a mask."""

from __future__ import annotations

from random import Random

from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.matcher import Matcher
from espalier.grammars.vocabulary import Vocabulary

from .engine import allowed
from .naive import Naive

WAYS = ("any", "longest", "farthest")


def read(naive: Naive, threads: frozenset, text: bytes) -> frozenset:
    for byte in text:
        threads = naive.step(threads, byte)
    return threads


def readable(grammar: CompiledGrammar, matcher: Matcher, naive: Naive, threads: frozenset) -> set[int]:
    """The tokens that can be read and closed: by the plain recogniser, and by a step of the engine."""
    vocabulary, found = grammar.vocabulary, set()
    letters = _letters(vocabulary)
    for token, text in enumerate(vocabulary.spelled):
        if not vocabulary.is_text(token) and token not in vocabulary.specials.values():
            continue
        after = read(naive, threads, text)
        if matcher.allows(token):
            assert after, (token, text)
            found.add(token)
        elif after:
            assert not _closes(naive, after, letters), text
    return found | (set(vocabulary.stop) if naive.may_end(threads) else set())


def _letters(vocabulary: Vocabulary) -> frozenset[int]:
    """The bytes that are tokens."""
    return frozenset(text[0] for text in vocabulary.spelled if len(text) == 1)


def _closes(naive: Naive, threads: frozenset, letters: frozenset[int], limit: int = 20) -> bool:
    """Whether some text of few of these bytes ends from here; gives up after a number of sets of threads."""
    layer, seen = [threads], {threads}
    while layer and len(seen) < limit:
        following = []
        for here in layer:
            if naive.may_end(here):
                return True
            for byte, after in naive.followers(here).items():
                if byte in letters and after not in seen:
                    seen.add(after)
                    following.append(after)
        layer = following
    return False


def check_masks(grammar: CompiledGrammar, random: Random, steps: int) -> None:
    """Along a random text: without the overlays of laws 4 and 5 the masks are what can be read and closed."""
    naive = Naive(grammar.grammar)
    matcher, threads = grammar.matcher(forcing=False, closing=False), naive.start()
    for _ in range(steps):
        here = allowed(grammar, matcher)
        assert here == readable(grammar, matcher, naive, threads), matcher.explain()
        assert not here & (grammar.vocabulary.special - set(grammar.vocabulary.specials.values())
                           - set(grammar.vocabulary.stop))
        tokens = sorted(here - set(grammar.vocabulary.stop))
        if not tokens:
            break
        token = random.choice(tokens)
        matcher.accept(token)
        threads = read(naive, threads, grammar.vocabulary.spelled[token])


def check_overlays(grammar: CompiledGrammar, random: Random, steps: int, spare: int) -> None:
    """Along a random text within a budget: what each overlay leaves of the mask, alone and together."""
    naive, vocabulary = Naive(grammar.grammar), grammar.vocabulary
    free, closed, forced, both = (grammar.matcher(forcing=forcing, closing=closing)
                                  for forcing, closing in ((False, False), (False, True), (True, False), (True, True)))
    threads, left = naive.start(), grammar.min_tokens + spare
    for _ in range(steps):
        plain = allowed(grammar, free)
        near = {token for token in plain if token in vocabulary.stop or _need(free, token) < left}
        assert allowed(grammar, closed, left) == near
        plan = forced.forced(1)
        assert allowed(grammar, forced) == (set(plan) or plain)
        if plan:
            assert plain >= set(plan)
            assert _no_choice(naive, threads, vocabulary.spelled[plan[0]], _letters(vocabulary))
        assert allowed(grammar, both, left) == (set(both.forced(1, left)) or near)
        if plan and plan[0] not in near:  # without a budget `forced` goes on, where the others do not
            break
        tokens = plan or sorted(near - set(vocabulary.stop))
        if not tokens:
            break
        token = random.choice(tokens)
        for matcher in (free, closed, forced, both):
            matcher.accept(token)
        threads, left = read(naive, threads, vocabulary.spelled[token]), left - 1


def check_tokens(grammar: CompiledGrammar, random: Random, steps: int, spare: int) -> None:
    """Along a random text: masks are the tokens that can be accepted one by one, also within a budget."""
    vocabulary = grammar.vocabulary
    free, matcher = grammar.matcher(forcing=False, closing=False), grammar.matcher(forcing=False)
    for _ in range(steps):
        expected = {token for token in range(vocabulary.size) if free.allows(token)}
        assert allowed(grammar, free) == expected
        budget = matcher.min_tokens() + spare
        assert allowed(grammar, matcher, budget) == {token for token in expected if _fits(matcher, token, budget - 1)}
        tokens = sorted(expected - set(vocabulary.stop))
        if not tokens:
            break
        token = random.choice(tokens)
        free.accept(token)
        matcher.accept(token)


def _fits(matcher: Matcher, token: int, left: int) -> bool:
    ahead = matcher.copy()
    ahead.accept(token)
    return ahead.must_end() or ahead.min_tokens() <= left


def _need(matcher: Matcher, token: int) -> int:
    there = matcher.copy()
    there.accept(token)
    return there.min_tokens()


def _no_choice(naive: Naive, threads: frozenset, text: bytes, letters: frozenset[int]) -> bool:
    """Whether every text that goes on from here begins so, as far as a short search for its end can tell."""
    for byte in text:
        others = (after for other, after in naive.followers(threads).items() if other != byte and other in letters)
        if naive.may_end(threads) or any(_closes(naive, after, letters) for after in others):
            return False
        threads = naive.step(threads, byte)
    return bool(threads)


def answer(grammar: CompiledGrammar, budget: int, way: str, random: Random, *, forcing: bool = True) -> bytes:
    """A text, as its tokens are spelled, that an adversary writes within the budget; it ends where it must, and in one
    of five places where it may."""
    vocabulary, matcher, text = grammar.vocabulary, grammar.matcher(forcing=forcing), b""
    for left in range(budget, -1, -1):
        ids = allowed(grammar, matcher, left)
        assert ids, matcher.explain()
        going_on = sorted(ids - set(vocabulary.stop))
        if not going_on or (ids & set(vocabulary.stop) and random.random() < 0.2):
            break
        token = chosen(vocabulary, matcher, going_on, way, random)
        matcher.accept(token)
        text += vocabulary.spelled[token]
    assert matcher.may_end()
    return text


def chosen(vocabulary: Vocabulary, matcher: Matcher, tokens: list[int], way: str, random: Random) -> int:
    """One of the tokens: any, the longest, or the one that leaves the end farthest."""
    if way == "any":
        return random.choice(tokens)
    if way == "longest":
        return max(tokens, key=lambda token: len(vocabulary.spelled[token]))
    far = []
    for token in tokens:
        there = matcher.copy()
        there.accept(token)
        far.append((there.min_tokens(), token))
    return max(far)[1]
