"""How the engine's loops are compiled: ahead of use, kept on disk, without the GIL and without reference counts.

Numba keys a function's cache by that function's own file only, though code of others is compiled into it. So the first
import after a change drops the cached code of every file that imports what changed, directly or not.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

from llvmlite.binding import add_symbol
from numba import cfunc, njit, types

LOG = logging.getLogger("espalier.grammars")
# _nrt is no documented option; without it everything stays right and becomes slow.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_NO_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_IMPORT = re.compile(r"^from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_NAME = re.compile(r"\w+")


def entry(signature: Any) -> Callable[[Any], Any]:
    """Compiles the decorated function, which Python calls, for one signature at import (once per machine).

    The function must not allocate: reference counts, which cost ten times the work of a step, are compiled out.
    """
    return functools.partial(_compiled, signature, _OPTIONS)


def inner(signature: Any) -> Callable[[Any], Any]:
    """As `entry`, for what only compiled functions call; it becomes part of each of them. Without the wrappers through
    which Python would call, a quarter of the compiler's work."""
    return functools.partial(_compiled, signature, _OPTIONS | _NO_WRAPPERS)


def shared(signature: Any) -> Callable[[Any], Any]:
    """As `inner`, for what is large and has many callers: it stays by itself, and compiled code calls it by its name,
    which costs some nanoseconds. Its arguments must be numbers."""

    def compile(function: Any) -> Any:
        code = cfunc(signature, **_OPTIONS)(function)
        if not code.cache_hits:
            _tell()
        name = f"espalier.{function.__module__}.{function.__name__}"
        add_symbol(name, code.address)
        external: Any = types.ExternalFunction(name, signature)
        external.code = code  # keeps it alive
        return external

    return compile


def direct(code: Any) -> Callable[..., int]:
    """What an `entry` is to Python, without the look for a signature that fits, a third of what a call costs. Its
    arguments must be integers."""
    function: Callable[..., int] = next(iter(code.overloads.values())).entry_point
    return function


def _compiled(signature: Any, options: dict[str, Any], function: Any) -> Any:
    code: Any = njit(signature, **options)(function)
    if code.stats.cache_misses:
        _tell()
    return code


@functools.cache
def _tell() -> None:
    """Says once why an import takes long."""
    LOG.warning("compiling the grammar engine for this machine; its code is kept, so the next start is quick")


def drop_stale_code(folder: Path) -> bool:
    """Deletes the cached code of each file in `folder` and below it that was made from other sources than lie there
    now: the file itself, or one that it imports, directly or not.

    Returns whether anything changed. Does nothing where the folder cannot be written: Numba then caches elsewhere, by
    path.
    """
    cache = folder / "__pycache__"
    key = cache / "kernels.key"
    current = _digests(folder)
    known = dict(line.partition(" ")[::2] for line in key.read_text().splitlines()) if key.exists() else {}
    if current == known or not os.access(folder, os.W_OK):
        return False
    cache.mkdir(exist_ok=True)
    for name, digest in current.items():
        if known.get(name) != digest:
            *packages, stem = name.split(".")
            for stale in folder.joinpath(*packages, "__pycache__").glob(f"{stem}.*.nb?"):
                stale.unlink(missing_ok=True)
    key.write_text("\n".join(f"{name} {digest}" for name, digest in current.items()))
    return True


def compiled_files(folder: Path) -> dict[str, frozenset[str]]:
    """Each module of `folder` that compiles something, by its name there (`stepping.walk`), and those of them that it
    imports, directly or not."""
    sources = _sources(folder)
    imports = {name: _imported(name, source.decode(), sources.keys()) for name, source in sources.items()}
    names = {name for name in imports if "jit" in imports[name]}
    return {name: frozenset((_needed(name, imports) - {name}) & names) for name in sorted(names)}


def _digests(folder: Path) -> dict[str, str]:
    """For each module that compiles something, a digest of it and of all that it imports from here."""
    sources = _sources(folder)
    imports = {name: _imported(name, source.decode(), sources.keys()) for name, source in sources.items()}
    digests = {}
    for name in (name for name in sources if "jit" in imports[name]):
        needed = _needed(name, imports)
        digests[name] = hashlib.sha256(b"".join(sources[other] for other in sorted(needed))).hexdigest()
    return digests


def _sources(folder: Path) -> dict[str, bytes]:
    return {".".join(path.relative_to(folder).with_suffix("").parts): path.read_bytes()
            for path in sorted(folder.rglob("*.py"))}


def _imported(name: str, source: str, modules: Set[str]) -> set[str]:
    """Those of `modules` that `name` imports: `from .walk import step`, or out of a folder, `from . import walk`."""
    found = set()
    for dots, module, what in _IMPORT.findall(source):
        place = [*name.split(".")[:-len(dots)], *filter(None, module.split("."))]
        found |= {".".join(place), *(".".join((*place, word)) for word in _NAME.findall(what))}
    return found & modules


def _needed(name: str, imports: dict[str, set[str]]) -> set[str]:
    """A module and all that it imports from here, directly or not."""
    needed, todo = {name}, [name]
    while todo:
        found = (imports[todo.pop()] & imports.keys()) - needed
        needed |= found
        todo += found
    return needed


drop_stale_code(Path(__file__).parent)
