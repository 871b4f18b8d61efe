"""What the documents say is what the code does."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest
from msgspec import structs

import espalier
from espalier.cli import serve
from espalier.frontend.function import Function
from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema, Regex
from espalier.grammars.errors import InvalidConstraint, UnsupportedKeyword
from espalier.grammars.limits import Limits
from espalier.grammars.schemas import formats, keywords, support
from espalier.runtime.config import EngineConfig
from espalier.runtime.server import errors
from espalier.runtime.server.completions import CompletionRequest
from espalier.runtime.server.metrics import Metrics
from espalier.runtime.server.requests import ChatRequest
from espalier.runtime.server.settings import Settings
from scripts import support_tables

ROOT = Path(__file__).resolve().parent.parent
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
README = (ROOT / "README.md").read_text(encoding="utf-8")

# For each keyword a schema with it, and whatever it needs beside it.
SAMPLES: dict[str, dict[str, object]] = {
    "type": {"type": "string"}, "enum": {"enum": [1]}, "const": {"const": 1}, "minimum": {"minimum": 1},
    "maximum": {"maximum": 1}, "exclusiveMinimum": {"exclusiveMinimum": 1}, "exclusiveMaximum": {"exclusiveMaximum": 1},
    "multipleOf": {"multipleOf": 0.05}, "minLength": {"minLength": 1}, "maxLength": {"maxLength": 1},
    "pattern": {"pattern": "^a$"}, "format": {"format": "date"}, "properties": {"properties": {"a": True}},
    "required": {"required": ["a"]}, "additionalProperties": {"additionalProperties": False},
    "patternProperties": {"patternProperties": {"^a": {"type": "null"}}},
    "propertyNames": {"propertyNames": {"maxLength": 2}},
    "minProperties": {"minProperties": 1}, "maxProperties": {"maxProperties": 1},
    "dependentRequired": {"dependentRequired": {"a": ["b"]}},
    "dependentSchemas": {"dependentSchemas": {"a": {"required": ["b"]}}}, "prefixItems": {"prefixItems": [True]},
    "items": {"items": {"type": "null"}}, "minItems": {"minItems": 1}, "maxItems": {"maxItems": 1},
    "uniqueItems": {"uniqueItems": True, "type": "array", "items": {"type": "string"}},
    "allOf": {"allOf": [True]}, "anyOf": {"anyOf": [{"type": "null"}, {"type": "string"}]},
    "oneOf": {"oneOf": [{"type": "null"}, {"minLength": 1, "type": "string"}]}, "not": {"not": {"type": "null"}},
    "if": {"if": {"type": "null"}}, "then": {"if": {"type": "string"}, "then": {"minLength": 1}},
    "else": {"if": {"type": "string"}, "else": {"type": "null"}}, "$ref": {"$ref": "#/$defs/a", "$defs": {"a": True}},
    "unevaluatedItems": {"unevaluatedItems": False}, "unevaluatedProperties": {"unevaluatedProperties": False},
    "$dynamicRef": {"properties": {"a": {"$dynamicRef": "#a"}}, "$dynamicAnchor": "a"},
    "$recursiveRef": {"properties": {"a": {"$recursiveRef": "#"}}},
    "contains": {"contains": {"type": "null"}}, "minContains": {"contains": {"type": "null"}, "minContains": 2},
    "maxContains": {"contains": {"type": "null"}, "maxContains": 2},
}


def section(page: str, title: str) -> str:
    """The text below a heading, up to the next of any level."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGES[page], re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return found[1]


def rows(text: str) -> list[str]:
    """What stands between backquotes in the first column of a table."""
    return [name for line in text.splitlines() if line.startswith("|")
            for name in re.findall(r"`([^`]+)`", line.split("|")[1])]


ENFORCED, ANNOTATIONS = (rows(section("grammars.md", title)) for title in ("Enforced", "Annotations"))


def test_the_pages_that_are_linked_exist() -> None:
    for name, text in {"README.md": README, **{f"docs/{name}": text for name, text in PAGES.items()}}.items():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (ROOT / name).parent.joinpath(target).exists(), f"{name} -> {target}"


# language.md


@pytest.mark.parametrize("name", espalier.__all__)
def test_every_public_name_is_in_the_language_page(name: str) -> None:
    assert f"`{name}`" in PAGES["language.md"]


def test_the_signature_of_gen_is_that_of_the_page() -> None:
    told = re.sub(r"\s+", " ", PAGES["language.md"])
    parameters = inspect.signature(espalier.gen).parameters.values()
    for parameter in parameters:
        default = json.dumps(parameter.default) if isinstance(parameter.default, str) else repr(parameter.default)
        assert f"{parameter.name}={default}" in told


