"""How the engine's loops are compiled: ahead of use, kept on disk, without the GIL and without reference counts.

Numba keys a function's cache by that function's own file only, though code of others is compiled into it. So the first
import after any change of these files drops the cached code of all of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

_COMPILED = ("ir", "arena", "key_text", "flat", "escapes", "tables", "finishing", "columns", "distance", "shortening",
             "token_paths", "new_keys", "member_keys", "members", "member_costs", "closing", "context", "walk",
             "stretches", "masking", "slices", "trie", "body_walk", "composing", "digest")
# _nrt is no documented option; without it everything stays right and becomes slow.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}


def kernel(signature: Any) -> Callable[[Any], Any]:
    """Compiles the decorated function for one signature at import (some seconds, once per machine).

    The function must not allocate: reference counts, which cost ten times the work of a step, are compiled out.
    """
    compiled: Callable[[Any], Any] = njit(signature, **_OPTIONS)
    return compiled


def drop_stale_code(folder: Path) -> bool:
    """Deletes the cached code under `folder`/__pycache__ unless it was made from the sources that lie there now.

    Returns whether it did. Does nothing where the folder cannot be written: Numba then caches elsewhere, by path.
    """
    cache = folder / "__pycache__"
    sources = hashlib.sha256(b"".join((folder / f"{name}.py").read_bytes() for name in _COMPILED)).hexdigest()
    key = cache / "kernels.key"
    if (key.exists() and key.read_text() == sources) or not os.access(folder, os.W_OK):
        return False
    cache.mkdir(exist_ok=True)
    for name in _COMPILED:
        for stale in cache.glob(f"{name}.*.nb?"):
            stale.unlink(missing_ok=True)
    key.write_text(sources)
    return True


drop_stale_code(Path(__file__).parent)
