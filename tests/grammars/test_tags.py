"""Tags: free text, triggers, contents of every kind, special tokens by id; masks, budgets and forced text over them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import Choices, Gbnf, JsonSchema, Lark, Regex, Tag, Tags
from espalier.grammars.errors import (
    BudgetTooSmall,
    ConstraintError,
    InvalidConstraint,
    Unsatisfiable,
    UnsupportedKeyword,
)
from espalier.grammars.ir import special
from espalier.grammars.vocabulary import Vocabulary

from .drawn import small_vocabulary
from .engine import allowed, bind
from .naive import Naive
from .tag_texts import TagTexts

INTEGER = JsonSchema('{"type":"integer"}')
WEATHER = JsonSchema('{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],'
                     '"additionalProperties":false}')
CALLS = Tags((Tag("<call=weather>", WEATHER, "</call>"), Tag("<call=add>", Regex(r"\d+,\d+"), "</call>")), ("<call=",))


words = st.text("ab", min_size=1, max_size=3)
contents = st.sampled_from([None, Regex("a*"), Regex("b|ab"), Regex("(ab)+"), Regex("[ab]")])
drawn_tags = st.builds(Tags, st.lists(st.builds(Tag, words, contents, st.text("ab", max_size=2)), min_size=1,
                                      max_size=3).map(tuple),
                       st.lists(words, max_size=2).map(tuple), st.booleans(), st.booleans(),
                       st.sampled_from(["any", "any", "before", "none"]), st.sampled_from(["", "", "b", "ab"]),
                       st.sampled_from([None, None, Regex("a*"), Regex("b|abb"), Regex("(ab)+"), Regex("a?b+")]))
TEXTS = ["".join(letters) for length in range(8) for letters in product("ab", repeat=length)]


@settings(max_examples=150, deadline=None)
@given(drawn_tags)
def test_exactly_the_texts_with_well_formed_tags_are_accepted(tags: Tags) -> None:
    try:
        naive = Naive(compile_constraint(tags))
    except InvalidConstraint:
        return
    oracle = TagTexts(tags)
    for text in TEXTS:
        assert naive.accepts(text) == oracle.accepts(text), text


@settings(max_examples=60, deadline=None)
@given(drawn_tags, st.lists(st.text("ab", min_size=2, max_size=4), max_size=6), st.randoms(use_true_random=False))
def test_every_mask_is_the_tokens_that_can_still_close(tags: Tags, extra: list[str], rng: object) -> None:
    vocabulary = small_vocabulary([word.encode() for word in extra], b"ab")
    try:
        grammar = compile_constraint(tags)
        compiled = bind(grammar, vocabulary)
    except (InvalidConstraint, Unsatisfiable):
        assume(False)
    naive, matcher, threads = Naive(grammar), compiled.matcher(forcing=False), Naive(grammar).start()
    budget = compiled.min_tokens + rng.randrange(5)  # type: ignore[attr-defined]
    while True:
        after = {t: _read(naive, threads, vocabulary.tokens[t]) for t in vocabulary.text_ids}
        live = {t: here for t, here in after.items() if here}
        found = allowed(compiled, matcher, budget)
        assert found & set(vocabulary.stop) == (set(vocabulary.stop) if naive.may_end(threads) else set())
        found -= set(vocabulary.stop)
        assert {t for t, here in live.items() if _nearest(naive, here, [b"a", b"b"]) < budget} <= found
        assert found <= {t for t, here in live.items() if _nearest(naive, here, vocabulary.tokens) < budget}
        going_on = sorted(found)
        if not going_on:
            break
        token = rng.choice(going_on)  # type: ignore[attr-defined]
        matcher.accept(token)
        threads, budget = after[token], budget - 1
    assert naive.may_end(threads)


def _read(naive: Naive, threads: frozenset, text: bytes) -> frozenset:
    for byte in text:
        threads = naive.step(threads, byte)
    return threads


def _nearest(naive: Naive, threads: frozenset, tokens: Sequence[bytes]) -> int:
    """The fewest of these tokens to the end."""
    layer, seen, depth = {threads}, {threads}, 0
    while not any(naive.may_end(here) for here in layer):
        layer = {after for here in layer for text in tokens if text and (after := _read(naive, here, text))} - seen
        seen |= layer
        depth += 1
    return depth


@pytest.mark.parametrize(("tags", "accepted", "rejected"), [
    (CALLS, ["", "no call", "a <call b", 'x<call=weather>{"city":"Öl"}</call>y',
             "<call=add>1,22</call><call=add>3,4</call>"],
     ["<call=", "<call=other>", "<call=add>1,2", 'x<call=weather>{}</call>', "<call=add>1,2</call> <call=x"]),
    (Tags((Tag("<think>", None, "</think>"),), stop_after_first=True),
     ["hm", "<think></think>", "so <think>a < b</ </think>", "<thin"], ["<think>", "<think>x</think>y", "<think>é"]),
    (Tags((Tag("[", INTEGER, "]"), Tag("(", Choices(("yes", "no")), ")")), at_least_one=True),
     ["[1]", "a(no)b[-3]"], ["", "plain", "(maybe)", "[1] ("]),
    (Tags((Tag("é<", Gbnf('root ::= "x" root? "y"'), ">"), Tag("é=", Lark('start: /[0-9]/*'), ";"))),
     ["é", "e<", "éé<xxyy>", "é=;é=12;"], ["é<xy", "é<", "é=a;"]),
    (Tags((Tag("<a>", INTEGER, ";"), Tag("<ab>", Regex("x*"), ";")), text="before", between=", "),
     ["", "so", "so <a>1;", "<a>1;, <ab>xx;, <a>2;"], ["<a>1; ", "<a>1;<a>2;", "<a>1;, ", "<a>1;, so", "<a>"]),
    (Tags((Tag("get(", INTEGER, ")"), Tag("get_all(", INTEGER, ")")), text="none", between=" ", at_least_one=True),
     ["get(1)", "get_all(2)", "get(1) get_all(2) get(3)"], ["", "so get(1)", "get(1) ", "get(1)get(2)", "get_al(1)"]),
    (Tags((Tag("so ", Regex("b*")), Tag("so, ", INTEGER)), stop_after_first=True, at_least_one=True),
     ["so ", "x so bb", "so, 1"], ["", "so", "so, ", "so x", "so b "]),
    (Tags((Tag("so ", Regex("b*")),), stop_after_first=True, text="none"), ["", "so ", "so b"], ["x so ", "so so "]),
    (Tags((Tag('{"city": "', WEATHER, "}"),), text="none", at_least_one=True, between="\n", whole=WEATHER),
     ['{"city":"Öl"}', '{"city": "{"city":"a"}}', '{"city": "{"city":"a"}}\n{"city": "{"city":"b"}}'],
     ["", '{"city": "a"}', '{"city":"a"}\n{"city": "{"city":"b"}}', '{"city":"a"}{"city":"b"}']),
    (Tags((Tag("n=", INTEGER),), text="none", whole=Regex("a?|n=x")), ["", "a", "n=x", "n=1n=2"],
     ["an=1", "n=xn=1", "x"]),
    (Tags((Tag("n=", INTEGER),)), ["", "n", "n=12", "n=12, n=3.", "n=-1"], ["n=", "n=x", "nn=-"]),
])
def test_texts(tags: Tags, accepted: list[str], rejected: list[str]) -> None:
    naive = Naive(compile_constraint(tags))
    assert [text for text in accepted if not naive.accepts(text)] == []
    assert [text for text in rejected if naive.accepts(text)] == []


def test_free_text_is_valid_unicode_and_ends_between_characters() -> None:
    naive = Naive(compile_constraint(CALLS))
    assert naive.accepts("日本\U0001f600\x00")
    assert not any(naive.accepts(text) for text in (b"\xff", b"\xc3", "日".encode()[:2], b"\xed\xa0\x80"))


@pytest.mark.parametrize(("tags", "where"), [
    (Tags(()), "tags"),
    (Tags((Tag("n=", INTEGER),), whole=INTEGER), "whole"),
    (Tags((Tag("n=", INTEGER),), text="none", whole=Regex("a(")), "whole column 2"),
    (Tags((Tag("", None, "x"),)), "tags/0/begin"),
    (Tags((Tag("a", None, ""),)), "tags/0/end"),
    (Tags((Tag("a", Regex("b*"), ""),)), "tags/0/end"),
    (Tags((Tag("ab", INTEGER), Tag("xabx", INTEGER))), "triggers"),
    (Tags((Tag("ab", INTEGER),), ("a", "c")), "triggers"),
    (Tags((Tag("ab", INTEGER), Tag("cd", INTEGER)), ("a",)), "tags/1/begin"),
    (Tags((Tag("a\ud800", INTEGER),)), "tags/0/begin"),
    (Tags((Tag("a", INTEGER),), between=","), "between"),
    (Tags((Tag("a", INTEGER),), text="before", between="\ud800"), "between"),
    (Tags((Tag("ok", INTEGER), Tag("a", Regex("(")))), "tags/1/content column 1"),
])
def test_refusals_name_the_tag(tags: Tags, where: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        compile_constraint(tags)
    assert caught.value.where == where


def test_a_keyword_of_a_content_is_refused_at_its_place() -> None:
    with pytest.raises(UnsupportedKeyword) as caught:
        compile_constraint(Tags((Tag("a", JsonSchema('{"items":{"$ref":"other.json"}}')),)))
    assert caught.value.where.startswith("tags/0/content #/items")


def test_the_budget_closes_the_tag_that_is_open() -> None:
    compiled = bind(compile_constraint(CALLS), Vocabulary.bytes_only())
    assert compiled.min_tokens == 0
    matcher = compiled.matcher()
    for byte in b"well <call=add>12":
        matcher.accept(byte)
    assert matcher.min_tokens() == len(",0</call>")
    assert allowed(compiled, matcher, len(",0</call>")) == {ord(",")}
    with pytest.raises(BudgetTooSmall):
        matcher.row(len(",0</call>") - 1)


def test_what_a_beginning_leaves_no_choice_about_is_forced() -> None:
    matcher = bind(compile_constraint(CALLS), Vocabulary.bytes_only()).matcher()
    for byte in b"<call=w":
        matcher.accept(byte)
    assert bytes(matcher.forced(100)) == b'eather>{"city":"'


# Special tokens

NAMED = {"<tool>": 300, "</tool>": 301, "<other>": 302}


def with_specials() -> Vocabulary:
    """256 bytes, a stop id, then special tokens from 300 on, and a text token that spells one."""
    tokens = [bytes([b]) for b in range(256)] + [b""] * 50 + [b"<tool>", b">1"]
    tokens[300:303] = [b"", b"", b""]
    return Vocabulary([*tokens[:303], b"<tool>", b"}x"], special=(256, 300, 301, 302), stop=(256,),
                      encode=lambda text: list(text.encode()), specials=NAMED)


def named(**options: bool) -> Tags:
    return Tags((Tag("<tool>\n", INTEGER, "</tool>"),), specials=tuple(NAMED), **options)


def bound(tags: Tags) -> CompiledGrammar:
    return bind(compile_constraint(tags), with_specials())


def test_a_delimiter_that_is_a_special_token_is_written_by_its_id_and_never_as_text() -> None:
    compiled = bound(named())
    matcher = compiled.matcher(forcing=False)
    here = allowed(compiled, matcher)
    assert 300 in here
    assert not here & {301, 302, 303, 0xFE, 0xFF}
    for token in b"a<tool":
        matcher.accept(token)
    assert ord(">") not in allowed(compiled, matcher)
    matcher.accept(300)
    assert allowed(compiled, matcher) == {ord("\n")}
    for token in b"\n12":
        matcher.accept(token)
    assert matcher.explain().startswith("expected '0'..'9' or </tool> in ")
    assert allowed(compiled, matcher) == {*b"0123456789", 301}
    matcher.accept(301)
    assert matcher.may_end()
    assert 300 in allowed(compiled, matcher)


@pytest.mark.parametrize("name", ["<tool>", "<|a name longer than the tokens that are looked for|>"])
def test_a_special_token_needs_no_tokens_for_the_letters_of_its_name(name: str) -> None:
    tags = Tags((Tag(name, INTEGER, "."),), at_least_one=True, specials=(name,))
    compiled = bind(compile_constraint(tags), small_vocabulary([], b"0123456789.", [name]))
    assert compiled.min_tokens == 3
    matcher, token = compiled.matcher(), compiled.vocabulary.specials[name]
    assert allowed(compiled, matcher, 3) == {token}
    for accepted in (token, 7, 10):
        matcher.accept(accepted)
    assert matcher.may_end()


def test_special_tokens_are_forced_like_text() -> None:
    compiled = bound(Tags((Tag("<tool>\n", Choices(("yes",)), "</tool>"),), at_least_one=True, specials=tuple(NAMED)))
    matcher = compiled.matcher()
    for token in b"x":
        matcher.accept(token)
    assert matcher.forced(9) == []
    matcher.accept(300)
    for token in [*b"\nyes", 301]:
        assert matcher.forced(1) == [token]
        matcher.accept(token)
    assert matcher.forced(9) == []


def test_other_constraints_never_allow_a_special_token() -> None:
    compiled = bind(compile_constraint(Regex(r"[\s\S]*")), with_specials())
    matcher = compiled.matcher(forcing=False)
    for token in "aé".encode():
        matcher.accept(token)
        assert not allowed(compiled, matcher) & {300, 301, 302, 0xFE, 0xFF}


def test_a_special_token_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(InvalidConstraint, match="no special token"):
        bind(compile_constraint(named()), Vocabulary.bytes_only())


def test_naive_reading_of_special_tokens() -> None:
    naive = Naive(compile_constraint(named(stop_after_first=True)))
    assert naive.accepts(b"a<b" + special("<tool>") + b"\n7" + special("</tool>"))
    assert not naive.accepts(b"<tool>\n7" + special("</tool>"))
    assert not naive.accepts(special("<tool>") + b"\n7</tool>")
