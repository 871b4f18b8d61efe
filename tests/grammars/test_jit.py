"""What is compiled, and when again."""

from __future__ import annotations

from espalier.grammars.jit import compiled_files, drop_stale_code


def test_compiled_code_is_dropped_when_a_file_changed_that_it_was_made_from(tmp_path):
    sources = {"jit": "", "tables": "FAR = 1\n", "arena": "from .jit import inner\n",
               "walk": "from .arena import (\n    undo,\n)\nfrom .jit import entry\nfrom .tables import FAR\n"}
    for name, text in sources.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert drop_stale_code(tmp_path)
    walk, arena = (tmp_path / "__pycache__" / f"{name}-1.py311.nbi" for name in ("walk.step", "arena.undo"))
    for code in (walk, arena):
        code.write_text("code")
    assert not drop_stale_code(tmp_path)
    assert walk.exists()
    assert arena.exists()
    (tmp_path / "tables.py").write_text("FAR = 2\n")
    assert drop_stale_code(tmp_path)
    assert arena.exists()
    assert not walk.exists()
    (tmp_path / "jit.py").write_text("changed = True\n")
    assert drop_stale_code(tmp_path)
    assert not arena.exists()


def test_a_file_waits_for_all_compiled_ones_that_it_imports(tmp_path):
    sources = {"jit": "", "tables": "FAR = 1\n", "arena": "from .jit import entry\nfrom .tables import FAR\n",
               "undo": "from .arena import push\n", "walk": "from .jit import entry\nfrom .undo import undo\n"}
    for name, text in sources.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert compiled_files(tmp_path) == {"arena": frozenset(), "walk": {"arena"}}
