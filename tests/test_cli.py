"""The command line, as its user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from espalier.cli import app

SCHEMA = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "additionalProperties": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"schema": json.dumps(SCHEMA), "good": '{"a": 1}', "order": '{"b": "x", "a": 1}', "broken": '{"a": 1',
             "refused": r'{"properties": {"a": {"pattern": "(a)\\1"}}}',
             "dated": '{"properties": {"a": {"format": "date"}}}', "soon": '{"a": "soon"}'}
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout.strip() == version("espalier")


def test_the_engine_is_compiled_ahead_of_its_first_use() -> None:
    done = run("prepare")
    assert done.exit_code == 0
    assert "ready after" in done.stdout


def test_a_schema_is_checked_without_samples(folder: Path) -> None:
    done = run("grammar", "check", "--schema", folder / "schema.json")
    assert done.exit_code == 0
    assert "the schema compiled in" in done.stdout


def test_a_refused_schema_names_keyword_and_place(folder: Path) -> None:
    done = run("grammar", "check", "--schema", folder / "refused.json")
    assert done.exit_code == 1
    said = "a backreference is not supported in a regular expression (at #/properties/a/pattern column 4)"
    assert said in done.stdout


@pytest.mark.parametrize(("file", "sample", "option"), [
    ("schema.json", "order.json", ("--order", "any")), ("dated.json", "soon.json", ("--format", "annotation")),
])
def test_options_of_the_schema_widen_it(folder: Path, file: str, sample: str, option: tuple[str, str]) -> None:
    arguments = ("grammar", "check", "--schema", folder / file, folder / sample)
    assert run(*arguments).exit_code == 1
    assert run(*arguments, *option).exit_code == 0


@pytest.mark.parametrize(
    ("sample", "status", "said"),
    [("good", 0, "good.json: can be produced"), ("order", 1, "keys come in its order"),
     ("broken", 1, "the sample is not JSON")],
)
def test_a_sample_is_told_apart(folder: Path, sample: str, status: int, said: str) -> None:
    done = run("grammar", "check", "--schema", folder / "schema.json", folder / f"{sample}.json")
    assert done.exit_code == status
    assert said in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"), [([], "there is nothing to check"), (["good.json"], "name that with --schema")]
)
def test_what_is_missing_is_said_with_the_way_out(folder: Path, arguments: list[str], said: str) -> None:
    done = run("grammar", "check", *(folder / argument for argument in arguments))
    assert done.exit_code == 2
    assert said in done.stderr


def test_the_package_runs_as_the_command() -> None:
    said = subprocess.run([sys.executable, "-m", "espalier", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: espalier" in said.stdout
