"""The folder that models are kept in: private, because whoever can write it decides what runs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .errors import FetchFailed


def default_cache() -> Path:
    """`espalier` in the user's cache folder (XDG base directories: a relative value is ignored). Raises FetchFailed
    when this user has no home."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "espalier"
    try:
        return Path.home() / ".cache" / "espalier"
    except RuntimeError as error:
        raise FetchFailed("this user has no home folder to keep models in", where="XDG_CACHE_HOME",
                          fix="Name a cache folder.") from error


def private_folder(folder: Path) -> Path:
    """Made with mode 0700 when it is not there. Raises FetchFailed when others could write in it, when it belongs to
    somebody else, or when it cannot be made."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise FetchFailed(f"the cache folder cannot be made: {error.strerror}", where=str(folder),
                          fix="Name another cache folder.") from error
    if found.st_uid != os.geteuid():
        raise FetchFailed("the cache folder belongs to another user", where=str(folder),
                          fix="Name a cache folder of your own.")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise FetchFailed("others can write in the cache folder, so its files cannot be trusted", where=str(folder),
                          fix=f"Run: chmod 700 {folder}")
    return folder
