"""Policy is plain Python: what decides imports no tensors, and what only talks imports next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TENSORS = {"torch", "triton", "numba", "numpy"}
FRONT = {"fastapi", "uvicorn", "pydantic", "jinja2", "tokenizers", "lark", "httpx", "tqdm", "jsonschema"}

POLICY = [
    "pages", "radix", "radix_node", "lease", "request", "memory", "scheduler", "plan", "executor", "reception",
    "engine", "device", "constraints", "messages", "config", "errors", "scripted_executor", "branch", "branch_state",
    "session", "answering", "generation", "router", "link", "process_link", "worker", "runtime", "stops", "detokenizer",
    "channel", "confine", "compile_process", "compile_worker",
]
GRAMMARS = ["constraint", "errors", "schema", "ir", "schemas.json_text", "schemas.document", "limits"]


def loaded_by(statement: str) -> set[str]:
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted({{n.split('.')[0] for n in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_each_policy_module_of_the_runtime_loads_no_tensors() -> None:
    """One process imports them one after the other; the first that brings tensors is named."""
    code = (
        "import importlib, sys\n"
        f"for name in {POLICY!r}:\n"
        "    importlib.import_module('espalier.runtime.' + name)\n"
        f"    found = {sorted(TENSORS | FRONT)!r}\n"
        "    found = [heavy for heavy in found if heavy in sys.modules]\n"
        "    if found: sys.exit(f'{name} loads {found}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_text_of_a_constraint_needs_no_compiled_code(name: str) -> None:
    assert not loaded_by(f"import espalier.grammars.{name}") & (TENSORS | FRONT)


def test_compiling_a_constraint_loads_no_tensors_of_a_device() -> None:
    statement = (
        "from espalier.grammars.compile import compile_constraint as c\n"
        "from espalier.grammars.constraint import JsonSchema\n"
        "c(JsonSchema('{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}'))"
    )
    assert not loaded_by(statement) & {"torch", "triton"}


def test_help_is_light() -> None:
    statement = (
        "from espalier.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit as left: assert not left.code"
    )
    assert not loaded_by(statement) & (TENSORS | FRONT)


def test_a_scripted_engine_runs_without_tensors() -> None:
    """Not only imports: commands, steps, tree and draws."""
    statement = (
        "from espalier.runtime.config import EngineConfig\n"
        "from espalier.runtime.messages import Generate, OpenLease, OpenSession, Sampling\n"
        "from espalier.runtime.scripted_executor import scripted_engine\n"
        "engine = scripted_engine(EngineConfig(page=4, pages=32))\n"
        "for command in (OpenSession(1), OpenLease(1, 1), Generate(1, 1, (1, 2, 3), 9, Sampling(ignore_end=True))):\n"
        "    engine.send(command)\n"
        "engine.receive()\n"
        "while engine.busy: engine.step()\n"
        "assert engine.counters.tokens_out == 9"
    )
    assert not loaded_by(statement) & (TENSORS | FRONT)