def test_every_field_of_the_configuration_is_in_the_language_page_with_its_default() -> None:
    told = re.sub(r"\s+", " ", section("language.md", "Models"))
    for name, value in structs.asdict(EngineConfig()).items():
        shown = "256 MiB" if name == "mask_bytes" else json.dumps(value) if isinstance(value, str) else repr(value)
        assert f"`{name}` {shown}" in told


def test_the_methods_of_a_program_are_in_the_language_page() -> None:
    for name in vars(Function):
        if not name.startswith("_"):
            assert f"`{name}`" in PAGES["language.md"]


# server.md


def test_every_option_of_serve_is_in_the_server_page_with_its_default() -> None:
    told = section("server.md", "The server")
    for name, parameter in inspect.signature(serve).parameters.items():
        if name == "model":
            continue
        shown = {"None": "none", "False": "off"}.get(repr(parameter.default), parameter.default)
        assert f"| `--{name.replace('_', '-')}` | {shown} |" in told


def test_every_field_of_a_request_is_in_the_server_page() -> None:
    assert set(ChatRequest.model_fields) <= set(rows(section("server.md", "Chat completions")))
    assert set(CompletionRequest.model_fields) <= set(rows(section("server.md", "Completions")))


def test_the_metrics_of_the_server_page_are_those_that_exist() -> None:
    told = set(rows(section("server.md", "Metrics")))
    stats = inspect.getsource(inspect.getmodule(Metrics))  # type: ignore[arg-type]
    rendered = Metrics().render(None).decode()
    for name in told:
        bare = name.removesuffix("_total")
        assert bare in rendered or f'"{bare}"' in stats or f'"{bare.removeprefix("espalier_")}"' in stats, name
    for name in re.findall(r"# TYPE (espalier_\w+)", rendered):
        assert name in told or name.endswith("_created")


def test_every_code_of_the_server_is_in_the_table_of_errors() -> None:
    told = section("server.md", "Errors")
    kinds = errors.Refusal | errors.InvalidBody | errors.InvalidParameter
    codes = {kind.code for _, kind in inspect.getmembers(errors, inspect.isclass)
             if issubclass(kind, kinds) and kind is not errors.Refusal}
    assert {code for code in codes if f"`{code}`" not in told} == set()


def test_the_numbers_of_the_server_page_are_the_settings() -> None:
    settings, text = Settings(), PAGES["server.md"]
    times = (settings.drain_seconds, settings.heartbeat_seconds, settings.stall_seconds, settings.body_seconds)
    for number in (f"{settings.body_bytes >> 20} MiB", f"{settings.default_tokens:,}",
                   *(f"{seconds:g} seconds" for seconds in times)):
        assert number in text


# grammars.md


@pytest.mark.parametrize("keyword", ENFORCED)
def test_an_enforced_keyword_compiles_without_a_note(keyword: str) -> None:
    assert compile_constraint(JsonSchema(json.dumps(SAMPLES[keyword]))).notes == ()


def test_the_tables_of_support_are_those_of_the_compiler() -> None:
    """After a change of grammars/schemas/support.py or of the verdicts: `python -m scripts.support_tables`."""
    assert support_tables.written(PAGES["grammars.md"]) == PAGES["grammars.md"]
    assert set(ENFORCED) == {name for one in support.ENFORCED for name in one.names} == set(SAMPLES)
    assert set(ANNOTATIONS) == keywords.ANNOTATIONS


def test_every_keyword_whose_form_is_checked_is_in_a_table() -> None:
    assert set(keywords.FORMS) <= {*ENFORCED, *ANNOTATIONS}


@pytest.mark.parametrize("name", sorted(formats.STANDARD))
def test_every_format_of_the_standard_is_where_the_page_says(name: str) -> None:
    assert f"`{name}`" in section("grammars.md", "Formats").partition("<!-- end")[0]


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?>a)", "a++", "(?m)^a", "a(?i)b", r"\Aa", r"a\Z"])
def test_a_construct_that_the_page_calls_refused_is_refused(pattern: str) -> None:
    with pytest.raises((UnsupportedKeyword, InvalidConstraint)) as caught:
        compile_constraint(Regex(pattern))
    assert "column" in caught.value.where


def test_the_limits_are_those_of_the_page() -> None:
    limits, told = Limits(), section("grammars.md", "Limits of schemas and regular expressions")
    numbers = (f"{limits.source_bytes >> 20} MiB", f"{limits.depth:,}", f"{limits.repetitions:,}",
               f"{limits.alternatives:,}", f"{limits.states:,}", f"{limits.rules:,}", f"{limits.seconds:g} s")
    for number in numbers:
        assert number in told
