"""gen and select refuse what they cannot do, naming the parameter, before anything runs."""

import json
import re
from typing import Any

import pytest

import espalier as esp
from espalier.frontend import ir
from espalier.grammars.constraint import Choices, Regex

from .conftest import Script


def only_node(expression: esp.Expression) -> ir.Node:
    (part,) = expression.parts
    return part.node


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": "8"}, "max_tokens"),
        ({"max_tokens": 8.0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_p": None}, "top_p"),
        ({"min_p": -1}, "min_p"),
        ({"top_k": -1}, "top_k"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"presence_penalty": float("nan")}, "presence_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repetition_penalty": 101}, "repetition_penalty"),
        ({"stop_token_ids": [True]}, "stop_token_ids"),
        ({"stop_token_ids": 7}, "stop_token_ids"),
        ({"stop_token_ids": "7"}, "stop_token_ids"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"min_tokens": 1, "choices": ["a"]}, "min_tokens"),
        ({"logit_bias": [3]}, "logit_bias"),
        ({"logit_bias": {"3": 1}}, "logit_bias"),
        ({"logit_bias": {-3: 1}}, "logit_bias"),
        ({"logit_bias": {3: 101}}, "logit_bias"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"stop": 3}, "stop"),
        ({"stop": [3]}, "stop"),
        ({"regex": 3}, "regex"),
        ({"schema": 3}, "schema"),
        ({"schema": object}, "schema"),
        ({"schema": {}, "spacing": "wide"}, "spacing"),
        ({"schema": esp.JsonSchema("{}"), "spacing": "spaced"}, "spacing"),
        ({"choices": []}, "choices"),
        ({"choices": "yes"}, "choices"),
        ({"choices": ["a", 1]}, r"choices\[1\]"),
        ({"schema": int, "stop": "b"}, "stop"),
        ({"choices": ["a"], "stop": ["b"]}, "stop"),
        ({"regex": "a", "choices": ["a"]}, "choices"),
        ({"regex": "a", "schema": {}}, "schema"),
        ({"regex": "\ud800"}, "regex"),
        ({"choices": ["a", "\udfff"]}, r"choices\[1\]"),
        ({"stop": "\ud800"}, "stop"),
        ({"name": ""}, "name"),
        ({"name": 3}, "name"),
    ],
    ids=str,
)
def test_gen_refuses(options: dict[str, Any], place: str) -> None:
    with pytest.raises(esp.ProgramError) as caught:
        esp.gen(**options)
    assert re.fullmatch(place, caught.value.where)
    assert caught.value.where.split("[")[0] in str(caught.value)


@pytest.mark.parametrize(
    ("choices", "place"),
    [([], "choices"), ((), "choices"), ("ab", "choices"), ([1], "choices[0]"), (["a", ""], "choices[1]")],
)
def test_select_refuses(choices: Any, place: str) -> None:
    with pytest.raises(esp.ProgramError) as caught:
        esp.select("c", choices)
    assert caught.value.where == place


def test_choices_in_the_place_of_the_name_are_told_so() -> None:
    with pytest.raises(esp.ProgramError, match=r"name must be .* It comes first") as caught:
        esp.select(["yes", "no"])  # type: ignore[arg-type]
    assert caught.value.where == "name"


@pytest.mark.parametrize("addition", [esp.gen("x"), esp.select("x", ["a"]), esp.user("a"), "a" + esp.gen("x")])
def test_an_expression_in_an_f_string_is_refused_and_not_described(addition: esp.Expression) -> None:
    with pytest.raises(esp.ProgramError, match=r"f-string.*Glue them"):
        f"It is {addition}."
    assert "Part" in f"{addition!r}"


