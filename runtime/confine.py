"""Limits that the kernel keeps for a process that runs what strangers wrote: memory and processor time."""

from __future__ import annotations

import resource
import sys


def limit_memory(most: int) -> None:
    """most: bytes of address space of this process, from now on."""
    if sys.platform == "linux":  # elsewhere this limit is not kept by the kernel
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def allow_processor_seconds(seconds: int) -> None:
    """The kernel ends this process (SIGXCPU) when it takes more from now on; it counts in whole seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + seconds + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
