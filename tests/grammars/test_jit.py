"""What is compiled, and when again."""

from __future__ import annotations

from pathlib import Path

from espalier.grammars.jit import compiled_files, drop_stale_code


def written(folder: Path, sources: dict[str, str]) -> None:
    for name, text in sources.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_compiled_code_is_dropped_when_a_file_changed_that_it_was_made_from(tmp_path):
    written(tmp_path, {
        "jit": "", "binding/tables": "FAR = 1\n", "binding/arena": "from ..jit import inner\n",
        "stepping/walk": "from ..binding import tables\nfrom ..binding.arena import (\n    undo,\n)\n"
                         "from ..jit import entry\n",
    })
    assert drop_stale_code(tmp_path)
    walk, arena = (tmp_path / folder / "__pycache__" / f"{name}-1.py311.nbi"
                   for folder, name in (("stepping", "walk.step"), ("binding", "arena.undo")))
    for code in (walk, arena):
        code.parent.mkdir()
        code.write_text("code")
    assert not drop_stale_code(tmp_path)
    assert walk.exists()
    assert arena.exists()
    (tmp_path / "binding" / "tables.py").write_text("FAR = 2\n")
    assert drop_stale_code(tmp_path)
    assert arena.exists()
    assert not walk.exists()
    (tmp_path / "jit.py").write_text("changed = True\n")
    assert drop_stale_code(tmp_path)
    assert not arena.exists()


def test_a_file_waits_for_all_compiled_ones_that_it_imports(tmp_path):
    written(tmp_path, {
        "jit": "", "binding/tables": "FAR = 1\n", "binding/arena": "from ..jit import entry\nfrom .tables import FAR\n",
        "binding/undo": "from .arena import push\n",
        "stepping/walk": "from ..binding.undo import undo\nfrom ..jit import entry\n",
    })
    assert compiled_files(tmp_path) == {"binding.arena": frozenset(), "stepping.walk": {"binding.arena"}}
