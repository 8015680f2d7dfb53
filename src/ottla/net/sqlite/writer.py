"""Which process keeps the others of its host from writing, and an end to one that stands still meanwhile.

SQLite's lock of whoever writes is the kernel's, and goes with its process alone: one that is stopped (SIGSTOP) in a change would
keep everybody from writing until all their sessions have ended. Linux tells whose a lock is; elsewhere nothing is done about it.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger("ottla.net")

LOCKS: Final = Path("/proc/locks")
WRITE_LOCK: Final = "120"
"""The byte of the file -shm that whoever writes has locked (SQLite, "WAL-mode file format", locks)."""

STOPPED: Final = ("T", "t")
"""States of a process: by a signal, or by a debugger."""


class StuckWriter:
    """Looks at who writes, while nothing can be written."""

    def __init__(self, file: Path) -> None:
        self._shared = Path(f"{file}-shm")
        self._seen: int | None = None
        self._told: int | None = None

    def look(self, members: Collection[int]) -> None:
        """Kill the process that was already there at the last look, if it is one of these and stands still. Others are named."""
        pid = writer_of(self._shared)
        before, self._seen = self._seen, pid
        if pid is None or pid != before or pid == os.getpid():
            return
        if pid in members and _is_stopped(pid) and self._kill(pid):
            log.warning("process %d stood still while it wrote to the registry, so that nobody else could: it was killed", pid)
        elif pid != self._told:
            log.warning("process %d keeps others from writing to the registry: if it does not go on, end it", pid)
            self._told = pid

    def forget(self) -> None:
        """It can be written again."""
        self._seen = self._told = None

    def _kill(self, pid: int) -> bool:
        """Kill the process that has this number and still has the lock: a number may be that of another one by now."""
        with suppress(OSError):
            process = os.pidfd_open(pid)
            try:
                if writer_of(self._shared) == pid and _is_stopped(pid):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    return True
            finally:
                os.close(process)
        return False


def writer_of(shared: Path) -> int | None:
    """The process that has locked the registry whose file -shm this is; None where nobody has, or nobody tells."""
    try:
        inode = str(shared.stat().st_ino)
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        match line.split():
            case [_, "POSIX", _, "WRITE", pid, place, first, last] if place.rpartition(":")[2] == inode:
                if first == last == WRITE_LOCK:
                    return int(pid)
    return None


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith(STOPPED)
    except OSError:
        return False