@pytest.mark.parametrize(
    ("pattern", "sent"),
    [
        (re.compile("a.b"), "a.b"),
        (re.compile("a.b", re.IGNORECASE), "(?i)a.b"),
        (re.compile("a.b", re.DOTALL | re.ASCII), "(?s)a.b"),
        (re.compile("(?s)a.b", re.IGNORECASE), "(?is)a.b"),
        (re.compile("(?i)a(b)"), "(?i)a(b)"),
        (re.compile("(?:a)b", re.IGNORECASE), "(?i)(?:a)b"),
        (re.compile("a b", re.VERBOSE), None),
        (re.compile("^a", re.MULTILINE), None),
    ],
)
def test_the_flags_of_a_compiled_pattern_are_kept_or_refused(pattern: re.Pattern[str], sent: str | None) -> None:
    if sent is not None:
        node = only_node(esp.gen("x", regex=pattern))  # type: ignore[arg-type]
        assert isinstance(node, ir.Gen)
        assert node.spec.constraint == Regex(sent)
    else:
        with pytest.raises(esp.ProgramError, match="flags"):
            esp.gen("x", regex=pattern)  # type: ignore[arg-type]


@pytest.mark.parametrize("addition", [3, None, b"bytes", ["a"], object()])
def test_only_text_and_expressions_are_added(script: Script, addition: Any) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += addition

    with pytest.raises(esp.ProgramError, match="only strings and expressions"):
        program.run(backend=script())
    with pytest.raises(esp.ProgramError, match="only strings and expressions"):
        esp.gen("x") + addition
    with pytest.raises(esp.ProgramError, match="only strings and expressions"):
        addition + esp.gen("x")


def test_text_that_no_tokenizer_can_be_given_is_refused_with_its_place(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += "ab\ud800" + esp.gen("x")

    with pytest.raises(esp.ProgramError, match=r"character 2 .* lone surrogate"):
        program.run(backend=script(["x"]))


def test_a_role_inside_a_role_is_refused_in_the_expression() -> None:
    with pytest.raises(esp.ProgramError, match="inside another role"):
        esp.user("a" + esp.assistant("b"))


def test_options_become_the_spec() -> None:
    node = only_node(
        esp.gen("x", max_tokens=3, stop="a", temperature=0, top_k=4, top_p=0.5, min_p=0.1, seed=9)
    )
    assert isinstance(node, ir.Gen)
    spec = node.spec
    assert (spec.max_tokens, spec.stop, spec.temperature, spec.top_k) == (3, ("a",), 0.0, 4)
    assert (spec.top_p, spec.min_p, spec.seed, spec.constraint) == (0.5, 0.1, 9, None)


def test_penalties_and_biases_become_the_spec() -> None:
    node = only_node(esp.gen(frequency_penalty=1, presence_penalty=-2, repetition_penalty=1.2, logit_bias={3: 4}))
    assert isinstance(node, ir.Gen)
    spec = node.spec
    assert (spec.frequency_penalty, spec.presence_penalty, spec.repetition_penalty) == (1.0, -2.0, 1.2)
    assert spec.logit_bias == ((3, 4.0),)
    assert esp.gen() == esp.gen(repetition_penalty=1, logit_bias={})


def test_no_seed_is_no_fixed_seed() -> None:
    node = only_node(esp.gen())
    assert isinstance(node, ir.Gen)
    assert node.spec.seed is None
    assert node.spec.stop == ()


@pytest.mark.parametrize(
    ("options", "constraint"),
    [
        ({"regex": "a+"}, Regex("a+")),
        ({"regex": re.compile("a+")}, Regex("a+")),
        ({"choices": ["b", "a"]}, Choices(("b", "a"))),
    ],
)
def test_constraints_travel_as_messages(options: dict[str, Any], constraint: object) -> None:
    node = only_node(esp.gen("x", **options))
    assert isinstance(node, ir.Gen)
    assert node.spec.constraint == constraint


def test_nodes_survive_json() -> None:
    expression = esp.system("s") + esp.user("u" + esp.gen("x", regex="a|b", seed=3, stop=None)) + esp.select("c", ["p"])
    nodes = (*(part.node for part in expression.parts), esp.frontend.ir.Fork(3))
    assert ir.decode(ir.encode(nodes)) == nodes
    assert [node["type"] for node in json.loads(ir.encode(nodes))][-2:] == ["select", "fork"]


def test_expressions_are_values_that_can_be_reused(script: Script) -> None:
    piece = "a" + esp.gen("x") + "b"

    @esp.function
    def program(s: esp.State) -> str:
        s += piece
        s += piece
        return s.text()

    assert program.run(backend=script(["1", "2"])).result == "a1ba2b"
