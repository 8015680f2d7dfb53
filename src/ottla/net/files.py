"""How many files this process may have open, and who gets how many: connections never take what the disk needs."""

from __future__ import annotations

import contextlib
import os
import resource
from typing import NamedTuple

MOST_CONNECTIONS = 10_000
"""Of a broker that is not told how many: each costs some ten kilobytes."""

FEWEST = 16
ASSUMED_HELD = 64


class Shares(NamedTuple):
    """Descriptors for the files of logs, and for connections."""

    files: int
    connections: int


def raise_limit() -> None:
    """Let this process open as many files as the system lets it. For a process of one's own only: children inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shares(max_open_files: int) -> Shares:
    """Share what is left of this process's limit: `max_open_files` for logs, or half of it, and a sixteenth is kept in reserve."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Shares(max_open_files, 1 << 30) if limit == resource.RLIM_INFINITY else shared(limit, _held(), max_open_files)


def shared(limit: int, held: int, max_open_files: int) -> Shares:
    """The shares of a process that may open `limit` files and holds some."""
    free = max(limit - held, 0)
    free -= FEWEST + free // 16
    files = max(min(max_open_files, free // 2), FEWEST)
    return Shares(files, max(free - files, FEWEST))


def _held() -> int:
    """How many descriptors are open now."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return ASSUMED_HELD
