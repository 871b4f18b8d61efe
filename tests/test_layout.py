"""The rooms, their links and their doors, as the design states them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("frontend", "grammars", "kernels", "runtime")

# room -> rooms it may import, and which modules of them (None: all of them).
DOORS: dict[str, dict[str, frozenset[str] | None]] = {
    "kernels": {},
    "grammars": {},
    "runtime": {"kernels": None, "grammars": None},
    "frontend": {"grammars": frozenset({"errors", "schema", "constraint"})},
}
# The one file through which the language reaches the runtime.
LOCAL_BACKEND = "frontend/backends/local.py"

# folder of grammars/ -> folders of it that it may import: none that stands on it.
FOLDERS: dict[str, frozenset[str]] = {
    "automata": frozenset(),
    "regular": frozenset({"automata"}),
    "schemas": frozenset({"automata", "regular"}),
    "plans": frozenset({"automata", "regular", "schemas"}),
    "written": frozenset({"automata", "regular"}),
    "binding": frozenset(),
    "missing_bytes": frozenset({"binding", "schemas"}),
    "stepping": frozenset({"binding"}),
    "distances": frozenset({"binding", "missing_bytes", "stepping"}),
    "bodies": frozenset({"binding", "stepping"}),
    "masks": frozenset({"binding", "missing_bytes", "stepping", "bodies"}),
}
# What all of them stand on; the other files beside the folders put them together.
GROUND = frozenset({"constraint", "effort", "errors", "ir", "jit", "library", "limits", "rows", "vocabulary"})

# Third-party packages that a room may not import.
CLOSED_TO: dict[str, frozenset[str]] = {
    "grammars": frozenset({"torch", "triton"}),
    "frontend": frozenset({"torch", "numba", "numpy", "pydantic", "fastapi", "httpx", "lark"}),
    "runtime": frozenset({"triton"}),
}
FORBIDDEN_MODULES = frozenset({"pickle", "dill", "cloudpickle", "marshal", "shelve", "multiprocessing"})
FORBIDDEN_CALLS = frozenset({"eval", "exec"})


def sources(room: str) -> Iterator[Path]:
    yield from sorted((ROOT / room).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_imports(path: Path, room: str) -> Iterator[tuple[str, str]]:
    """(room, first module inside it) of every import of another room."""
    depth_of_file = len(path.relative_to(ROOT / room).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.level <= depth_of_file:
            continue
        parts = (node.module or "").split(".")
        if parts == [""]:
            yield from ((alias.name, "") for alias in node.names)
        elif len(parts) == 1:
            yield from ((parts[0], alias.name) for alias in node.names)
        else:
            yield parts[0], parts[1]


def absolute_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def door_faults(path: Path, room: str) -> list[str]:
    faults = []
    for target, module in room_imports(path, room):
        if room == "frontend" and target == "runtime" and relative(path) == LOCAL_BACKEND:
            continue
        if target not in DOORS[room]:
            faults.append(f"{relative(path)} imports the room {target}")
            continue
        allowed = DOORS[room][target]
        if allowed is not None and module not in allowed:
            faults.append(f"{relative(path)} imports {target}.{module}")
    for name in absolute_imports(path):
        if name.split(".")[0] in CLOSED_TO.get(room, frozenset()) | FORBIDDEN_MODULES | {"espalier"}:
            faults.append(f"{relative(path)} imports {name}")
    return faults


@pytest.mark.parametrize("room", ROOMS)
def test_the_package_links_to_the_room(room: str) -> None:
    link = ROOT / "src" / "espalier" / room
    assert link.is_symlink()
    assert not Path(link.readlink()).is_absolute()
    assert link.resolve() == ROOT / room


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_through_its_doors_only(room: str) -> None:
    assert [fault for path in sources(room) for fault in door_faults(path, room)] == []


def folder_imports(path: Path) -> Iterator[str]:
    """What a file in a folder of grammars/ imports from beside that folder: a folder or a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 2:
            yield from (node.module.split(".")[0],) if node.module else (alias.name for alias in node.names)


def test_every_folder_of_grammars_has_its_doors() -> None:
    assert {path.parent.name for path in (ROOT / "grammars").glob("*/__init__.py")} == FOLDERS.keys()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_grammars_imports_none_that_stands_on_it(folder: str) -> None:
    faults = [f"{relative(path)} imports {name}" for path in sources(f"grammars/{folder}")
              for name in folder_imports(path) if name not in FOLDERS[folder] | GROUND]
    assert faults == []


def test_nothing_executable_travels() -> None:
    faults = []
    for room in ROOMS:
        for path in sources(room):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    name = ast.unparse(node.func)
                    if name in FORBIDDEN_CALLS or name.endswith(("torch.load", "yaml.load")):
                        faults.append(f"{relative(path)}:{node.lineno} calls {name}")
    assert faults == []


PLANTED = {
    "kernels": "from ..runtime import config\n",
    "grammars": "import torch\n",
    "frontend": "from ..grammars import walk\n",
    "runtime": "from ..frontend import errors\n",
}


@pytest.mark.parametrize("room", ROOMS)
def test_a_planted_import_is_caught(room: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / room).mkdir()
    planted = tmp_path / room / "planted.py"
    planted.write_text(PLANTED[room], encoding="utf-8")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert len(door_faults(planted, room)) == 1


def test_the_type_checker_follows_the_links(tmp_path: Path) -> None:
    """A type error planted in a copy of a room is seen by the command that `make check` runs."""
    (tmp_path / "src" / "espalier").mkdir(parents=True)
    (tmp_path / "src" / "espalier" / "__init__.py").touch()
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text('PAGE: int = "sixteen"\n', encoding="utf-8")
    (tmp_path / "src" / "espalier" / "kernels").symlink_to("../../kernels")
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "src/espalier", "--cache-dir", str(tmp_path / "cache")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )
    assert checked.returncode == 1
    assert "kernels/__init__.py:1" in checked.stdout
