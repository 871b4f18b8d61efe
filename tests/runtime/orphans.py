"""A process that ends without a word, and what becomes of the one that it started."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap

import pytest

needs_pidfd = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="waiting for a process that is not a child needs Linux")
# Of a parent, when `pid` is that of its child: told to us, then it waits to be ended.
END = """
import os, sys
sys.stdout.write(f"{pid}\\n")
sys.stdout.flush()
sys.stdin.read()
os._exit(0)
"""


def check_that_it_ends_with_its_parent(parent: str, *, idle: float = 0.0, patience: float) -> None:
    """parent: a program after which `pid` is that of the child. idle: seconds for which the child must go on."""
    program = textwrap.dedent(parent) + END
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        child = os.pidfd_open(int(process.stdout.readline(20)))
        assert not select.select([child], [], [], idle)[0]
        process.stdin.close()
        assert select.select([child], [], [], patience)[0], "the child outlived its parent"
        os.close(child)
