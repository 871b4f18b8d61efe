"""Written grammars: every text that the rules derive and no other, for any recursion; masks; budgets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from espalier.grammars.automata import subsets
from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Gbnf, Lark
from espalier.grammars.errors import ConstraintTooLarge, InvalidConstraint, Unsatisfiable
from espalier.grammars.limits import Limits
from espalier.grammars.vocabulary import Vocabulary
from espalier.grammars.written import context_free, copies

from .derivations import Derivations, Tree, gbnf, grammars, lark, texts
from .drawn import small_vocabulary, tokens
from .engine import allowed, bind
from .naive import Naive

SHORT = texts("abc", 4)


@contextlib.contextmanager
def too_ambiguous_is_an_answer() -> Iterator[None]:
    """Rejects drawn examples whose text can be read in too many ways."""
    try:
        yield
    except ConstraintTooLarge:
        reject()


def accepted(text: str) -> Naive:
    return Naive(compile_constraint(Gbnf(text)))


def _check(rules: dict[str, Tree], constraint: Gbnf | Lark) -> None:
    """Verified by the compiler; here the texts are compared."""
    try:
        naive = Naive(compile_constraint(constraint))
    except Unsatisfiable:
        return
    derivations = Derivations(rules)
    for text in SHORT:
        assert naive.accepts(text) == derivations.accepts(text), (constraint.grammar, text)


@settings(max_examples=60, deadline=None)
@given(grammars())
def test_exactly_the_derived_texts_are_accepted(rules: dict[str, Tree]) -> None:
    _check(rules, Gbnf(gbnf(rules)))


@settings(max_examples=30, deadline=None)
@given(grammars())
def test_lark_without_ignored_text_derives_the_same(rules: dict[str, Tree]) -> None:
    _check(rules, Lark(lark(rules), "root"))


@pytest.mark.parametrize(("module", "budget", "value"), [
    (context_free, "_WORK_MORE", -(10 ** 9)), (copies, "_NODES", 0), (copies, "_STATES", 6), (subsets, "_SMALL", 1),
])
@settings(max_examples=30, deadline=None)
@given(rules=grammars())
def test_budgets_change_the_rules_and_not_the_texts(module: object, budget: str, value: int,
                                                    rules: dict[str, Tree]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, budget, value)
        _check(rules, Gbnf(gbnf(rules)))


@settings(max_examples=60, deadline=None)
@given(grammars(), tokens, st.randoms(use_true_random=False))
def test_every_mask_is_the_tokens_after_which_some_derived_text_goes_on(rules: dict[str, Tree], extra: list[bytes],
                                                                        rng: object) -> None:
    try:
        grammar = compile_constraint(Gbnf(gbnf(rules)))
        vocabulary = small_vocabulary([t for t in extra if b'"' not in t], b"abc")
        compiled = bind(grammar, vocabulary)
    except Unsatisfiable:
        assume(False)
    derivations, matcher, text = Derivations(rules), compiled.matcher(forcing=False, closing=False), ""
    for _ in range(6):
        expected = {t for t in vocabulary.text_ids if derivations.begins(text + vocabulary.tokens[t].decode())}
        expected |= set(vocabulary.stop) if derivations.accepts(text) else set()
        with too_ambiguous_is_an_answer():
            assert allowed(compiled, matcher) == expected
        going_on = sorted(expected - set(vocabulary.stop))
        if not going_on:
            break
        token = rng.choice(going_on)  # type: ignore[attr-defined]
        with too_ambiguous_is_an_answer():
            matcher.accept(token)
        text += vocabulary.tokens[token].decode()


def test_a_rule_that_repeats_itself_at_both_ends_is_a_loop() -> None:
    """No readings multiply: e + e + e has one, without a call."""
    grammar = compile_constraint(Gbnf('root ::= e\ne ::= e "+" e | e "*" e | "-" e | [0-9]+'))
    assert len(grammar.rules) == 1
    assert grammar.rules[0].calls == ()


@pytest.mark.parametrize("rules", [
    'root ::= e\ne ::= e "+" e | "(" e ")" | [0-9]+',
    'root ::= e\ne ::= sum | "(" e ")" | [0-9]+\nsum ::= e "+" e',
    'root ::= e\ne ::= e e | "(" e ")" | [0-9]+ | "+"',
    'root ::= e\ne ::= e ("+" e)* | "(" e ")" | [0-9]+',
])
def test_an_ambiguous_expression_stays_readable_over_thousands_of_operands(rules: str) -> None:
    vocabulary = Vocabulary.bytes_only()
    matcher = bind(compile_constraint(Gbnf(rules)), vocabulary).matcher()
    for byte in b"(" * 50 + b"1+" * 2000 + b"1" + b")+1" * 50:
        matcher.accept(byte)
    assert matcher.may_end()


def test_of_dangling_alternatives_the_nearest_stay_and_none_explode() -> None:
    grammar = bind(compile_constraint(Gbnf('root ::= s\ns ::= "i" s ("e" s)? | "x"')), Vocabulary.bytes_only())
    matcher = grammar.matcher()
    for byte in b"i" * 200 + b"x" + b"ex" * 200:
        matcher.accept(byte)
    assert matcher.may_end()
    matcher = grammar.matcher()
    for byte in b"i" * 2000 + b"x":
        matcher.accept(byte)
    for byte in b"ex" * 20 + b"ei" + b"i" * 30 + b"x":
        assert byte in allowed(grammar, matcher)
        matcher.accept(byte)
    assert matcher.may_end()


def test_ten_thousand_levels_of_nesting_open_and_close() -> None:
    matcher = bind(compile_constraint(Gbnf('root ::= "(" root? ")"')), Vocabulary.bytes_only()).matcher()
    for byte in b"(" * 10_000 + b")" * 10_000:
        matcher.accept(byte)
    assert matcher.must_end()


@pytest.mark.parametrize("link", ["r{}", 'r{} "a"', '"a" r{}'])
def test_long_chains_of_rules_are_safe(link: str) -> None:
    rules = [f"r{i} ::= {link.format(i + 1)}" for i in range(3000)]
    grammar = compile_constraint(Gbnf("\n".join(["root ::= r0", *rules, 'r3000 ::= "x"'])))
    assert sum(rule.states for rule in grammar.rules) < 20_000


def test_rules_that_begin_one_in_another_too_deeply_are_refused() -> None:
    rules = [f'r{i} ::= "a"? r{i + 1} "b"?' for i in range(3000)]
    with pytest.raises(ConstraintTooLarge, match="begin one in another"):
        compile_constraint(Gbnf("\n".join(["root ::= r0", *rules, 'r3000 ::= "x"'])))


def test_doubling_rules_are_not_multiplied_out() -> None:
    rules = "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(40))
    grammar = compile_constraint(Gbnf(f'root ::= r0\n{rules}\nr40 ::= "x"'))
    assert sum(rule.states for rule in grammar.rules) < 3000


def test_all_parts_of_a_long_text_compile() -> None:
    text = "abcde" * 400
    rules = [f'p{i} ::= "{c}" (p{i + 1} | "")' for i, c in enumerate(text)]
    grammar = compile_constraint(Gbnf("\n".join([
        "root ::= " + " | ".join(f"p{i}" for i in range(len(text))), *rules, f'p{len(text)} ::= "!"'])))
    naive = Naive(grammar)
    assert naive.accepts("deabcde")
    assert not naive.accepts("dea!")


@pytest.mark.parametrize(("rules", "error", "keyword", "where"), [
    ('root ::= a\na ::= a "x"', Unsatisfiable, "a", "line 2, column 1"),
    ('root ::= "x" | b\nb ::= c\nc ::= "(" b ")"', Unsatisfiable, "c", "line 3, column 1"),
    ("root ::= root", Unsatisfiable, "root", "line 1, column 1"),
    ('root ::= "x"\n  | missing', InvalidConstraint, "missing", "line 2, column 5"),
    ('other ::= "x"', InvalidConstraint, "root", "line 1, column 1"),
    ('root ::= ("a"{200}){200}', ConstraintTooLarge, "states", "line 1, column 1"),
])
def test_refusals_name_the_rule_and_its_place(rules: str, error: type, keyword: str, where: str) -> None:
    with pytest.raises(error) as caught:
        compile_constraint(Gbnf(rules), Limits(states=20_000))
    assert (caught.value.keyword, caught.value.where) == (keyword, where)


def test_an_unproductive_rule_that_nothing_needs_is_no_fault() -> None:
    assert accepted('root ::= "x"\nb ::= b "y"').accepts("x")


def test_time_is_a_budget() -> None:
    with pytest.raises(ConstraintTooLarge, match="seconds"):
        compile_constraint(Gbnf('root ::= "a"\n' + "\n".join(f'r{i} ::= "a"' for i in range(100))), Limits(seconds=0.0))
