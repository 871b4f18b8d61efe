"""Laws 3 to 6 for every kind of constraint: masks, the overlays of budget and forced text, adversaries, specials."""

from __future__ import annotations

import ast
import json
import re
from random import Random

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import Constraint, Gbnf, JsonSchema, Lark, Order, Regex, Spelling
from espalier.grammars.errors import BudgetTooSmall, ConstraintError, ConstraintTooLarge
from espalier.grammars.masks.configuration import Limits

from .derivations import gbnf, grammars, lark
from .drawn_schemas import DEFINITIONS, SCHEMAS
from .engine import allowed, bind
from .kinds import KINDS, VOCABULARY, Kind
from .samplers import WAYS, answer, check_masks, check_overlays

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def _bound(kind: Kind, limits: Limits | None = None) -> CompiledGrammar:
    return bind(compile_constraint(kind.constraint), kind.vocabulary, limits=limits)


@every_kind
def test_a_mask_is_what_can_be_read_and_closed(kind: Kind) -> None:
    grammar = _bound(kind)
    for seed in range(3):
        check_masks(grammar, Random(seed), 8)


@every_kind
@pytest.mark.parametrize("spare", [0, 2, 9])
def test_overlays_leave_what_closes_in_the_budget_and_what_is_forced(kind: Kind, spare: int) -> None:
    grammar = _bound(kind)
    for seed in range(2):
        check_overlays(grammar, Random(seed), 10, spare)


@every_kind
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("forcing", [True, False])
def test_adversaries_write_what_fits_within_any_budget_from_the_least_up(kind: Kind, way: str, forcing: bool) -> None:
    grammar = _bound(kind)
    for seed, spare in enumerate((0, 0, 1, 2, 3, 5, 9, 20)):
        text = answer(grammar, grammar.min_tokens + spare, way, Random(seed), forcing=forcing)
        assert kind.fits(text), text


@every_kind
@pytest.mark.parametrize("threads", [1, 3])
def test_an_answer_with_more_readings_than_are_followed_is_narrowed_and_closes(kind: Kind, threads: int) -> None:
    grammar = _bound(kind, Limits(threads=threads))
    for way in WAYS:
        for seed, spare in enumerate((0, 1, 4, 30)):
            text = answer(grammar, grammar.min_tokens + spare, way, Random(seed), forcing=seed % 2 == 0)
            assert kind.fits(text), text


@every_kind
def test_a_budget_below_the_least_is_refused_and_named(kind: Kind) -> None:
    grammar = _bound(kind)
    if grammar.min_tokens:
        with pytest.raises(BudgetTooSmall) as caught:
            allowed(grammar, grammar.matcher(forcing=False), grammar.min_tokens - 1)
        assert caught.value.needed == grammar.min_tokens


@every_kind
def test_what_may_come_next_is_explained_with_its_place(kind: Kind) -> None:
    grammar, random = _bound(kind), Random(1)
    matcher = grammar.matcher(forcing=False)
    for _ in range(12):
        told, here = matcher.explain(), allowed(grammar, matcher)
        assert told.startswith("expected ")
        assert ("the end in " in told) == matcher.may_end()
        if found := re.match(r"expected ('(?:[^'\\]|\\.)*') in ", told):
            text = ast.literal_eval(found[1]).encode()
            for token in here:
                spelled = grammar.vocabulary.spelled[token]
                assert spelled.startswith(text) or text.startswith(spelled)
        going_on = sorted(here - set(grammar.vocabulary.stop))
        if not going_on:
            break
        matcher.accept(random.choice(going_on))


# Drawn constraints

_FEW = Limits(threads=24)
_PIECES = st.sampled_from(["a", "[ab]*", "(ab|x)", "x{1,2}", "(?=a)", "(?!ab)", "(?<!x)", r"\b", "(a|b1)+", "[^a]?",
                           "1?"])
PATTERNS = st.lists(_PIECES, min_size=1, max_size=5).map(lambda pieces: Regex("".join(pieces)))
WRITTEN = st.one_of(grammars().map(lambda rules: Lark(lark(rules), "root")),
                    grammars().map(lambda rules: Gbnf(gbnf(rules))))
WRITINGS = st.sampled_from([("schema", "one"), ("any", "one"), ("any", "any")])


def _drawn(constraint: Constraint) -> CompiledGrammar:
    try:
        grammar = bind(compile_constraint(constraint), VOCABULARY, limits=_FEW)
    except ConstraintError:
        reject()
    assume(grammar.min_tokens < 60)
    return grammar


def _keeps_the_laws(grammar: CompiledGrammar, spare: int, way: str, random: Random) -> bytes:
    try:
        check_masks(grammar, random, 5)
        check_overlays(grammar, random, 6, spare)
        return answer(grammar, grammar.min_tokens + spare, way, random)
    except ConstraintTooLarge:  # readings
        reject()


@settings(max_examples=40, deadline=None)
@given(st.one_of(PATTERNS, WRITTEN), st.integers(0, 9), st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_drawn_expressions_and_grammars_keep_the_laws(constraint: Constraint, spare: int, way: str,
                                                      random: Random) -> None:
    _keeps_the_laws(_drawn(constraint), spare, way, random)


@settings(max_examples=60, deadline=None)
@given(SCHEMAS, DEFINITIONS, WRITINGS, st.integers(0, 9), st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_drawn_schemas_keep_the_laws(schema: object, definition: object, writing: tuple[Order, Spelling], spare: int,
                                     way: str, random: Random) -> None:
    full = {**schema, "$defs": {"d": definition}} if isinstance(schema, dict) else schema
    order, spelling = writing
    grammar = _drawn(JsonSchema(json.dumps(full), order=order, spelling=spelling))
    text = _keeps_the_laws(grammar, spare, way, random)
    assert Draft202012Validator(full).is_valid(json.loads(text)), text
