"""Automata over keys: which patterns a key matches is told by where it ends."""

from __future__ import annotations

import itertools

import pytest

from espalier.grammars.automata.dfa import Dfa
from espalier.grammars.limits import Limits, Meter
from espalier.grammars.plans.keys import labelled, relabel
from espalier.grammars.regular.regex import compile_regex
from espalier.grammars.schemas.strings import ANY_CHARACTERS

PATTERNS = [["^x-"], ["^x-", "a$"], ["^(en|de)(-[A-Z]{2})?$", "^e"], ["\\u{1f600}", "^[^a]*$"], ["^a$", "^a$"]]
KEYS = ["".join(letters) for n in range(4) for letters in itertools.product("xa-", repeat=n)] + [
    "en", "de-AT", "e", "en-US", "\U0001f600", "b\U0001f600a", "\ud7ff", "\ue000"]


def end(dfa: Dfa, text: str) -> int:
    """The state behind a text; -1 where it leads nowhere."""
    state = 0
    for character in map(ord, text):
        state = next((target for low, high, target in dfa.edges[state] if low <= character <= high), -1)
        if state < 0:
            return -1
    return state


@pytest.mark.parametrize("patterns", PATTERNS)
def test_each_key_has_the_verdicts_of_all_patterns(patterns: list[str]) -> None:
    meter = Meter(Limits())
    parts = [compile_regex(pattern, meter, search=True) for pattern in patterns]
    keys, verdicts = labelled([ANY_CHARACTERS, *parts], meter)
    for key in KEYS:
        assert verdicts[end(keys, key)] == (True, *(part.accepts(map(ord, key)) for part in parts))


@pytest.mark.parametrize("patterns", PATTERNS)
def test_what_is_told_apart_is_minimal(patterns: list[str]) -> None:
    """So object_planner may leave out the minimisation where each verdict has a label of its own."""
    meter = Meter(Limits())
    keys, verdicts = labelled([ANY_CHARACTERS, *(compile_regex(one, meter, search=True) for one in patterns)], meter)
    kinds = {verdict: label for label, verdict in enumerate(dict.fromkeys(verdicts.values()))}
    every = {state: kinds[verdict] for state, verdict in verdicts.items()}
    for left_out in (None, *kinds.values()):
        labels = {state: label for state, label in every.items() if label != left_out}
        assert relabel(keys, labels) == relabel(keys, labels, apart=True)
