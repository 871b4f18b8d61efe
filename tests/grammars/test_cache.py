"""A constraint is compiled once, kept within the budget, and its failure is everyone's who waited."""

from __future__ import annotations

import threading

import pytest

from espalier.grammars.cache import GrammarCache
from espalier.grammars.constraint import Choices, Regex
from espalier.grammars.errors import InvalidConstraint

from .drawn import json_grammar


def test_the_same_constraint_asked_by_many_at_once_is_compiled_once():
    calls, release = [], threading.Event()

    def compiling(constraint):
        calls.append(constraint)
        release.wait(10)
        return json_grammar()

    cache, found = GrammarCache(compiling), []
    threads = [threading.Thread(target=lambda: found.append(cache.get(Regex("a")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    release.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert len(found) == 8
    assert len({id(grammar) for grammar in found}) == 1


def test_the_bytes_kept_stay_under_the_budget_and_the_last_used_stay():
    cache = GrammarCache(lambda constraint: json_grammar(), byte_budget=6000)
    for k in range(40):
        cache.get(Choices((str(k),)))
        cache.get(Choices(("0",)))
        assert cache.used_bytes <= 6000
    assert len(cache) >= 2
    kept = cache.get(Choices(("0",)))
    assert cache.get(Choices(("0",))) is kept


def test_a_failure_is_raised_and_tried_again():
    calls = []

    def compiling(constraint):
        calls.append(constraint)
        raise InvalidConstraint("no")

    cache = GrammarCache(compiling)
    for _ in range(2):
        with pytest.raises(InvalidConstraint):
            cache.get(Regex("("))
    assert len(calls) == 2


def test_a_grammar_above_the_budget_is_returned_and_not_kept():
    cache = GrammarCache(lambda constraint: json_grammar(), byte_budget=10)
    assert cache.get(Regex("a")).rules
    assert len(cache) == 0
