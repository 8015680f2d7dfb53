"""The division of the process's open files, so that connections leave enough of them for the disk."""

from __future__ import annotations

import contextlib
import os
import resource
from typing import NamedTuple

MOST_CONNECTIONS = 10_000
"""The default limit on a broker's connections. Each connection uses some ten kilobytes."""

FEWEST = 16
ASSUMED_HELD = 64


class Shares(NamedTuple):
    """How many file descriptors are for log files, and how many are for connections."""

    files: int
    connections: int


def raise_limit() -> None:
    """Raise this process's soft limit of open files to the hard limit. Child processes inherit it, so only `serve` calls this."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shares(max_open_files: int) -> Shares:
    """Divide the free descriptors of this process between log files and connections.

    Logs get `max_open_files`, but at most half of the free descriptors. A sixteenth is kept in reserve.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Shares(max_open_files, 1 << 30) if limit == resource.RLIM_INFINITY else divide(limit, _count_open(), max_open_files)


def divide(limit: int, held: int, max_open_files: int) -> Shares:
    """Return the shares of a process that may open `limit` files, and has `held` of them open."""
    free = max(limit - held, 0)
    free -= FEWEST + free // 16
    files = max(min(max_open_files, free // 2), FEWEST)
    return Shares(files, max(free - files, FEWEST))


def _count_open() -> int:
    """Return the number of file descriptors that this process has open now."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return ASSUMED_HELD
