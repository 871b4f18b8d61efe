"""Masks from slices and stretches equal the tokens one by one, over vocabularies large enough to have both."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Gbnf
from espalier.grammars.masks import finished, slicing
from espalier.grammars.vocabulary import Vocabulary

from .derivations import Derivations, gbnf, grammars
from .engine import allowed, bind
from .samplers import check_tokens
from .test_context_free import too_ambiguous_is_an_answer

GRAMMARS = [
    'root ::= (w " "?)+\nw ::= [a-l]+',
    'root ::= e\ne ::= n ("+" e)* | "(" e ")"\nn ::= [a-l] [a-l0-2]*',
    'root ::= "if " n | n "=" (n | "\'" [^\']* "\'")\nn ::= [a-l]+',
    'root ::= l{1,3} "."\nl ::= [a-z]+ [é-ü]? ","',
    'root ::= "(" root ")" | [a-z]* "!" root | "x"',
]


def large_vocabulary() -> Vocabulary:
    """Some 4,000 tokens: all short texts over a few letters, and marks among them."""
    texts = {"".join(t) for n in (1, 2, 3) for t in product("abil+ (", repeat=n)}
    texts |= {"".join(t) + mark for n in (3, 4) for t in product("ail", repeat=n) for mark in ("", "=", "'", "é", ".,")}
    texts |= {a + "".join(t) for a in " ('=," for n in (3, 4, 5) for t in product("ail", repeat=n)}
    tokens = sorted({*(t.encode() for t in texts), *(bytes([b]) for b in range(256)), b"ab\xc3", b"\xa9,", b"))"})
    return Vocabulary([*tokens, b""], special=(), stop=(len(tokens),), encode=lambda text: list(text.encode()))


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return large_vocabulary()


@pytest.mark.parametrize("large", [1 << 20, 16])
@pytest.mark.parametrize("rules", GRAMMARS)
@settings(max_examples=12, deadline=None)
@given(rng=st.randoms(use_true_random=False), spare=st.integers(0, 6))
def test_masks_equal_tests_of_each_token(vocabulary: Vocabulary, rules: str, large: int, rng: Random,
                                         spare: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slicing, "_LARGE", large)
        patch.setattr(finished, "spreads", lambda tables: False)
        compiled = bind(compile_constraint(Gbnf(rules)), vocabulary)
        check_tokens(compiled, rng, 5, spare)


@settings(max_examples=25, deadline=None)
@given(grammars(), st.randoms(use_true_random=False))
def test_masks_of_drawn_grammars_over_many_tokens_are_those_of_the_derivations(rules: dict, rng: object) -> None:
    texts = ["".join(t) for n in range(1, 6) for t in product("abc", repeat=n)]
    vocabulary = Vocabulary([*(t.encode() for t in texts), b""], special=(), stop=(len(texts),),
                            encode=lambda text: [texts.index(c) for c in text])
    compiled = bind(compile_constraint(Gbnf(gbnf(rules))), vocabulary) if _possible(rules) else None
    if compiled is None:
        return
    derivations, matcher, text = Derivations(rules), compiled.matcher(forcing=False, closing=False), ""
    sample = rng.sample(range(len(texts)), 40)  # type: ignore[attr-defined]
    for _ in range(2):
        with too_ambiguous_is_an_answer():
            found = allowed(compiled, matcher)
        assert {t for t in sample if t in found} == {t for t in sample if derivations.begins(text + texts[t])}
        going_on = sorted(found - {len(texts)})
        if not going_on:
            break
        token = rng.choice(going_on)  # type: ignore[attr-defined]
        with too_ambiguous_is_an_answer():
            matcher.accept(token)
        text += texts[token]


def _possible(rules: dict) -> bool:
    from espalier.grammars.errors import Unsatisfiable
    try:
        compile_constraint(Gbnf(gbnf(rules)))
    except Unsatisfiable:
        return False
    return True
