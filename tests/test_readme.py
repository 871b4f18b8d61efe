"""The README's programs run as they stand there."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "esp.local" in block]
CALLS = [block for block in BLOCKS if "OpenAI(" in block]


def run(source: str) -> str:
    """What a block prints. Each block stands alone, as a reader would paste it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(README), "exec", dont_inherit=True), {"__name__": "__main__"})  # noqa: S102 - our own README
    return printed.getvalue()


@pytest.fixture
def served(smollm2_path: Path) -> Iterator[str]:
    """The address of `espalier serve`, run as a user runs it."""
    espalier = Path(sys.executable).with_name("espalier")
    command = [str(espalier), "serve", "smollm2-135m", "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+(?=/v1)", server.stdout.readline())
            assert address is not None
            yield address[0]
        finally:
            server.terminate()


def test_there_are_programs_and_a_call() -> None:
    assert (len(PROGRAMS), len(CALLS)) == (2, 1)


@pytest.mark.model
@pytest.mark.parametrize("source", PROGRAMS)
@pytest.mark.usefixtures("smollm2_path")
def test_a_program_of_the_readme_runs(source: str) -> None:
    assert run(source).strip()


@pytest.mark.model
@pytest.mark.parametrize("source", CALLS)
def test_the_call_of_the_readme_is_answered(source: str, served: str) -> None:
    assert run(source.replace("http://127.0.0.1:8000", served)).strip()
