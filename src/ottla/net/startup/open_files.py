"""The division of this process's open files: connections never take the ones that the disk needs."""

from __future__ import annotations

import contextlib
import os
import resource
from typing import NamedTuple

MOST_CONNECTIONS = 10_000
"""The default limit on a broker's connections: each costs some ten kilobytes."""

FEWEST = 16
ASSUMED_HELD = 64


class Shares(NamedTuple):
    """The numbers of descriptors for log files and for connections."""

    files: int
    connections: int


def raise_limit() -> None:
    """Raise this process's limit of open files to the system's. Only for a process of its own: children inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shares(max_open_files: int) -> Shares:
    """Divide the free descriptors of this process: `max_open_files` for logs, at most half; a sixteenth is kept in reserve."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Shares(max_open_files, 1 << 30) if limit == resource.RLIM_INFINITY else shared(limit, _held(), max_open_files)


def shared(limit: int, held: int, max_open_files: int) -> Shares:
    """Return the shares of a process that may open `limit` files and holds some."""
    free = max(limit - held, 0)
    free -= FEWEST + free // 16
    files = max(min(max_open_files, free // 2), FEWEST)
    return Shares(files, max(free - files, FEWEST))


def _held() -> int:
    """Return the number of open descriptors."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return ASSUMED_HELD
