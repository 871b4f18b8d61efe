"""`import espalier` stays light: a program that only talks about a model loads none of what runs it."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "numba", "numpy", "pydantic", "lark", "httpx", "fastapi", "tokenizers", "jinja2", "tqdm", "rich")
OURS = {
    "espalier",
    "espalier.frontend",
    "espalier.frontend.async_state",
    "espalier.frontend.backends",
    "espalier.frontend.backends.base",
    "espalier.frontend.backends.local",
    "espalier.frontend.backends.scripted",
    "espalier.frontend.branches",
    "espalier.frontend.choices",
    "espalier.frontend.errors",
    "espalier.frontend.execution",
    "espalier.frontend.expressions",
    "espalier.frontend.function",
    "espalier.frontend.interpreter",
    "espalier.frontend.ir",
    "espalier.frontend.loop",
    "espalier.frontend.model",
    "espalier.frontend.slot",
    "espalier.frontend.state",
    "espalier.frontend.steps",
    "espalier.frontend.stream",
    "espalier.frontend.transcript",
    "espalier.frontend.types",
    "espalier.frontend.values",
    "espalier.grammars",
    "espalier.grammars.constraint",
    "espalier.grammars.errors",
}


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    code = "import sys, json; import espalier; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(json.loads(output))


@pytest.mark.parametrize("name", HEAVY)
def test_import_does_not_load(loaded: set[str], name: str) -> None:
    assert name not in loaded


def test_import_loads_exactly_these_modules_of_ours(loaded: set[str]) -> None:
    assert {name for name in loaded if name.split(".")[0] == "espalier"} == OURS


def test_no_library_is_loaded_but_msgspec_and_what_it_looks_for(loaded: set[str]) -> None:
    tops = {name.split(".")[0] for name in loaded}
    baseline = subprocess.run(
        [sys.executable, "-c", "import sys, json; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True, text=True, check=True,
    ).stdout
    known = {name.split(".")[0] for name in json.loads(baseline)}
    assert tops - set(sys.stdlib_module_names) - known - {"espalier"} <= {"msgspec", "typing_extensions"}


def test_the_public_names_are_exactly_all_and_all_are_there() -> None:
    import espalier

    public = {name for name in vars(espalier) if not name.startswith("_")}
    rooms = {"frontend", "grammars", "runtime", "kernels", "cli", "annotations"}
    assert public - rooms == set(espalier.__all__)
    assert list(espalier.__all__) == sorted(espalier.__all__)
